// The web page of a project: page and `/api` over one listener. Other machines can reach it only
// with TLS and tokens.
import { createHash } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { hostname as machine } from 'node:os';
import {
  type Clock,
  fail,
  messageOf,
  type Outcome,
  ok,
  packagePath,
  systemClock,
} from '@kernmantle/core/base';
import { findPerson, type Runtime } from '@kernmantle/core/runtime';
import { createAccess, type WebAccess } from './access/authenticate.ts';
import { inUrl, isLoopback } from './access/request-guard.ts';
import { linkTo, openSessions } from './access/sessions.ts';
import { openTokens, type TokenStore } from './access/tokens.ts';
import { createApp, createOpenAnswers } from './app.ts';
import type { AdmitSocket, WebBase, WebParts } from './context.ts';
import { type OpenListener, openListener, type TlsFiles } from './listen.ts';
import { createHub } from './live/hub.ts';
import { createUploads } from './routes/uploads.ts';
import { openRunningServers } from './running-servers.ts';
import { createRuns } from './runs.ts';
import { addSocket } from './socket.ts';
import { openStaticFiles } from './static-files.ts';

interface WebSettings {
  /** Default: a fixed port of the project (`webPort`). 0: any free port. */
  readonly port?: number | undefined;
  /** Default: `127.0.0.1`. Other addresses need TLS and a token. */
  readonly host?: string | undefined;
  readonly tls?: TlsFiles | undefined;
  /** Origin under which a TLS proxy serves the page: `https://name`. Absent: no proxy. */
  readonly behind?: string | undefined;
  readonly version: string;
  /** Environment of the server process, for links. */
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** Folder of the built page. Default: the page of this package. */
  readonly page?: string | undefined;
  readonly clock?: Clock | undefined;
  onError?(error: Error): void;
}

interface RunningWeb {
  readonly url: string;
  readonly port: number;
  /** Every route of `/api` and its role. The login has none. */
  readonly routes: ReturnType<typeof createApp>['routes'];
  /** Creates an address that logs in once, within two minutes. */
  link(): Outcome<string>;
  /** Interrupts threads that run here; they can be resumed. No file or timer remains. */
  close(): Promise<void>;
}

/** Interval of the check that sessions and tokens of open streams are still valid. */
const POLL_MS = 1000;
const FIRST_PORT = 42_000;
const PORTS = 1000;
/** Number of ports after the default port that are tried. */
const NEXT_PORTS = 20;

/** Port of a project, from 42000 to 42999. It is stable, so that bookmarks and sessions remain valid. */
const webPort = (project: string): number =>
  FIRST_PORT + (createHash('sha256').update(project).digest().readUInt32BE() % PORTS);

/** A server that others can reach needs TLS, its own or of a proxy, and at least one valid token. */
function problemOf(
  { hostname, tls, behind }: { hostname: string; tls: unknown; behind: URL | undefined },
  tokens: TokenStore,
): Outcome<null> {
  if (isLoopback(hostname) && !behind) return ok(null);
  if (!tls && !behind) {
    const message = `other machines can reach \`${hostname}\`, so the page needs TLS`;
    const hint =
      'use `--tls-cert FILE --tls-key FILE`, or `--behind https://NAME` with a TLS proxy';
    return fail('permission_denied', message, { missing: 'tls', hint });
  }
  const all = tokens.list();
  if (!all.ok) return all;
  if (all.output.some(({ id }) => tokens.counts(id))) return ok(null);
  const message = 'other machines can reach the page, and the project has no token; add one';
  return fail('permission_denied', message, {
    missing: 'token',
    hint: '`km web token add --name NAME --role view`',
  });
}

function readOrigin(behind: string | undefined): Outcome<URL | undefined> {
  if (behind === undefined) return ok(undefined);
  const url = URL.canParse(behind) ? new URL(behind) : undefined;
  const isOrigin = url?.protocol === 'https:' && behind.replace(/\/$/, '') === url.origin;
  return isOrigin
    ? ok(url)
    : fail('invalid_input', `\`behind\` must be like \`https://name\`, not \`${behind}\``);
}

/** Opens the store. Fails with `not_found` if no thread has run. A read never creates a store. */
const storeOf =
  (runtime: Runtime): WebBase['store'] =>
  async () => {
    if (!runtime.registry.isThere()) {
      return fail('not_found', 'no thread has run in this project yet');
    }
    const threads = await runtime.threads();
    return threads.ok ? ok(threads.output.store) : threads;
  };

function makeParts(base: WebBase): WebParts {
  const isHere = (id: string): boolean => parts.runs.isHere(id);
  const hub = createHub({ ...base, isHere, served: () => base.runtime.served() });
  const uploads = createUploads(base.clock);
  const runs = createRuns({ ...base, hub, uploads });
  const parts: WebParts = { ...base, hub, runs, uploads };
  return parts;
}

/** Admits a program with a bearer token to the socket. A browser cannot send one and is refused. */
const createAdmit =
  (access: WebAccess, open: ReturnType<typeof createOpenAnswers>): AdmitSocket =>
  (incoming: IncomingMessage) => {
    const pairs = Object.entries(incoming.headers).map(([name, value]) => [name, String(value)]);
    const headers = new Headers(Object.fromEntries(pairs));
    const problem = access.place(headers, incoming.url ?? '/', true);
    if (problem) return problem;
    const peer = incoming.socket.remoteAddress ?? '';
    const verdict = headers.has('authorization')
      ? access.judge(headers, access.addressOf(headers, peer))
      : { status: 401, message: 'a bearer token is required' };
    if ('asker' in verdict) open.add(verdict.asker.id, incoming.socket);
    return verdict;
  };

/**
 * Ports to try, in order: the requested port alone, or the default port of the project and those
 * after it. The order is the same for every start.
 */
function portsFor({ project }: Runtime, requested: number | undefined, served: number[]): number[] {
  if (requested !== undefined) return [requested];
  const first = webPort(project) - FIRST_PORT;
  const near = Array.from(
    { length: NEXT_PORTS },
    (_, next) => FIRST_PORT + ((first + next) % PORTS),
  );
  // The ports of running servers of this project come first, so that no second one starts.
  return [...served, ...near];
}

async function openNear(
  runtime: Runtime,
  requested: number | undefined,
  open: (port: number) => Promise<Outcome<OpenListener>>,
): Promise<Outcome<OpenListener>> {
  const there = openRunningServers(runtime.home).list();
  const own = there.filter(({ project }) => project === runtime.project);
  const served = own
    .map(({ port }) => port)
    .filter((port) => port >= FIRST_PORT && port < FIRST_PORT + PORTS);
  const ports = portsFor(runtime, requested, served);
  for (const port of ports) {
    const opened = await open(port);
    if (opened.ok || opened.error.detail.reason !== 'EADDRINUSE') return opened;
    const same = own.find((page) => page.port === port);
    if (same) {
      const message = `the page of this project is already served at ${same.url}`;
      return fail('conflict', message, { port, hint: 'run `km web link` for a link' });
    }
  }
  const [port = 0] = ports;
  const message = `port ${port} is used by another program`;
  return fail('conflict', message, { port, hint: 'use another port with `--port NUMBER`' });
}

/** Writes an audit row for each refused link or token that the guard reports. */
const noteRefused =
  ({ audit, project }: Runtime) =>
  (caller: string, reason: string): void =>
    void audit.write({
      surface: 'web',
      caller,
      subject: 'token',
      operation: 'connect',
      target: project,
      decision: 'denied',
      reason,
    });

/** Returns a host name for clients. A wildcard address becomes the name of the machine. */
const reachable = (hostname: string): string =>
  /^(0\.0\.0\.0|\[?::\]?)$/.test(hostname) ? machine() : inUrl(hostname);

/** Closes the hub first, so that clients get nothing more, and then the runs. */
async function closeParts({ hub, runs }: WebParts): Promise<void> {
  await hub.close();
  await runs.close();
}

interface Served {
  readonly parts: WebParts;
  readonly listener: OpenListener;
  readonly sockets: { close(): Promise<void> };
  /** Stops timers and removes the notes of the server. */
  stop(): void;
}

const createClose = ({ parts, listener, sockets, stop }: Served) => {
  const close = async (): Promise<void> => {
    stop();
    const closed = listener.close();
    await sockets.close();
    await closeParts(parts);
    await closed;
  };
  let once: Promise<void> | undefined;
  return () => (once ??= close().catch((error) => parts.onError(new Error(messageOf(error)))));
};

export async function startWeb(
  runtime: Runtime,
  settings: WebSettings,
): Promise<Outcome<RunningWeb>> {
  const { tls, version, clock = systemClock, onError = () => {}, env = process.env } = settings;
  const hostname = settings.host ?? '127.0.0.1';
  const [tokens, sessions] = [openTokens(runtime, clock), openSessions(runtime, clock)];
  const origin = readOrigin(settings.behind);
  if (!origin.ok) return origin;
  const behind = origin.output;
  const files = openStaticFiles(settings.page ?? packagePath('dist/page'));
  const problem = problemOf({ hostname, tls, behind }, tokens);
  if (!problem.ok) return problem;
  if (!files.ok) return files;
  let port = 0;
  const access = createAccess({
    hostname,
    port: () => port,
    tls,
    behind,
    tokens,
    sessions,
    clock,
    onRefused: noteRefused(runtime),
  });
  sessions.clean();
  const started = clock.now();
  const base = { runtime, store: storeOf(runtime), clock, env, version, started, onError };
  const parts = makeParts(base);
  const open = createOpenAnswers(access.counts);
  const app = createApp({ parts, access, files: files.output, open });
  const opened = await openNear(runtime, settings.port, (at) =>
    openListener({ fetch: app.fetch, hostname, port: at, tls, onError }),
  );
  if (!opened.ok) {
    await closeParts(parts);
    return opened;
  }
  const listener = opened.output;
  port = listener.port;
  const sockets = addSocket(listener.server, createAdmit(access, open), parts);
  const url = behind?.origin ?? `${tls ? 'https' : 'http'}://${reachable(hostname)}:${port}`;
  const forget = openRunningServers(runtime.home).note({ project: runtime.project, port, url });
  const timer = setInterval(() => open.check(), POLL_MS).unref();
  const stop = (): void => {
    clearInterval(timer);
    forget();
  };
  return ok({
    url,
    port,
    routes: app.routes,
    link() {
      const secret = sessions.addLink(port, { who: findPerson(env), role: 'approve' });
      return secret.ok ? ok(linkTo(url, secret.output)) : secret;
    },
    close: createClose({ parts, listener, sockets, stop }),
  });
}
