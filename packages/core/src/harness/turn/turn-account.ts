// Accounts for a model request, from its reservation to its end. The final account of a thread charges requests
// without a reply in full, because they can be on the invoice. A reservation without a request is free.
import { type Failure, type Json, numberAt, type Outcome, ok } from '../../base/index.ts';
import type { LimitReservation, RecordEntry } from '../../flow/index.ts';
import type { DataOf, JournalEvent, Reply } from '../../journal/index.ts';
import {
  costOf,
  estimateTokens,
  formatMoney,
  type ModelReply,
  type Price,
  tokenRatio,
  type Usage,
} from '../../llm/index.ts';
import type { Amounts, LeasedThread } from '../../store/index.ts';
import { mayAnswer } from '../hooks/raise-checkpoint.ts';
import {
  type Cost,
  createCostMeter,
  NO_COST,
  packCost,
  unpackCost,
  usedAmounts,
} from '../limits/cost.ts';
import {
  fitRequest,
  type LimitAmounts,
  limitFault,
  type RequestPlan,
  smallestRequest,
} from '../limits/limit.ts';
import { packMarks } from '../thread/conversation.ts';
import type { Change } from '../thread/journal-writer.ts';
import { badArgumentsResult, discardedLine } from '../thread/prompt.ts';
import { addToConversation } from '../thread/talk.ts';
import type { CalledOff, Talk, Thread } from '../thread/thread.ts';
import { requestBytes, sealerOf } from './ask-model.ts';
import { type AuditedModel, requestRow } from './audit.ts';
import { type NextMove, nextMove, nextTries, type Tries } from './retry-turn.ts';
import { limitsWithin, whenThereIsRoom } from './wait-for-budget.ts';

/** Longest answer in tokens. Its worst case is reserved before the request and settled with the reply. */
const MAX_ANSWER = 8192;
const MIN_ANSWER = 256;

/** Returns the length of the shortest useful answer, in tokens. The default is 256; `limits.yaml` changes it. */
export const leastAnswer = ({ library }: Pick<Thread['ports'], 'library'>): number =>
  numberAt(library.config('limits').value, 'min_output_tokens') ?? MIN_ANSWER;

export const amountsOf = (unit: LimitAmounts): Amounts => ({
  tokens: unit.tokens ?? 0n,
  spend: unit.spend ?? 0n,
  input_tokens: unit.input_tokens ?? 0n,
  output_tokens: unit.output_tokens ?? 0n,
});

export const usageOf = (amounts: Amounts): Usage => {
  const [input, output] = [Number(amounts.input_tokens ?? 0n), Number(amounts.output_tokens ?? 0n)];
  return {
    input_tokens: input,
    output_tokens: output,
    cache_read_tokens: 0,
    cache_write_tokens: 0,
    tokens: Number(amounts.tokens ?? 0n),
    context_tokens: input,
    estimated: true,
  };
};

/** Returns the usage that the provider reported for a failed request. An estimate does not lower a charge. */
const usageIn = ({ error: { detail } }: Failure): Usage | undefined =>
  detail.reported === true ? (detail.usage as unknown as Usage | undefined) : undefined;

/** Codes of requests that were refused before they were sent. */
const NEVER_SENT: ReadonlySet<string> = new Set([
  'stale_epoch',
  'permission_denied',
  'config_invalid',
  'invalid_input',
  'invalid_item',
]);

/** True if the provider surely did not answer. In doubt the request costs its reservation. */
function wasFree(failure: Failure): boolean {
  const { code, detail } = failure.error;
  return detail.sent === false || detail.charged === false || NEVER_SENT.has(code);
}

/** True if the price table has no row for the model. */
const isGuess = ({ row }: Price): boolean => row.endsWith(':default');

type TurnEnd = DataOf<'turn_end'>;
type NewReply = { type: 'assistant_message'; data: Reply };

const isApart = ({ tools, isCompared }: Talk): boolean =>
  isCompared === true || tools?.length === 0;

/** Returns the events of a reply. Calls with unreadable arguments get a result at once. */
function replyEvents(talk: Talk, reply: ModelReply, bytes: number): [NewReply, ...JournalEvent[]] {
  const { broken, bad_arguments: bad = [] } = reply;
  const unread = bad.map(({ id, name }) => ({
    type: 'tool_call' as const,
    id,
    name,
    arguments: {},
  }));
  const events: [NewReply, ...JournalEvent[]] = [
    {
      type: 'assistant_message',
      data: {
        content: [...reply.content, ...unread],
        stop: reply.stop,
        usage: reply.usage,
        model: reply.model || talk.model.model,
        price_row: talk.price.row,
        spend: formatMoney(costOf(reply.usage, talk.price)),
        bytes,
        ...(isApart(talk) && { apart: true }),
        ...(talk.plan !== undefined && { plan: talk.plan }),
        ...(talk.compact && { compact: talk.compact.number }),
      },
    },
  ];
  if (!broken && bad.length === 0) return events;
  const marks = packMarks(talk.conversation.ownMarks());
  for (const { id, name, text, message } of isApart(talk) ? [] : bad) {
    const content = badArgumentsResult(name, text, message);
    events.push({ type: 'tool_result', data: { call_id: id, content, is_error: true, marks } });
  }
  if (broken) events.push({ type: 'stream_error', data: broken });
  if (broken && broken.discarded_partial.length > 0 && !isApart(talk)) {
    const text = discardedLine(broken.discarded_partial.map(({ name = 'a call' }) => name));
    events.push({ type: 'injected_message', data: { text, by: 'harness', marks } });
  }
  return events;
}

/** Returns the number of seals that the model does not get, because another one wrote them. It is told once. */
function droppedSeals({ model, conversation, areSealsOff, areSealsDropped }: Talk): number {
  if (areSealsOff || areSealsDropped) return 0;
  let count = 0;
  for (const [by, some] of conversation.seals()) if (by !== sealerOf(model)) count += some;
  return count;
}

const sealsDropped = (count: number): JournalEvent => ({
  type: 'warning',
  data: { name: 'warning', code: 'seals_dropped', count },
});

function failureEvents(outcome: Outcome<unknown>, { next }: TurnAccount): JournalEvent[] {
  if (outcome.ok || next?.do === 'again') return [];
  const { code, detail } = outcome.error;
  const type = code === 'stream_incomplete' ? 'stream_error' : 'error';
  const data: DataOf<'error'> = { code, detail, ...(next && { next: next.do }) };
  return [{ type, data }];
}

/** Returns the events of the next try of the same turn. */
function retryEvents(
  { model: { model } }: Talk,
  outcome: Outcome<unknown>,
  { next, tries }: TurnAccount,
): JournalEvent[] {
  if (outcome.ok || !next || next.do === 'again') return [];
  const because = outcome.error.code;
  const wait_ms = next.do === 'wait' ? next.ms : 0;
  const seals = next.do === 'wait' && next.seals && { seals: next.seals };
  const data = { try: tries.count + 1, because, wait_ms, model, ...seals };
  const retry = { type: 'retry', data } as const;
  return next.do === 'wait'
    ? [retry]
    : [{ type: 'model_fallback', data: { to: model, because } }, retry];
}

function closing(end: TurnEnd, charged: Amounts, { model: { model } }: AuditedModel, cost: Cost) {
  const { tokens = 0n, spend = 0n, input_tokens = 0n, output_tokens = 0n } = charged;
  const sums = {
    model,
    tokens: Number(tokens),
    input_tokens: Number(input_tokens),
    output_tokens: Number(output_tokens),
    spend: formatMoney(spend),
  };
  const events: JournalEvent[] = [
    // The reply event has the charge of a reply.
    { type: 'turn_end', data: { ...end, ...(tokens > 0n && !end.done && { charged: sums }) } },
    { type: 'cost_update', data: { cost: packCost(cost) } },
  ];
  return events;
}

export class TurnAccount {
  /** Size of the request in bytes, for the estimate. */
  bytes = 0;
  maxTokens = 0;
  /** True once the worst case is reserved and the turn is recorded. */
  isBegun = false;
  /** Tries so far, with this one once it has failed. */
  tries: Tries;
  reply: ModelReply | undefined;
  /** The content of the reply as guards and hooks get it, which they can replace. */
  shown: Json = null;
  calledOff: CalledOff | undefined;
  /** Move after a failed request. `undefined`: the checkpoint decides. */
  next: NextMove | undefined;
  readonly #thread: Thread;
  #key = '';
  /** Longest answer of this request in tokens. */
  #most = MAX_ANSWER;
  #worst: Amounts = {};
  #change: Change = {};
  #charged: Amounts = {};
  /** Events of a reply that is recorded while hooks decide about it. */
  #kept: readonly JournalEvent[] | undefined;
  /** Model of the request. The thread can have switched to another one since. */
  #asked: AuditedModel;

  constructor(thread: Thread, tries: Tries) {
    this.#thread = thread;
    this.tries = tries;
    this.#asked = thread.talk;
  }

  /** Stage 4: checks local limits, then reserves along the whole chain, if necessary after a wait. */
  async reserve(): Promise<Outcome<LimitReservation>> {
    const thread = this.#thread;
    this.bytes = requestBytes(thread);
    this.next = undefined;
    this.isBegun = false;
    this.#most = (await thread.ports.replay?.fitted(thread.place.id)) ?? MAX_ANSWER;
    const least = smallestRequest(this.#plan());
    const reservation = await whenThereIsRoom(thread, least, (room) => this.#begin(room));
    // The request has not begun, so signals are handled first.
    if (!reservation.ok && reservation.error.code === 'cancelled') this.next = { do: 'again' };
    return reservation;
  }

  /** Records the reply, its cost and its charge in one commit, before a hook sees it. */
  keep({ outcome }: RecordEntry): void {
    const { reply } = this;
    const thread = this.#thread;
    if (!reply) return;
    this.#chargeRequest(outcome);
    const [message, ...others] = replyEvents(thread.talk, reply, this.bytes);
    // A guard can have replaced the reply. It is not part of the conversation then.
    const isLeft = outcome.ok && outcome.output.data === this.shown;
    // No hook judges a summary.
    const isJudged = !thread.talk.compact && mayAnswer(thread.hooks, 'after_step');
    const open = isLeft && isJudged && { open: true as const };
    const data = { ...message.data, ...(isLeft ? open : { withheld: true as const }) };
    this.#kept = [{ ...message, data }, ...(isLeft ? others : [])];
    const cost = packCost(thread.budget.meter.read());
    thread.journal.note(this.#kept, { cost, ...this.#change });
    this.#change = {};
    for (const event of this.#kept) addToConversation(thread, event);
    if (thread.talk.unjudged) thread.talk.unjudged.isAsked = true;
    this.#writeAudit(outcome, reply);
  }

  /** Stage 9: records the outcome, in the same commit if no hook was asked. */
  record({ outcome, retried }: RecordEntry): void {
    const thread = this.#thread;
    if (!this.isBegun && this.next) return;
    // The run stopped or parked before the hooks decided. The next process asks them again.
    const isAsked = thread.control.ending !== undefined && thread.hooks.pending.size > 0;
    if (thread.talk.unjudged && (isAsked || thread.control.stopped)) return;
    if (isAsked && !this.isBegun) return;
    // A hook can have replaced the reply.
    const isSaid =
      this.#kept !== undefined && outcome.ok && !retried && outcome.output.data === this.shown;
    if (!isSaid) this.reply = undefined;
    const failed = failureEvents(outcome, this);
    if (!this.#kept) this.#writeAudit(outcome, undefined);
    const cost = thread.budget.meter.read();
    const closed = closing(this.#end(outcome, isSaid), this.#charged, this.#asked, cost);
    // A request that was refused before it began is not a turn.
    const events =
      this.isBegun || outcome.ok
        ? [...failed, ...closed, ...retryEvents(thread.talk, outcome, this)]
        : failed;
    // A request whose answer was lost is repeated. The lost one was charged its worst case.
    thread.journal.note(events, { cost: packCost(cost), ...this.#change });
    [this.#change, this.#charged, this.#kept] = [{}, {}, undefined];
    for (const event of events) addToConversation(thread, event);
  }

  #end(outcome: Outcome<unknown>, isSaid: boolean): TurnEnd {
    if (isSaid) {
      return { done: true, ...(this.#thread.talk.unjudged && { judged: true as const }) };
    }
    if (this.#kept || outcome.ok) return { withheld: true };
    if (this.next?.do !== 'again') return { failed: true };
    const usage = usageIn(outcome);
    return { called_off: true, ...(usage && { usage }) };
  }

  #writeAudit(outcome: Outcome<unknown>, reply: ModelReply | undefined): void {
    const { ports, place } = this.#thread;
    const facts = { outcome, reply, charged: this.#charged };
    ports.watch.audit?.write(requestRow(place, this.#asked, facts));
  }

  #charge(usage: Usage, spend: bigint): Amounts {
    const { talk, budget } = this.#thread;
    // A price from the default row is an estimate.
    const estimated = usage.estimated || isGuess(talk.price);
    const counted = estimated === usage.estimated ? usage : { ...usage, estimated };
    budget.meter.countRequest(counted, spend);
    if (!usage.estimated) talk.ratio = tokenRatio(usage, this.bytes);
    return {
      tokens: BigInt(usage.tokens),
      spend,
      input_tokens: BigInt(usage.input_tokens),
      output_tokens: BigInt(usage.output_tokens),
    };
  }

  /** Charges a request once: its reported usage, or its worst case. */
  #chargeRequest(outcome: Outcome<unknown>): void {
    const usage = this.reply?.usage ?? (outcome.ok ? undefined : usageIn(outcome));
    const actual = usage
      ? this.#charge(usage, costOf(usage, this.#thread.talk.price))
      : !outcome.ok && wasFree(outcome)
        ? {}
        : this.#charge(usageOf(this.#worst), this.#worst.spend ?? 0n);
    this.#change = { settle: [{ key: this.#key, actual }] };
    this.#charged = actual;
  }

  #settle(outcome: Outcome<unknown>): void {
    // The reply is paid for and recorded, so the request is not repeated.
    if (this.#kept) return;
    this.#chargeRequest(outcome);
    this.next = undefined;
    if (outcome.ok) return;
    const { tries } = this;
    const isCostly = !wasFree(outcome) && !usageIn(outcome);
    this.next = nextMove(this.#thread, outcome, this.calledOff, tries, isCostly);
    if (!this.next) return;
    this.tries = nextTries(tries, this.next, isCostly);
    // A retry is the same turn, which counts once.
    this.#uncountTurn();
  }

  /** The request for a summary is not a turn of the thread. */
  #uncountTurn(): void {
    if (!this.#thread.talk.compact) this.#thread.budget.meter.giveBackTurn();
  }

  #plan(): RequestPlan {
    const { talk, budget, ports } = this.#thread;
    const { model, price, ratio = 0 } = talk;
    return {
      input: estimateTokens(this.bytes, ratio),
      maxTokens: Math.min(
        model.max_output ?? MAX_ANSWER,
        this.#most,
        talk.compact?.most ?? MAX_ANSWER,
      ),
      isTurn: !talk.compact,
      minTokens: leastAnswer(ports),
      used: usedAmounts(budget.meter.read()),
      limits: budget.limits,
      price,
      ...(price.context === undefined ? {} : { window: price.context }),
    };
  }

  /** Begins the request. `room`: amounts that the ancestors have left, if the answer must be shorter. */
  async #begin(room: Amounts): Promise<Outcome<LimitReservation>> {
    const { talk, budget, journal, place } = this.#thread;
    const plan = this.#plan();
    const fit = fitRequest({ ...plan, limits: limitsWithin(plan, room) });
    if ('event' in fit) {
      const failure = limitFault(fit.event, fit.needed);
      return (await this.#thread.ports.replay?.refused(place.id, failure)) ?? failure;
    }
    const key = `${place.id}:turn:${journal.turn}:${journal.nextKey()}`;
    const { model, provider } = talk.model;
    this.#asked = { model: talk.model, price: talk.price };
    // The count precedes the commit, so that a parallel reservation sees it. A resume finds out from `n` whether
    // the recorded cost includes this turn.
    const n = talk.compact ? undefined : budget.meter.countTurn();
    const fitted = Object.keys(room).length > 0 && { fitted: true as const };
    const counted = n !== undefined && { n };
    const { sdk } = talk.model;
    const egress = sdk && 'program' in sdk && { egress: 'program' as const };
    const about = { max_tokens: fit.maxTokens, model, provider, key };
    const data = { ...about, ...counted, ...fitted, ...egress };
    // The turn and its reservation are one commit, so neither exists without the other.
    const from = budget.drawFrom;
    [this.#key, this.#worst] = [key, amountsOf(fit.unit)];
    const reserve = [{ key, amounts: this.#worst, ...(from === undefined ? {} : { from }) }];
    const start = { type: 'turn_start', data } as const;
    const dropped = droppedSeals(talk);
    const events: JournalEvent[] = dropped === 0 ? [start] : [start, sealsDropped(dropped)];
    const started = await journal.commit(events, { reserve });
    if (!started.ok) {
      this.#uncountTurn();
      return started;
    }
    if (dropped > 0) talk.areSealsDropped = true;
    this.isBegun = true;
    this.maxTokens = fit.maxTokens;
    return ok({
      settle: (outcome) => this.#settle(outcome),
      release: () => {
        this.#uncountTurn();
        // The request was never sent. The next commit releases its reservation.
        this.#change = { settle: [{ key, actual: {} }] };
      },
    });
  }
}

interface FinalAccount {
  /** Settlements for the commit that ends the thread. */
  settle: { key: string; actual: Amounts }[];
  cost: Cost;
}

/** Returns the final account of a thread that will not be resumed. `open`: its reservations. */
export function finalAccount({ row, open }: Pick<LeasedThread, 'row' | 'open'>): FinalAccount {
  const isRequest = (key: string): boolean => key.startsWith(`${row.id}:turn:`);
  const requests = open.filter(({ key }) => isRequest(key));
  const before = unpackCost(row.cost);
  const meter = createCostMeter(() => 0, before.ok ? before.output : NO_COST);
  for (const { amounts } of requests) meter.countRequest(usageOf(amounts), amounts.spend ?? 0n);
  return {
    settle: open.map(({ key, amounts }) => ({ key, actual: isRequest(key) ? amounts : {} })),
    cost: meter.read(),
  };
}
