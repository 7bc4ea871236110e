// One request to its final answer, over redirects. Every hop is a new request with everything
// checked again; what belongs to the first origin does not travel to another.
import { fail, type Outcome, ok } from '../../base/index.ts';
import type { Verifier } from '../primitive.ts';
import type { HttpPorts } from './call.ts';
import { allowTarget, type HttpAnswer } from './connect.ts';
import { urlProblem, type WireRequest } from './request.ts';
import type { TimeWatch } from './time-limits.ts';

export interface Exchange {
  answer: HttpAnswer;
  /** Where the answer came from, after redirects. */
  url: URL;
  redirects: number;
}

export interface ExchangeOptions {
  /** Does sending it a second time do no harm? */
  mayRepeat: boolean;
  maxRedirects: number;
  verify: Verifier;
  watch: TimeWatch;
  /** Does a text hold a secret of this call? */
  isSecret: (text: string) => boolean;
}

const REDIRECTS = new Set([301, 302, 303, 307, 308]);

/** The same request without its body and what described it. */
function withoutBody(request: WireRequest): WireRequest {
  const { body: _, ...rest } = request;
  const headers = { ...rest.headers };
  for (const name of Object.keys(headers)) if (name.startsWith('content-')) delete headers[name];
  return { ...rest, headers };
}

/** For another origin: no credentials, and nothing that holds a secret. */
function forStranger(
  request: WireRequest,
  isSecret: ExchangeOptions['isSecret'],
): Outcome<WireRequest> {
  const headers: Record<string, string> = {};
  for (const [name, value] of Object.entries(request.headers)) {
    if (!request.credentials.has(name) && !isSecret(value)) headers[name] = value;
  }
  return request.body !== undefined && isSecret(request.body.toString())
    ? fail('permission_denied', 'a redirect would send a secret in the body to another origin')
    : ok({ ...request, headers });
}

/** What a redirect asks for next. */
function redirected(
  request: WireRequest,
  status: number,
  location: string,
  isSecret: ExchangeOptions['isSecret'],
): Outcome<WireRequest> {
  if (!URL.canParse(location, request.url.href)) {
    return fail('http_error', 'the answer redirects to something that is not a URL');
  }
  const url = new URL(location, request.url);
  url.hash = '';
  const problem = urlProblem(url, ['http:', 'https:']);
  if (problem !== undefined) return fail('permission_denied', `redirect refused: ${problem}`);
  if (request.url.protocol === 'https:' && url.protocol === 'http:') {
    return fail('permission_denied', 'redirect refused: it leads from https to http');
  }
  const isGet = status === 303 || (status < 303 && request.method === 'POST');
  const turned = isGet && request.method !== 'HEAD' ? withoutBody(request) : request;
  const method = isGet && request.method !== 'HEAD' ? 'GET' : request.method;
  const next = { ...turned, method, url };
  return url.origin === request.url.origin ? ok(next) : forStranger(next, isSecret);
}

/** The final answer, its body not yet read. The caller reads or destroys it. */
export async function exchange(
  first: WireRequest,
  ports: HttpPorts,
  options: ExchangeOptions,
): Promise<Outcome<Exchange>> {
  const { maxRedirects, mayRepeat, verify, watch, isSecret } = options;
  let request = first;
  for (let redirects = 0; ; redirects++) {
    watch.enter('connect');
    const addresses = await allowTarget(request, 'net.http', verify, ports, watch);
    if (!addresses.ok) return addresses;
    const sent = await ports.connections.send(request, addresses.output, watch, mayRepeat);
    if (!sent.ok) return sent;
    const answer = sent.output;
    const { status, headers } = answer;
    const isRedirect = REDIRECTS.has(status) && headers['location'] !== undefined;
    if (!isRedirect || maxRedirects === 0) return ok({ answer, url: request.url, redirects });
    answer.body.destroy();
    if (redirects >= maxRedirects) {
      return fail('http_error', `more than ${maxRedirects} redirects`, { status });
    }
    const next = redirected(request, status, headers['location'] ?? '', isSecret);
    if (!next.ok) return next;
    request = next.output;
  }
}
