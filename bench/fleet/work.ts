// Implements the work of a thread of the benchmark: steps of two commits, one that reserves the worst case and one that
// settles it, around a model call that takes 5 ms without CPU. If its inputs say so, the thread parks once until a
// signal, or gets a signal after every few steps.
import { setTimeout as sleep } from 'node:timers/promises';
import { getOwn, type JsonObject } from '@kernmantle/core/base';
import type { Commit, NewThread, Store } from '../../packages/core/src/store/port.ts';
import { type Grip, must } from './holder.ts';

export const PROJECT = 'prj_bench';
export const MODEL_MS = 5;
/** Text about as long as the preview of a real event. */
const PREVIEW = 'the quick brown fox '.repeat(8);

/** Returns microseconds of a clock that all processes of a machine share. */
export const nowMicros = (): number => Number(process.hrtime.bigint() / 1000n);

export interface BenchInputs {
  steps: number;
  /** Number of steps after which the thread parks. Absent: it does not park. */
  park?: number;
  /** Number of steps between two signals. Absent: no signals. */
  signal?: number;
}

export const benchThread = (id: string, inputs: BenchInputs, project = PROJECT): NewThread => ({
  id,
  directive: 'bench',
  version: '1.0.0',
  runner: 'safety',
  project,
  items: 'sha256:bench',
  limits: {},
  inputs: { ...inputs },
  budget: { tokens: 10n ** 12n, spend: 10n ** 15n },
  events: [{ type: 'thread_start', data: { preview: PREVIEW } }],
  start: { queue: {} },
});

const figure = (row: JsonObject, name: string): number => Number(getOwn(row, name) ?? 0);

async function step(
  { held, commit }: Grip,
  turn: number,
  modelMs: number,
  more: Pick<Commit, 'acknowledged' | 'status'>,
): Promise<void> {
  // A thread that was interrupted has an open reservation of its earlier epoch.
  const key = `${held.thread}-${held.epoch}-${turn}`;
  must(
    await commit({
      events: [{ type: 'turn_start', turn, data: { at: nowMicros(), preview: PREVIEW } }],
      reserve: [{ key, amounts: { tokens: 1000n, spend: 5000n } }],
      ...more,
    }),
  );
  if (modelMs > 0) await sleep(modelMs);
  const data = { at: nowMicros(), preview: PREVIEW };
  must(
    await commit({
      events: [
        { type: 'assistant_message', turn, data },
        { type: 'turn_end', turn, data },
      ],
      settle: [{ key, actual: { tokens: 700n, spend: 3000n } }],
      cost: { turns: turn },
    }),
  );
}

/** Performs the work of a taken thread. Calls `onStep` after each step. */
export async function workOn(
  store: Store,
  grip: Grip,
  { modelMs = MODEL_MS, onStep = () => undefined }: { modelMs?: number; onStep?(): void } = {},
): Promise<void> {
  const { held } = grip;
  const { inputs, cost } = held.row;
  const asked = inputs as unknown as BenchInputs;
  let turn = figure(cost, 'turns');
  if (turn > 0) {
    const said = must(await store.signals(held.thread, held.acknowledged));
    const last = said.at(-1);
    const data = { at: nowMicros(), preview: '' };
    if (last)
      must(await grip.commit({ events: [{ type: 'signal', data }], acknowledged: last.number }));
  }
  let more: Pick<Commit, 'acknowledged' | 'status'> = { status: 'running' };
  while (turn < asked.steps) {
    turn += 1;
    await step(grip, turn, modelMs, more);
    more = {};
    onStep();
    if (asked.signal !== undefined && turn % asked.signal === 0) {
      const signal = { thread: held.thread, kind: 'message', payload: {}, by: 'bench' };
      more = { acknowledged: must(await store.signal({ ...signal, key: `k${turn}` })).number };
    }
    if (turn === asked.park) {
      const parked = await grip.commit(
        {
          events: [{ type: 'status', data: { status: 'waiting' } }],
          status: 'waiting',
          release: true,
        },
        { quiet: true },
      );
      if (parked.ok) return;
      const said = must(await store.signals(held.thread, held.acknowledged));
      const last = said.at(-1);
      const data = { at: nowMicros(), preview: '' };
      if (last)
        must(await grip.commit({ events: [{ type: 'signal', data }], acknowledged: last.number }));
    }
  }
  must(
    await grip.commit({
      events: [{ type: 'thread_end', data: { preview: PREVIEW } }],
      ...more,
      status: 'completed',
      result: { steps: turn },
      release: true,
    }),
  );
}
