// Logs in to servers. The SDK implements the protocol. This file stores tokens, in one file per
// connector name in the user's folder, and asks the person. INVARIANT: tokens for one address are
// never used for another, even if a connector changes its address. No login and no registration
// happens without a person.
import { timingSafeEqual } from 'node:crypto';
import { mkdirSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  fail,
  isObject,
  type JsonObject,
  type Outcome,
  ok,
  parseJson,
  readRegularFile,
  systemRandom,
} from '@kernmantle/core/base';
import type { Authorizer } from '@kernmantle/core/runtime';
import {
  type FetchLike,
  type OAuthClientMetadata,
  type OAuthClientProvider,
  type OAuthDiscoveryState,
  type StoredOAuthClientInformation,
  type StoredOAuthTokens,
  UnauthorizedError,
} from '@modelcontextprotocol/client';
import type { HttpEndpoint } from './pool.ts';

const NAME = /^[A-Za-z0-9][\w.-]{0,79}$/;
const MAX_FILE = 256 * 1024;
/** Redirect address for refreshes, which never redirect. */
const NOWHERE = 'http://127.0.0.1/callback';

interface StoredLogin {
  /** The address of the server that issued the tokens. */
  readonly server: string;
  readonly client?: StoredOAuthClientInformation;
  readonly tokens?: StoredOAuthTokens;
}

const random = (bytes: number): string => Buffer.from(systemRandom(bytes)).toString('base64url');

/** Reads one login file, and reads it again after another process has written it. */
function createKeeper(file: string, folder: string, server: string) {
  let cache: { stamp: string; kept: StoredLogin } | undefined;
  const none: StoredLogin = { server };

  const stampNow = (): string => {
    const info = statSync(file, { throwIfNoEntry: false, bigint: true });
    return info ? `${info.ino}:${info.mtimeNs}:${info.size}` : '';
  };

  return {
    server,
    read(): StoredLogin {
      const stamp = stampNow();
      if (cache?.stamp === stamp) return cache.kept;
      const read =
        stamp === '' ? undefined : readRegularFile(file, { max: MAX_FILE, followsLinks: false });
      const bytes = read && 'bytes' in read ? read.bytes : undefined;
      const parsed = bytes && parseJson(Buffer.from(bytes).toString('utf8'));
      const value = parsed?.ok && isObject(parsed.output) ? parsed.output : {};
      const login = value['server'] === server ? (value as unknown as StoredLogin) : none;
      cache = { stamp, kept: login };
      return login;
    },
    /** Writes the file atomically with access for the user only. */
    write(login: Omit<StoredLogin, 'server'>): void {
      mkdirSync(folder, { recursive: true, mode: 0o700 });
      const draft = join(folder, `.${random(12)}.tmp`);
      try {
        const text = JSON.stringify({ server, ...login });
        writeFileSync(draft, text, { flag: 'wx', mode: 0o600, flush: true });
        renameSync(draft, file);
      } finally {
        rmSync(draft, { force: true });
      }
      cache = undefined;
    },
  };
}

const isSame = (a: string, b: string): boolean =>
  a.length === b.length && timingSafeEqual(Buffer.from(a), Buffer.from(b));

interface LoginProvider extends OAuthClientProvider {
  /** Completes a login. Returns false if no person logged in; otherwise retry the connection. */
  finish(exchange: (query: URLSearchParams) => Promise<void>): Promise<boolean>;
}

/** Numbers of login pages that each person was shown, by server. */
const pageCounts = new WeakMap<Authorizer, Map<string, number>>();
const MAX_PAGES = 3;

/** Counts a login page. Returns false if the person was shown too many pages for this server. */
function mayAsk(person: Authorizer, server: string): boolean {
  const pages = pageCounts.get(person) ?? new Map<string, number>();
  const count = (pages.get(server) ?? 0) + 1;
  pageCounts.set(person, pages.set(server, count));
  return count <= MAX_PAGES;
}

function createProvider(
  keeper: ReturnType<typeof createKeeper>,
  { scope, client_id, client_secret }: NonNullable<HttpEndpoint['oauth']>,
  clientName: string,
  person: Authorizer | undefined,
  signal: AbortSignal,
): LoginProvider {
  // Stored with the first tokens, so that an unfinished login leaves no file.
  let registered: StoredLogin['client'];
  let [verifier, state] = ['', ''];
  let discovered: OAuthDiscoveryState | undefined;
  let answer: URLSearchParams | undefined;
  const redirectUrl = person?.redirectUrl ?? NOWHERE;
  const clientMetadata: OAuthClientMetadata = {
    client_name: clientName,
    redirect_uris: [redirectUrl],
    grant_types: ['authorization_code', 'refresh_token'],
    response_types: ['code'],
    token_endpoint_auth_method: 'none',
    ...(scope !== undefined && { scope }),
  };
  const nobody = (): never => {
    throw new UnauthorizedError('no person is present for a login');
  };
  /** A client registered for another redirect address cannot be used for this login. */
  const isUsable = ({ redirect_uris: uris }: { redirect_uris?: unknown }): boolean =>
    !person || !Array.isArray(uris) || uris.includes(redirectUrl);

  return {
    redirectUrl,
    clientMetadata,
    state() {
      state = random(24);
      return state;
    },
    clientInformation() {
      const client = registered ?? keeper.read().client;
      if (client_id !== undefined) {
        const information = client?.client_id === client_id ? client : { client_id };
        return { ...information, ...(client_secret !== undefined && { client_secret }) };
      }
      if (client && isUsable(client as JsonObject)) return client;
      return person ? undefined : nobody();
    },
    saveClientInformation(client) {
      // A secret in a connector is never copied into the login file.
      const { client_secret: _, ...bare } = client;
      registered = client_id === undefined ? client : bare;
    },
    tokens: () => keeper.read().tokens,
    saveTokens(tokens) {
      const client = registered ?? keeper.read().client;
      keeper.write({ ...(client && { client }), tokens });
    },
    async redirectToAuthorization(page) {
      if (!person || !mayAsk(person, keeper.server)) return nobody();
      const redirect = await person.authorize(page.href, signal);
      if (!redirect.ok) throw new UnauthorizedError(redirect.error.detail.message);
      const query = URL.parse(redirect.output)?.searchParams ?? new URLSearchParams();
      if (!isSame(query.get('state') ?? '', state)) {
        throw new UnauthorizedError('the answer belongs to another login');
      }
      answer = query;
    },
    saveCodeVerifier(code) {
      verifier = code;
    },
    codeVerifier: () => verifier,
    saveDiscoveryState(state) {
      discovered = state;
    },
    // Used only while a login completes. Otherwise the login server is discovered again.
    discoveryState: () => (answer ? discovered : undefined),
    invalidateCredentials(what) {
      const { client, tokens } = keeper.read();
      const keeps = { client: what === 'tokens', tokens: what === 'client' };
      if (!keeps.client) registered = undefined;
      keeper.write({
        ...(keeps.client && client && { client }),
        ...(keeps.tokens && tokens && { tokens }),
      });
    },
    async finish(exchange) {
      if (!answer) return false;
      try {
        await exchange(answer);
        return true;
      } finally {
        answer = undefined;
      }
    },
  };
}

const REMEMBERED_MS = 10_000;

/** Shares one refresh between parallel requests, because a refresh token can be used once. */
export function refreshingOnce(fetch: FetchLike): FetchLike {
  const refreshes = new Map<string, Promise<Response>>();
  return async (url, init) => {
    const body = init?.body instanceof URLSearchParams ? init.body : undefined;
    if (body?.get('grant_type') !== 'refresh_token') return await fetch(url, init);
    const key = `${String(url)} ${body.toString()}`;
    let refresh = refreshes.get(key);
    if (!refresh) {
      refresh = fetch(url, init);
      refreshes.set(key, refresh);
      setTimeout(() => refreshes.delete(key), REMEMBERED_MS).unref();
    }
    return (await refresh).clone();
  };
}

/** Returns the login of an endpoint, or undefined if it has none. `signal` ends an unfinished login. */
export function loginFor(
  { url, oauth }: HttpEndpoint,
  home: string,
  clientName: string,
  person: Authorizer | undefined,
  signal: AbortSignal,
): Outcome<LoginProvider | undefined> {
  if (!oauth) return ok(undefined);
  if (!NAME.test(oauth.name)) {
    return fail('config_invalid', `\`${oauth.name}\` is not a valid name for a login`);
  }
  const { origin, pathname } = new URL(url);
  const folder = join(home, 'mcp-auth');
  const keeper = createKeeper(join(folder, `${oauth.name}.json`), folder, `${origin}${pathname}`);
  return ok(createProvider(keeper, oauth, clientName, person, signal));
}
