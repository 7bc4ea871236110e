// Workers record `status` events with a `cause` in the journals of threads. The status stays the same.
//
// A thread that takes down its worker would go through all workers of a fleet, for ever. The journal
// shows it: a sweep records `interrupted` for a lease that was lost during the work. A worker that is lost
// before it has begun records nothing, so a worker that takes such a thread records that first.
// INVARIANT: a crash is counted only if its process is known to be gone and the thread made no progress. A
// lease that expired while its worker is alive, or that was released, is never counted.
import { isObject, type Outcome, ok, plainText } from '@kernmantle/core/base';
import { eventFlags } from '@kernmantle/core/journal';
import type { LeasedThread, Store, StoredEvent } from '@kernmantle/core/store';

/** So often a thread may take down its process and has got no further. */
export const MAX_CRASHES = 5;

/** From the end of a journal; more than any row of crashes that is still to be counted. */
const TAIL = 100;

const STEPS = ['process_lost', 'lease_expired', 'taken', 'returned'] as const;
type CrashStep = (typeof STEPS)[number] | 'begun' | 'further';

/** Effect of an event on the count of crashes; `undefined`: none. */
const stepOf = ({ type, data }: StoredEvent): CrashStep | undefined => {
  if (eventFlags(type).isProgress) return 'further';
  if (type !== 'status') return undefined;
  const cause = STEPS.find((one) => one === data.cause);
  return cause ?? (data.status === 'running' ? 'begun' : undefined);
};

/** The process that had the thread when the event was recorded. */
const ownerOf = ({ data }: StoredEvent): string => plainText(data.owner ?? data.by);

const isTaking = (event: StoredEvent): boolean => stepOf(event) === 'taken';
const isExpiry = (event: StoredEvent): boolean => stepOf(event) === 'lease_expired';

/** True if the process of the event is known to be gone since then. */
type WasLost = (event: StoredEvent) => boolean;

/**
 * Reads from the store which of the processes named in these events are gone. Without workers that
 * announce themselves only the sweep knows: a process that it found gone is gone, and one that took a
 * thread and left no trace is counted as gone too.
 */
async function readLost(store: Store, events: readonly StoredEvent[]): Promise<Outcome<WasLost>> {
  if (!store.fleet) return ok(isTaking);
  const owners = events.filter((one) => isTaking(one) || isExpiry(one)).map(ownerOf);
  if (owners.length === 0) return ok(() => false);
  const lost = await store.fleet.lost(owners);
  if (!lost.ok) return lost;
  const heard = new Map(lost.output.map((one) => [one.id, one.heard]));
  return ok((event) => (heard.get(ownerOf(event)) ?? Number.POSITIVE_INFINITY) <= event.ts);
}

/** Number of crashes since the last progress. */
function crashesIn(events: readonly StoredEvent[], isLost: WasLost): number {
  let crashes = 0;
  /** A worker took the thread and recorded nothing since. */
  let taken: StoredEvent | undefined;
  for (const event of events) {
    const step = stepOf(event);
    if (step === 'further') crashes = 0;
    if (step === 'process_lost' || (step === 'lease_expired' && isLost(event))) crashes += 1;
    else if (step === 'taken' && taken && isLost(taken)) crashes += 1;
    if (step !== undefined) taken = step === 'taken' ? event : undefined;
  }
  return taken && isLost(taken) ? crashes + 1 : crashes;
}

async function note(
  store: Store,
  held: LeasedThread,
  worker: string,
  cause: 'taken' | 'placed' | 'returned',
  reason: string,
): Promise<Outcome<LeasedThread>> {
  const { thread, epoch, row } = held;
  const data = { status: row.status, by: worker, cause, reason };
  const expect = { seq: row.seq, epoch };
  const done = await store.commit(thread, { expect, events: [{ type: 'status', data }] });
  return done.ok ? ok({ ...held, row: { ...row, seq: done.output.seq } }) : done;
}

interface LookedAt {
  held: LeasedThread;
  crashes: number;
  /** The journal records that a worker took the thread, so it must record the return as well. */
  isNoted: boolean;
}

/** Counts the crashes of a thread. It reads events only if the thread can have crashed a process. */
export async function countCrashes(
  store: Store,
  held: LeasedThread,
  worker: string,
): Promise<Outcome<LookedAt>> {
  const { thread, epoch, row } = held;
  if (row.status !== 'interrupted' && epoch <= MAX_CRASHES) {
    return ok({ held, crashes: 0, isNoted: false });
  }
  const tail = await store.read(thread, { last: TAIL });
  if (!tail.ok) return tail;
  const lost = await readLost(store, tail.output);
  if (!lost.ok) return lost;
  const crashes = crashesIn(tail.output, lost.output);
  if (crashes >= MAX_CRASHES) return ok({ held, crashes, isNoted: false });
  // Each run that began has left a `signal`: what was claimed more often than that did not begin.
  const begun = crashes > 0 ? undefined : await store.countEvents([thread], 'signal');
  if (begun && !begun.ok) return begun;
  if (begun && epoch <= begun.output + MAX_CRASHES) return ok({ held, crashes, isNoted: false });
  const noted = await note(store, held, worker, 'taken', 'taken up again by a worker');
  return noted.ok ? ok({ held: noted.output, crashes, isNoted: true }) : noted;
}

/** Records which worker began the thread, because files differ between workers. */
export const recordWorker = (
  store: Store,
  held: LeasedThread,
  worker: string,
): Promise<Outcome<LeasedThread>> =>
  note(store, held, worker, 'placed', 'begun by a worker, where its files are');

/** Returns the last worker of the thread according to its journal. */
export async function lastWorker(store: Store, thread: string): Promise<string | undefined> {
  const told = await store.read(thread, { types: ['signal', 'status'] });
  if (!told.ok) return undefined;
  const named = told.output.findLast(
    ({ type, data }) => data.cause === 'placed' || (type === 'signal' && data.kind === 'resume'),
  );
  const name = named?.data.process ?? named?.data.by;
  return typeof name === 'string' ? name : undefined;
}

/** Records why this worker returned the thread before its start. */
export const recordReturned = (
  store: Store,
  held: LeasedThread,
  worker: string,
  why: string,
): Promise<Outcome<LeasedThread>> => {
  const [name] = worker.split('@');
  return note(store, held, worker, 'returned', `handed back by a worker (${name}): ${why}`);
};

/** For people: what the thread did when it was lost. */
export function describeLastEffect(events: readonly StoredEvent[]): string {
  const last = events.findLast(({ type }) => type === 'tool_call' || type === 'turn_start');
  if (last === undefined) return 'before its first turn';
  const tool = isObject(last.data) ? last.data.tool : undefined;
  return last.type === 'tool_call' && typeof tool === 'string'
    ? `in a call of \`${tool}\``
    : `in turn ${last.turn}`;
}
