// The way between a store in memory and its data: answers come after some turns of the loop, threads
// overtake each other (calls about one thread keep their order), and it breaks when it is told to.
// A call whose answer is lost is looked into before it is made again, as over a real wire.
import {
  type Clock,
  type Failure,
  fail,
  type Outcome,
  type RandomBytes,
} from '@kernmantle/core/base';
import type { Answer } from '../../../packages/core/src/store/port.ts';
import { RefusedCommit, type World } from './world.ts';

export interface Call<T> {
  work: () => T;
  /** Calls of one lane are made in order. */
  lane?: string;
  /** The answer, if this was written before. Without it, making it again does no harm. */
  written?: () => T | undefined;
}

/** What goes wrong, on request. */
export interface WireFaults {
  /** The next call: is made and its answer lost, or is lost itself, or is made and then all is cut. */
  lose(what: 'answer' | 'request' | 'all'): void;
  cut(isCut: boolean): void;
  busy(isBusy: boolean): void;
  /** Between a loss and the look whether it was written. */
  meanwhile(step: () => Promise<void> | void): void;
}

export interface LateWire extends WireFaults {
  call<T>(call: Call<T>): Answer<T>;
  /** Refuses what is new, answers what was asked for. */
  close(): Promise<void>;
}

export interface WireOptions {
  /** At most so many turns of the loop on each way; 0: none. */
  maxTurns: number;
  patienceMs: number;
  clock: Clock;
  random: RandomBytes;
}

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** A small seeded source: the same seed gives the same delays. */
export function seededRandom(seed: number): RandomBytes {
  let state = seed >>> 0 || 1;
  return (count) =>
    Uint8Array.from({ length: count }, () => {
      state ^= state << 13;
      state ^= state >>> 17;
      state ^= state << 5;
      return state & 0xff;
    });
}

export const CLOSED: Failure = fail('store_closed', 'the store was closed');

export function createWire(world: World, options: WireOptions): LateWire {
  const { maxTurns, patienceMs, clock, random } = options;
  const lanes = new Map<string, Promise<unknown>>();
  const unanswered = new Set<Promise<unknown>>();
  let next: 'answer' | 'request' | 'all' | undefined;
  let [isCut, isBusy, isClosed] = [false, false, false];
  let meanwhile: () => Promise<void> | void = () => {};

  async function wait(): Promise<void> {
    const turns = maxTurns === 0 ? 0 : (random(1)[0] ?? 0) % (maxTurns + 1);
    for (let count = 0; count < turns; count++) await turn();
  }

  function run<T>(work: () => T): Outcome<T> {
    try {
      return world.transact(() => ({ ok: true, output: work() }));
    } catch (error) {
      if (error instanceof RefusedCommit) return error.failure;
      return fail('store_failed', `the store failed: ${(error as Error).message}`);
    }
  }

  /** Waits until the data can be reached; false when the patience is over. */
  async function reached(deadline: number): Promise<boolean> {
    for (const isBlocked = (): boolean => isCut || isBusy; isBlocked(); ) {
      if (clock.monotonic() >= deadline) return false;
      await turn();
    }
    return true;
  }

  async function send<T>({ work, written }: Call<T>): Answer<T> {
    let isInDoubt = false;
    for (;;) {
      const deadline = clock.monotonic() + patienceMs;
      if (!(await reached(deadline))) {
        return isInDoubt
          ? fail('store_unknown', 'nobody knows whether this was written')
          : fail('store_busy', 'the store is in use by others; try again');
      }
      const before = isInDoubt ? written?.() : undefined;
      if (before !== undefined) return { ok: true, output: before };
      const fault = next;
      next = undefined;
      const outcome = fault === 'request' ? undefined : run(work);
      if (fault === undefined && outcome) return outcome;
      isInDoubt = true;
      if (fault === 'all') isCut = true;
      await meanwhile();
    }
  }

  async function there<T>(call: Call<T>, before: Promise<unknown> | undefined): Answer<T> {
    await before;
    await wait();
    const outcome = await send(call);
    await wait();
    return outcome;
  }

  return {
    call<T>(call: Call<T>): Answer<T> {
      if (isClosed) return Promise.resolve(CLOSED);
      const { lane } = call;
      const answer = there(call, lane === undefined ? undefined : lanes.get(lane));
      unanswered.add(answer);
      if (lane !== undefined) lanes.set(lane, answer);
      void answer.then(() => {
        unanswered.delete(answer);
        if (lane !== undefined && lanes.get(lane) === answer) lanes.delete(lane);
      });
      return answer;
    },
    async close() {
      isClosed = true;
      await Promise.all(unanswered);
    },
    lose: (what) => void (next = what),
    cut: (on) => void (isCut = on),
    busy: (on) => void (isBusy = on),
    meanwhile: (step) => void (meanwhile = step),
  };
}
