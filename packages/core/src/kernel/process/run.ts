// One child process from start to end. It ends in exactly one of six ways: it could not start, it
// exited, a signal ended it, its time ran out, it had too many processes, or its caller stopped it; in
// each nothing of it is left running when the promise settles.
import type { ChildProcess } from 'node:child_process';
import { closeSync, readFileSync } from 'node:fs';
import { constants } from 'node:os';
import type { Readable, Writable } from 'node:stream';
import { type Clock, errnoOf, fail, type Outcome, ok, spawn } from '../../base/index.ts';
import { ARGUMENTS_FD, BEGUN, CHANNEL_FD, SANDBOX_PATH, STATUS_FD } from '../sandbox/plan.ts';
import type { SetAside } from '../sandbox/project.ts';
import { type Overrun, type ProcessBounds, watchBounds } from './bounds.ts';
import { type Captured, type CaptureOptions, capture } from './output.ts';

/** Finds children that left the process group, so that they end with their parent. */
const childrenOf = (pid: number): number[] => {
  try {
    const text = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8');
    return text.split(' ').filter(Boolean).map(Number);
  } catch {
    return []; // gone already, or a system without /proc
  }
};

/** Every living descendant, parents before children. */
function descendants(pid: number): number[] {
  const found: number[] = [];
  for (let level = [pid]; level.length > 0; ) {
    level = level.flatMap(childrenOf);
    found.push(...level);
  }
  return found;
}

/** False when there is nothing to signal any more. */
function send(pid: number, signal: NodeJS.Signals): boolean {
  try {
    return process.kill(pid, signal);
  } catch {
    return false;
  }
}

/**
 * Asks politely. In a sandbox only what runs inside is asked: a signal to what set it up
 * would take the namespace down at once and leave no time to clean up.
 */
function terminate(pid: number, isSandboxed: boolean): void {
  const inside = isSandboxed ? childrenOf(pid).flatMap(descendants) : descendants(pid);
  const asked = inside.map((child) => send(child, 'SIGTERM'));
  if (!isSandboxed || !asked.includes(true)) send(-pid, 'SIGTERM');
}

/** Ends the group and every descendant, also those that started a group of their own. */
export function killTree(pid: number): void {
  const all = descendants(pid);
  send(-pid, 'SIGKILL');
  for (const child of all) send(child, 'SIGKILL');
}

export interface Launch {
  file: string;
  args: readonly string[];
  cwd: string;
  env: Readonly<Record<string, string>>;
  /** Written to descriptor 3; only a sandbox reads there. */
  options?: string;
  /** Handed to the child from descriptor 6 on, and closed here once it runs. */
  fds: readonly number[];
  bounds?: ProcessBounds;
  /** In namespaces: a signal shows as an exit code, and asking politely goes to the inside. */
  isSandboxed: boolean;
  /** Undoes what was made for this child, and answers with what it made and may not keep. */
  cleanUp?: () => SetAside | undefined;
}

interface RunOptions {
  stdin?: string | undefined;
  timeoutMs: number;
  graceMs?: number;
  signal: AbortSignal;
  clock: Clock;
  stdout?: CaptureOptions;
  stderr?: CaptureOptions;
  /** What comes back on descriptor 4. */
  channel?: CaptureOptions;
}

/** How much is kept of what nobody asked about in particular. */
const SHORT: CaptureOptions = { maxBytes: 64 * 1024, secrets: [] };
const GRACE_MS = 2000;

export interface Ended {
  reason: 'exit' | 'signal' | 'timeout' | 'cancelled' | 'overrun' | 'not_started';
  exitCode: number | null;
  signal: string | null;
  /** Of `not_started`: the system's code. */
  errno?: string;
  /** The bound, if the reason is `overrun`. */
  overrun?: Overrun;
  durationMs: number;
  stdout: Captured;
  stderr: Captured;
  channel: Captured;
  /** Did the program itself start? False: only the set-up of its sandbox ran, and stderr is the set-up's. */
  hasBegun: boolean;
  /** What it made and could not leave in the project. */
  setAside: SetAside;
}

export interface StartedProcess {
  child: ChildProcess;
  channel: Readable;
  exit: Promise<Pick<Ended, 'exitCode' | 'signal' | 'errno'>>;
  /** Settles with its end: was the sandbox set up, so that the program took its place? */
  begun: Promise<boolean>;
  /** Asked when it has ended: the bound that it was ended for. */
  overrun(): Overrun | undefined;
}

const DRAIN_MS = 2000;
const MAX_TIMER = 2 ** 31 - 1;

/** Bubblewrap answers 128 + n when a signal ended what ran inside. */
const signalOf = (code: number | null): string | null =>
  Object.entries(constants.signals).find(([, number]) => code === 128 + number)?.[0] ?? null;

const PIPES = ['pipe', 'pipe', 'pipe', 'pipe', 'pipe'] as const;

function spawnIt(launch: Launch): Outcome<ChildProcess> {
  try {
    const child = spawn(launch.file, launch.args, {
      cwd: launch.cwd,
      env: launch.isSandboxed ? { PATH: SANDBOX_PATH } : { ...launch.env },
      stdio: [...PIPES, launch.isSandboxed ? 'pipe' : 'ignore', ...launch.fds],
      detached: true,
      windowsHide: true,
    });
    return ok(child);
  } catch (error) {
    // Some refusals of the system arrive as an event, others, like a command that is too long, here.
    launch.cleanUp?.();
    return fail('config_invalid', errnoOf(error));
  } finally {
    for (const fd of launch.fds) closeSync(fd);
  }
}

/** Reads what the set-up of a sandbox reports. The program has no such descriptor, so it cannot answer for it. */
function beganIn(status: Readable | null | undefined): Promise<boolean> {
  if (!status) return Promise.resolve(true);
  let text = '';
  status.setEncoding('utf8').on('data', (chunk: string) => {
    text += chunk;
  });
  return new Promise((resolve) => status.once('close', () => resolve(text.includes(BEGUN))));
}

/** Starts a child in a group of its own. Errors of pipes are expected: a child may close early. */
export function start(launch: Launch): Outcome<StartedProcess> {
  const spawned = spawnIt(launch);
  if (!spawned.ok) return spawned;
  const child = spawned.output;
  const { pid } = child;
  const overrun =
    pid !== undefined && launch.bounds
      ? watchBounds(
          launch.bounds,
          () => descendants(pid),
          () => killTree(pid),
        )
      : () => undefined;
  const exit = new Promise<Pick<Ended, 'exitCode' | 'signal' | 'errno'>>((resolve) => {
    child.once('exit', (exitCode, signal) => resolve({ exitCode, signal }));
    child.once('error', (error: NodeJS.ErrnoException) => {
      if (child.pid === undefined) {
        resolve({ exitCode: null, signal: null, errno: error.code ?? error.message });
      }
    });
  });
  for (const stream of child.stdio) stream?.on('error', () => undefined);
  const options = child.stdio[ARGUMENTS_FD] as Writable;
  options.end(launch.options ?? '');
  const begun = beganIn(child.stdio.at(STATUS_FD) as Readable | null | undefined);
  return ok({ child, channel: child.stdio[CHANNEL_FD] as Readable, exit, begun, overrun });
}

/** TERM, then KILL when the grace is over. The returned function calls the second step off. */
export function stop(child: ChildProcess, isSandboxed: boolean, graceMs: number): () => void {
  const { pid } = child;
  if (pid === undefined) return () => undefined;
  terminate(pid, isSandboxed);
  const timer = setTimeout(() => killTree(pid), graceMs);
  return () => clearTimeout(timer);
}

/** Watches the clock and the caller; tells why it stopped the child, if it did. */
function supervise(child: ChildProcess, launch: Launch, options: RunOptions) {
  let reason: 'timeout' | 'cancelled' | undefined;
  let callOff = (): void => undefined;
  const end = (why: 'timeout' | 'cancelled') => {
    if (reason) return;
    reason = why;
    callOff = stop(child, launch.isSandboxed, options.graceMs ?? GRACE_MS);
  };
  const onAbort = () => end('cancelled');
  const timer = setTimeout(() => end('timeout'), Math.min(options.timeoutMs, MAX_TIMER));
  options.signal.addEventListener('abort', onAbort, { once: true });
  if (options.signal.aborted) onAbort();
  return {
    reason: () => reason,
    done() {
      clearTimeout(timer);
      callOff();
      options.signal.removeEventListener('abort', onAbort);
    },
  };
}

/** What was left behind must not keep our pipes open for ever. */
async function drained<T>(child: ChildProcess, reading: Promise<T>): Promise<T> {
  const timer = setTimeout(() => {
    for (const stream of child.stdio) stream?.destroy();
  }, DRAIN_MS);
  try {
    return await reading;
  } finally {
    clearTimeout(timer);
    for (const stream of child.stdio) stream?.destroy();
  }
}

const NOTHING_MADE: SetAside = { paths: [], folder: '' };
const NOTHING: Captured = { text: '', bytes: 0, truncated: false, lost: 0 };

/** Runs a child to its end. Never throws, never leaves one behind. */
export async function runProcess(launch: Launch, options: RunOptions): Promise<Ended> {
  const startedAt = options.clock.monotonic();
  const started = start(launch);
  if (!started.ok) {
    return {
      reason: 'not_started',
      exitCode: null,
      signal: null,
      errno: started.error.detail.message,
      durationMs: 0,
      stdout: NOTHING,
      stderr: NOTHING,
      channel: NOTHING,
      hasBegun: false,
      setAside: NOTHING_MADE,
    };
  }
  const { child, channel, exit, overrun, begun } = started.output;
  const watch = supervise(child, launch, options);
  const reading = Promise.all([
    capture(child.stdout as Readable, options.stdout ?? SHORT),
    capture(child.stderr as Readable, options.stderr ?? SHORT),
    capture(channel, options.channel ?? SHORT),
    begun,
  ]);
  child.stdin?.end(options.stdin ?? '');
  const ended = await exit;
  watch.done();
  if (child.pid !== undefined) killTree(child.pid);
  const [stdout, stderr, fromChannel, isSetUp] = await drained(child, reading);
  const setAside = launch.cleanUp?.() ?? NOTHING_MADE;
  const inner = launch.isSandboxed ? signalOf(ended.exitCode) : null;
  const signal = ended.signal ?? inner;
  const stoppedFor = overrun();
  const plain = ended.errno !== undefined ? 'not_started' : signal === null ? 'exit' : 'signal';
  return {
    ...ended,
    signal,
    reason: watch.reason() ?? (stoppedFor ? 'overrun' : plain),
    ...(stoppedFor && { overrun: stoppedFor }),
    durationMs: Math.round(options.clock.monotonic() - startedAt),
    stdout,
    stderr,
    channel: fromChannel,
    hasBegun: ended.errno === undefined && isSetUp,
    setAside,
  };
}
