// What hooks live on: a share of the thread's budget, set aside when it starts, so that they can run
// when a limit is reached. Taken out of the thread's own limits; nothing is lent out on top.
import {
  fail,
  getOwn,
  isObject,
  type Json,
  type JsonObject,
  type Outcome,
  ok,
} from '../../base/index.ts';
import type { Descriptor } from '../../flow/index.ts';
import type { Held, OpenReservation, Reserve } from '../../store/index.ts';
import { MAX_HOOK_NESTING } from '../hooks/action.ts';
import { unpackCost } from '../limits/cost.ts';
import { setAside } from '../limits/effective-limits.ts';
import type { EffectiveLimit, EffectiveLimits, LimitAmounts, LimitName } from '../limits/limit.ts';
import { scriptOutputs, scriptRequest } from '../script/run-script-thread.ts';
import { type Refusable } from '../thread/journal-writer.ts';
import type { ThreadResult } from '../thread/ports.ts';
import type { CompiledHook, HarnessPorts, Prepared, Thread } from '../thread/thread.ts';
import { amountsOf } from '../turn/turn-account.ts';
import { type LimitsLeft, prepareThread } from './prepare.ts';

/** Reservations that a thread's hooks draw from begin so. */
const reservePrefix = (id: string): string => `${id}:hooks`;

/** A hook that is a script asks no model and needs no budget. */
function asksModel({ library }: HarnessPorts, { hook }: CompiledHook): boolean {
  const found = library.find('directive', hook.directive);
  return found.ok && found.output.directive?.process.script === undefined;
}

/** What the thread itself may use, and what is kept for its hooks. */
export function splitLimits(
  ports: HarnessPorts,
  limits: EffectiveLimits,
  hooks: readonly CompiledHook[],
): { own: EffectiveLimits; hooks: LimitAmounts } {
  const share = getOwn(ports.library.config('limits').value, 'hook_reserve');
  const isNeeded = hooks.some((hook) => asksModel(ports, hook));
  return setAside(limits, isNeeded && typeof share === 'number' ? share : 0);
}

/** What is set aside already: at the birth of the thread, or by a process that was lost. */
export const openReserve = ({
  row,
  open,
}: Pick<Held, 'row' | 'open'>): OpenReservation | undefined =>
  open.find(({ key }) => key.startsWith(reservePrefix(row.id)));

/**
 * What is set aside along the whole chain; none when no hook needs it. A thread that ended and was opened
 * again has given its reserve back, so the new one is named by the epoch. Who gets none goes without.
 */
export function hookReserve(
  id: string,
  epoch: number,
  limits: LimitAmounts,
  drawFrom: string | undefined,
): Reserve[] {
  const { tokens = 0n } = limits;
  if (tokens === 0n) return [];
  // A kind that nobody limits is set aside too, because requests draw all kinds from here.
  const amounts = amountsOf({ input_tokens: tokens, output_tokens: tokens, ...limits });
  const from = drawFrom === undefined ? {} : { from: drawFrom };
  const key = `${reservePrefix(id)}:${epoch}`;
  return [{ key, amounts, optional: true, standing: true, ...from }];
}

const DRAWN = ['tokens', 'input_tokens', 'output_tokens', 'spend'] as const;

/** What a hook's own limits may not pass: what is left in the reserve, and of its time. */
export function hookLimitsLeft(thread: Thread): LimitsLeft {
  const { hooks, budget } = thread;
  const left: { [name in LimitName]?: Pick<EffectiveLimit, 'value' | 'declared'> } = {};
  const put = (name: LimitName, value: bigint): void => {
    left[name] = { value, declared: budget.limits[name]?.declared ?? false };
  };
  if (hooks.reserve === undefined) return left;
  for (const name of DRAWN) if (budget.limits[name]) put(name, hooks.left[name] ?? 0n);
  const used = BigInt(Math.ceil(budget.meter.read().hooks.duration_ms));
  if (hooks.limits.duration !== undefined) put('duration', hooks.limits.duration - used);
  return left;
}

// A hook runs a directive of its own, in a thread of its own.

/** Where a new thread stands. */
export interface BirthPlace {
  parent?: Thread;
  kind?: 'thread' | 'hook';
  /** Made from the directive's name and the time when absent. */
  id?: string;
  runner?: string;
  detached?: boolean;
  /** What its inputs and its first message carry; a person's words when absent. */
  marks?: Descriptor;
  /** A reservation made up front for it. */
  drawFrom?: string;
  /** What its parent's commit changes besides; asked when the commit is made. */
  spawn?: () => Pick<Refusable, 'charge' | 'reserve' | 'cost'>;
  /** Of a hook: what it answers. */
  event?: string;
}

/** How a prepared directive becomes a thread and runs to its end. */
export type RunPrepared = (
  ports: HarnessPorts,
  prepared: Prepared,
  place: BirthPlace,
  signal: AbortSignal,
  message: string,
) => Promise<Outcome<ThreadResult>>;

/** Verdicts have fields that a directive need not declare. */
const withExtra = (outputs: JsonObject): JsonObject => {
  const { extra, ...declared } = outputs;
  return isObject(extra) ? { ...extra, ...declared } : outputs;
};

/** What only computes has its time limit all the same. */
function withinTime({ clock }: HarnessPorts, { limits, item }: Prepared): () => Outcome<null> {
  const ends = clock.monotonic() + Number(limits.duration?.value ?? 0n);
  return () =>
    limits.duration === undefined || clock.monotonic() < ends
      ? ok(null)
      : fail('duration_exceeded', `the script of \`${item.id}\` took longer than its limit`);
}

/**
 * A script that only computes needs no thread: it has no effect, costs nothing and leaves no row.
 * Undefined: it is none, or it wants more than that and has done nothing yet.
 */
async function compute(thread: Thread, prepared: Prepared): Promise<Outcome<Json> | undefined> {
  const {
    ports,
    talk: { conversation },
    control: { signal },
  } = thread;
  const { script } = prepared.directive.process;
  if (!script) return undefined;
  const request = scriptRequest(ports, prepared, script, conversation.marks());
  const answer = await ports.script({ ...request, signal, gate: withinTime(ports, prepared) });
  if (answer.needsThread) return undefined;
  const outputs = scriptOutputs(prepared.directive, answer);
  return outputs.ok ? ok(withExtra(outputs.output)) : outputs;
}

/** Own limits, narrowed rights, nesting bounded. */
export const createHookRunner =
  (run: RunPrepared) =>
  async (thread: Thread, name: string, inputs: JsonObject): Promise<Outcome<Json>> => {
    const { ports } = thread;
    const prepared = await prepareThread(
      ports,
      { directive: name, inputs },
      hookLimitsLeft(thread),
    );
    if (!prepared.ok) return prepared;
    const computed = await compute(thread, prepared.output);
    if (computed) return computed;
    if (thread.place.nesting >= MAX_HOOK_NESTING) {
      return fail('hook_failed', `hooks are nested deeper than ${MAX_HOOK_NESTING}`);
    }
    const place: BirthPlace = { parent: thread, kind: 'hook' };
    if (thread.hooks.reserve !== undefined) place.drawFrom = thread.hooks.reserve;
    const ran = await run(ports, prepared.output, place, thread.control.signal, '');
    if (!ran.ok) return ran;
    const { status, reason, outputs, cost } = ran.output;
    countHook(thread, cost);
    return status === 'completed'
      ? ok(outputs)
      : fail('hook_failed', `hook thread ended ${status}: ${reason}`);
  };

/** Counted apart, with what its own hooks used; so much less is left for the next one. */
function countHook({ budget: { meter }, hooks }: Thread, packed: JsonObject): void {
  const cost = unpackCost(packed);
  if (!cost.ok) return;
  const { hooks: inner, ...own } = cost.output;
  meter.countHook(cost.output);
  meter.countHook(inner);
  const less = (amount: bigint | undefined, used: bigint): bigint =>
    amount === undefined || amount < used ? 0n : amount - used;
  hooks.left = {
    tokens: less(hooks.left.tokens, BigInt(own.tokens + inner.tokens)),
    input_tokens: less(hooks.left.input_tokens, BigInt(own.input_tokens)),
    output_tokens: less(hooks.left.output_tokens, BigInt(own.output_tokens)),
    spend: less(hooks.left.spend, own.spend + inner.spend),
  };
}
