import { hostname } from 'node:os';
import { compact, EXIT, ok } from '@kernmantle/core/base';
import type { Runtime } from '@kernmantle/core/runtime';
import type { McpHost } from '@kernmantle/mcp';
import { asText, type CommandCall, type Ending, version } from '../../command.ts';
import { inProject } from '../../project.ts';
import { interruptible } from '../../terminal/terminal.ts';
import { aborted, createErrorPrinter, exitWithin, portOf } from '../server-options.ts';

const PARENT_MS = 1000;

/** Returns a signal that also aborts when the parent process has ended. */
function untilAlone(signal: AbortSignal): { signal: AbortSignal; stop(): void } {
  const alone = new AbortController();
  const parent = process.ppid;
  const timer = setInterval(() => {
    if (process.ppid !== parent) alone.abort();
  }, PARENT_MS);
  return {
    signal: AbortSignal.any([signal, alone.signal]),
    stop: () => clearInterval(timer),
  };
}

async function serveHttp(
  runtime: Runtime,
  host: McpHost,
  { options, terminal }: CommandCall,
  signal: AbortSignal,
): Promise<Ending> {
  const port = portOf(options);
  if (!port.ok) return port;
  const { serveHttp: serve } = await import('../../../mcp-server/start-server.ts');
  const { project } = runtime;
  const native = options.native === true;
  const settings = { native, ...compact({ host: asText(options.host), port: port.output }) };
  const listening = await serve({ ...runtime, host }, settings);
  if (!listening.ok) return listening;
  const { url, token, close } = listening.output;
  if (terminal.json) terminal.out(JSON.stringify(ok({ project, url, ...compact({ token }) })));
  terminal.note(`kernmantle serves ${project} at ${url}; Ctrl-C stops it`);
  // A wildcard address is not one that a client can connect to, so the host name is shown.
  const reached = url.replace(/\/\/(0\.0\.0\.0|\[::\])(?=[:/])/, () => `//${hostname()}`);
  const lines = token === undefined ? REMOTE : LOCAL;
  for (const line of lines) {
    const hint = line.replace('URL', reached).replace('TOKEN', token ?? 'TOKEN');
    terminal.note(`  ${hint}`);
  }
  const { resumeInProcess } = await import('@kernmantle/core/runtime');
  const goingOn = resumeInProcess(runtime, signal, createErrorPrinter(terminal.note, 'mcp'));
  await aborted(signal);
  await goingOn.close();
  await close();
  return EXIT.done;
}

const CONNECT =
  'connect for example with `claude mcp add --transport http kernmantle URL --header "Authorization: Bearer TOKEN"`';
const LOCAL = [
  CONNECT,
  'this token has the role `steer` and expires with this server; create a lasting one with `km web token add`',
  'without a token, a program on this machine can only read',
];
const REMOTE = [
  CONNECT,
  'every client needs a token; list the tokens with `km web token ls`',
  'the server uses plain HTTP; put a TLS proxy in front of it',
];

async function serveStdio(
  runtime: Runtime,
  host: McpHost,
  { options, terminal }: CommandCall,
  signal: AbortSignal,
): Promise<Ending> {
  const { serveMcp } = await import('@kernmantle/mcp');
  // Standard output belongs to the protocol, so text for people goes to standard error.
  terminal.note(`kernmantle serves ${runtime.project} over stdio; it ends with its input`);
  terminal.closed.addEventListener('abort', () => process.exit(EXIT.done));
  await serveMcp(host, { native: options.native === true }, signal);
  return EXIT.done;
}

export const run = inProject(async (runtime, call) => {
  const { createMcpHost } = await import('@kernmantle/mcp');
  const { terminal, options } = call;
  const host = createMcpHost(runtime, version(), createErrorPrinter(terminal.note, 'mcp'));
  return await interruptible(async (interrupted) => {
    const isHttp =
      options.http === true || options.port !== undefined || options.host !== undefined;
    const alone = isHttp ? undefined : untilAlone(interrupted);
    try {
      return alone
        ? await serveStdio(runtime, host, call, alone.signal)
        : await serveHttp(runtime, host, call, interrupted);
    } finally {
      alone?.stop();
      exitWithin();
    }
  });
});
