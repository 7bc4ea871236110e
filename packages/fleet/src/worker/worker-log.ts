// Workers record `status` events with a `cause` in the journals of threads. The status stays the same.
//
// A thread that crashes its worker would otherwise crash all workers of a fleet. The journal shows it: a sweep
// records `interrupted` for a lease that was lost during the work. A worker that is lost before the start records
// no event, so a worker that takes such a thread records that first. INVARIANT: a crash is counted at most once,
// and only if its process is certainly gone and the thread made no progress. A lease that expired while its worker
// is alive, or that was released, never counts.
import { isObject, type Outcome, ok, plainText } from '@kernmantle/core/base';
import { eventFlags } from '@kernmantle/core/journal';
import type { LeasedThread, Store, StoredEvent } from '@kernmantle/core/store';

/** Maximum number of crashes without progress. The thread then ends. */
export const MAX_CRASHES = 5;

/** Number of events from the end of a journal. Crashes that can still count are always among them. */
const TAIL = 100;

const STEPS = ['process_lost', 'lease_expired', 'taken', 'returned'] as const;
type CrashStep = (typeof STEPS)[number] | 'begun' | 'further';

/** Returns the effect of an event on the count of crashes. `undefined`: no effect. */
const stepOf = ({ type, data }: StoredEvent): CrashStep | undefined => {
  if (eventFlags(type).isProgress) return 'further';
  if (type !== 'status') return undefined;
  const cause = STEPS.find((one) => one === data.cause);
  return cause ?? (data.status === 'running' ? 'begun' : undefined);
};

/** Returns the process that had the thread when the event was recorded. */
const ownerOf = ({ data }: StoredEvent): string => plainText(data.owner ?? data.by);

const isTaking = (event: StoredEvent): boolean => stepOf(event) === 'taken';
const isExpiry = (event: StoredEvent): boolean => stepOf(event) === 'lease_expired';

/** True if the process of the event is certainly gone since the event. */
type WasLost = (event: StoredEvent) => boolean;

/**
 * Reads from the store which processes of these events are gone. A store without workers has only the
 * result of its sweep, so a process that took a thread and recorded no later event counts as gone.
 */
async function readLost(store: Store, events: readonly StoredEvent[]): Promise<Outcome<WasLost>> {
  if (!store.fleet) return ok(isTaking);
  const owners = events.filter((one) => isTaking(one) || isExpiry(one)).map(ownerOf);
  if (owners.length === 0) return ok(() => false);
  const lost = await store.fleet.lost(owners);
  if (!lost.ok) return lost;
  const silentSince = new Map(lost.output.map((one) => [one.id, one.heartbeat]));
  return ok((event) => (silentSince.get(ownerOf(event)) ?? Number.POSITIVE_INFINITY) <= event.ts);
}

/** Returns the number of crashes since the last progress. */
function crashesIn(events: readonly StoredEvent[], isLost: WasLost): number {
  let crashes = 0;
  /** Event of a worker that took the thread and recorded no event since. */
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

async function recordCause(
  store: Store,
  leased: LeasedThread,
  worker: string,
  cause: 'taken' | 'placed' | 'returned',
  reason: string,
): Promise<Outcome<LeasedThread>> {
  const { thread, epoch, row } = leased;
  const data = { status: row.status, by: worker, cause, reason };
  const expect = { seq: row.seq, epoch };
  const result = await store.commit(thread, { expect, events: [{ type: 'status', data }] });
  return result.ok ? ok({ ...leased, row: { ...row, seq: result.output.seq } }) : result;
}

interface CrashCheck {
  held: LeasedThread;
  crashes: number;
  /** The journal records that a worker took the thread, so it must record the return as well. */
  isNoted: boolean;
}

/** Counts the crashes of a thread. It reads events only if the thread can have crashed a process. */
export async function countCrashes(
  store: Store,
  leased: LeasedThread,
  worker: string,
): Promise<Outcome<CrashCheck>> {
  const { thread, epoch, row } = leased;
  if (row.status !== 'interrupted' && epoch <= MAX_CRASHES) {
    return ok({ held: leased, crashes: 0, isNoted: false });
  }
  const tail = await store.read(thread, { last: TAIL });
  if (!tail.ok) return tail;
  const lost = await readLost(store, tail.output);
  if (!lost.ok) return lost;
  const crashes = crashesIn(tail.output, lost.output);
  if (crashes >= MAX_CRASHES) return ok({ held: leased, crashes, isNoted: false });
  // Each run that started has recorded a `signal`, so further claims did not start.
  const runs = crashes > 0 ? undefined : await store.countEvents([thread], 'signal');
  if (runs && !runs.ok) return runs;
  if (runs && epoch <= runs.output + MAX_CRASHES)
    return ok({ held: leased, crashes, isNoted: false });
  const recorded = await recordCause(store, leased, worker, 'taken', 'taken by a worker again');
  return recorded.ok ? ok({ held: recorded.output, crashes, isNoted: true }) : recorded;
}

/** Records which worker began the thread, because files differ between workers. */
export const recordWorker = (
  store: Store,
  leased: LeasedThread,
  worker: string,
): Promise<Outcome<LeasedThread>> =>
  recordCause(store, leased, worker, 'placed', 'started by a worker that has its files');

/** Returns the last worker of the thread according to its journal. */
export async function lastWorker(store: Store, thread: string): Promise<string | undefined> {
  const events = await store.read(thread, { types: ['signal', 'status'] });
  if (!events.ok) return undefined;
  const named = events.output.findLast(
    ({ type, data }) => data.cause === 'placed' || (type === 'signal' && data.kind === 'resume'),
  );
  const name = named?.data.process ?? named?.data.by;
  return typeof name === 'string' ? name : undefined;
}

/** Records why this worker returned the thread before its start. */
export const recordReturned = (
  store: Store,
  leased: LeasedThread,
  worker: string,
  why: string,
): Promise<Outcome<LeasedThread>> => {
  const [name] = worker.split('@');
  return recordCause(store, leased, worker, 'returned', `returned by a worker (${name}): ${why}`);
};

/** Returns a text for people with the last effect of the thread before the loss. */
export function describeLastEffect(events: readonly StoredEvent[]): string {
  const last = events.findLast(({ type }) => type === 'tool_call' || type === 'turn_start');
  if (last === undefined) return 'before its first turn';
  const tool = isObject(last.data) ? last.data.tool : undefined;
  return last.type === 'tool_call' && typeof tool === 'string'
    ? `in a call of \`${tool}\``
    : `in turn ${last.turn}`;
}
