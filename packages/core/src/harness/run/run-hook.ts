// Manages the budget of hooks: a share of the thread's limits that is reserved at its start, so that hooks can run
// when a limit is reached. The share is taken from the thread's own limits and not added to them.
import { fail, getOwn, isObject, type JsonObject, type Outcome, ok } from '../../base/index.ts';
import { makeValue, markFailure, type Value } from '../../flow/index.ts';
import type { Directive } from '../../items/index.ts';
import { estimateTokens, resolveModel, worstCost } from '../../llm/index.ts';
import type { LeasedThread, OpenReservation, Reserve } from '../../store/index.ts';
import { unpackCost } from '../limits/cost.ts';
import { directiveLimits, HOOK_MARGIN, reserveAmounts } from '../limits/effective-limits.ts';
import type { EffectiveLimit, EffectiveLimits, LimitAmounts, LimitName } from '../limits/limit.ts';
import { createRules, rulesOf } from '../rights/thread-rules.ts';
import { scriptOutputs, scriptRequest } from '../script-thread/script-thread.ts';
import { BUDGETED } from '../thread/budget.ts';
import { describedTools, permittedTools } from '../thread/permitted-tools.ts';
import type { ThreadResult } from '../thread/ports.ts';
import { systemPrompt } from '../thread/prompt.ts';
import type {
  CompiledHook,
  HarnessPorts,
  Prepared,
  PreparePorts,
  Thread,
} from '../thread/thread.ts';
import { MODEL_TOOLS_BYTES } from '../turn/ask-model.ts';
import { amountsOf, leastAnswer } from '../turn/turn-account.ts';
import type { LimitsLeft } from './prepare.ts';

/** Returns the prefix of the keys of reservations that a thread's hooks draw from. */
const reservePrefix = (id: string): string => `${id}:hooks`;

/** Returns the directive of a hook that asks a model, and `undefined` for a script, which needs no budget. */
function askingDirective(
  ports: PreparePorts,
  { hook }: Pick<CompiledHook, 'hook'>,
): { directive: Directive; bytes: number } | undefined {
  const found = ports.library.find('directive', hook.directive);
  const directive = found.ok ? found.output.directive : undefined;
  if (!found.ok || !directive || directive.process.script !== undefined) return undefined;
  const tools = describedTools(permittedTools(ports, directive), false);
  return { directive, bytes: found.output.body.length + JSON.stringify(tools).length };
}

type HookPorts = PreparePorts & Pick<HarnessPorts, 'instructions'>;

/** Returns the amounts that one request of the most expensive hook needs. */
function leastForHooks(
  ports: HookPorts,
  asking: readonly { directive: Directive; bytes: number }[],
): LimitAmounts {
  const { agents, universal } = ports.instructions();
  const around = systemPrompt(agents, universal).length + MODEL_TOOLS_BYTES;
  const answer = leastAnswer(ports);
  let [input, spend] = [0, 0n];
  for (const { directive, bytes } of asking) {
    const tokens = estimateTokens(Math.ceil(((around + bytes) * Number(HOOK_MARGIN)) / 100));
    const { tier, model_id } = directive.model ?? {};
    const modelChoice = { ...(tier && { tier }), ...(model_id && { model_id }) };
    const model = resolveModel(ports.models(), modelChoice);
    const found = model.ok ? ports.prices().find(model.output.model) : model;
    const price = found.ok ? found.output : ports.prices().default();
    const cost = price ? worstCost(tokens, answer, price) : 0n;
    input = Math.max(input, tokens);
    if (cost > spend) spend = cost;
  }
  const [input_tokens, output_tokens] = [BigInt(input), BigInt(answer)];
  return { tokens: input_tokens + output_tokens, input_tokens, output_tokens, spend };
}

/** Splits limits between a thread and its hooks. `room`: amounts that the ancestors have left. */
export function splitLimits(
  ports: HarnessPorts,
  limits: EffectiveLimits,
  hooks: readonly CompiledHook[],
  room?: LimitAmounts,
): { own: EffectiveLimits; hooks: LimitAmounts } {
  const share = getOwn(ports.library.config('limits').value, 'hook_reserve');
  const asking = hooks.flatMap((hook) => askingDirective(ports, hook) ?? []);
  if (asking.length === 0 || typeof share !== 'number') return reserveAmounts(limits, 0);
  const least = leastForHooks(ports, asking);
  return reserveAmounts(limits, share, { least, ...(room && { room }) });
}

const DRAWN = ['tokens', 'input_tokens', 'output_tokens', 'spend'] as const;

/** Returns the limit that leaves too little for one request, or `undefined` if none does. */
const tooLittle = (least: LimitAmounts, left: LimitAmounts): LimitName | undefined =>
  DRAWN.find((name) => left[name] !== undefined && (left[name] ?? 0n) < (least[name] ?? 0n));

const valuesOf = (limits: EffectiveLimits): LimitAmounts =>
  Object.fromEntries(DRAWN.flatMap((name) => (limits[name] ? [[name, limits[name].value]] : [])));

/** Returns the hooks that can never ask their model, because of their reservation or of their own limits. */
export function unaffordableHooks(
  ports: HookPorts,
  directive: Directive,
): { index: number; message: string }[] {
  const { limits: most } = ports.policies().policy;
  const limits = directiveLimits(ports.library, most, directive, {});
  const share = getOwn(ports.library.config('limits').value, 'hook_reserve');
  if (!limits.ok || typeof share !== 'number') return [];
  return directive.hooks.flatMap((hook, index) => {
    const asking = askingDirective(ports, { hook });
    if (!asking) return [];
    const least = leastForHooks(ports, [asking]);
    const own = directiveLimits(ports.library, most, asking.directive, {});
    const reserved = reserveAmounts(limits.output, share, { least }).hooks;
    const [mine, its] = [
      tooLittle(least, reserved),
      own.ok ? tooLittle(least, valuesOf(own.output)) : undefined,
    ];
    const name = mine ?? its;
    if (name === undefined) return [];
    const whose = mine ? 'of this directive leaves' : `of \`${hook.directive}\` leaves`;
    const about = name === 'spend' ? '' : `, about ${least[name] ?? 0n},`;
    const message = `this hook can never run: \`${name}\` ${whose} less than one request${about} needs`;
    return [{ index, message }];
  });
}

/** True if a budget refused the first request of the hook, so nothing was sent. */
export const isUnaffordable = ({ status, code, cost }: ThreadResult): boolean =>
  status === 'limit' && BUDGETED.some((name) => code === `${name}_exceeded`) && cost.tokens === 0;

/** Returns the open reservation for hooks, which the start of the thread or a lost process made. */
export const openReserve = ({ thread, open }: LeasedThread): OpenReservation | undefined =>
  open.find(({ key }) => key.startsWith(reservePrefix(thread)));

/**
 * Returns the reservation for hooks along the whole chain, and none if no hook needs one. A reopened thread has
 * released its old reservation, so the key contains the epoch. A thread starts even if this reservation is refused.
 */
export function hookReserve(
  id: string,
  epoch: number,
  limits: LimitAmounts,
  drawFrom: string | undefined,
): Reserve[] {
  const { tokens = 0n } = limits;
  if (tokens === 0n) return [];
  // Kinds without a limit are reserved too, because requests draw all kinds from here.
  const amounts = amountsOf({ input_tokens: tokens, output_tokens: tokens, ...limits });
  const from = drawFrom === undefined ? {} : { from: drawFrom };
  const key = `${reservePrefix(id)}:${epoch}`;
  return [{ key, amounts, optional: true, standing: true, ...from }];
}

/** The amounts that hooks have left, and the meter that counts their use. */
export type HookBudget = Pick<Thread, 'budget' | 'hooks'>;

/** Returns upper bounds for the limits of a hook: the rest of the reservation and of its time. */
export function hookLimitsLeft(thread: HookBudget): LimitsLeft {
  const { hooks, budget } = thread;
  const bounds: { [name in LimitName]?: Pick<EffectiveLimit, 'value' | 'declared'> } = {};
  const put = (name: LimitName, value: bigint): void => {
    bounds[name] = { value, declared: budget.limits[name]?.declared ?? false };
  };
  if (hooks.reserve === undefined) return bounds;
  for (const name of DRAWN) if (budget.limits[name]) put(name, hooks.left[name] ?? 0n);
  const used = BigInt(Math.ceil(budget.meter.read().hooks.duration_ms));
  if (hooks.limits.duration !== undefined) put('duration', hooks.limits.duration - used);
  return bounds;
}

/** Adds undeclared outputs, because answers of hooks have fields that a directive need not declare. */
const withExtra = (outputs: JsonObject): JsonObject => {
  const { extra, ...declared } = outputs;
  return isObject(extra) ? { ...extra, ...declared } : outputs;
};

/** Applies the time limit to a script that only computes. */
function withinTime({ clock }: HarnessPorts, { limits, item }: Prepared): () => Outcome<null> {
  const ends = clock.monotonic() + Number(limits.duration?.value ?? 0n);
  return () =>
    limits.duration === undefined || clock.monotonic() < ends
      ? ok(null)
      : fail('duration_exceeded', `the script of \`${item.id}\` took longer than its limit`);
}

/**
 * Runs a script that only computes. It needs no thread, because it has no effect, no cost and no row. `undefined`:
 * the directive has no script, or its script tried an effect and has done nothing yet.
 */
export async function compute(
  { ports, talk, control, rights }: Pick<Thread, 'ports' | 'rights' | 'talk' | 'control'>,
  prepared: Prepared,
): Promise<Outcome<Value> | undefined> {
  const { script } = prepared.directive.process;
  if (!script) return undefined;
  const own = rulesOf(prepared.directive, ports.project);
  const rules = createRules({ own, inherited: undefined, parent: rights.rules });
  if (!rules.ok) return rules;
  const { signal } = control;
  // A hook gets texts that the model has written and texts that it has read.
  const marks = talk.conversation.allMarks();
  const request = scriptRequest(ports, prepared, script, marks);
  const [guards, gate] = [rules.output.guards(), withinTime(ports, prepared)];
  const answer = await ports.script({ ...request, guards, signal, gate });
  if (answer.needsThread) return undefined;
  const outputs = scriptOutputs(prepared.directive, answer);
  const { descriptor } = answer.outputs?.meta ?? { descriptor: answer.marks };
  return outputs.ok
    ? ok(makeValue(withExtra(outputs.output), { descriptor }))
    : markFailure(outputs, answer.marks);
}

/** Counts the cost of a hook with its own hooks, and reduces the amounts that hooks have left. */
export function countHook({ budget: { meter }, hooks }: HookBudget, packed: JsonObject): void {
  const cost = unpackCost(packed);
  if (!cost.ok) return;
  const own = cost.output;
  meter.countHook(own);
  const less = (amount: bigint | undefined, used: bigint): bigint =>
    amount === undefined || amount < used ? 0n : amount - used;
  hooks.left = {
    tokens: less(hooks.left.tokens, BigInt(own.tokens)),
    input_tokens: less(hooks.left.input_tokens, BigInt(own.input_tokens)),
    output_tokens: less(hooks.left.output_tokens, BigInt(own.output_tokens)),
    spend: less(hooks.left.spend, own.spend),
  };
}
