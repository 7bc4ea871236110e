// Turns a merged config into a request. It checks everything that a caller could have filled in: scheme,
// method, header names and values. Nothing is connected yet.
import {
  createRedactor,
  type Failure,
  fail,
  getOwn,
  isObject,
  type Json,
  type JsonObject,
  type Outcome,
  objectAt,
  ok,
  type Redactor,
} from '../../base/index.ts';
import type { PrimitiveCall } from '../primitive.ts';
import { choiceField, countField } from '../sink.ts';
import { METHODS } from './config-shape.ts';

/** A body that is made while it is sent. Each iteration begins anew. */
export interface StreamedBody extends AsyncIterable<string> {
  /** The sum of the lengths of the pieces. */
  readonly bytes: number;
  /** The text around the streamed parts, which is searched for secrets. */
  readonly text: string;
}

export interface WireRequest<Body = string | StreamedBody> {
  method: string;
  url: URL;
  /** Header names are in lower case. */
  headers: Record<string, string>;
  body?: Body;
  /** Names of headers with credentials. They are never sent to another origin. */
  credentials: ReadonlySet<string>;
  /** The parts and the result of `auth`, which no output may show. */
  hidden: string[];
}

const TOKEN = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
/**
 * Headers of framing and routing, which only the client sets. A second value makes request smuggling possible.
 */
const CLIENT_HEADERS = new Set(
  'host connection content-length transfer-encoding upgrade keep-alive te trailer expect proxy-connection'
    .split(' ')
    .concat('proxy-authorization'),
);
const ALWAYS_CREDENTIALS = ['authorization', 'cookie'];

/** Returns the fault for a mistake of the tool's author, with the path of the field in the config. */
const invalid = (field: string, message: string): Failure =>
  fail('config_invalid', `\`${field}\` ${message}`, { config_path: `config.${field}` });

const scalar = (value: Json | undefined): string | undefined =>
  typeof value === 'string'
    ? value
    : typeof value === 'number' || typeof value === 'boolean'
      ? String(value)
      : undefined;

/** Returns the problem of a header's value. The text does not repeat the value, which may be a secret. */
function headerProblem(name: string, value: string): string | undefined {
  if (!TOKEN.test(name)) return `header name ${JSON.stringify(name)} is not valid`;
  if (CLIENT_HEADERS.has(name)) return `header \`${name}\` is set by the client itself`;
  if (/[\u0000-\u0008\u000a-\u001f\u007f]/.test(value)) {
    return `the value of header \`${name}\` contains a control character`;
  }
  if (/[^\u0000-\u00ff]/.test(value)) return `the value of header \`${name}\` is not Latin-1`;
  return undefined;
}

function readHeaders(config: JsonObject): Outcome<Record<string, string>> {
  const headerConfig = getOwn(config, 'headers') ?? {};
  if (!isObject(headerConfig)) return invalid('headers', 'must be an object');
  const headers: Record<string, string> = Object.create(null) as Record<string, string>;
  for (const [key, raw] of Object.entries(headerConfig)) {
    if (raw === null) continue;
    const [name, value] = [key.toLowerCase(), scalar(raw)];
    if (value === undefined) return fail('invalid_input', `header \`${name}\` must be a text`);
    const problem = headerProblem(name, value);
    if (problem !== undefined) return fail('invalid_input', problem);
    headers[name] = value;
  }
  return ok(headers);
}

function readUrl(config: JsonObject, schemes: readonly string[]): Outcome<URL> {
  const text = getOwn(config, 'url');
  if (typeof text !== 'string') return invalid('url', 'is missing');
  const url = URL.parse(text);
  if (url === null) return fail('invalid_input', '`url` is not a valid URL');
  const problem = urlProblem(url, schemes);
  return problem === undefined ? ok(url) : fail('invalid_input', problem);
}

export function urlProblem(url: URL, schemes: readonly string[]): string | undefined {
  if (!schemes.includes(url.protocol)) {
    return `scheme \`${url.protocol}\` is not allowed here, only ${schemes.join(' and ')}`;
  }
  if (url.username !== '' || url.password !== '') {
    return 'a URL must not contain a user name or password; use `auth`';
  }
  return url.hostname === '' ? 'the URL has no host' : undefined;
}

function addQuery(url: URL, config: JsonObject): Outcome<null> {
  const query = getOwn(config, 'query') ?? {};
  if (!isObject(query)) return invalid('query', 'must be an object');
  for (const [name, value] of Object.entries(query)) {
    for (const item of Array.isArray(value) ? value : [value]) {
      const text = scalar(item);
      if (text !== undefined) url.searchParams.append(name, text);
      else if (item !== null) {
        return fail('invalid_input', `query parameter \`${name}\` must be a text, number or list`);
      }
    }
  }
  return ok(null);
}

/** The additions of `auth`: a header or a query parameter, and the texts to hide. */
interface Credential {
  header?: [name: string, value: string];
  query?: [name: string, value: string];
  hidden?: string[];
}

type AuthReader = (field: (name: string) => string | undefined) => Credential | string;

const AUTH: Readonly<Record<string, AuthReader>> = {
  none: () => ({}),
  bearer(field) {
    const token = field('token');
    if (!token) return 'bearer auth needs a `token`';
    return { header: ['authorization', `Bearer ${token}`], hidden: [token] };
  },
  api_key(field) {
    const key = field('key');
    const [header, query] = [field('header'), field('query')];
    if (!key) return 'api_key auth needs a `key`';
    if (query !== undefined) return { query: [query, key], hidden: [key] };
    return { header: [(header ?? 'x-api-key').toLowerCase(), key], hidden: [key] };
  },
  basic(field) {
    const [user, password] = [field('username') ?? field('user') ?? '', field('password') ?? ''];
    if (user.includes(':')) return 'a user name for basic auth must not contain `:`';
    const pair = Buffer.from(`${user}:${password}`).toString('base64');
    return { header: ['authorization', `Basic ${pair}`], hidden: [pair, password] };
  },
};

function readAuth(config: JsonObject): Outcome<Credential> {
  const auth = getOwn(config, 'auth');
  if (auth === undefined || auth === null) return ok({});
  const type = getOwn(auth, 'type');
  const reader = typeof type === 'string' && Object.hasOwn(AUTH, type) ? AUTH[type] : undefined;
  if (reader === undefined) {
    return invalid('auth.type', 'must be one of bearer, api_key, basic, none');
  }
  const credential = reader((name) => scalar(getOwn(auth, name)));
  if (typeof credential === 'string')
    return fail('config_invalid', credential, { config_path: 'config.auth' });
  const problem = credential.header && headerProblem(...credential.header);
  return problem === undefined ? ok(credential) : fail('invalid_input', problem);
}

const FORM = 'application/x-www-form-urlencoded';

/** Returns the body's text and the content type for a config that names none. */
function readBody(config: JsonObject, contentType: string): Outcome<[string, string] | undefined> {
  const body = getOwn(config, 'body');
  if (body === undefined || body === null) return ok(undefined);
  const implied = contentType.startsWith(FORM)
    ? 'form'
    : typeof body === 'string'
      ? 'text'
      : 'json';
  const kind = getOwn(config, 'body_type') ?? implied;
  if (kind === 'json') return ok([JSON.stringify(body), 'application/json']);
  if (kind === 'form') {
    if (typeof body === 'string') return ok([body, FORM]);
    if (!isObject(body)) return fail('invalid_input', 'a form body must be an object');
    const form = new URL('http://form/');
    const added = addQuery(form, { query: body });
    return added.ok ? ok([form.search.slice(1), FORM]) : added;
  }
  if (kind !== 'text') return invalid('body_type', 'must be json, text or form');
  const text = scalar(body);
  return text === undefined
    ? fail('invalid_input', 'a text body must be a text')
    : ok([text, 'text/plain; charset=utf-8']);
}

function readMethod(config: JsonObject): Outcome<string> {
  const method = getOwn(config, 'method') ?? 'GET';
  const name = typeof method === 'string' ? method.toUpperCase() : '';
  return METHODS.includes(name)
    ? ok(name)
    : fail('invalid_input', `method must be one of ${METHODS.join(', ')}`);
}

/** Returns the checked request. `accept` is used unless the config contains the header. */
export function buildRequest(
  config: JsonObject,
  accept: Readonly<Record<string, string>>,
  schemes: readonly string[] = ['http:', 'https:'],
): Outcome<WireRequest<string>> {
  const method = readMethod(config);
  if (!method.ok) return method;
  const url = readUrl(config, schemes);
  if (!url.ok) return url;
  const query = addQuery(url.output, config);
  if (!query.ok) return query;
  const configured = readHeaders(config);
  if (!configured.ok) return configured;
  const auth = readAuth(config);
  if (!auth.ok) return auth;
  const body = readBody(config, configured.output['content-type'] ?? '');
  if (!body.ok) return body;

  const headers: Record<string, string> = { ...accept, ...configured.output };
  const credentials = new Set(ALWAYS_CREDENTIALS);
  const { header, query: secretQuery, hidden = [] } = auth.output;
  if (header) {
    headers[header[0]] = header[1];
    credentials.add(header[0]);
  }
  if (secretQuery) url.output.searchParams.append(...secretQuery);
  const request: WireRequest<string> = {
    method: method.output,
    url: url.output,
    headers,
    credentials,
    hidden,
  };
  if (body.output === undefined) return ok(request);
  headers['content-type'] ??= body.output[1];
  return ok({ ...request, body: body.output[0] });
}

export interface Settings {
  transport: 'none' | 'sse' | 'websocket';
  maxBytes: number;
  maxEvent: number;
  maxRedirects: number;
}

const MB = 1024 * 1024;
const PRESETS = { sync: 10 * MB, stream: 100 * MB, event: 8 * MB, redirects: 5 };

type Configured = Pick<PrimitiveCall, 'config' | 'parameters' | 'secrets'>;

/** A stream is requested by `mode`, or by `stream: true` if the tool can stream. */
function wantsStream({ config, parameters }: Configured): Outcome<boolean> {
  if (getOwn(config, 'mode') !== undefined) {
    const mode = choiceField(config, 'mode', ['sync', 'stream']);
    return mode.ok ? ok(mode.output === 'stream') : mode;
  }
  const settings = [getOwn(parameters, 'stream'), getOwn(getOwn(config, 'body'), 'stream')];
  return ok(isObject(getOwn(config, 'stream')) && settings.includes(true));
}

/** Reads the settings of a call. An invalid setting is a mistake of the author. */
function settingsOf(call: Configured): Outcome<Settings> {
  const { config } = call;
  const stream = wantsStream(call);
  if (!stream.ok) return stream;
  const streamConfig: JsonObject = objectAt(config, 'stream');
  const transport = choiceField(streamConfig, 'transport', ['sse', 'websocket']);
  if (!transport.ok) return transport;
  const maxBytes = countField(config, 'max_bytes', stream.output ? PRESETS.stream : PRESETS.sync);
  if (!maxBytes.ok) return maxBytes;
  const maxEvent = countField(streamConfig, 'max_event', PRESETS.event);
  if (!maxEvent.ok) return maxEvent;
  const maxRedirects = countField(config, 'max_redirects', PRESETS.redirects, 0);
  if (!maxRedirects.ok) return maxRedirects;
  return ok({
    transport: stream.output ? transport.output : 'none',
    maxBytes: maxBytes.output,
    maxEvent: maxEvent.output,
    maxRedirects: maxRedirects.output,
  });
}

const ACCEPT: Readonly<Record<Settings['transport'], Readonly<Record<string, string>>>> = {
  none: { accept: '*/*', 'accept-encoding': 'gzip, deflate, br', 'user-agent': 'kernmantle' },
  sse: { accept: 'text/event-stream', 'accept-encoding': 'identity', 'user-agent': 'kernmantle' },
  websocket: { 'user-agent': 'kernmantle' },
};

export interface DescribedRequest {
  readonly request: WireRequest<string>;
  readonly settings: Settings;
  readonly redact: Redactor;
}

/** Returns the checked request that would be sent. Nothing is connected. */
export function describeRequest(call: Configured): Outcome<DescribedRequest> {
  const settings = settingsOf(call);
  if (!settings.ok) return settings;
  const { transport } = settings.output;
  const schemes = transport === 'websocket' ? ['ws:', 'wss:'] : ['http:', 'https:'];
  const request = buildRequest(call.config, ACCEPT[transport], schemes);
  if (!request.ok) return request;
  const redact = createRedactor([...call.secrets, ...request.output.hidden]);
  return ok({ request: request.output, settings: settings.output, redact });
}
