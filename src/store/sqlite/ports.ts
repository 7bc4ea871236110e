// The methods of the port, by group: each checks and encodes what it was given, and queues or reads.
import { type Clock, type Outcome, ok, type RandomBytes } from '../../base/index.ts';
import { checkApproval, encodeCommit, encodeSignal, encodeThread, sizeOf } from '../encode.ts';
import type {
  Answer,
  BudgetState,
  EventRange,
  Held,
  NewThread,
  Owner,
  Store,
  StoredEvent,
  Wanted,
} from '../port.ts';
import { noThread } from '../thread-id.ts';
import type { ApprovalRows } from './approvals.ts';
import { runCommit } from './commit.ts';
import type { Feed } from './feed.ts';
import type { Connection } from './file/connection.ts';
import type { Group } from './file/group.ts';
import type { HeldThreads } from './held.ts';
import type { LeaseRows } from './leases.ts';
import { planBudgets } from './ledger.ts';
import type { LedgerRows } from './ledger-rows.ts';
import { prune } from './prune.ts';
import { query } from './query.ts';
import { hashArtifact, type RecordRows } from './records.ts';
import type { SignalRows } from './signals.ts';
import { type ThreadRows, taken } from './threads.ts';
import { EVENT_COLUMNS, type EventRow, toEvent, watchChanges, watchThread } from './watch.ts';

const MAX_READ = 10_000;
const SEQ = 'SELECT seq, epoch FROM threads WHERE id = ?';
const DECIDED = 'SELECT decided, who FROM approvals WHERE id = ?';

/** What every part of the port works with. */
export interface Parts {
  connection: Connection;
  clock: Clock;
  random: RandomBytes;
  group: Group;
  feed: Feed;
  ledger: LedgerRows;
  threads: ThreadRows;
  held: HeldThreads;
  signals: SignalRows;
  approvals: ApprovalRows;
  records: RecordRows;
  leases: LeaseRows;
  /** Refused once the store closes. What the file throws becomes a fault; a busy file is asked again. */
  read<T>(work: () => Outcome<T>): Answer<T>;
  write: Group['write'];
  /** Several steps of `look` and `group.write`, which go on to the end when the store closes meanwhile. */
  steps<T>(work: () => Answer<T>): Answer<T>;
  look<T>(work: () => Outcome<T>): Answer<T>;
}

export function threadsPort(
  parts: Parts,
): Pick<Store, 'createThread' | 'thread' | 'query' | 'prune'> {
  const { connection, clock, group, threads, ledger, records, feed } = parts;

  function createThread(thread: NewThread): Answer<Held> {
    const text = encodeThread(thread);
    if (!text.ok) return Promise.resolve(text);
    const birth = Buffer.from(parts.random(8)).toString('hex');
    const { id } = thread;
    const wasWritten = (): boolean => {
      const sql = 'SELECT 1 FROM thread_data WHERE thread = ? AND birth = ?';
      return connection.get(sql, id, birth) !== undefined;
    };
    return parts.write(
      (effects) => {
        if (threads.isTaken(id)) return taken(id);
        const now = clock.now();
        const plan = planBudgets(ledger, { chain: [], now, children: [thread] });
        if (!plan.ok) return plan;
        threads.insert(text.output, undefined, birth, now);
        records.keepSecrets(id, thread.secrets ?? []);
        plan.output?.write();
        const seq = text.output.events.length + 1;
        const status = 'lease' in thread.start ? 'running' : 'spawning';
        effects.after(() => feed.moved([{ thread: id, seq, status }]));
        if (status === 'spawning') effects.after(() => feed.queued());
        return threads.hold(id, now, effects);
      },
      { thread: id, bytes: sizeOf(text.output.events), wasWritten },
    );
  }

  return {
    createThread,
    thread: (id) => parts.read(() => threads.find(id)),
    query: (filter = {}) => parts.read(() => query(connection, filter)),
    prune: (options) => parts.steps(() => prune(connection, group, options)),
  };
}

function readEvents(connection: Connection, thread: string, range: EventRange): StoredEvent[] {
  const where = `SELECT ${EVENT_COLUMNS} FROM thread_events WHERE thread = ?`;
  if ('last' in range) {
    const sql = `${where} ORDER BY seq DESC LIMIT ?`;
    return connection
      .all<EventRow>(sql, thread, Math.min(range.last, MAX_READ))
      .map(toEvent)
      .reverse();
  }
  const { after = 0, limit = MAX_READ } = range;
  const sql = `${where} AND seq > ? ORDER BY seq LIMIT ?`;
  return connection.all<EventRow>(sql, thread, after, Math.min(limit, MAX_READ)).map(toEvent);
}

export function journalPort(parts: Parts): Pick<Store, 'commit' | 'read' | 'watch' | 'changes'> {
  const { connection, clock, feed } = parts;
  return {
    commit(thread, commit) {
      const encoded = encodeCommit(commit);
      if (!encoded.ok) return Promise.resolve(encoded);
      const { bytes, events } = encoded.output;
      const { seq, epoch } = commit.expect;
      const wasWritten = (): boolean => {
        const row = connection.get<Record<'seq' | 'epoch', number>>(SEQ, thread);
        return row?.seq === seq + events.length && row.epoch === epoch;
      };
      return parts.write(
        (effects) => runCommit(parts, thread, encoded.output, clock.now(), effects),
        { thread, bytes, wasWritten },
      );
    },
    read: (thread, range = {}) => parts.read(() => ok(readEvents(connection, thread, range))),
    watch: (cursor, signal) => watchThread(connection, feed, cursor, signal),
    changes: (filter, signal) => watchChanges(feed, filter, signal),
  };
}

/** Waits for the first queued thread: rung by what is queued, or when the next one is due. */
async function take(parts: Parts, owner: Owner, wanted: Wanted): Answer<Held[]> {
  const { group, feed, leases, clock } = parts;
  if (wanted.projects.length === 0 || wanted.count < 1) return ok([]);
  let [isOver, ring] = [false, () => {}];
  const end = (): void => {
    isOver = true;
    ring();
  };
  const timer = setTimeout(end, wanted.waitMs ?? 0);
  const offs = [feed.onQueue(() => ring()), feed.onClose(end)];
  try {
    for (;;) {
      const next = await parts.look(() => ok(leases.nextQueued(wanted.projects)));
      if (!next.ok) return next;
      if (next.output.due) {
        const got = await group.write((effects) => leases.take(owner, wanted, effects), {
          rank: 'lease',
        });
        if (!got.ok || got.output.length > 0) return got;
      }
      if (isOver || !wanted.waitMs) return ok([]);
      const { at } = next.output;
      const rung = new Promise<void>((resolve) => (ring = resolve));
      const due =
        at === undefined ? undefined : setTimeout(() => ring(), Math.max(1, at - clock.now()));
      await rung;
      clearTimeout(due);
    }
  } finally {
    clearTimeout(timer);
    for (const off of offs) off();
  }
}

async function sweep({ group, leases, look }: Parts): ReturnType<Store['sweep']> {
  // Most sweeps find nothing: then nobody has to write.
  const found = await look(() => ok(leases.abandoned().length > 0));
  if (!found.ok) return found;
  const swept = found.output ? await group.write(leases.interrupt, { rank: 'lease' }) : ok([]);
  if (!swept.ok) return swept;
  const interrupted = swept.output;
  return look(() => ok({ interrupted, unreleased: leases.unreleased() }));
}

export function leasesPort(
  parts: Parts,
): Pick<Store, 'claim' | 'take' | 'renew' | 'release' | 'sweep'> {
  const { leases } = parts;
  const rank = 'lease';
  return {
    claim: (thread, owner, how = {}) =>
      parts.write((effects) => leases.claim(thread, owner, how, effects), { rank, thread }),
    take: (owner, wanted) => parts.steps(() => take(parts, owner, wanted)),
    renew: (held, ttlMs) => parts.write((effects) => leases.renew(held, ttlMs, effects), { rank }),
    release: (lease, how = {}) =>
      parts.write((effects) => leases.release(lease, how.again === true, effects), {
        rank,
        thread: lease.thread,
      }),
    sweep: () => parts.steps(() => sweep(parts)),
  };
}

export function signalsPort(parts: Parts): Pick<Store, 'signal' | 'signals' | 'onSignal'> {
  const { signals, clock, feed } = parts;
  return {
    signal(signal) {
      const text = encodeSignal(signal);
      if (!text.ok) return Promise.resolve(text);
      const { thread } = signal;
      return parts.write((effects) => signals.send(text.output, clock.now(), effects), { thread });
    },
    signals: (thread, after = 0) => parts.read(() => ok(signals.after(thread, after))),
    onSignal: (listener) => feed.onSignal(listener),
  };
}

export function approvalsPort(parts: Parts): Pick<Store, 'ask' | 'use' | 'decide' | 'approvals'> {
  const { connection, approvals, signals, clock } = parts;
  return {
    ask(approval) {
      const valid = checkApproval(approval);
      if (!valid.ok) return Promise.resolve(valid);
      return parts.write(() => approvals.ask(approval, undefined, clock.now()));
    },
    use: (id, binding) =>
      parts.write(() => {
        const now = clock.now();
        const plans = approvals.planUses([{ approval: id, binding }], [], now);
        if (!plans.ok) return plans;
        approvals.writeUses(plans.output, '');
        return approvals.find(id, now);
      }),
    decide(id, decision) {
      let now = 0;
      const wasWritten = (): boolean => {
        const row = connection.get<{ decided: number; who: string }>(DECIDED, id);
        return row?.decided === now && row.who === decision.who;
      };
      return parts.write(
        (effects) => {
          now = clock.now();
          const decided = approvals.decide(id, decision, now);
          const thread = decided.ok ? decided.output.thread : undefined;
          if (thread === undefined) return decided;
          const text = JSON.stringify({ approval: id });
          const key = `approval:${id}`;
          // Who has ended needs no word of it.
          signals.send({ thread, kind: 'approval', text, key, by: decision.who }, now, effects);
          return decided;
        },
        { wasWritten },
      );
    },
    approvals: (filter) => parts.read(() => ok(approvals.list(filter, clock.now()))),
  };
}

type RecordsPort = Pick<
  Store,
  'budgets' | 'putArtifact' | 'artifact' | 'secrets' | 'audit' | 'auditRows'
>;

export function recordsPort(parts: Parts): RecordsPort {
  const { records, ledger, clock } = parts;
  return {
    budgets: (threads) =>
      parts.read(() => {
        const found = ledger.accounts([...new Set(threads)]);
        const states: BudgetState[] = [];
        for (const thread of threads) {
          const account = found.get(thread);
          if (!account) return noThread(thread);
          states.push({ thread, ...account });
        }
        return ok(states);
      }),
    putArtifact(thread, bytes, secrets = []) {
      const hash = hashArtifact(thread, bytes);
      if (!hash.ok) return Promise.resolve(hash);
      const work = (): Outcome<string> => {
        const free = records.checkSecrets(thread, secrets);
        if (!free.ok) return free;
        const put = records.putArtifact(thread, hash.output, bytes, clock.now());
        if (put.ok) records.keepSecrets(thread, secrets);
        return put;
      };
      return parts.write(work, { bytes: bytes.length });
    },
    artifact: (thread, hash) => parts.read(() => records.artifact(thread, hash)),
    secrets: (thread) => parts.read(() => ok(records.secrets(thread))),
    audit: (rows) =>
      parts.write(
        () => {
          records.writeAudit(rows, clock.now());
          return ok(null);
        },
        { rank: 'audit' },
      ),
    auditRows: (limit, only) => parts.read(() => ok(records.auditRows(limit, only))),
  };
}
