// Runs one child process from start to end. It ends in exactly one of six ways: it could not start, it
// exited, a signal ended it, its time ran out, it exceeded a bound, or its caller stopped it. In each
// case no process of it is running when the promise settles.
import type { ChildProcess } from 'node:child_process';
import { closeSync, readFileSync } from 'node:fs';
import { constants } from 'node:os';
import type { Readable, Writable } from 'node:stream';
import { type Clock, errnoOf, fail, type Outcome, ok, spawn } from '../../base/index.ts';
import { ARGUMENTS_FD, BEGUN, CHANNEL_FD, SANDBOX_PATH, STATUS_FD } from '../sandbox/plan.ts';
import type { SetAside } from '../sandbox/project.ts';
import { type Overrun, type ProcessBounds, watchBounds } from './bounds.ts';
import { type Captured, type CaptureOptions, capture } from './output.ts';

/** Returns the children of a process, also those that left its process group. */
const childrenOf = (pid: number): number[] => {
  try {
    const text = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8');
    return text.split(' ').filter(Boolean).map(Number);
  } catch {
    return []; // the process has ended, or the system has no /proc
  }
};

/** Returns every living descendant, parents before children. */
function descendants(pid: number): number[] {
  const all: number[] = [];
  for (let level = [pid]; level.length > 0; ) {
    level = level.flatMap(childrenOf);
    all.push(...level);
  }
  return all;
}

/** Returns false if the process does not exist. */
function send(pid: number, signal: NodeJS.Signals): boolean {
  try {
    return process.kill(pid, signal);
  } catch {
    return false;
  }
}

/**
 * Sends TERM. In a sandbox only the processes inside get it: a signal to the set-up would end the
 * namespace at once and leave no time to clean up.
 */
function terminate(pid: number, isSandboxed: boolean): void {
  const inside = isSandboxed ? childrenOf(pid).flatMap(descendants) : descendants(pid);
  const signalled = inside.map((child) => send(child, 'SIGTERM'));
  if (!isSandboxed || !signalled.includes(true)) send(-pid, 'SIGTERM');
}

/** Kills the group and every descendant, also those in groups of their own. */
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
  /** Text for descriptor 3. Only a sandbox reads it. */
  options?: string;
  /** Descriptors for the child, from 6 on. They are closed here after the start. */
  fds: readonly number[];
  bounds?: ProcessBounds;
  /** True in namespaces: a signal is reported as an exit code, and TERM goes to the processes inside. */
  isSandboxed: boolean;
  /** Removes what was created for this child. Returns the files that it must not leave behind. */
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
  /** Bounds of the text that is captured from descriptor 4. Absent: `SHORT`. */
  channel?: CaptureOptions;
}

const SHORT: CaptureOptions = { maxBytes: 64 * 1024, secrets: [] };
const GRACE_MS = 2000;

export interface Ended {
  reason: 'exit' | 'signal' | 'timeout' | 'cancelled' | 'overrun' | 'not_started';
  exitCode: number | null;
  signal: string | null;
  /** The system's error code. Present only for `not_started`. */
  errno?: string;
  /** The exceeded bound, if the reason is `overrun`. */
  overrun?: Overrun;
  durationMs: number;
  stdout: Captured;
  stderr: Captured;
  channel: Captured;
  /**
   * True if the program itself started. False: only the set-up of its sandbox ran, and stderr contains
   * its messages.
   */
  hasBegun: boolean;
  /** Files that the child created and that were moved out of the project. */
  quarantine: SetAside;
}

export interface StartedProcess {
  child: ChildProcess;
  channel: Readable;
  exit: Promise<Pick<Ended, 'exitCode' | 'signal' | 'errno'>>;
  /** True if the set-up succeeded and the program replaced it. Settles at the end at the latest. */
  begun: Promise<boolean>;
  /** Returns the exceeded bound after the end, if the child was killed for it. */
  overrun(): Overrun | undefined;
}

const DRAIN_MS = 2000;
const MAX_TIMER = 2 ** 31 - 1;

/** Bubblewrap exits with 128 + n if a signal ended the program inside. */
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
    // The system reports some failures as an event, others, such as a too long command, here.
    launch.cleanUp?.();
    return fail('config_invalid', errnoOf(error));
  } finally {
    for (const fd of launch.fds) closeSync(fd);
  }
}

/**
 * Reads the report of a sandbox's set-up. The program does not have this descriptor, so it cannot forge
 * the report.
 */
function programStarted(status: Readable | null | undefined): Promise<boolean> {
  if (!status) return Promise.resolve(true);
  let text = '';
  status.setEncoding('utf8').on('data', (chunk: string) => {
    text += chunk;
  });
  return new Promise((resolve) => status.once('close', () => resolve(text.includes(BEGUN))));
}

/** Starts a child in a group of its own. Errors of pipes are expected, because a child may close early. */
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
  const started = programStarted(child.stdio.at(STATUS_FD) as Readable | null | undefined);
  return ok({ child, channel: child.stdio[CHANNEL_FD] as Readable, exit, begun: started, overrun });
}

/** Sends TERM, and KILL after the grace time. The returned function cancels the second signal. */
export function stop(child: ChildProcess, isSandboxed: boolean, graceMs: number): () => void {
  const { pid } = child;
  if (pid === undefined) return () => undefined;
  terminate(pid, isSandboxed);
  const timer = setTimeout(() => killTree(pid), graceMs);
  return () => clearTimeout(timer);
}

/** Watches the time and the caller. `reason` returns why the child was stopped. Undefined: it was not. */
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

/** Waits for the output for a limited time, because a surviving descendant could keep the pipes open. */
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

const NO_FILES: SetAside = { paths: [], folder: '' };
const NOTHING: Captured = { text: '', bytes: 0, truncated: false, lost: 0 };

/** Runs a child to its end. Never throws, never leaves a process behind. */
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
      quarantine: NO_FILES,
    };
  }
  const { child, channel, exit, overrun, begun: isStarted } = started.output;
  const watch = supervise(child, launch, options);
  const reading = Promise.all([
    capture(child.stdout as Readable, options.stdout ?? SHORT),
    capture(child.stderr as Readable, options.stderr ?? SHORT),
    capture(channel, options.channel ?? SHORT),
    isStarted,
  ]);
  child.stdin?.end(options.stdin ?? '');
  const ended = await exit;
  watch.done();
  if (child.pid !== undefined) killTree(child.pid);
  const [stdout, stderr, fromChannel, isSetUp] = await drained(child, reading);
  const quarantined = launch.cleanUp?.() ?? NO_FILES;
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
    quarantine: quarantined,
  };
}
