// Starts the MCP server of a project over HTTP or over the standard streams of this process. The
// command line and embedding programs both use it.
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
  /** Port of the server. Absent: any free port. */
  port?: number;
  /** Address to bind. Default `127.0.0.1`; other addresses need a token (`km web token add`). */
  host?: string;
  /** Offers exposed items as tools, resources and prompts, instead of the four tools. */
  native?: boolean;
  /** `stdio` serves one client over the input and output of this process. Default `http`. */
  transport?: 'http' | 'stdio';
  /** Called for every error outside of the calls. */
  onError?: (error: Error) => void;
}

export interface RunningServer {
  /** Address for clients. `stdio:` if the server uses the standard streams. */
  readonly url: string;
  /**
   * Bearer token with the role `steer` for clients on this machine, valid while the server runs. A
   * client without a token can only read. Absent over `stdio`, and if other machines can connect.
   */
  readonly token?: string;
  /** Resolves after `close`, or at the end of input over `stdio`. */
  readonly ended: Promise<void>;
  close(): Promise<void>;
}

/** Serves over HTTP. Records each refused token in the audit. */
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

/** Starts a server. Its `close` also closes a runtime that was opened from options. */
export async function startServer(
  source: ProgramRuntime | (RuntimeOptions & ServerSettings),
  settings: ServerSettings,
): Promise<Outcome<RunningServer>> {
  if ('serving' in source) return await serve(source, settings);
  const opened = await openProgram(source);
  if (!opened.ok) return opened;
  const runtime = opened.output;
  const started = await serve(runtime, { ...source, ...settings });
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
