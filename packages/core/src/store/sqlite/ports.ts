// Implements the methods of the port. Each method checks and encodes its arguments, then reads or queues a write.
import { type Outcome, ok, type RandomBytes } from '../../base/index.ts';
import { toBudgetState, writeAccount } from '../account.ts';
import { decideBudgets } from '../decide.ts';
import {
  checkApproval,
  encodeCommit,
  encodeSignal,
  encodeThread,
  hashArtifact,
  sizeOf,
  withdrawRefusal,
} from '../encode.ts';
import { type Memories, memoryRules } from '../memory.ts';
import type {
  Answer,
  Approvals,
  Artifacts,
  BudgetState,
  Journal,
  LeasedThread,
  Leases,
  NewThread,
  Owner,
  Records,
  Signals,
  ThreadTable,
  Wanted,
} from '../port.ts';
import { noThread } from '../thread-id.ts';
import { createBell, createWatch } from '../watch.ts';
import {
  askApproval,
  decideApproval,
  findApproval,
  listApprovals,
  planUses,
  writeUses,
} from './approvals.ts';
import { runCommit, writeAudit } from './commit.ts';
import type { Connection } from './file/connection.ts';
import type { Group } from './file/group.ts';
import {
  claimThread,
  findAbandoned,
  findUnreleased,
  interruptAbandoned,
  nextQueued,
  releaseLease,
  renewLeases,
  takeThreads,
} from './leases.ts';
import { prune } from './prune.ts';
import { findArtifact, type PutArtifact, putArtifact, readAudit, readSecrets } from './records.ts';
import { runSteps } from './run-steps.ts';
import { sendSignal, signalsAfter } from './signals.ts';
import {
  countEvents,
  eventFields,
  findThread,
  holdThread,
  insertThread,
  isThread,
  queryThreads,
  type Registry,
  readEvents,
  spentThreads,
} from './threads.ts';

const SEQ = 'SELECT seq, epoch FROM threads WHERE id = ?';
/** Number of events in one read of a watcher. */
const BATCH = 200;
const DECIDED = 'SELECT decided, who FROM approvals WHERE id = ?';

/** Services that every part of the port uses. */
export interface Parts extends Registry {
  random: RandomBytes;
  group: Group;
  /** Runs a read, again while the file is busy. An exception becomes a failure. Fails after `close`. */
  read<T>(work: () => Outcome<T>): Answer<T>;
  write: Group['write'];
  /** Writes and keeps the cached rows. Only `runCommit` uses it, because it updates these rows itself. */
  commit: Group['write'];
  /** Runs several steps of `look` and `group.write`. They complete even if the store closes in between. */
  steps<T>(work: () => Answer<T>): Answer<T>;
  look<T>(work: () => Outcome<T>): Answer<T>;
}

/** Encodes a new root. `insert` inserts it in a transaction, after its refusals. */
export function prepareThread(parts: Parts, thread: NewThread, artifacts: Artifacts = new Map()) {
  const { connection, clock } = parts;
  const text = encodeThread(thread);
  if (!text.ok) return text;
  const puts: PutArtifact[] = [];
  for (const bytes of artifacts.values()) {
    const hash = hashArtifact(thread.id, bytes);
    if (!hash.ok) return hash;
    puts.push({ thread: thread.id, hash: hash.output, bytes, secrets: [] });
  }
  const birth = Buffer.from(parts.random(8)).toString('hex');
  const { id } = thread;
  return ok({
    bytes: puts.reduce((sum, { bytes }) => sum + bytes.length, sizeOf(text.output.events)),
    wasWritten(): boolean {
      const sql = 'SELECT 1 FROM thread_data WHERE thread = ? AND birth = ?';
      return connection.get(sql, id, birth) !== undefined;
    },
    insert(): Outcome<LeasedThread> {
      const now = clock.now();
      const takenId = isThread(connection, id) ? id : undefined;
      const decision = decideBudgets([], { children: [thread] }, takenId);
      if (decision.kind === 'refuse') return parts.accounts.explain(decision, now);
      for (const account of decision.children) {
        insertThread(parts, text.output, { birth, budget: writeAccount(account) }, now);
        parts.accounts.add(account);
      }
      for (const put of puts) putArtifact(connection, put, now);
      return holdThread(parts, id, now);
    },
  });
}

export function threadsPort(parts: Parts): ThreadTable {
  const { connection, group } = parts;

  async function createThread(thread: NewThread, artifacts?: Artifacts): Answer<LeasedThread> {
    const prepared = prepareThread(parts, thread, artifacts);
    if (!prepared.ok) return prepared;
    const { insert, bytes, wasWritten } = prepared.output;
    return await parts.write(insert, { thread: thread.id, bytes, wasWritten });
  }

  return {
    createThread,
    thread: (id) => parts.read(() => findThread(parts, id)),
    query: (filter = {}) => parts.read(() => queryThreads(connection, filter)),
    spent: (since) => parts.read(() => ok(spentThreads(connection, since))),
    prune: (options) => parts.steps(() => prune(parts, group, options)),
  };
}

export function journalPort(parts: Parts): Journal {
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
      const how = { thread, bytes, wasWritten };
      return parts.commit(() => runCommit(parts, thread, encoded.output, clock.now()), how);
    },
    read: (thread, range = {}) => parts.read(() => ok(readEvents(connection, thread, range))),
    countEvents: (threads, type) => parts.read(() => ok(countEvents(connection, threads, type))),
    fieldsOf: (threads, wanted) => parts.read(() => ok(eventFields(connection, threads, wanted))),
    ...createWatch(feed, (id, ring) => ({
      async readAfter(after) {
        const events = readEvents(connection, id, { after, limit: BATCH });
        return { events, isAll: events.length < BATCH };
      },
      leave: feed.onMove(id, ring),
    })),
  };
}

/** Takes queued threads. It waits until a thread is queued or due, at most `waitMs`. */
async function take(parts: Parts, owner: Owner, wanted: Wanted): Answer<LeasedThread[]> {
  const { group, feed, clock } = parts;
  const { count, projects, waitMs = 0 } = wanted;
  if (projects.length === 0 || count < 1) return ok([]);
  const bell = createBell(feed, AbortSignal.timeout(waitMs));
  const off = feed.onQueue(bell.ring);
  let due: NodeJS.Timeout | undefined;
  try {
    do {
      const next = await parts.look(() => ok(nextQueued(parts, wanted)));
      if (!next.ok) return next;
      const at = next.output;
      if (at !== undefined && at <= clock.now()) {
        const work = () => takeThreads(parts, owner, wanted);
        const taken = await group.write(work, { rank: 'lease' });
        if (!taken.ok || taken.output.length > 0) return taken;
      }
      if (waitMs === 0) return ok([]);
      clearTimeout(due);
      if (at !== undefined) due = setTimeout(bell.ring, Math.max(1, at - clock.now()));
    } while (await bell.rings());
    return ok([]);
  } finally {
    clearTimeout(due);
    off();
    bell.remove();
  }
}

/** Longest wait of a sweep for another writer. The next sweep repeats it. */
const SWEEP_MS = 200;

async function sweep(parts: Parts): ReturnType<Leases['sweep']> {
  // Most sweeps find no thread, so they need no write.
  const check = await parts.look(() => ok(findAbandoned(parts).length > 0));
  if (!check.ok) return check;
  const how = { rank: 'lease', patienceMs: SWEEP_MS } as const;
  const swept = check.output
    ? await parts.group.write(() => interruptAbandoned(parts), how)
    : ok([]);
  if (!swept.ok) return swept;
  const interrupted = swept.output;
  return parts.look(() => ok({ interrupted, unreleased: findUnreleased(parts) }));
}

export function leasesPort(parts: Parts): Leases {
  const rank = 'lease';
  return {
    claim: (thread, owner, how = {}) =>
      parts.write(() => claimThread(parts, thread, owner, how), { rank, thread }),
    take: (owner, wanted) => parts.steps(() => take(parts, owner, wanted)),
    renew: (leases, ttlMs) => parts.write(() => renewLeases(parts, leases, ttlMs), { rank }),
    release: (lease, how = {}) =>
      parts.write(() => releaseLease(parts, lease, how), { rank, thread: lease.thread }),
    sweep: () => parts.steps(() => sweep(parts)),
  };
}

export function signalsPort(parts: Parts): Signals {
  const { connection, clock, feed } = parts;
  return {
    signal(signal, audit) {
      const text = encodeSignal(signal);
      if (!text.ok) return Promise.resolve(text);
      const { thread } = signal;
      return parts.write(
        () => {
          const now = clock.now();
          const sent = sendSignal(parts, text.output, now);
          if (sent.ok && audit) writeAudit(connection, [audit], now);
          return sent;
        },
        { thread },
      );
    },
    signals: (thread, after = 0) => parts.read(() => ok(signalsAfter(connection, thread, after))),
    onSignal: (listener) => feed.onSignal(listener),
  };
}

const WITHDRAW = "UPDATE approvals SET answer = NULL WHERE id = ? AND state = 'approved'";
const RESTATE = "UPDATE approvals SET shown = ? WHERE id = ? AND state = 'pending'";

export function approvalsPort(parts: Parts): Approvals {
  const { connection, clock } = parts;
  return {
    ask(approval) {
      const valid = checkApproval(approval);
      if (!valid.ok) return Promise.resolve(valid);
      return parts.write(() => ok(askApproval(connection, approval, undefined, clock.now())));
    },
    restate: ({ id, shown }) =>
      parts.write(() => {
        connection.run(RESTATE, JSON.stringify(shown), id);
        return findApproval(connection, id, clock.now());
      }),
    withdraw: (id, audit) =>
      parts.write(() => {
        const now = clock.now();
        const before = findApproval(connection, id, now);
        const refused = before.ok ? withdrawRefusal(before.output) : before;
        if (refused) return refused;
        connection.run(WITHDRAW, id);
        if (audit) writeAudit(connection, [audit], now);
        return findApproval(connection, id, now);
      }),
    use: (id, binding) =>
      parts.write(() => {
        const now = clock.now();
        const plans = planUses(connection, [{ approval: id, binding }], [], now);
        if (!plans.ok) return plans;
        writeUses(connection, plans.output, '');
        return findApproval(connection, id, now);
      }),
    decide(id, decision, audit) {
      let now = 0;
      const wasWritten = (): boolean => {
        const row = connection.get<{ decided: number; who: string }>(DECIDED, id);
        return row?.decided === now && row.who === decision.who;
      };
      return parts.write(
        () => {
          now = clock.now();
          const decided = decideApproval(connection, id, decision, now);
          if (decided.ok && audit) writeAudit(connection, [audit], now);
          const thread = decided.ok ? decided.output.thread : undefined;
          if (thread === undefined) return decided;
          const [text, key] = [JSON.stringify({ approval: id }), `approval:${id}`];
          const signal = { thread, kind: 'approval', text, key, by: decision.who };
          // A thread that has ended needs no signal.
          sendSignal(parts, signal, now);
          return decided;
        },
        { wasWritten },
      );
    },
    approvals: (filter) => parts.read(() => ok(listApprovals(connection, filter, clock.now()))),
  };
}

const BUDGET = `SELECT budget FROM threads WHERE id = ?1
  UNION ALL SELECT budget FROM pruned_budgets WHERE thread = ?1`;

function readBudgets(connection: Connection, threads: readonly string[]): Outcome<BudgetState[]> {
  const states: BudgetState[] = [];
  for (const thread of threads) {
    const row = connection.get<{ budget: string }>(BUDGET, thread);
    if (!row) return noThread(thread);
    states.push(toBudgetState(thread, row.budget));
  }
  return ok(states);
}

export function recordsPort(parts: Parts): Records {
  const { connection, clock } = parts;
  return {
    budgets: (threads) => parts.read(() => readBudgets(connection, threads)),
    putArtifact(thread, bytes, secrets = []) {
      const hash = hashArtifact(thread, bytes);
      if (!hash.ok) return Promise.resolve(hash);
      const put = { thread, hash: hash.output, bytes, secrets };
      return parts.write(() => putArtifact(connection, put, clock.now()), { bytes: bytes.length });
    },
    artifact: (thread, hash) => parts.read(() => findArtifact(connection, thread, hash)),
    secrets: (thread) => parts.read(() => ok(readSecrets(connection, thread))),
    audit: (rows) =>
      parts.write(
        () => {
          writeAudit(connection, rows, clock.now());
          return ok(null);
        },
        { rank: 'audit' },
      ),
    auditRows: (filter) => parts.read(() => ok(readAudit(connection, filter))),
  };
}

export function memoriesPort({ connection, clock, read, write }: Parts): Memories {
  return {
    memories: (filter) =>
      read(() => ok(runSteps(connection, memoryRules.find(filter, clock.now())))),
    changeMemory: (change) =>
      write(() => runSteps(connection, memoryRules.change(change, clock.now()))),
  };
}
