// The page's server over a project with a scripted model, inside the test or as a process, and whoever
// is logged in to it.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import type { Fixture } from '@kernmantle/test-support/project';
import { openStage, type Play, type Stage } from '@kernmantle/test-support/thread-project';
import { onTestFinished } from 'vitest';
import { openTokens, startWeb } from '../../src/index.ts';

const launcher = fileURLToPath(new URL('../../../../bin/km.js', import.meta.url));

export type Headers = Readonly<Record<string, string>>;
type Settings = Partial<Parameters<typeof startWeb>[1]>;
type RunningWeb = Extract<Awaited<ReturnType<typeof startWeb>>, { ok: true }>['output'];

export interface Envelope {
  readonly ok: boolean;
  readonly output?: unknown;
  readonly error?: { readonly code: string; readonly detail: { readonly message: string } };
}

/** One request to `/api`, as the page makes it; POST with a body, GET without. */
export async function ask(
  url: string,
  path: string,
  headers: Headers,
  body?: unknown,
): Promise<{ status: number; answer: Envelope; headers: Response['headers'] }> {
  const response = await fetch(`${url}/api/${path}`, {
    ...(body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) }),
    headers: {
      ...headers,
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
    },
  });
  const answer = (await response.json()) as Envelope;
  return { status: response.status, answer, headers: response.headers };
}

/** Exchanges a link or a token for what every request of a session sends. */
export async function login(url: string, link: string): Promise<Headers> {
  const token = link.split('#t=').at(-1);
  const { answer, headers } = await ask(url, 'session', {}, { token });
  if (!answer.ok) throw new Error(`not logged in: ${answer.error?.detail.message}`);
  const { key } = answer.output as { key: string };
  const cookie = headers.get('set-cookie')?.split(';')[0] ?? '';
  return { cookie, 'x-kernmantle-key': key };
}

/** The header of a program with a token of this role. */
export function bearerOf({ home, root }: Fixture, role: string, name = role): Headers {
  const made = openTokens({ home, project: root }).add({ name, role, days: 1 });
  if (!made.ok) throw new Error(made.error.detail.message);
  return { authorization: `Bearer ${made.output.token}` };
}

export interface ServedStage extends Stage {
  readonly url: string;
  readonly port: number;
  readonly routes: RunningWeb['routes'];
  /** A new address that logs in and opens `path`. */
  link(path?: string): string;
  /** Of somebody who came by a link and may do everything. */
  readonly headers: Headers;
  get(path: string, headers?: Headers): ReturnType<typeof ask>;
  post(path: string, body: unknown, headers?: Headers): ReturnType<typeof ask>;
  /** Before its time; otherwise with the test. */
  close(): Promise<void>;
}

/** Serves a project inside this process, on any port that is free; closed with the test. */
export async function serveStage(stage: Stage, settings: Settings = {}): Promise<ServedStage> {
  const { runtime, fixture } = stage;
  const failed: Error[] = [];
  const started = await startWeb(runtime, {
    port: 0,
    version: '0.0.0',
    env: { ...fixture.env, USER: 'ann' },
    onError: (error) => void failed.push(error),
    ...settings,
  });
  if (!started.ok) throw new Error(started.error.detail.message);
  const { url, port, routes, close } = started.output;
  const link = (path = '/'): string => {
    const made = started.output.link();
    if (!made.ok) throw new Error(made.error.detail.message);
    return made.output.replace('/#', `${path}#`);
  };
  onTestFinished(async () => {
    await close();
    if (failed.length > 0) throw new AggregateError(failed, 'the server met errors');
  });
  const headers = settings.tls || settings.behind ? {} : await login(url, link());
  return {
    ...stage,
    url,
    port,
    routes,
    link,
    headers,
    get: (path, own = headers) => ask(url, path, own),
    post: (path, body, own = headers) => ask(url, path, own, body),
    close,
  };
}

/** A project with directives and a model that answers by directive and turn, and its server. */
export const openServed = async (
  files: Record<string, string> = {},
  play: Play = {},
  settings: Settings = {},
): Promise<ServedStage> => await serveStage(await openStage(files, play), settings);

export interface WebProcess {
  /** Its folder. */
  readonly project: string;
  readonly url: string;
  /** It prints one when it starts. */
  readonly link: string;
  readonly child: ChildProcess;
  /** What it said to people so far. */
  said(): string;
  stop(signal?: NodeJS.Signals): Promise<number | null>;
}

async function spawnServer(
  command: readonly string[],
  env: Fixture['env'],
  file: string = launcher,
): Promise<WebProcess> {
  const child = spawn(process.execPath, [file, ...command], {
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let said = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    said += text;
  });
  const over = once(child, 'exit') as Promise<[number | null]>;
  const stop = async (signal: NodeJS.Signals = 'SIGTERM'): Promise<number | null> => {
    if (child.exitCode === null && child.signalCode === null) child.kill(signal);
    return (await over)[0];
  };
  onTestFinished(async () => void (await stop()));
  const [line] = (await Promise.race([
    once(createInterface({ input: child.stdout }), 'line'),
    over.then(() => ['']),
  ])) as [string];
  const { output } = JSON.parse(line || '{}') as {
    output?: { project: string; url: string; link: string };
  };
  if (!output) {
    await over;
    throw new Error(`the page is not served: ${line}${said}`);
  }
  return { ...output, child, said: () => said, stop };
}

/** `km web` as a process; ended with the test. */
export const spawnWeb = ({ root, env }: Fixture, ...args: readonly string[]): Promise<WebProcess> =>
  spawnServer(['web', '--json', '--project', root, ...args], { ...env, KERNMANTLE_SRC: '1' });

/** The same with another launcher: that of a package. */
export const spawnLauncher = (
  file: string,
  { root, env }: Pick<Fixture, 'root' | 'env'>,
): Promise<WebProcess> => spawnServer(['web', '--json', '--project', root], env, file);

/** `km demo --web` as a process, on any port that is free; ended with the test. */
export const spawnDemo = (): Promise<WebProcess> =>
  spawnServer(['demo', '--web', '--json', '--port', '0'], { ...process.env, KERNMANTLE_SRC: '1' });
