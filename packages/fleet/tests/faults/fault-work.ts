// What a thread of the fault suite does, and where its traces are: an effect that is counted outside of
// the store, in a file that only grows and is written through to the disk; every take and every answer
// beside it. All times are of the machine's one clock that never jumps.
import { fsyncSync, openSync, readFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Outcome } from '@kernmantle/core/base';
import { type Grip, must } from '../../../../bench/fleet/holder.ts';
import { nowMicros } from '../../../../bench/fleet/work.ts';
import type {
  Commit,
  Committed,
  NewThread,
  Store,
  StoredEvent,
} from '../../../core/src/store/port.ts';

export const PROJECT = 'prj_faults';

interface FaultInputs {
  steps: number;
  pauseMs: number;
}

export const faultThread = (id: string, inputs: FaultInputs): NewThread => ({
  id,
  directive: 'faults',
  version: '1.0.0',
  runner: 'safety',
  project: PROJECT,
  items: 'sha256:faults',
  limits: {},
  inputs: { ...inputs },
  budget: { tokens: 10n ** 12n },
  events: [],
  start: { queue: {} },
});

/** One line of what happened: `what thread number epoch micros`. */
export interface Trace {
  what: string;
  thread: string;
  /** Of the step, or of signals. */
  number: number;
  epoch: number;
  micros: number;
  owner: string;
}

export interface Tracer {
  note(what: string, thread: string, number: number, epoch: number, micros?: number): void;
  /** Written through to the disk. */
  effect(thread: string, step: number, epoch: number): void;
}

/** One file for all processes: a line is added whole. */
export function openTraces(folder: string, owner: string): Tracer {
  const traces = openSync(join(folder, 'traces.log'), 'a');
  const effects = openSync(join(folder, 'effects.log'), 'a');
  return {
    note(what, thread, number, epoch, micros = nowMicros()) {
      writeSync(traces, `${what} ${thread} ${number} ${epoch} ${micros} ${owner}\n`);
    },
    effect(thread, step, epoch) {
      writeSync(effects, `effect ${thread} ${step} ${epoch} ${nowMicros()} ${owner}\n`);
      fsyncSync(effects);
    },
  };
}

export function readTraces(folder: string, file: 'traces' | 'effects'): Trace[] {
  let text = '';
  try {
    text = readFileSync(join(folder, `${file}.log`), 'utf8');
  } catch {
    return [];
  }
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => {
      const [what = '', thread = '', number, epoch, micros, owner = ''] = line.split(' ');
      return {
        what,
        thread,
        number: Number(number),
        epoch: Number(epoch),
        micros: Number(micros),
        owner,
      };
    });
}

/** Nothing was written: the same again, while there is time. */
const AGAIN = new Set(['store_busy', 'store_failed', 'disk_full']);

async function persist(
  grip: Grip,
  change: Omit<Commit, 'expect'>,
  isAllowed: () => boolean,
): Promise<Outcome<Committed>> {
  for (;;) {
    const done = await grip.commit(change);
    if (done.ok || !AGAIN.has(done.error.code) || !isAllowed()) return done;
    await sleep(20);
  }
}

export const stepOf = ({ data }: StoredEvent): number => Number(data['step'] ?? 0);

/** Where it stands: the last step with an end, and one that was begun and has none. */
export function standing(events: readonly StoredEvent[]): { done: number; open?: number } {
  const ended = events.filter(({ type }) => type === 'tool_result').map(stepOf);
  const begun = events.filter(({ type }) => type === 'tool_call').map(stepOf);
  const done = Math.max(0, ...ended);
  const open = begun.find((step) => !ended.includes(step));
  return open === undefined ? { done } : { done, open };
}

/** `fenced`: false, when a run is to show that the suite would notice: the deadline is not looked at either. */
export async function faultWork(
  store: Store,
  grip: Grip,
  tracer: Tracer,
  fenced: boolean,
): Promise<void> {
  const { thread, epoch, row, open: reserved } = grip.held;
  const { steps, pauseMs } = row.inputs as unknown as FaultInputs;
  const isAllowed = (): boolean => !fenced || grip.isHeld();
  const pause = (): Promise<unknown> => sleep(Math.random() * pauseMs);
  tracer.note('take', thread, row.seq, epoch);
  const read = await store.read(thread);
  if (!read.ok) return;
  let { done, open } = standing(read.output);
  if (open !== undefined || reserved.length > 0) {
    // It may have happened: a write is not repeated.
    const step = open ?? done;
    const data = { step, unknown: true };
    const type = open === undefined ? 'logged' : 'tool_result';
    const settle = reserved.map(({ key }) => ({ key, actual: {} }));
    const noted = await persist(grip, { events: [{ type, data }], settle }, isAllowed);
    if (!noted.ok) return;
    done = step;
    open = undefined;
  }
  while (done < steps) {
    const step = done + 1;
    const key = `${thread}-${step}`;
    const intent = await persist(
      grip,
      {
        events: [{ type: 'tool_call', turn: step, data: { step } }],
        status: 'running',
        reserve: [{ key, amounts: { tokens: 100n } }],
      },
      isAllowed,
    );
    if (!intent.ok) return;
    await pause();
    if (!isAllowed()) return;
    tracer.effect(thread, step, epoch);
    await pause();
    const result = await persist(
      grip,
      {
        events: [{ type: 'tool_result', turn: step, data: { step } }],
        settle: [{ key, actual: { tokens: 70n } }],
        cost: { turns: step },
      },
      isAllowed,
    );
    if (!result.ok) return;
    tracer.note('done', thread, step, epoch);
    done = step;
  }
  const before = nowMicros();
  const ended = await persist(
    grip,
    { events: [{ type: 'thread_end', data: {} }], status: 'completed', release: true },
    isAllowed,
  );
  if (ended.ok) tracer.note('end', thread, done, epoch, before);
}

/** Parks until it has heard all signals it was promised; a timer is pending every other time. */
export async function crossingWork(store: Store, grip: Grip, tracer: Tracer): Promise<void> {
  const { thread, epoch, row } = grip.held;
  const { signals: promised } = row.inputs as unknown as { signals: number };
  let { acknowledged: heard } = grip.held;
  tracer.note('begin', thread, heard, epoch);
  for (let round = 0; ; round += 1) {
    const said = must(await store.signals(thread, heard));
    if (said.length > 0) {
      heard = said.at(-1)?.number ?? heard;
      const data = { numbers: said.map(({ number }) => number) };
      must(await grip.commit({ events: [{ type: 'signal', data }], acknowledged: heard }));
    }
    const isOver = heard >= promised;
    await sleep(Math.random() * 3);
    const before = nowMicros();
    const wake = Date.now() + (round + heard) * 7;
    const release = isOver || (round + heard) % 2 === 0 ? true : { wake };
    const done = await grip.commit(
      {
        events: [{ type: isOver ? 'thread_end' : 'logged', data: {} }],
        status: isOver ? 'completed' : 'waiting',
        release,
      },
      { quiet: true },
    );
    if (done.ok) {
      tracer.note('rest', thread, heard, epoch, before);
      return;
    }
    if (done.error.code !== 'signalled') {
      throw new Error(`${thread}: ${done.error.code}: ${done.error.detail.message}`);
    }
    tracer.note('crossed', thread, heard, epoch);
  }
}

export const crossingThread = (id: string, signals: number): NewThread => ({
  ...faultThread(id, { steps: 0, pauseMs: 0 }),
  directive: 'crossings',
  inputs: { signals },
});
