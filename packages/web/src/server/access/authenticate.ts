// Identifies the actor of a request to `/api`: a person with a session (cookie and key) or a
// program with a bearer token. `Host` and `Origin` are checked before, for every request.
import { X509Certificate } from 'node:crypto';
import { isIP } from 'node:net';
import { type Clock, type Outcome, ok } from '@kernmantle/core/base';
import type { WebCaller } from '../context.ts';
import { createCookie } from '../headers.ts';
import type { TlsFiles } from '../listen.ts';
import {
  createTokenGuard,
  inUrl,
  isLoopback,
  localNames,
  placeProblem,
  type Rejection,
} from './request-guard.ts';
import { SESSION_MS, type SessionStore, type WebSession } from './sessions.ts';
import type { TokenStore } from './tokens.ts';

interface AccessOptions {
  readonly hostname: string;
  port(): number;
  readonly tls?: TlsFiles | undefined;
  /** Origin under which a proxy serves the page. Absent: no proxy. */
  readonly behind?: URL | undefined;
  readonly tokens: TokenStore;
  readonly sessions: SessionStore;
  readonly clock: Pick<Clock, 'monotonic'>;
  onRefused(address: string, reason: string): void;
}

const NO_SESSION = 'a session or a token is required; run `km web link` or `km web token add`';

/** Returns a check that `Host` is a name in the certificate, with the port of the server. */
function certifiedNames(hostname: string, port: () => number, { cert }: TlsFiles) {
  const certificate = new X509Certificate(cert);
  return (host: string): boolean => {
    const [, name = '', hostPort = '443'] = /^(\[[^\]]+\]|[^:]+)(?::(\d+))?$/.exec(host) ?? [];
    if (Number(hostPort) !== port()) return false;
    const bare = name.replace(/^\[|\]$/g, '');
    if (name === inUrl(hostname).toLowerCase()) return true;
    return (isIP(bare) ? certificate.checkIP(bare) : certificate.checkHost(bare)) !== undefined;
  };
}

const asAsker = ({ id, who, role, expires }: WebSession): WebCaller => ({ id, who, role, expires });

function byToken(result: ReturnType<TokenGuard['judge']>): { asker: WebCaller } | Rejection {
  if (!('token' in result)) return result;
  const { id, name, role, expires } = result.token;
  return { asker: { id, who: name || id, role, expires: Date.parse(expires) } };
}
type TokenGuard = ReturnType<typeof createTokenGuard>;

export type WebAccess = ReturnType<typeof createAccess>;

export function createAccess(options: AccessOptions) {
  const { hostname, port, tls, behind, tokens, sessions } = options;
  const guard = createTokenGuard(options);
  const isSecure = tls !== undefined || behind !== undefined;
  const cookie = createCookie(port, isSecure);
  const isOwnHost =
    behind !== undefined
      ? (host: string) => host === behind.host
      : tls !== undefined && !isLoopback(hostname)
        ? certifiedNames(hostname, port, tls)
        : localNames(hostname, port);
  /** True unless a token opened the session and the token is no longer valid. */
  const isCurrent = ({ from }: WebSession): boolean =>
    !from.startsWith('token_') || tokens.counts(from);

  function bySession(headers: Headers): { asker: WebCaller } | Rejection {
    const key = headers.get('x-kernmantle-key') ?? '';
    const cookies = cookie.read(headers);
    if (key === '' || key.length > 100 || cookies.length === 0) {
      return { status: 401, message: NO_SESSION };
    }
    const session = sessions.find(port(), cookies, key);
    if (!session.ok) return { status: 503, message: 'sessions cannot be read' };
    if (!session.output || !isCurrent(session.output)) {
      return { status: 401, message: 'the session has ended; run `km web link` for a new link' };
    }
    return { asker: asAsker(session.output) };
  }

  /** Returns the session that a token or a link opens. */
  function sessionFor(token: string): Outcome<Parameters<SessionStore['open']>[0] | undefined> {
    const link = sessions.findLink(port(), token);
    if (!link.ok) return link;
    if (link.output) {
      const { id, who, role } = link.output;
      return ok({ who, role, port: port(), from: id });
    }
    const match = tokens.find(token);
    if (!match.ok || !match.output) return match.ok ? ok(undefined) : match;
    const { id, name, role, expires } = match.output;
    const until = Date.parse(expires);
    return ok({ who: name || id, role, port: port(), from: id, expires: until });
  }

  return {
    /**
     * Returns the last address that the proxy adds; a client can write those before it. A text that
     * is not an address does not come from a proxy and is ignored.
     */
    addressOf(headers: Headers, peer: string): string {
      const client = behind ? headers.get('x-forwarded-for')?.split(',').at(-1)?.trim() : undefined;
      return client !== undefined && isIP(client.replace(/^\[|\]$/g, '')) !== 0 ? client : peer;
    },
    /** Returns the reason for a refusal before the check of the token. Undefined: none. */
    place: (headers: Headers, target: string, isApi: boolean): Rejection | undefined =>
      placeProblem(headers, target, {
        isOwnHost,
        scheme: isSecure ? 'https' : 'http',
        isDocument: !isApi,
      }),
    judge(headers: Headers, address: string): { asker: WebCaller } | Rejection {
      const header = headers.get('authorization');
      return header === null ? bySession(headers) : byToken(guard.judge(header, address));
    },
    /** Opens a session with a link or a token. */
    exchange(
      token: string,
      address: string,
    ): { asker: WebCaller; key: string; cookie: string } | Rejection {
      const request = sessionFor(token);
      if (!request.ok) return { status: 503, message: 'sessions and tokens cannot be read' };
      const result = request.output ? sessions.open(request.output) : ok(undefined);
      if (!result.ok && result.error.code === 'rate_limit') {
        return { status: 429, message: result.error.detail.message };
      }
      if (!result.ok) return { status: 503, message: 'sessions cannot be written' };
      if (!result.output) {
        return guard.refuse(address, 'the link or token is not valid here, or no longer valid');
      }
      const { key, cookie: value, ...session } = result.output;
      return { asker: asAsker(session), key, cookie: cookie.write(value, SESSION_MS / 1000) };
    },
    /** Ends the session of the request. Returns the header that deletes the cookie. */
    end(id: string): Outcome<string> {
      const result = sessions.end(id);
      return result.ok ? ok(cookie.write('', 0)) : result;
    },
    /** True if the session or token is still valid. */
    counts(id: string): boolean {
      if (!id.startsWith('session_')) return tokens.counts(id);
      const all = sessions.list();
      return all.ok && all.output.some((session) => session.id === id && isCurrent(session));
    },
  };
}
