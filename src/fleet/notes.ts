// What workers note in the journals of threads, as changes of status that change nothing.
//
// A thread that takes down whoever works on it would go through all workers of a fleet, one after the
// other, for ever. Its journal tells: a process that was lost at work leaves `interrupted`, written by
// whoever found out; one that was lost before it had begun leaves nothing, so a worker that takes up such
// a thread notes that first. INVARIANT: only what ended without any progress is counted, and what was
// handed back in good order is not.
import { isObject, type Outcome, ok, plainText } from '../base/index.ts';
import type { Held, Store, StoredEvent } from '../store/index.ts';

/** So often a thread may take down its process and has got no further. */
export const MAX_CRASHES = 5;

const LOST = 'its process is gone';
const TAKEN = 'taken up again by a worker';
const RETURNED = 'handed back by a worker';
const PLACED = 'begun by a worker, where its files are';

/** What a run leaves when it gets further; the rest says that it began. */
const PROGRESS: ReadonlySet<string> = new Set([
  'assistant_message',
  'tool_result',
  'child_end',
  'hook',
  'injected_message',
  'retry',
  'snapshot',
  'logged',
  'thread_end',
]);

/** From the end of a journal; more than any row of crashes that is still to be counted. */
const TAIL = 100;

const stepOf = ({
  type,
  data,
}: StoredEvent): 'lost' | 'taken' | 'begun' | 'further' | undefined => {
  if (PROGRESS.has(type)) return 'further';
  if (type !== 'status') return undefined;
  if (data.reason === LOST) return 'lost';
  if (data.reason === TAKEN) return 'taken';
  const isReturned = plainText(data.reason).startsWith(RETURNED);
  return isReturned || data.status === 'running' ? 'begun' : undefined;
};

/** How often a process was lost on this thread since it last got further. */
function crashesIn(events: readonly StoredEvent[]): number {
  let [crashes, isTaken] = [0, false];
  for (const event of events) {
    const step = stepOf(event);
    if (step === 'taken' && isTaken) crashes += 1;
    if (step === 'lost') crashes += 1;
    if (step === 'further') crashes = 0;
    if (step !== undefined) isTaken = step === 'taken';
  }
  return isTaken ? crashes + 1 : crashes;
}

async function note(
  store: Store,
  held: Held,
  worker: string,
  reason: string,
): Promise<Outcome<Held>> {
  const { thread, epoch, row } = held;
  const data = { status: row.status, by: worker, reason };
  const expect = { seq: row.seq, epoch };
  const done = await store.commit(thread, { expect, events: [{ type: 'status', data }] });
  return done.ok ? ok({ ...held, row: { ...row, seq: done.output.seq } }) : done;
}

interface Looked {
  held: Held;
  crashes: number;
  /** It was noted that it is taken up: so is that it is handed back. */
  isNoted: boolean;
}

/** Looks at what may have taken down a process before; of all others nothing is read. */
export async function lookForCrashes(
  store: Store,
  held: Held,
  worker: string,
): Promise<Outcome<Looked>> {
  const { thread, epoch, row } = held;
  if (row.status !== 'interrupted' && epoch <= MAX_CRASHES) {
    return ok({ held, crashes: 0, isNoted: false });
  }
  const tail = await store.read(thread, { last: TAIL });
  if (!tail.ok) return tail;
  const crashes = crashesIn(tail.output);
  if (crashes >= MAX_CRASHES) return ok({ held, crashes, isNoted: false });
  // Each run that began has left a `signal`: what was claimed more often than that did not begin.
  const begun = crashes > 0 ? undefined : await store.countEvents([thread], 'signal');
  if (begun && !begun.ok) return begun;
  if (begun && epoch <= begun.output + MAX_CRASHES) return ok({ held, crashes, isNoted: false });
  const noted = await note(store, held, worker, TAKEN);
  return noted.ok ? ok({ held: noted.output, crashes, isNoted: true }) : noted;
}

/** Where files differ: who began it, for whoever takes it later. */
export const notePlace = (store: Store, held: Held, worker: string): Promise<Outcome<Held>> =>
  note(store, held, worker, PLACED);

/** Whoever had it last, as its journal says: that noted its place, or went on with it. */
export async function lastPlace(store: Store, thread: string): Promise<string | undefined> {
  const told = await store.read(thread, { types: ['signal', 'status'] });
  if (!told.ok) return undefined;
  const named = told.output.findLast(
    ({ type, data }) => data.reason === PLACED || (type === 'signal' && data.kind === 'resume'),
  );
  const name = named?.data.process ?? named?.data.by;
  return typeof name === 'string' ? name : undefined;
}

/** It did not begin here, in good order; whoever looks at the thread sees why. */
export const noteReturned = (
  store: Store,
  held: Held,
  worker: string,
  why: string,
): Promise<Outcome<Held>> => {
  const [name] = worker.split('@');
  return note(store, held, worker, `${RETURNED} (${name}): ${why}`);
};

/** For people: what the thread did when it was lost. */
export function lastDeed(events: readonly StoredEvent[]): string {
  const last = events.findLast(({ type }) => type === 'tool_call' || type === 'turn_start');
  if (last === undefined) return 'before its first turn';
  const tool = isObject(last.data) ? last.data.tool : undefined;
  return last.type === 'tool_call' && typeof tool === 'string'
    ? `in a call of \`${tool}\``
    : `in turn ${last.turn}`;
}
