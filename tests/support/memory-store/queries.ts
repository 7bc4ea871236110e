// Lists of threads and their end, approvals and records, in memory.
import { createHash } from 'node:crypto';
import { canonicalJson, fail, type Outcome, ok, parseJson } from '@kernmantle/core/base';
import { BUDGET_KINDS } from '../../../packages/core/src/store/amounts.ts';
import { searchForm } from '../../../packages/core/src/store/encode.ts';
import type {
  Approval,
  ApprovalFilter,
  BudgetState,
  Decision,
  PruneOptions,
  Sealed,
  SpentThread,
  ThreadFilter,
  ThreadPage,
} from '../../../packages/core/src/store/port.ts';
import { isEnded, noThread, THREAD_STATUSES } from '../../../packages/core/src/store/thread-id.ts';
import { keepSecrets, sendSignal, stateOf, toRow } from './commit.ts';
import { need, refuse, type ThreadRecord, type World } from './world.ts';

function isWanted(record: ThreadRecord, filter: ThreadFilter): boolean {
  const { status, within, tenant, search = '' } = filter;
  const texts = [`${record.id} ${record.directive}`.toLowerCase(), ...record.texts];
  const names = ['directive', 'parent', 'root', 'kind', 'project'] as const;
  return (
    names.every((name) => filter[name] === undefined || filter[name] === record[name]) &&
    texts.some((text) => text.includes(searchForm(search))) &&
    (tenant === undefined || tenant === (record.tenant ?? '')) &&
    (within === undefined || record.chain.includes(within)) &&
    (status === undefined || [status].flat().includes(record.status))
  );
}

type Place = readonly [at: number, id: string];

const isAfter = ([at, id]: Place, [than, other]: Place): boolean =>
  at > than || (at === than && id > other);

function readCursor(cursor: string): Place | undefined {
  const read = parseJson(cursor);
  const [at, id] = read.ok && Array.isArray(read.output) ? read.output : [];
  return typeof at === 'number' && typeof id === 'string' ? [at, id] : undefined;
}

export function query(world: World, filter: ThreadFilter): Outcome<ThreadPage> {
  const unknown = [filter.status ?? 'running'].flat().find((one) => !THREAD_STATUSES.includes(one));
  if (unknown !== undefined || [filter.status ?? 'running'].flat().length === 0) {
    return fail('invalid_input', `\`${unknown ?? ''}\` is no status`);
  }
  const { cursor, direction, order_by: by = 'created', limit = 10 } = filter;
  const start = cursor === undefined ? undefined : readCursor(cursor);
  if (cursor !== undefined && !start)
    return fail('invalid_input', 'this cursor is not one of ours');
  const placeOf = (record: ThreadRecord): Place => [record[by], record.id];
  const isUp = direction === 'asc';
  const found = world.threads
    .all()
    .filter((record) => isWanted(record, filter))
    .sort((a, b) => (isAfter(placeOf(a), placeOf(b)) === isUp ? 1 : -1))
    .filter((one) => {
      if (!start) return true;
      return isUp ? isAfter(placeOf(one), start) : isAfter(start, placeOf(one));
    });
  const count = Math.max(1, Math.min(Math.trunc(limit), 500));
  const rows = found.slice(0, count).map((record) => {
    const {
      limits: _,
      inputs: _1,
      result: _2,
      chain: _3,
      revoked: _4,
      ...row
    } = toRow(world, record);
    return row;
  });
  const last = found[count - 1];
  if (found.length <= count || !last) return ok({ rows });
  return ok({ rows, next_cursor: JSON.stringify(placeOf(last)) });
}

export function spent(world: World, since: number): SpentThread[] {
  const begun = world.threads.all().filter(({ created }) => created >= since);
  begun.sort((a, b) => (isAfter([a.created, a.id], [b.created, b.id]) ? -1 : 1));
  return begun.map((record) => {
    const { id, parent, kind, directive, status, seq, created } = toRow(world, record);
    const { tokens = 0n, spend = 0n } = world.accounts.get(id)?.used ?? {};
    const above = parent === undefined ? {} : { parent };
    return { id, ...above, kind, directive, status, seq, created, used: { tokens, spend } };
  });
}

/** Removes a tree with everything but its budgets. */
function removeTree(world: World, all: readonly ThreadRecord[]): void {
  for (const { id } of all) {
    for (const table of [world.threads, world.events, world.signals, world.secrets])
      table.delete(id);
    for (const { key, thread } of world.reservations.all()) {
      if (thread === id) world.reservations.delete(key);
    }
    for (const { id: approval, thread } of world.approvals.all()) {
      if (thread === id) world.approvals.delete(approval);
    }
  }
}

export function prune(world: World, options: PruneOptions): string[] {
  const { before, keepFailed, trees, project } = options;
  const byRoot = Map.groupBy(world.threads.all(), ({ root }) => root);
  const old = [...byRoot.values()].filter((all) => {
    const isOver = all.every(({ status, ended = before }) => isEnded(status) && ended < before);
    const isAsked =
      project === undefined || all.some((one) => one.id === one.root && one.project === project);
    return isOver && isAsked && !(keepFailed && all.some(({ status }) => status === 'failed'));
  });
  const gone = old.slice(0, trees ?? old.length);
  for (const all of gone) removeTree(world, all);
  return gone.flatMap((all) => all.map(({ id }) => id));
}

export function approvals(world: World, filter: ApprovalFilter): Approval[] {
  const now = world.clock.now();
  const { id, thread, binding, state, limit = 100 } = filter;
  const bound = binding && canonicalJson(binding);
  return world.approvals
    .all()
    .map((one) => structuredClone({ ...one, state: stateOf(one, now) }))
    .filter(
      (one) =>
        (id === undefined || one.id === id) &&
        (thread === undefined || one.thread === thread) &&
        (bound === undefined || canonicalJson(one.binding) === bound) &&
        (state === undefined || one.state === state),
    )
    .sort((a, b) => a.asked - b.asked || (a.id < b.id ? -1 : 1))
    .slice(0, limit);
}

export function decide(world: World, id: string, given: Decision): Approval {
  const missing = fail('not_found', `there is no approval \`${id}\``, { approval: id });
  const found = need(world.approvals.get(id), missing);
  const [now, state] = [world.clock.now(), stateOf(found, world.clock.now())];
  if (state !== 'pending') {
    refuse('conflict', `approval \`${id}\` is ${state}`, { approval: id, state });
  }
  const { decision, who, channel, why, answer, uses = found.uses, expires } = given;
  const decided = {
    ...found,
    state: decision,
    who,
    channel,
    why,
    uses,
    decided: now,
    ...(answer === undefined ? {} : { answer: structuredClone(answer) }),
    ...(expires === undefined ? {} : { expires }),
  };
  world.approvals.set(id, decided);
  const { thread } = found;
  if (thread !== undefined) {
    const text = JSON.stringify({ approval: id });
    sendSignal(world, { thread, kind: 'approval', key: `approval:${id}`, by: who, text });
  }
  return structuredClone({ ...decided, state: stateOf(decided, now) });
}

export function budgets(world: World, threads: readonly string[]): Outcome<BudgetState[]> {
  const states: BudgetState[] = [];
  for (const thread of threads) {
    const account = world.accounts.get(thread);
    if (!account) return noThread(thread);
    const limits = Object.fromEntries(
      BUDGET_KINDS.flatMap((kind) => {
        const max = account.limits[kind];
        return max === undefined ? [] : [[kind, max]];
      }),
    );
    states.push({ thread, limits, used: { ...account.used }, reserved: { ...account.reserved } });
  }
  return ok(states);
}

const MAX_BYTES = 64 * 1024 * 1024;

export function putArtifact(
  world: World,
  thread: string,
  bytes: Uint8Array,
  secrets: readonly Sealed[],
): string {
  if (bytes.length > MAX_BYTES) {
    refuse('invalid_input', `${bytes.length} bytes are too many`, { thread });
  }
  need(world.threads.get(thread), noThread(thread));
  keepSecrets(world, thread, secrets);
  const hash = `sha256:${createHash('sha256').update(bytes).digest('hex')}`;
  world.artifacts.set(`${thread} ${hash}`, bytes.slice());
  return hash;
}
