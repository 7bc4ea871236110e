// Starts a program once, which is then used for a long time over its pipes. Its rights are granted to the
// program and not to its callers, without rights that policies deny and without closed paths. INVARIANT:
// when `closed` settles, no process of it is ever still running, and files that it must not leave in the
// project are moved out.
import { closeSync } from 'node:fs';
import type { Socket } from 'node:net';
import type { Readable, Writable } from 'node:stream';
import { type Outcome, ok } from '../../base/index.ts';
import type { PrimitiveCall, Verifier } from '../primitive.ts';
import type { SandboxMode } from '../sandbox/decide.ts';
import type { SetAside } from '../sandbox/project.ts';
import { readProcessConfig } from './config.ts';
import type { ProcessPorts } from './environment.ts';
import { type ProcessGrants, verifierOfGrants } from './grants.ts';
import { prepareLaunch } from './launch.ts';
import { killTree, type Launch, type StartedProcess, start, stop } from './run.ts';

export interface ResidentProcessStart {
  readonly id: string;
  readonly command: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly grants: ProcessGrants;
  /** Judges all grants. Refuses rights that policies deny, and closed paths. */
  readonly verify: Verifier;
  readonly projectRoot: string;
  /** Called when the start is allowed and before the program runs. A fault prevents the start. */
  beforeStart?(facts: Pick<ResidentProcess, 'mode' | 'verify'>): Promise<Outcome<null>>;
}

export interface ResidentProcess {
  readonly stdin: Writable;
  readonly stdout: Readable;
  readonly pid: number;
  readonly mode: SandboxMode;
  readonly verify: Verifier;
  /** Returns the end of the text that the program wrote to stderr. */
  said(): string;
  /** Sets whether the process keeps this program from ending, which it does while a caller waits for it. */
  hold(isHeld: boolean): void;
  /** Settles with the way in which the program ended, after the clean-up. */
  readonly closed: Promise<ResidentProcessEnd>;
  /** Ends the input, then sends TERM, then KILL, each with its grace time. May be called many times. */
  close(): Promise<ResidentProcessEnd>;
}

interface ResidentProcessEnd {
  /** Text such as `exited with code 1`. */
  readonly how: string;
  /** True if it ended by itself. */
  readonly isOwn: boolean;
  readonly quarantined: SetAside;
}

const MAX_ERROR_TEXT = 8 * 1024;
/** Grace time for a process to end by itself after its input has ended. */
const PATIENCE_MS = 1000;
const GRACE_MS = 2000;
const DRAIN_MS = 1000;
const NO_FILES: SetAside = { paths: [], folder: '' };

/** Process ids of running programs. They are killed if this program ends without closing them. */
const running = new Set<number>();
const killAll = (): void => running.forEach(killTree);

function register(pid: number): () => void {
  if (running.size === 0) process.on('exit', killAll);
  running.add(pid);
  return () => {
    running.delete(pid);
    if (running.size === 0) process.off('exit', killAll);
  };
}

const howItEnded = ({ exitCode, signal, errno }: Awaited<StartedProcess['exit']>): string => {
  if (errno !== undefined) return `could not be started: ${errno}`;
  return signal === null ? `exited with code ${exitCode}` : `was ended by ${signal}`;
};

const TOO = { processes: 'many processes', memory: 'much memory' } as const;

/** Waits for the end, however it comes, and cleans up. */
async function tidied(
  { child, exit, overrun }: StartedProcess,
  launch: Launch,
  isEnding: () => boolean,
): Promise<ResidentProcessEnd> {
  const { pid } = child;
  const unregister = pid === undefined ? () => undefined : register(pid);
  const drained = new Promise<void>((resolve) => child.once('close', () => resolve()));
  const ended = await exit;
  const isOwn = !isEnding();
  if (pid !== undefined) killTree(pid);
  unregister();
  const stoppedFor = overrun();
  // The last output may not have arrived yet.
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, DRAIN_MS);
  });
  await Promise.race([drained, late]);
  clearTimeout(timer);
  for (const stream of child.stdio) stream?.destroy();
  return {
    how: stoppedFor ? `was ended: it used too ${TOO[stoppedFor]}` : howItEnded(ended),
    isOwn,
    quarantined: launch.cleanUp?.() ?? NO_FILES,
  };
}

function keptProcess(
  started: StartedProcess,
  launch: Launch,
  { mode, verify }: Pick<ResidentProcess, 'mode' | 'verify'>,
): ResidentProcess {
  const { child, channel } = started;
  let errorText = '';
  child.stderr?.on('data', (chunk: Buffer) => {
    errorText = (errorText + chunk.toString('utf8')).slice(-MAX_ERROR_TEXT);
  });
  channel.resume();
  let ending: Promise<ResidentProcessEnd> | undefined;
  const closed = tidied(started, launch, () => ending !== undefined);
  async function end(): Promise<ResidentProcessEnd> {
    let callOff = (): void => undefined;
    const timer = setTimeout(() => {
      callOff = stop(child, launch.isSandboxed, GRACE_MS);
    }, PATIENCE_MS);
    child.ref();
    child.stdin?.end();
    const how = await closed;
    clearTimeout(timer);
    callOff();
    return how;
  }
  return {
    stdin: child.stdin as Writable,
    stdout: child.stdout as Readable,
    pid: child.pid ?? 0,
    mode,
    verify,
    said: () => errorText,
    hold(isHeld) {
      const pipes = child.stdio.filter((pipe) => pipe?.destroyed === false) as Socket[];
      for (const handle of [child, ...pipes]) {
        if (isHeld) handle.ref();
        else handle.unref();
      }
    },
    closed,
    close: () => (ending ??= end()),
  };
}

/** Starts a program. Every right is checked first, and a refusal starts and creates nothing. */
export async function startResidentProcess(
  { id, command, args, env, grants, verify, projectRoot, beforeStart }: ResidentProcessStart,
  ports: ProcessPorts,
): Promise<Outcome<ResidentProcess>> {
  const config = readProcessConfig({ command, args: [...args], env: { ...env } }, {});
  if (!config.ok) return config;
  const tool: PrimitiveCall['tool'] = {
    id,
    dir: projectRoot,
    source: 'project',
    requires: grants.network ? ['net.http'] : [],
    effect: grants.write.length > 0 ? 'write' : 'read',
    sandbox: 'workspace',
    env: [],
  };
  const rights = verifierOfGrants(grants, verify);
  const prepared = prepareLaunch({ tool, verify: rights, projectRoot }, config.output, ports);
  if (!prepared.ok) return prepared;
  const { launch, mode } = prepared.output;
  const facts = { mode, verify: rights };
  const ready = (await beforeStart?.(facts)) ?? ok(null);
  if (!ready.ok) {
    for (const fd of launch.fds) closeSync(fd);
    launch.cleanUp?.();
    return ready;
  }
  const started = start(launch);
  return started.ok ? ok(keptProcess(started.output, launch, facts)) : started;
}
