// Rejects requests before any route reads them. On loopback the danger is a web page in the same
// browser, through a name that resolves to this address (`Host`) or from another origin, and a
// sandboxed process with the network. Therefore a request without a token can only read there. On
// other addresses every request needs a token.
import { randomUUID } from 'node:crypto';
import type { Clock } from '@kernmantle/core/base';
import type { TokenClient, TokenStore } from './tokens.ts';

/** Failed attempts of one address per minute. Further attempts get a wait. */
const MAX_ATTEMPTS = 5;
const MINUTE_MS = 60_000;
/** Bound of cached addresses. The oldest is dropped first. */
const MAX_ADDRESSES = 1000;

/** Refusal of a request. `wait` is the time until a next attempt, in seconds. */
export interface Rejection {
  readonly status: number;
  readonly message: string;
  /** Present if the request had no token. */
  readonly isWithoutToken?: true;
  readonly wait?: number;
}

interface TokenGuardOptions {
  readonly tokens: Pick<TokenStore, 'find'>;
  readonly clock: Pick<Clock, 'monotonic'>;
  /** Called for invalid tokens, a bounded number of times. */
  onRefused(address: string, reason: string): void;
}

interface GuardOptions extends TokenGuardOptions {
  readonly hostname: string;
  port(): number;
}

const NO_TOKEN = 'a bearer token is required; run `km web token add`';

type AllowedClient = Omit<TokenClient, 'name'>;
type WebToken = NonNullable<Extract<ReturnType<TokenStore['find']>, { ok: true }>['output']>;
type Admission = { client: AllowedClient } | Rejection;

export const isLoopback = (hostname: string): boolean =>
  /^(localhost|127(\.\d{1,3}){3}|\[?::1\]?)$/i.test(hostname);

/** Writes a host name for a URL. An IPv6 address gets brackets. */
export const inUrl = (hostname: string): string =>
  hostname.includes(':') && !hostname.startsWith('[') ? `[${hostname}]` : hostname;

/** Counts failed attempts per address, with a bounded number of addresses. */
function createAttempts(clock: Pick<Clock, 'monotonic'>) {
  const since = new Map<string, { at: number; count: number }>();
  return {
    /** Counts one more attempt. Returns false if the address has too many. */
    note(address: string): boolean {
      const now = clock.monotonic();
      const previous = since.get(address);
      const current = previous && now - previous.at < MINUTE_MS ? previous : { at: now, count: 0 };
      current.count += 1;
      since.set(address, current);
      const [first] = since.keys();
      if (since.size > MAX_ADDRESSES && first !== undefined) since.delete(first);
      return current.count <= MAX_ATTEMPTS;
    },
  };
}

/** Returns the host of an origin. Undefined if it is not a valid web origin. */
function originHost(origin: string): string | undefined {
  if (!URL.canParse(origin)) return undefined;
  const { protocol, host, origin: plain } = new URL(origin);
  // An origin of a browser has no user and no path.
  const isPlain = plain === origin.toLowerCase() && /^https?:$/.test(protocol);
  return isPlain ? host : undefined;
}

/** Checks the target host: an absolute address in the request line takes precedence over `Host` (RFC 9112, 3.2.2). */
function isFor(host: string, target: string): boolean {
  if (target.startsWith('/')) return true;
  return URL.canParse(target) && new URL(target).host === host;
}

interface GuardedPlace {
  isOwnHost(host: string): boolean;
  /** Expected scheme of an origin, `http` or `https`. Absent: any scheme. */
  readonly scheme?: string;
  /** True for a document. A person can open it without another page (`Sec-Fetch-Site: none`). */
  readonly isDocument?: boolean;
}

/**
 * Returns the reason for a refusal before any check of the token. Undefined: none. `target` is the
 * target of the request line.
 */
export function placeProblem(
  headers: Headers,
  target: string,
  place: GuardedPlace,
): Rejection | undefined {
  const { isOwnHost, scheme, isDocument = true } = place;
  const host = headers.get('host')?.toLowerCase() ?? '';
  if (!isOwnHost(host) || !isFor(host, target)) {
    return { status: 421, message: '`Host` is not a name of this server' };
  }
  const origin = headers.get('origin');
  const isOwnScheme = (text: string) => !scheme || text.toLowerCase().startsWith(`${scheme}://`);
  if (origin !== null && !(originHost(origin) === host && isOwnScheme(origin))) {
    return { status: 403, message: 'requests from other origins are refused' };
  }
  const site = headers.get('sec-fetch-site');
  if (site !== null && site !== 'same-origin' && !(isDocument && site === 'none')) {
    return { status: 403, message: 'requests from other sites are refused' };
  }
  return undefined;
}

/** Returns a check that `Host` is a name of this machine for a local browser, with the port. */
export function localNames(hostname: string, port: () => number): (host: string) => boolean {
  const names = ['127.0.0.1', 'localhost', '[::1]', inUrl(hostname).toLowerCase()];
  return (host) =>
    names.some((name) => host === `${name}:${port()}` || (port() === 80 && host === name));
}

/** Checks bearer tokens, and bounds the failed attempts per address. */
export function createTokenGuard({ tokens, clock, onRefused }: TokenGuardOptions) {
  const attempts = createAttempts(clock);

  /** Counts one more failed attempt of the address. */
  function refuse(address: string, reason: string): Rejection {
    if (attempts.note(address)) {
      onRefused(address, reason);
      return { status: 401, message: reason };
    }
    // A valid token is still accepted, so a client cannot lock out others behind the same address.
    return { status: 429, message: 'too many wrong tokens', wait: MINUTE_MS / 1000 };
  }

  return {
    refuse,
    /** Checks the header `Authorization`. Wrong tokens of an address are counted. */
    judge(header: string, address: string): { token: WebToken } | Rejection {
      const [, token] = /^bearer +([\w-]{1,200})$/i.exec(header) ?? [];
      if (token === undefined) return refuse(address, 'only bearer tokens are accepted');
      const match = tokens.find(token);
      if (!match.ok) return { status: 503, message: 'tokens cannot be read' };
      if (!match.output) return refuse(address, 'the token is not valid here');
      return { token: match.output };
    },
  };
}

export function createGuard({ hostname, port, ...options }: GuardOptions) {
  const isLocal = isLoopback(hostname);
  const isLocalName = localNames(hostname, port);
  const guard = createTokenGuard(options);
  // INVARIANT: a request without a token never gets more than the role `view`. Any program on this machine
  // can send one, also a sandboxed process that has the network.
  const local: AllowedClient = { id: `http:${randomUUID()}`, role: 'view' };

  function isOwnHost(host: string): boolean {
    return isLocal ? isLocalName(host) : host !== '' && URL.canParse(`http://${host}`);
  }

  return {
    /** `target` is the target of the request line. */
    judge(headers: Headers, address: string, target = '/'): Admission {
      const problem = placeProblem(headers, target, { isOwnHost });
      if (problem) return problem;
      const header = headers.get('authorization');
      if (header === null) {
        return isLocal
          ? { client: local }
          : { status: 401, message: NO_TOKEN, isWithoutToken: true };
      }
      const result = guard.judge(header, address);
      if (!('token' in result)) return result;
      const { id, role } = result.token;
      return { client: { id, role } };
    },
  };
}
