// The methods of the port, by group: each checks and encodes what it was given, and queues or reads.
import { type Outcome, ok, type RandomBytes } from '../../base/index.ts';
import { checkApproval, encodeCommit, encodeSignal, encodeThread, sizeOf } from '../encode.ts';
import type { Answer, BudgetState, Held, NewThread, Owner, Store, Wanted } from '../port.ts';
import { noThread } from '../thread-id.ts';
import { toBudgetState } from './account.ts';
import {
  askApproval,
  decideApproval,
  findApproval,
  listApprovals,
  planUses,
  writeUses,
} from './approvals.ts';
import { planBudgets } from './budget.ts';
import { runCommit } from './commit.ts';
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
import { query } from './query.ts';
import {
  findArtifact,
  hashArtifact,
  putArtifact,
  readAudit,
  readSecrets,
  writeAudit,
} from './records.ts';
import { sendSignal, signalsAfter } from './signals.ts';
import {
  findThread,
  holdThread,
  insertThread,
  isThread,
  type Registry,
  readEvents,
  threadExists,
} from './threads.ts';
import { watchChanges, watchThread } from './watch.ts';

const SEQ = 'SELECT seq, epoch FROM threads WHERE id = ?';
const DECIDED = 'SELECT decided, who FROM approvals WHERE id = ?';

/** What every part of the port works with. */
export interface Parts extends Registry {
  random: RandomBytes;
  group: Group;
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
  const { connection, clock, group } = parts;

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
        if (isThread(connection, id)) return threadExists(id);
        const now = clock.now();
        const plan = planBudgets(parts, { chain: [], children: [thread], now });
        if (!plan.ok) return plan;
        const budget = plan.output.textOf(id) ?? '';
        insertThread(parts, text.output, { birth, budget }, now, effects);
        plan.output.keep([id], effects);
        return holdThread(parts, id, now, effects);
      },
      { thread: id, bytes: sizeOf(text.output.events), wasWritten },
    );
  }

  return {
    createThread,
    thread: (id) => parts.read(() => findThread(parts, id)),
    query: (filter = {}) => parts.read(() => query(connection, filter)),
    prune: (options) => parts.steps(() => prune(parts, group, options)),
  };
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
  const { group, feed, clock } = parts;
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
      const next = await parts.look(() => ok(nextQueued(parts, wanted.projects)));
      if (!next.ok) return next;
      const at = next.output;
      if (at !== undefined && at <= clock.now()) {
        const got = await group.write((effects) => takeThreads(parts, owner, wanted, effects), {
          rank: 'lease',
        });
        if (!got.ok || got.output.length > 0) return got;
      }
      if (isOver || !wanted.waitMs) return ok([]);
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

async function sweep(parts: Parts): ReturnType<Store['sweep']> {
  // Most sweeps find nothing: then nobody has to write.
  const found = await parts.look(() => ok(findAbandoned(parts).length > 0));
  if (!found.ok) return found;
  const swept = found.output
    ? await parts.group.write((effects) => interruptAbandoned(parts, effects), { rank: 'lease' })
    : ok([]);
  if (!swept.ok) return swept;
  const interrupted = swept.output;
  return parts.look(() => ok({ interrupted, unreleased: findUnreleased(parts) }));
}

export function leasesPort(
  parts: Parts,
): Pick<Store, 'claim' | 'take' | 'renew' | 'release' | 'sweep'> {
  const rank = 'lease';
  return {
    claim: (thread, owner, how = {}) =>
      parts.write((effects) => claimThread(parts, thread, owner, how, effects), { rank, thread }),
    take: (owner, wanted) => parts.steps(() => take(parts, owner, wanted)),
    renew: (leases, ttlMs) =>
      parts.write((effects) => renewLeases(parts, leases, ttlMs, effects), { rank }),
    release: (lease, how = {}) =>
      parts.write((effects) => releaseLease(parts, lease, how.again === true, effects), {
        rank,
        thread: lease.thread,
      }),
    sweep: () => parts.steps(() => sweep(parts)),
  };
}

export function signalsPort(parts: Parts): Pick<Store, 'signal' | 'signals' | 'onSignal'> {
  const { connection, clock, feed } = parts;
  return {
    signal(signal) {
      const text = encodeSignal(signal);
      if (!text.ok) return Promise.resolve(text);
      const { thread } = signal;
      return parts.write((effects) => sendSignal(parts, text.output, clock.now(), effects), {
        thread,
      });
    },
    signals: (thread, after = 0) => parts.read(() => ok(signalsAfter(connection, thread, after))),
    onSignal: (listener) => feed.onSignal(listener),
  };
}

export function approvalsPort(parts: Parts): Pick<Store, 'ask' | 'use' | 'decide' | 'approvals'> {
  const { connection, clock } = parts;
  return {
    ask(approval) {
      const valid = checkApproval(approval);
      if (!valid.ok) return Promise.resolve(valid);
      return parts.write(() => ok(askApproval(connection, approval, undefined, clock.now())));
    },
    use: (id, binding) =>
      parts.write(() => {
        const now = clock.now();
        const plans = planUses(connection, [{ approval: id, binding }], [], now);
        if (!plans.ok) return plans;
        writeUses(connection, plans.output, '');
        return findApproval(connection, id, now);
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
          const decided = decideApproval(connection, id, decision, now);
          const thread = decided.ok ? decided.output.thread : undefined;
          if (thread === undefined) return decided;
          const text = JSON.stringify({ approval: id });
          const signal = {
            thread,
            kind: 'approval',
            text,
            key: `approval:${id}`,
            by: decision.who,
          };
          // Who has ended needs no word of it.
          sendSignal(parts, signal, now, effects);
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

type RecordsPort = Pick<
  Store,
  'budgets' | 'putArtifact' | 'artifact' | 'secrets' | 'audit' | 'auditRows'
>;

export function recordsPort(parts: Parts): RecordsPort {
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
    auditRows: (limit, only) => parts.read(() => ok(readAudit(connection, limit, only))),
  };
}
