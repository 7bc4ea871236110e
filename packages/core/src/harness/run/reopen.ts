// Reopens threads that have ended: a person resumes a thread that reached a limit, failed, was stopped or completed,
// with new limits, another model or a message. The thread continues where it stopped. Only a person can do this;
// requests of models, hooks and MCP clients never reach this file.
import { fail, type Json, type Outcome, ok, suggestion } from '../../base/index.ts';
import { COMPACT, type CompactMode, LIMIT_NAMES, strictestMode } from '../../flow/index.ts';
import type { DirectiveLimits } from '../../items/index.ts';
import {
  type DataOf,
  hasLastWord,
  type JournalEvent,
  type Recorded,
  startOf,
} from '../../journal/index.ts';
import { formatMoney } from '../../llm/index.ts';
import {
  type Amounts,
  type AuditEntry,
  type BudgetKind,
  isEnded,
  type LeasedThread,
  type ThreadRow,
  type ThreadStatus,
} from '../../store/index.ts';
import type { Attachment } from '../files/attachment.ts';
import { unpackCost, usedAmounts } from '../limits/cost.ts';
import { packLimits, unpackLimits } from '../limits/effective-limits.ts';
import {
  type Compaction,
  type EffectiveLimit,
  type EffectiveLimits,
  type LimitName,
  limitNumber,
  readLimit,
} from '../limits/limit.ts';
import { BUDGETED, leftOf } from '../thread/budget.ts';
import { modelFor, priced } from '../thread/choose-model.ts';
import { FROM_USER, packMarks } from '../thread/conversation.ts';
import type { ReadyFile } from '../thread/ports.ts';
import { mayRewind, type RewindWords, type SnapshotName } from '../thread/restore.ts';
import type { HarnessPorts, Prepared, ThreadMode } from '../thread/thread.ts';

export interface ResumeOptions {
  /** Snapshot to go back to first. With it, a root that has ended can be resumed too. */
  from?: SnapshotName;
  words?: RewindWords;
  /** Files for the model. They stand before the words. Set by a person, like `reopen`. */
  attach?: readonly Attachment[];
  /** Files that a replay takes from the journal instead. */
  recorded?: readonly ReadyFile[];
  /** Set by a person. Also resumes after `limit`, `failed`, `terminated` and, with a message, `completed`. */
  reopen?: true;
  /** New limits, which replace the old ones with the same names. Set by a person, like `reopen`. */
  limits?: DirectiveLimits;
  /** A tier or a model id for the rest of the run. */
  model?: string;
  /** A mode for the rest of the run. */
  mode?: ThreadMode;
  /** Makes room in the context window before the next turn. `focus`: what the summary must keep. */
  compact?: { readonly focus?: string };
  /** Name of the actor for the journal. Absent: the process. */
  by?: string;
  /** Audit row of the person, for the commit that records the resume. */
  audit?: AuditEntry;
  /** The request is recorded and the thread queued. The worker that takes it resumes it. */
  elsewhere?: true;
  /** Digest of the items for the rest of the run. The request `today` chooses the current items. */
  items?: string;
}

/** Statuses after which a thread can never be reopened. */
const FINAL: ReadonlySet<ThreadStatus> = new Set<ThreadStatus>(['denied', 'aborted', 'killed']);

/** Fails with `thread_ended` if the thread has ended and cannot be reopened with these options. */
export function mayReopen(row: ThreadRow, options: ResumeOptions): Outcome<null> {
  const { id, status } = row;
  const isBack = options.from !== undefined;
  if (!isEnded(status) || !(isBack || options.reopen)) return ok(null);
  const refuse = (why: string) =>
    fail('thread_ended', `thread \`${id}\` has ended: ${status}${why}`, { thread: id, status });
  if (FINAL.has(status)) return refuse(', which is final; start a new run');
  const own = mayRewind(row);
  if (!own.ok || isBack || status !== 'completed' || options.words || options.attach) return own;
  return refuse('; resume it with a message to continue the conversation');
}

/** Returns the limits from the start of the thread and from people. Limits that hooks raised are not included. */
export function limitsSet(history: readonly Recorded[], row: ThreadRow): EffectiveLimits {
  let packed = startOf(history)?.limits ?? row.limits;
  for (const { type, data } of history) {
    if (type === 'fork') packed = data.limits;
    if (type === 'signal' && data.limits) packed = { ...packed, ...data.limits };
  }
  return unpackLimits(packed);
}

/** Limits that are not charged along the chain. Only the own limits of a child bound them. */
const OWN: ReadonlySet<LimitName> = new Set<LimitName>(['turns', 'tool_calls', 'context']);

const amountText = (name: LimitName, value: bigint): string =>
  name === 'spend' ? formatMoney(value) : String(limitNumber(name, value));

function readWanted(request: DirectiveLimits, currency: string): Outcome<Map<LimitName, bigint>> {
  const values = new Map<LimitName, bigint>();
  for (const [key, raw] of Object.entries(request)) {
    if (raw === undefined || (key === 'spend_currency' && raw === currency)) continue;
    const name = LIMIT_NAMES.find((each) => each === key);
    const value = name && readLimit(name, raw);
    if (name === undefined || value === undefined) {
      const hint = name === undefined ? suggestion(key, LIMIT_NAMES) : '';
      return fail('invalid_input', `limit \`${key}\` cannot be \`${String(raw)}\`${hint}`);
    }
    values.set(name, value);
  }
  return ok(values);
}

interface RaiseBounds {
  used: Partial<Record<LimitName, bigint>>;
  /** Returns the maximum values of a limit, each with its origin. */
  most(name: LimitName): readonly (readonly [bigint | undefined, string])[];
}

/** Reads the used amount of each limit and its maximum values. */
async function boundsOf(
  ports: HarnessPorts,
  { row }: LeasedThread,
  prepared: Prepared,
  charged: Readonly<Record<BudgetKind, bigint>>,
): Promise<Outcome<RaiseBounds>> {
  const cost = unpackCost(row.cost);
  const used: Partial<Record<LimitName, bigint>> = cost.ok ? usedAmounts(cost.output) : {};
  // The store counts hooks too.
  for (const name of BUDGETED) {
    if (charged[name] > (used[name] ?? 0n)) used[name] = charged[name];
  }
  const { limits: policy } = ports.policies().policy;
  const above = row.parent === undefined ? undefined : await leftOf(ports, row.chain.slice(1));
  if (above && !above.ok) return above;
  const window = prepared.price.context;
  return ok({
    used,
    most(name) {
      const rest = above?.output[name as BudgetKind];
      const fromAbove = rest === undefined ? undefined : (used[name] ?? 0n) + rest;
      const isHeldAbove = above && !OWN.has(name) && !BUDGETED.some((kind) => kind === name);
      return [
        [Object.hasOwn(policy, name) ? (readLimit(name, policy[name]) ?? 0n) : undefined, 'policy'],
        [isHeldAbove ? prepared.limits[name]?.value : fromAbove, 'parent'],
        [name === 'context' && window !== undefined ? BigInt(window) : undefined, 'model'],
      ];
    },
  });
}

/** Returns the mode that a person sets. Fails with `invalid_input` if the policy is stricter, or without a conversation. */
function newMode(
  { context_compact: now }: EffectiveLimits,
  mode: CompactMode,
  { [COMPACT]: most = 'auto' }: Readonly<Record<string, number | string>>,
): Outcome<Compaction> {
  const isKept = now.from === 'script' || now.from === 'plan';
  if (!isKept && strictestMode([mode, most]) === mode)
    return ok({ ...now, value: mode, from: 'resume' });
  const why = isKept ? `a ${now.from} holds no conversation` : `the policy allows ${most}`;
  return fail('invalid_input', `limit \`${COMPACT}\` cannot be \`${mode}\`, because ${why}`);
}

interface NewLimits {
  limits: EffectiveLimits;
  /** The new values alone, for the journal. */
  set: DataOf<'thread_start'>['limits'];
  raise: Amounts;
}

/** Returns the limits with new values. Fails with `invalid_input` for a value below the use or above a maximum. */
export async function newLimits(
  ports: HarnessPorts,
  leased: LeasedThread,
  prepared: Prepared,
  { context_compact: mode, ...request }: DirectiveLimits,
): Promise<Outcome<NewLimits>> {
  const values = readWanted(request, prepared.limits.spend_currency);
  if (!values.ok) return values;
  const { limits: policy } = ports.policies().policy;
  const room = mode && newMode(prepared.limits, mode, policy);
  if (room && !room.ok) return room;
  const budgets = await ports.store.budgets([leased.thread]);
  const budget = budgets.ok ? budgets.output[0] : undefined;
  if (!budgets.ok || !budget) return budgets.ok ? fail('internal_error', 'no budget') : budgets;
  const bounds = await boundsOf(ports, leased, prepared, budget.used);
  if (!bounds.ok) return bounds;
  const set: { [name in LimitName]?: EffectiveLimit } = {};
  const raise: { [kind in BudgetKind]?: bigint } = {};
  for (const [name, value] of values.output) {
    const used = bounds.output.used[name] ?? 0n;
    const about = { limit: name, wanted: amountText(name, value) };
    if (value < used) {
      const message = `limit \`${name}\` cannot be ${about.wanted}, because ${amountText(name, used)} is used already; set the new total`;
      return fail('invalid_input', message, { ...about, used: amountText(name, used) });
    }
    for (const [most, from] of bounds.output.most(name)) {
      if (most === undefined || value <= most) continue;
      const message = `limit \`${name}\` cannot be ${about.wanted}, because the ${from} allows ${amountText(name, most)}`;
      return fail('invalid_input', message, { ...about, max: amountText(name, most), from });
    }
    set[name] = { value, from: 'resume', declared: true };
    const before = budget.limits[name as BudgetKind];
    if (before !== undefined && value > before) raise[name as BudgetKind] = value;
  }
  const changed = { ...set, ...(room && { [COMPACT]: room.output }) };
  const limits = { ...prepared.limits, ...changed };
  const packed = packLimits(limits);
  const names = Object.keys(changed);
  return ok({
    limits,
    set: Object.fromEntries(names.map((name): [string, Json] => [name, packed[name] ?? null])),
    raise,
  });
}

/** Returns the id of a new model for the journal. Fails if the thread cannot use the model. */
export function newModel(
  ports: HarnessPorts,
  { directive, item }: Prepared,
  limits: EffectiveLimits,
  modelName: string,
): Outcome<string> {
  if (directive.process.script) {
    return fail(
      'invalid_input',
      `directive \`${item.id}\` is a script, which has no model of its own`,
    );
  }
  const chosen = priced(ports, modelFor(ports, modelName), limits);
  return chosen.ok ? ok(chosen.output.model.model) : chosen;
}

/** Returns the events of a resume: the signal with its actor, and the message for the model. */
export function resumeEvents(
  history: readonly Recorded[],
  status: ThreadStatus,
  data: DataOf<'signal'>,
  words: RewindWords | undefined,
  files: readonly JournalEvent[] = [],
): JournalEvent[] {
  const after = isEnded(status) ? { after: status } : {};
  const events: JournalEvent[] = [{ type: 'signal', data: { ...data, ...after } }, ...files];
  const marks = packMarks(FROM_USER);
  if (words) events.push({ type: 'injected_message', data: { ...words, marks } });
  else if (isEnded(status) && hasLastWord(history) && files.length === 0) {
    const text = `[harness] this thread had ended (${status}) and goes on: do what is left to do.`;
    events.push({ type: 'injected_message', data: { text, marks, by: 'harness' } });
  }
  return events;
}
