// A store in memory: the second implementation of the port, which keeps
// everybody honest about what the port promises. Answers come late and in another order when delays
// are asked for, so whoever relies on an immediate answer is found out.
import { type Clock, fail, type Outcome, ok } from '@kernmantle/core/base';
import type { AuditRow } from '@kernmantle/core/kernel';
import {
  type CommitText,
  checkApproval,
  encodeCommit,
  encodeSignal,
  encodeThread,
  valuesAt,
} from '../../../packages/core/src/store/encode.ts';
import type {
  Answer,
  Approvals,
  Commit,
  Committed,
  Held,
  Journal,
  Leases,
  Owner,
  Records,
  Signal,
  SignalNote,
  Signals,
  Store,
  ThreadTable,
  Wanted,
} from '../../../packages/core/src/store/port.ts';
import { noThread } from '../../../packages/core/src/store/thread-id.ts';
import {
  addAudit,
  askApproval,
  bear,
  commitThread,
  revokedIn,
  sendSignal,
  signalsAfter,
  toHeld,
  toRow,
  useApproval,
} from './commit.ts';
import { claim, nextDue, release, renew, sweep, take, unreleased } from './leases.ts';
import { approvals, budgets, decide, prune, putArtifact, query, spent } from './queries.ts';
import { watchChanges, watchThread } from './watch.ts';
import { createWire, type LateWire, seededRandom, type WireFaults } from './wire.ts';
import { createWorld, need, RefusedCommit, type World } from './world.ts';

export interface MemoryOptions {
  /** Stores that are opened on the same world are like processes on the same data. */
  world: World;
  /** Seeds the delays: each call is answered after 0-3 turns of the loop each way. None: at once. */
  delays?: number;
  patienceMs?: number;
}

/** What this store was told about the threads it holds. */
interface Told {
  epoch: number;
  signals: number;
  announced: number;
}

interface Parts {
  world: World;
  wire: LateWire;
  told: Map<string, Told>;
  /** Ends with the store. */
  closing: AbortSignal;
}

const MAX_READ = 10_000;

/** Makes the refusal of a pure function one of the transaction. */
function agreed<T>(outcome: Outcome<T>): T {
  if (outcome.ok) return outcome.output;
  throw new RefusedCommit(outcome);
}

function remember({ world, told }: Parts, held: Held): Held {
  const { thread, epoch, heard, lease_ms } = held;
  const announced = world.threads.get(thread)?.wakes ?? 0;
  if (lease_ms > 0) told.set(thread, { epoch, signals: heard, announced });
  return held;
}

async function rememberAll(parts: Parts, answer: Answer<Held[]>): Answer<Held[]> {
  const held = await answer;
  if (held.ok) for (const one of held.output) remember(parts, one);
  return held;
}

async function rememberOne(parts: Parts, answer: Answer<Held>): Answer<Held> {
  const held = await answer;
  return held.ok ? ok(remember(parts, held.output)) : held;
}

/** Signals that this store did not hand out yet. */
function untold({ world, told }: Parts, thread: string): Signal[] {
  const known = told.get(thread);
  if (!known) return [];
  const signals = signalsAfter(world, thread, known.signals);
  known.signals = signals.at(-1)?.number ?? known.signals;
  return signals;
}

function threadsPort(parts: Parts): ThreadTable {
  const { world, wire } = parts;
  return {
    createThread(thread) {
      const text = encodeThread(thread);
      if (!text.ok) return Promise.resolve(text);
      const birth = Symbol(thread.id);
      const { id } = thread;
      const work = (): Held => {
        bear(world, text.output, undefined, birth);
        return toHeld(world, id);
      };
      const written = (): Held | undefined =>
        world.threads.get(id)?.birth === birth ? toHeld(world, id) : undefined;
      return rememberOne(parts, wire.call({ work, written, lane: id }));
    },
    thread: (id) =>
      wire.call({ work: () => toRow(world, need(world.threads.get(id), noThread(id))) }),
    query: (filter = {}) => wire.call({ work: () => agreed(query(world, filter)) }),
    spent: (since) => wire.call({ work: () => spent(world, since) }),
    prune: (options) => wire.call({ work: () => ({ removed: prune(world, options) }) }),
  };
}

/** The answer to a commit that is in the data already. */
function writtenCommit(
  world: World,
  thread: string,
  text: CommitText,
): Omit<Committed, 'signals'> | undefined {
  const { commit, events, children } = text;
  const record = world.threads.get(thread);
  const seq = commit.expect.seq + events.length;
  if (!record || record.seq !== seq || record.epoch !== commit.expect.epoch) return undefined;
  const wishes = [
    commit.reserve ?? [],
    ...children.map((child) => child.thread.reserve ?? []),
  ].flat();
  const revoked = revokedIn(world, record.chain);
  const asked = (commit.ask ?? []).flatMap(({ binding, thread: asker = thread }) =>
    approvals(world, { thread: asker, binding, state: 'pending', limit: 1 }),
  );
  return {
    seq,
    lease_ms: record.lease_until === undefined ? 0 : record.lease_until - world.clock.now(),
    reserved: wishes.map(({ key }) => key).filter((key) => world.reservations.get(key)),
    children: children.map((child) => toHeld(world, child.thread.id)),
    approvals: asked,
    ...(revoked === undefined ? {} : { revoked }),
  };
}

const LOST = ['stale_epoch', 'conflict', 'lease_expired'];

async function commitTo(parts: Parts, thread: string, commit: Commit): Answer<Committed> {
  const { world, wire, told } = parts;
  const text = encodeCommit(commit);
  if (!text.ok) return text;
  const work = () => commitThread(world, thread, text.output);
  const written = () => writtenCommit(world, thread, text.output);
  const answer = await wire.call({ work, written, lane: thread });
  const known = told.get(thread);
  if (!answer.ok) {
    const { code } = answer.error;
    if (code === 'signalled' && known) untold(parts, thread);
    if (LOST.includes(code) && known?.epoch === commit.expect.epoch) told.delete(thread);
    return answer;
  }
  for (const child of answer.output.children) remember(parts, child);
  const signals = untold(parts, thread);
  if (commit.release) told.delete(thread);
  return ok({ ...answer.output, signals });
}

function journalPort(parts: Parts): Journal {
  const { world, wire, closing } = parts;
  const either = (signal: AbortSignal): AbortSignal => AbortSignal.any([signal, closing]);
  return {
    commit: (thread, commit) => commitTo(parts, thread, commit),
    read: (thread, range = {}) =>
      wire.call({
        work: () => {
          const all = world.events.get(thread) ?? [];
          if ('last' in range) return structuredClone(all.slice(-Math.min(range.last, MAX_READ)));
          const { after = 0, limit = MAX_READ, types } = range;
          const wanted = all.slice(after).filter(({ type }) => types?.includes(type) ?? true);
          return structuredClone(wanted.slice(0, Math.min(limit, MAX_READ)));
        },
      }),
    countEvents: (threads, type) =>
      wire.call({
        work: () =>
          threads
            .flatMap((thread) => world.events.get(thread) ?? [])
            .filter((event) => event.type === type).length,
      }),
    fieldsOf: (threads, wanted) =>
      wire.call({
        work: () =>
          threads.map((thread) =>
            (world.events.get(thread) ?? []).flatMap(({ type, data }) => {
              const paths = wanted[type];
              return paths ? [{ type, values: valuesAt(data, paths) }] : [];
            }),
          ),
      }),
    watch: (cursor, signal) => watchThread(world, wire, cursor, either(signal)),
    changes: (filter, signal) => watchChanges(world, filter, either(signal)),
  };
}

async function takeFrom(parts: Parts, owner: Owner, wanted: Wanted): Answer<Held[]> {
  const { world, wire, closing } = parts;
  const { waitMs = 0 } = wanted;
  const end = performance.now() + waitMs;
  for (;;) {
    const version = world.version();
    const taken = await wire.call({ work: () => take(world, owner, wanted) });
    if (!taken.ok || taken.output.length > 0 || performance.now() >= end) return taken;
    const due = (nextDue(world, wanted) ?? Number.POSITIVE_INFINITY) - world.clock.now();
    const most = Math.ceil(Math.max(1, Math.min(due, end - performance.now())));
    const timer = new AbortController();
    const timeout = setTimeout(() => timer.abort(), most);
    await world.changed(version, AbortSignal.any([closing, timer.signal]));
    clearTimeout(timeout);
    if (closing.aborted) return ok([]);
  }
}

function leasesPort(parts: Parts): Leases {
  const { world, wire, told } = parts;
  return {
    claim: (thread, owner, how = {}) =>
      rememberOne(parts, wire.call({ work: () => claim(world, thread, owner, how), lane: thread })),
    take: (owner, wanted) => rememberAll(parts, takeFrom(parts, owner, wanted)),
    async renew(leases, ttlMs) {
      const work = () => leases.filter((lease) => renew(world, lease, ttlMs));
      const kept = await wire.call({ work });
      if (!kept.ok) return kept;
      for (const lease of leases) {
        if (!kept.output.includes(lease)) told.delete(lease.thread);
      }
      return ok(
        kept.output.map(({ thread }) => ({
          thread,
          lease_ms: (world.threads.get(thread)?.lease_until ?? 0) - world.clock.now(),
          signals: untold(parts, thread),
        })),
      );
    },
    release(lease, how = {}) {
      const work = (): null => {
        release(world, lease, how);
        return null;
      };
      if (told.get(lease.thread)?.epoch === lease.epoch) told.delete(lease.thread);
      return wire.call({ work, lane: lease.thread });
    },
    sweep: () =>
      wire.call({
        work: () => ({ interrupted: sweep(world), unreleased: unreleased(world) }),
      }),
  };
}

function signalsPort({ world, wire, told }: Parts): Signals {
  return {
    signal(signal, audit) {
      const text = encodeSignal(signal);
      if (!text.ok) return Promise.resolve(text);
      const work = () => {
        const sent = agreed(sendSignal(world, text.output));
        addAudit(world, audit ? [audit] : []);
        return sent;
      };
      return wire.call({ work, lane: signal.thread });
    },
    signals: (thread, after = 0) =>
      wire.call({ work: () => signalsAfter(world, thread, after).slice(0, 1000) }),
    onSignal(listener: (note: SignalNote) => void) {
      return world.listen(() => {
        for (const [thread, known] of told) {
          for (const { number, kind } of signalsAfter(world, thread, known.announced)) {
            known.announced = number;
            queueMicrotask(() => listener({ thread, number, kind }));
          }
        }
      });
    },
  };
}

function approvalsPort({ world, wire }: Parts): Approvals {
  const find = (id: string) => need(approvals(world, { id })[0], fail('not_found', `no \`${id}\``));
  return {
    ask(approval) {
      const valid = checkApproval(approval);
      if (!valid.ok) return Promise.resolve(valid);
      return wire.call({ work: () => structuredClone(askApproval(world, approval)) });
    },
    use: (id, binding) =>
      wire.call({
        work: () => {
          useApproval(world, { approval: id, binding }, []);
          return find(id);
        },
      }),
    decide(id, decision, audit) {
      let when = 0;
      const work = () => {
        when = world.clock.now();
        const decided = decide(world, id, decision);
        addAudit(world, audit ? [audit] : []);
        return decided;
      };
      const written = () => {
        const row = find(id);
        return row.decided === when && row.who === decision.who ? row : undefined;
      };
      return wire.call({ work, written });
    },
    restate: ({ id, shown }) =>
      wire.call({
        work() {
          const found = find(id);
          if (found.state === 'pending') world.approvals.set(id, { ...found, shown });
          return find(id);
        },
      }),
    approvals: (filter) => wire.call({ work: () => approvals(world, filter) }),
  };
}

function recordsPort({ world, wire }: Parts): Records {
  return {
    budgets: (threads) => wire.call({ work: () => agreed(budgets(world, threads)) }),
    putArtifact: (thread, bytes, secrets = []) =>
      wire.call({ work: () => putArtifact(world, thread, bytes, secrets) }),
    artifact: (thread, hash) =>
      wire.call({
        work: () => {
          const missing = fail('not_found', `there is no artifact \`${hash}\``, { hash });
          return need(world.artifacts.get(`${thread} ${hash}`), missing).slice();
        },
      }),
    secrets: (thread) =>
      wire.call({ work: () => structuredClone([...(world.secrets.get(thread) ?? [])]) }),
    audit: (rows) =>
      wire.call({
        work: () => {
          addAudit(world, rows);
          return null;
        },
      }),
    auditRows: ({ limit, decision, surface, thread, tool, since }) =>
      wire.call({
        work: () => {
          const isWanted = (row: AuditRow): boolean => {
            const [kind, id = ''] = row.operation.split(/:(.*)/s);
            return (
              (decision === undefined || row.decision === decision) &&
              (surface === undefined || row.surface === surface) &&
              (thread === undefined || row.caller === thread || row.target === thread) &&
              (tool === undefined || (kind === 'tool' && `/${id}`.endsWith(`/${tool}`))) &&
              (since === undefined || row.time >= since)
            );
          };
          const rows = world.audit.all().filter(isWanted);
          return limit < 1 ? [] : rows.slice(-Math.min(limit, MAX_READ));
        },
      }),
  };
}

export { createWorld, type World };

export function openMemoryStore(options: MemoryOptions): { store: Store; faults: WireFaults } {
  const { world, delays, patienceMs = 10_000 } = options;
  const clock: Clock = world.clock;
  const random = seededRandom(delays ?? 1);
  const wire = createWire(world, {
    maxTurns: delays === undefined ? 0 : 3,
    patienceMs,
    clock,
    random,
  });
  const end = new AbortController();
  const parts: Parts = { world, wire, told: new Map(), closing: end.signal };
  const store: Store = {
    ...threadsPort(parts),
    ...journalPort(parts),
    ...leasesPort(parts),
    ...signalsPort(parts),
    ...approvalsPort(parts),
    ...recordsPort(parts),
    async close() {
      end.abort();
      await wire.close();
    },
  };
  return { store, faults: wire };
}
