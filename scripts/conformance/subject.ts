// Starts the subject of the test: the server over HTTP, as a user starts it, on a copy of the project with its own
// user folder and key.
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { cpSync, globSync, mkdirSync, mkdtempSync, realpathSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { ROOT } from './suite.ts';

/** `plain`: the four tools over an empty project. `native`: a project whose items are the suite's fixtures. */
export type Mode = 'plain' | 'native';

/** Scenarios that test only the protocol. A scenario that needs a missing tool can pass by accident. */
export const NEEDS_NO_FIXTURE: ReadonlySet<string> = new Set([
  'server-initialize',
  'logging-set-level',
  'ping',
  'tools-list',
  'server-sse-multiple-streams',
  'resources-list',
  'sep-2164-resource-not-found',
  'prompts-list',
  'dns-rebinding-protection',
  'caching',
  'input-required-result-unsupported-methods',
]);

export interface Subject {
  readonly url: string;
  stop(): Promise<void>;
}

/** A project, and the environment of a process that works on it. */
export interface Workplace {
  readonly project: string;
  readonly env: NodeJS.ProcessEnv;
  remove(): void;
}

export const LAUNCHER = join(ROOT, 'bin', 'km.js');
const FIXTURES = join(ROOT, 'packages', 'mcp', 'tests', 'conformance', 'project');

export function prepareProject(mode: Mode): Workplace {
  const base = realpathSync(mkdtempSync(join(tmpdir(), 'km-subject-')));
  const [project, home] = [join(base, 'project'), join(base, 'home')];
  const env = { PATH: process.env['PATH'], HOME: base, KERNMANTLE_HOME: home, KERNMANTLE_SRC: '1' };
  mkdirSync(join(project, '.ai'), { recursive: true });
  if (mode === 'native') {
    cpSync(FIXTURES, project, { recursive: true });
    // Only signed directives can run over MCP.
    km(['sign', ...globSync('.ai/directives/*.md', { cwd: project })], project, env);
  }
  return { project, env, remove: () => rmSync(base, { recursive: true, force: true }) };
}

export const serveArguments = (mode: Mode, project: string): string[] => [
  'mcp',
  'serve',
  '--project',
  project,
  ...(mode === 'native' ? ['--native'] : []),
];

export async function startSubject(mode: Mode): Promise<Subject> {
  const { project, env, remove } = prepareProject(mode);
  try {
    const served = await serveHttp(serveArguments(mode, project), env);
    return {
      url: served.url,
      async stop() {
        await served.stop();
        remove();
      },
    };
  } catch (error) {
    remove();
    throw error;
  }
}

/** Starts `km mcp serve …` on its own port. Resolves when the server answers. */
export async function serveHttp(args: readonly string[], env: NodeJS.ProcessEnv): Promise<Subject> {
  const port = await freePort();
  const child = spawn(process.execPath, [LAUNCHER, ...args, '--http', '--port', `${port}`], {
    env,
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  const url = `http://127.0.0.1:${port}/mcp`;
  try {
    await listening(child, url);
  } catch (error) {
    await end(child);
    throw error;
  }
  return { url, stop: () => end(child) };
}

function km(args: readonly string[], cwd: string, env: NodeJS.ProcessEnv): void {
  const done = spawnSync(process.execPath, [LAUNCHER, ...args], { cwd, env, encoding: 'utf8' });
  if (done.status !== 0) throw new Error(`km ${args[0]} failed: ${done.stderr}`);
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  if (address === null || typeof address === 'string') throw new Error('there is no free port');
  return address.port;
}

/** Waits for the first answer. Fails with the output of the server if it ends before. */
async function listening(child: ChildProcess, url: string): Promise<void> {
  let words = '';
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    words = `${words}${text}`.slice(-4000);
  });
  for (let tries = 0; tries < 600; tries += 1) {
    if (child.exitCode !== null) throw new Error(`the server ended: ${words}`);
    const answer = await fetch(url, { method: 'POST', body: '{}' }).catch(() => undefined);
    await answer?.body?.cancel();
    if (answer) return;
    await wait(50);
  }
  throw new Error(`the server does not listen: ${words}`);
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = new Promise((resolve) => child.once('exit', resolve));
  child.kill('SIGTERM');
  const timer = setTimeout(() => child.kill('SIGKILL'), 5000);
  await ended;
  clearTimeout(timer);
}
