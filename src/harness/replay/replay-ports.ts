// The world in which a thread happens again. Its registry is empty, its tools and its model answer from
// the journal, and what other threads and people put into the journal is put there at the same place.
// A process that was lost is lost again where it was: after the last event that it wrote nothing more
// is written, until somebody resumes the thread.
import { fail, getOwn, isObject, type Outcome, ok, plainText } from '../../base/index.ts';
import type { Value } from '../../flow/index.ts';
import type { Caller, Kernel } from '../../kernel/index.ts';
import type { Store, ThreadFilter, ThreadSummary } from '../../store/index.ts';
import { countChild } from '../children/children.ts';
import { namedIn } from '../children/resume-children.ts';
import { packCost } from '../limits/cost.ts';
import { type EventType, notedOf, type Recorded } from '../thread/journal-event.ts';
import { createLiveThreads } from '../thread/live-threads.ts';
import { createReplayRecord, type ReplayRecord } from '../thread/recorded-events.ts';
import type { HarnessPorts, Thread } from '../thread/thread.ts';

export interface ReplayStage {
  ports: HarnessPorts;
  /** Nothing is written after this event; for ever when it is the last one. */
  until(seq: number): void;
}

/** Written by other threads, by people, or for them: a replay takes them from the journal. */
const FROM_OTHERS: ReadonlySet<EventType> = new Set<EventType>([
  'spawn',
  'child_end',
  'approval',
  'snapshot',
  'logged',
]);
const LOST = fail('lease_expired', 'the process was lost here');

/** Puts the next events of others into the journal, if they are next. */
function playOthers(thread: Thread, { events }: ReplayRecord, end: number): void {
  const {
    journal,
    budget: { meter },
  } = thread;
  while (journal.seq() < end && !journal.lost()) {
    const next = events[journal.seq()];
    if (!next || !FROM_OTHERS.has(next.type)) return;
    if (next.type === 'child_end') countChild(thread, next.data);
    else {
      if (next.type === 'spawn') meter.countSpawn();
      journal.append([notedOf(next)], { cost: packCost(meter.read()) });
    }
  }
}

/** Children as they were known: those that had been spawned, ended when that was heard of. */
function childrenAt(real: Store, filter: ThreadFilter, events: readonly Recorded[], seq: number) {
  const block = events.slice(seq).findIndex(({ type }) => !FROM_OTHERS.has(type));
  const known = events.slice(0, block < 0 ? undefined : seq + block);
  const [spawned, ended] = [namedIn(known, 'spawn'), namedIn(known, 'child_end')];
  const page = real.query(filter);
  if (!page.ok) return page;
  const rows = page.output.rows
    .filter(({ id }) => spawned.has(id))
    .map((row): ThreadSummary => (ended.has(row.id) ? row : { ...row, status: 'running' }));
  return ok({ ...page.output, rows });
}

/** No provider is asked, so no key is needed. */
function envWithKeys(ports: HarnessPorts): HarnessPorts['env'] {
  const providers = getOwn(ports.models(), 'providers');
  const names = Object.values(isObject(providers) ? providers : {}).map((one) =>
    plainText(getOwn(one, 'key')),
  );
  return { ...Object.fromEntries(names.map((name) => [name, 'replay'])), ...ports.env };
}

/** Hooks are known by when they began: between two events of the thread they served. */
function hookRecord(real: Store, parent: ReplayRecord, parentId: string, seq: number) {
  const [from, to] = [parent.events[seq - 1]?.ts ?? 0, parent.events[seq]?.ts];
  const page = real.query({ parent: parentId, kind: 'hook', direction: 'asc', limit: 500 });
  const found = (page.ok ? page.output.rows : []).find(
    ({ created }) => created >= from && (to === undefined || created <= to),
  );
  return found?.id;
}

export function createReplayStage(
  ports: HarnessPorts,
  real: Store,
  empty: Store,
  id: string,
  record: ReplayRecord,
  readJournal: (thread: string) => readonly Recorded[],
): ReplayStage {
  const live = createLiveThreads();
  let end = Number.POSITIVE_INFINITY;
  const seqOf = (thread: string): number => {
    const row = empty.thread(thread);
    return row.ok ? row.output.seq : 0;
  };
  const isLost = (): boolean => seqOf(id) >= end;
  /** Of a thread that happens again: which one it was, and what is recorded of it. */
  const known = new Map([[id, { was: id, record }]]);
  function knownOf(thread: string): { was: string; record: ReplayRecord } {
    const before = known.get(thread);
    if (before) return before;
    const row = empty.thread(thread);
    const above = row.ok && row.output.parent ? knownOf(row.output.parent) : undefined;
    const was =
      above &&
      hookRecord(real, above.record, above.was, seqOf(row.ok ? (row.output.parent ?? '') : ''));
    const found = { was: was ?? '', record: createReplayRecord(was ? readJournal(was) : []) };
    known.set(thread, found);
    return found;
  }
  const recordOf = (thread: string): ReplayRecord => knownOf(thread).record;
  const play = (thread: string): void => {
    const running = live.get(thread)?.thread;
    if (running) playOthers(running, recordOf(thread), thread === id ? end : Infinity);
  };

  /** Also those that were lost with their process: nobody runs them again, but they were paid for. */
  function hooksBefore(filter: ThreadFilter): ReturnType<Store['query']> {
    const page = real.query(filter);
    const now = record.events[seqOf(id) - 1]?.ts ?? 0;
    if (!page.ok) return page;
    return ok({ ...page.output, rows: page.output.rows.filter(({ created }) => created <= now) });
  }

  const answer = async (_: object, caller: Caller): Promise<Outcome<Value>> => {
    const thread = caller.__thread_id ?? '';
    play(thread);
    const begun = [...(live.get(thread)?.thread.control.intents ?? [])];
    const call = begun.find(([, { key }]) => key === caller.idempotencyKey)?.[0] ?? '';
    return recordOf(thread).resultOf(call, seqOf(thread));
  };
  const kernel: Kernel = {
    ...ports.kernel,
    search: answer,
    load: answer,
    help: answer,
    // The directive itself is read as it is today.
    execute: async (request, caller) =>
      caller.surface === 'harness' && request.item_type === 'directive'
        ? await ports.kernel.execute(request, caller)
        : await answer(request, caller),
  };
  const store: Store = {
    ...empty,
    append: (thread, seq, epoch, events, change) =>
      events.length > 0 && isLost() ? LOST : empty.append(thread, seq, epoch, events, change),
    createThread: (...given) => (isLost() ? LOST : empty.createThread(...given)),
    reserve: (...given) => (isLost() ? LOST : empty.reserve(...given)),
    settle: (...given) => (isLost() ? ok(null) : empty.settle(...given)),
    cancel: (...given) => (isLost() ? ok(null) : empty.cancel(...given)),
    isHeld: (thread, epoch) => !isLost() && empty.isHeld(thread, epoch),
    // What was said is in the journal, not in this registry: it is looked for every time.
    pulse: (thread, epoch) => ({ held: !isLost() && empty.isHeld(thread, epoch), called: true }),
    signals(thread) {
      play(thread);
      return ok(recordOf(thread).signalsAt(thread, seqOf(thread)));
    },
    query(filter = {}) {
      if (filter.parent === id && filter.kind === 'hook') return hooksBefore(filter);
      if (filter.parent !== id || filter.kind !== 'thread') return empty.query(filter);
      // Nobody is waited for: the end of each child is in the journal.
      if (filter.status !== undefined) return ok({ rows: [] });
      return childrenAt(real, filter, record.events, seqOf(id));
    },
    thread(thread) {
      const own = empty.thread(thread);
      const row = real.thread(thread);
      // It began when it began: a script may have looked at the time.
      if (own.ok) return row.ok ? ok({ ...own.output, created: row.output.created }) : own;
      return row.ok && row.output.parent === id ? row : own;
    },
  };
  const start = record.events[0]?.ts ?? 0;
  const again: HarnessPorts = {
    ...ports,
    env: envWithKeys(ports),
    // The time passes as it did: with the journal.
    clock: {
      now: () => ports.clock.now(),
      monotonic: () =>
        (record.events[Math.min(seqOf(id), record.events.length - 1)]?.ts ?? start) - start,
    },
    store,
    kernel,
    async model(_request, caller) {
      const thread = caller.__thread_id ?? '';
      play(thread);
      return recordOf(thread).replyAt(seqOf(thread));
    },
    threads: {
      live,
      owner: ports.threads.owner,
      resume: async (thread) => fail('not_found', `thread \`${thread}\` is not replayed here`),
      elsewhere: async () => fail('not_found', 'other projects are not replayed'),
    },
    watch: { transcript: () => () => {} },
    replay: {
      // What a script only looked at is noted when it is done: its event is the next one.
      recorded: (thread, call) => recordOf(thread).resultOf(call, seqOf(thread) + 1),
      // A process is lost between any two events, and what happens is looked up by their number.
      writesAtOnce: true,
    },
  };
  return {
    ports: again,
    until(seq) {
      end = seq;
    },
  };
}
