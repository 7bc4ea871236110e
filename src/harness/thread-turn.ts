// One turn: the worst case is reserved along the whole chain before the request goes out, and
// settled with what it really took in the same commit that records the reply.
import { type Failure, fail, type Json, type Outcome, ok } from '../base/index.ts';
import {
  childFrame,
  makeValue,
  type Operation,
  type Ports,
  perform,
  type RecordEntry,
  type Reservation,
} from '../flow/index.ts';
import { costOf, estimateTokens, type ModelReply, tokenRatio, type Usage } from '../llm/index.ts';
import type { Amounts, Change, NewEvent } from '../store/index.ts';
import { packCost, usedAmounts } from './cost.ts';
import type { LimitAmounts, LimitEvent } from './limit.ts';
import type { Turn } from './loop.ts';
import { MODEL_TOOLS } from './model-tools.ts';
import { fitRequest } from './request-fit.ts';
import { raise } from './thread-checkpoint.ts';
import type { ThreadContext } from './thread-context.ts';

const MAX_ANSWER = 8192;
const MIN_ANSWER = 256;

/** Codes after which another model may still answer. */
const TRY_OTHER = new Set(['model_unavailable', 'provider_error', 'quota_exceeded', 'rate_limit']);

interface Settling {
  key: string;
  unit: LimitAmounts;
  actual?: Amounts;
  change?: Change;
}

const amountsOf = (unit: LimitAmounts): Amounts => ({
  tokens: unit.tokens ?? 0n,
  spend: unit.spend ?? 0n,
  input_tokens: unit.input_tokens ?? 0n,
  output_tokens: unit.output_tokens ?? 0n,
});

const actualOf = (usage: Usage, spend: bigint): Amounts => ({
  tokens: BigInt(usage.tokens),
  spend,
  input_tokens: BigInt(usage.input_tokens),
  output_tokens: BigInt(usage.output_tokens),
});

export const refusedBy = (event: LimitEvent, needed: bigint): Failure =>
  fail(event.code, `limit \`${event.limit}\` reached: ${event.current} of ${event.max}`, {
    limit: event.limit,
    current: event.current,
    max: event.max,
    needed: needed.toString(),
  });

/** The usage a failed request reported, if it did. */
const usageIn = (failure: Failure): Usage | undefined =>
  failure.error.detail.usage as unknown as Usage | undefined;

/** Was it surely not answered? Then it costs nothing; in doubt it costs what was reserved. */
function wasFree(failure: Failure): boolean {
  const { code, detail } = failure.error;
  const status = Number(detail.status ?? 0);
  return detail.sent === false || code === 'rate_limit' || (status >= 400 && status < 500);
}

export async function runTurn(thread: ThreadContext): Promise<Turn> {
  const { world, log, meter, conversation } = thread;
  log.turn += 1;
  for (const note of thread.notes.splice(0)) conversation.user(note, conversation.marks());
  let maxTokens = Math.min(thread.model.max_output ?? MAX_ANSWER, MAX_ANSWER);
  const bytes = conversation.bytes() + thread.system.length + JSON.stringify(MODEL_TOOLS).length;
  const settling: Settling = { key: `${thread.id}:turn:${thread.attempt}:${log.turn}`, unit: {} };

  /** Stage 4: local limits, then the whole chain in one transaction. */
  function reserve(): Outcome<Reservation> {
    const input = estimateTokens(bytes, thread.ratio ?? 0);
    const fit = fitRequest({
      input,
      maxTokens,
      minTokens: MIN_ANSWER,
      used: usedAmounts(meter.read()),
      reserved: {},
      limits: thread.limits,
      price: thread.price,
      ...(thread.price.context === undefined ? {} : { window: thread.price.context }),
    });
    if ('event' in fit) return refusedBy(fit.event, fit.needed);
    const held = world.store.reserve(thread.chain, amountsOf(fit.unit), settling.key);
    if (!held.ok) return held;
    maxTokens = fit.maxTokens;
    settling.unit = fit.unit;
    meter.countTurn();
    const started = log.note('turn_start', { max_tokens: maxTokens, model: thread.model.model });
    if (!started.ok) return started;
    return ok({ settle, release: () => void world.store.cancel(settling.key) });
  }

  function settle(outcome: Outcome<unknown>): void {
    const usage = outcome.ok ? reply?.usage : usageIn(outcome);
    if (usage) {
      const spend = costOf(usage, thread.price);
      meter.countRequest(usage, spend);
      settling.actual = actualOf(usage, spend);
      if (!usage.estimated) thread.ratio = tokenRatio(usage, bytes);
    } else if (!outcome.ok && wasFree(outcome)) settling.actual = {};
    else settling.actual = amountsOf(settling.unit);
    settling.change = { settle: [{ key: settling.key, actual: settling.actual }] };
  }

  /** Stage 9: reply or error, cost and charge in one commit. */
  function record({ outcome }: RecordEntry): void {
    const change = { cost: packCost(meter.read()), ...settling.change };
    const event: NewEvent = outcome.ok
      ? {
          type: 'assistant_message',
          data: {
            content: (reply?.content ?? []) as unknown as Json,
            stop: reply?.stop ?? '',
            usage: { ...reply?.usage },
            model: reply?.model || thread.model.model,
            price_row: thread.price.row,
          },
        }
      : { type: 'error', data: { code: outcome.error.code, detail: outcome.error.detail } };
    const written = log.append([event], change);
    if (!written.ok) throw new Error(written.error.detail.message);
  }

  let reply: ModelReply | undefined;
  const op: Operation = {
    type: 'model',
    subtype: thread.model.provider,
    name: thread.model.model,
    opLabels: ['op:model', `op:model:${thread.model.provider}`],
    source: 'src:llm',
    retryOwner: false,
    metadata: { turn: log.turn },
  };
  const step = { kind: 'turn' as const, turn: log.turn };
  const ports: Ports = {
    limits: { reserve },
    record,
    checkpoint: (event) =>
      event.name === 'error' && canFallBack(thread, event.fault.code)
        ? undefined
        : raise(thread, event, step),
  };
  const done = await perform(
    op,
    [
      {
        name: 'conversation',
        role: 'content',
        value: makeValue(null, { descriptor: conversation.marks() }),
      },
    ],
    async () => {
      if (!log.isHeld()) return fail('stale_epoch', 'this process no longer holds the thread');
      const answer = await world.model(
        {
          model: thread.model,
          system: thread.system,
          messages: conversation.messages(),
          tools: MODEL_TOOLS,
          maxTokens,
          written: conversation.written,
          reading: {
            requestBytes: bytes,
            ...(thread.ratio === undefined ? {} : { ratio: thread.ratio }),
            onText: (piece) => world.onText?.(thread.id, piece),
          },
        },
        {
          surface: 'harness',
          name: thread.id,
          frame: world.frame(),
          signal: thread.signal,
          __thread_id: thread.id,
        },
      );
      if (!answer.ok) return answer;
      reply = answer.output;
      return ok(makeValue(answer.output.content as unknown as Json));
    },
    childFrame(world.frame(), { ports }),
  );
  if (thread.ending) return { ending: thread.ending };
  if (done.ok && reply) {
    conversation.assistant(reply.content);
    return { reply };
  }
  return await afterFailure(thread, done as Failure);
}

const canFallBack = (thread: ThreadContext, code: string): boolean =>
  TRY_OTHER.has(code) && fallbackOf(thread) !== undefined;

const fallbackOf = ({ directive, model }: ThreadContext): string | undefined => {
  const wanted = directive.model?.fallback_id ?? model.fallback;
  return wanted === undefined || wanted === model.model ? undefined : wanted;
};

/** Another model, when there is one; otherwise the run fails. */
async function afterFailure(thread: ThreadContext, failure: Failure): Promise<Turn> {
  const { code, detail } = failure.error;
  const wanted = canFallBack(thread, code) ? fallbackOf(thread) : undefined;
  if (wanted !== undefined) {
    const switched = thread.switchModel(wanted);
    if (switched.ok) {
      thread.meter.giveBackTurn();
      const noted = thread.log.note('model_fallback', { to: thread.model.model, because: code });
      if (noted.ok) return await runTurn(thread);
    }
  }
  return { ending: { status: 'failed', reason: detail.message, code } };
}
