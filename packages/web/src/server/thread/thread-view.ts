// View of one thread for its page: rights and their use, pending approval requests, possible actions,
// and ceilings of its limits.
import {
  fail,
  getOwn,
  isObject,
  type Json,
  masked,
  type Outcome,
  ok,
  plainText,
} from '@kernmantle/core/base';
import { meterName } from '@kernmantle/core/journal';
import { createPrices, estimateTokens, worstCost } from '@kernmantle/core/llm';
import type { Runtime } from '@kernmantle/core/runtime';
import {
  type Amounts,
  type Approval,
  type BudgetKind,
  isEnded,
  type Store,
  type ThreadRow,
} from '@kernmantle/core/store';
import type { ListedApproval, ThreadView, WebAction } from '../../model/api.ts';
import type { WebParts } from '../context.ts';
import { listedApprovals, maskedJson } from '../listed-approvals.ts';
import type { CallIndex, CallIndexes } from './call-index.ts';
import { usesOfRights } from './rights.ts';

const MAX_ROWS = 500;
const MAX_REPLY = 20_000;
const MAX_APPROVALS = 1000;
const NANO = 1e9;

/** Final statuses after which a thread cannot resume. */
const FINAL: ReadonlySet<string> = new Set(['denied', 'aborted', 'killed']);

type ActedRow = Pick<ThreadRow, 'status' | 'kind' | 'parent'>;

/** Lists the actions that the status allows. A hook thread can only be stopped. */
function statusActs({ status, kind, parent }: ActedRow): WebAction[] {
  if (kind === 'hook') return isEnded(status) ? [] : ['stop', 'kill'];
  if (isEnded(status)) {
    return FINAL.has(status) || parent !== undefined ? ['replay'] : ['resume', 'replay'];
  }
  if (status === 'terminating') return ['kill'];
  if (status === 'running' || status === 'spawning') {
    return ['pause', 'inject', 'interrupt', 'compact', 'stop', 'kill'];
  }
  return ['resume', 'inject', 'compact', 'stop', 'kill'];
}

/** A root can be forked in every status. */
const actsFor = (row: ActedRow): WebAction[] =>
  row.parent === undefined ? [...statusActs(row), 'fork'] : statusActs(row);

/** Limits that are charged to the thread and all its ancestors. */
const CHARGED: readonly BudgetKind[] = [
  'tokens',
  'spend',
  'spawns',
  'input_tokens',
  'output_tokens',
];
/** Limits that only the thread itself is charged for. */
const OWN = ['turns', 'tool_calls'] as const;

const inUnits = (name: BudgetKind, value: bigint): number =>
  name === 'spend' ? Number(value) / NANO : Number(value);

/** Ceilings of a child: its own use plus the rest of its ancestors. */
async function leftAbove(store: Store, row: ThreadRow): Promise<Outcome<Amounts>> {
  const [own, ...above] = row.chain;
  if (own === undefined || above.length === 0) return ok({});
  const states = await store.budgets([own, ...above]);
  if (!states.ok) return states;
  const [mine, ...others] = states.output;
  const most: { [kind in BudgetKind]?: bigint } = {};
  for (const name of CHARGED) {
    for (const { limits, used, reserved } of others) {
      const max = limits[name];
      if (max === undefined) continue;
      const rest = max - used[name] - reserved[name] + (mine?.used[name] ?? 0n);
      const before = most[name];
      if (before === undefined || rest < before) most[name] = rest > 0n ? rest : 0n;
    }
  }
  return ok(most);
}

/** Highest value that each limit can be raised to, and the source of that ceiling. */
export async function ceilingsOf(
  { policies }: Pick<Runtime, 'policies'>,
  store: Store,
  row: ThreadRow,
): Promise<Outcome<ThreadView['ceilings']>> {
  const above = await leftAbove(store, row);
  if (!above.ok) return above;
  const ceilings: Record<string, { max: number; from: string }> = {};
  const lower = (name: string, max: number, from: string): void => {
    const before = ceilings[meterName(name)];
    if (!before || max < before.max) ceilings[meterName(name)] = { max, from };
  };
  const { limits } = policies().policy;
  for (const name of [...CHARGED, ...OWN, 'duration', 'depth', 'context']) {
    const max = Object.hasOwn(limits, name) ? Number(limits[name]) : Number.NaN;
    if (Number.isFinite(max)) lower(name, max, 'policy');
  }
  for (const name of CHARGED) {
    const max = above.output[name];
    if (max !== undefined) lower(name, inUnits(name, max), 'parent');
  }
  return ok(ceilings);
}

/** Highest cost of one more turn: all text so far, and the longest reply. Undefined if there is no price. */
function worstTurn({ library }: Runtime, { last }: CallIndex): number | undefined {
  if (last.model === '' || last.model === 'none' || last.maxTokens === 0) return undefined;
  const price = createPrices(library.config('pricing').layers).find(last.model);
  if (!price.ok) return undefined;
  const input = last.tokens + estimateTokens(last.bytes);
  return Number(worstCost(input, last.maxTokens, price.output)) / NANO;
}

/** Returns the pending approval requests of this thread and of its descendants. */
async function dueWithin(
  store: Store,
  id: string,
  pending: readonly Approval[],
): Promise<Outcome<ListedApproval[]>> {
  const own = pending.filter(({ thread }) => thread === id);
  const others = pending.filter(({ thread }) => thread !== undefined && thread !== id);
  if (others.length === 0) return await listedApprovals(store, own);
  const below = await store.query({ within: id, limit: MAX_ROWS });
  if (!below.ok) return below;
  const ids = new Set(below.output.rows.map((row) => row.id));
  const due = others.filter(({ thread }) => thread !== undefined && ids.has(thread));
  return await listedApprovals(store, [...own, ...due]);
}

export async function viewThread(
  { runtime, hub }: Pick<WebParts, 'runtime' | 'hub'>,
  books: CallIndexes,
  store: Store,
  before: ThreadRow,
  ran: ThreadView['ran'],
): Promise<Outcome<ThreadView>> {
  const { id } = before;
  // The stream reports every change from this position on.
  const position = hub.position({ id, seq: before.seq });
  const row = await store.thread(id);
  if (!row.ok) return row;
  const children = await store.query({ parent: id, limit: MAX_ROWS, direction: 'asc' });
  if (!children.ok) return children;
  const rows = await hub.rows([row.output, ...children.output.rows]);
  if (!rows.ok) return rows;
  const book = await books.of(store, id);
  if (!book.ok) return book;
  const own = await store.approvals({ thread: id, limit: MAX_APPROVALS });
  if (!own.ok) return own;
  const pending = await store.approvals({ state: 'pending', limit: MAX_APPROVALS });
  if (!pending.ok) return pending;
  const due = await dueWithin(store, id, pending.output);
  if (!due.ok) return due;
  const ceilings = await ceilingsOf(runtime, store, row.output);
  if (!ceilings.ok) return ceilings;
  const [thread, ...below] = rows.output;
  if (!thread) return fail('not_found', `thread \`${id}\` not found`, { thread: id });
  const worst = worstTurn(runtime, book.output);
  const { inputs, result } = row.output;
  const outputs = getOwn(result, 'outputs');
  const hasOutputs = isObject(outputs) ? Object.keys(outputs).length > 0 : outputs !== undefined;
  const reply = book.output.reply || plainText(getOwn(result, 'text') ?? '').slice(0, MAX_REPLY);
  return ok({
    thread,
    inputs: maskedJson(inputs),
    ...(result !== undefined && { result: maskedJson(withoutMarks(result)) }),
    ...(hasOutputs && { outputs: maskedJson(outputs ?? null) }),
    ...(reply !== '' && { reply: masked(reply) }),
    model: book.output.last.model,
    ran,
    rights: usesOfRights(runtime.library, book.output, own.output),
    due: due.output,
    children: below,
    acts: actsFor(row.output),
    ceilings: ceilings.output,
    ...(worst !== undefined && { worst_turn: worst }),
    position,
  });
}

/** Removes marks, which are for the pipeline and not for readers. */
function withoutMarks(result: Json): Json {
  if (typeof result !== 'object' || result === null || Array.isArray(result)) return result;
  const { marks: _, ...rest } = result;
  return rest;
}
