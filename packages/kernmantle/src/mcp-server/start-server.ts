// A project for MCP clients, as the command line and embedding programs start it: over HTTP, or over
// the standard streams of this process.
import { readFileSync } from 'node:fs';
import {
  compact,
  getOwn,
  isObject,
  type Outcome,
  ok,
  packagePath,
  parseJson,
  plainText,
} from '@kernmantle/core/base';
import type { RuntimeOptions } from '@kernmantle/core/runtime';
import { serveMcp } from '@kernmantle/mcp';
import { openTokens } from '@kernmantle/web';
import { openProgram, type ProgramRuntime, type ServedProject } from '../program.ts';
import { listenForMcp } from './listen-mcp.ts';

export interface ServerSettings {
  /** Any that is free unless said otherwise. */
  port?: number;
  /** `127.0.0.1` unless said otherwise; others need a token (`km web token add`). */
  host?: string;
  /** Items that say so are tools, resources and prompts of their own, instead of the four tools. */
  native?: boolean;
  /** `stdio`: this process's own input and output, for one client. Default `http`. */
  transport?: 'http' | 'stdio';
  /** Told what goes wrong beside the calls. */
  onError?: (error: Error) => void;
}

export interface RunningServer {
  /** Where clients connect; `stdio:` over the standard streams. */
  readonly url: string;
  /**
   * Bearer token with the role `steer` for clients on this machine; it counts while the server runs. Without a
   * token a client may only look. Absent over `stdio`, and where other machines can connect.
   */
  readonly token?: string;
  /** Resolves when it is over: closed, or the input of `stdio` has ended. */
  readonly ended: Promise<void>;
  /** Streams are told and closed; nothing of the server stays behind. */
  close(): Promise<void>;
}

/** Every refused token is a row of the audit, as often as the guard tells. */
export function serveHttp(
  served: ServedProject,
  { host, port, native = false }: Pick<ServerSettings, 'host' | 'port' | 'native'>,
): ReturnType<typeof listenForMcp> {
  const { project, audit } = served;
  return listenForMcp(served.host, {
    native,
    tokens: openTokens(served),
    onRefused: (caller, reason) =>
      void audit.write({
        surface: 'mcp',
        caller,
        subject: 'token',
        operation: 'connect',
        target: project,
        decision: 'denied',
        reason,
      }),
    ...compact({ hostname: host, port }),
  });
}

function serveStdio({ host }: ServedProject, native: boolean): RunningServer {
  const stop = new AbortController();
  const ended = serveMcp(host, { native }, stop.signal);
  return {
    url: 'stdio:',
    ended,
    async close() {
      stop.abort();
      await ended;
    },
  };
}

async function serve(
  runtime: Pick<ProgramRuntime, 'serving'>,
  settings: ServerSettings,
): Promise<Outcome<RunningServer>> {
  const { transport = 'http', native = false, onError = () => {} } = settings;
  const manifest = parseJson(readFileSync(packagePath('package.json'), 'utf8'));
  const version =
    manifest.ok && isObject(manifest.output) ? getOwn(manifest.output, 'version') : '';
  const served = runtime.serving(plainText(version), onError);
  if (transport === 'stdio') return ok(serveStdio(served, native));
  const listening = await serveHttp(served, settings);
  if (!listening.ok) return listening;
  const { close, ...address } = listening.output;
  const over = Promise.withResolvers<void>();
  return ok({
    ...address,
    ended: over.promise,
    async close() {
      await close();
      over.resolve();
    },
  });
}

/** `given`: a runtime of the program, which stays open; or what to open one with, which is closed too. */
export async function startServer(
  given: ProgramRuntime | (RuntimeOptions & ServerSettings),
  settings: ServerSettings,
): Promise<Outcome<RunningServer>> {
  if ('serving' in given) return await serve(given, settings);
  const opened = await openProgram(given);
  if (!opened.ok) return opened;
  const runtime = opened.output;
  const started = await serve(runtime, { ...given, ...settings });
  if (!started.ok) {
    await runtime.close();
    return started;
  }
  const { ended, close, ...address } = started.output;
  const over = ended.then(() => runtime.close());
  return ok({
    ...address,
    ended: over,
    async close() {
      await close();
      await over;
    },
  });
}
