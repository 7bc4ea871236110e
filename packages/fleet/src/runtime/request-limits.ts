// Limits requests to providers when machines share the limits of a key or a tenant. A request gets a place in the
// database before it is sent, and returns it with the amounts that it used. INVARIANT: a request is never sent
// without a place or later than its place allows. A process that cannot renew a place in time ends the request
// before another one can get the place. Of all requests that wait here for the same limit, one asks the database.
import { setTimeout as sleep } from 'node:timers/promises';
import {
  type Clock,
  type Failure,
  fail,
  type Outcome,
  ok,
  type RandomBytes,
  withDetail,
} from '@kernmantle/core/base';
import type { ModelLine, ModelPort } from '@kernmantle/core/harness';
import {
  costOf,
  estimateTokens,
  type ModelReply,
  type Price,
  worstCost,
} from '@kernmantle/core/llm';
import { type FleetLimits, SEND_WITHIN_MS } from '@kernmantle/core/store';

export interface SharedPorts {
  readonly limits: Pick<FleetLimits, 'enter' | 'stay' | 'exit'>;
  /** Name of this process as the owner of leases. */
  readonly owner: string;
  readonly clock: Pick<Clock, 'monotonic'>;
  readonly random: RandomBytes;
  /** Returns the tenant of the thread, `''` for none. After a failure the request is not sent. */
  tenantOf(thread: string | undefined): Promise<Outcome<string>>;
  /** Returns `undefined` if the model has no price. */
  priceOf(model: string): Price | undefined;
}

/** Time until a place is lost without a renewal. */
const PLACE_MS = 20_000;
const STAY_MS = 5_000;
/** Time before the loss of its place at which a request is ended, and interval of the check. */
const END_BEFORE_MS = 4_000;
const POLL_MS = 1_000;
/** Time in which a request must start. The rest of `SEND_WITHIN_MS` is for the network. */
const SEND_MS = SEND_WITHIN_MS - 2_000;
/** Maximum number of tries of a request that was not sent in time. */
const MOST_LATE = 3;
/** Times after which a waiting thread reports the wait: for the first time, and again. */
const [SAY_SOON_MS, SAY_AGAIN_MS] = [5_000, 60_000];

interface LivePlace {
  readonly place: string;
  readonly end: AbortController;
  /** Time on the local clock until which the place is safe. */
  until: number;
}

/** Stores the places of this process and renews them. */
function createHolder({ limits, clock }: SharedPorts) {
  const live = new Set<LivePlace>();
  let timer: NodeJS.Timeout | undefined;
  let isAsking = false;

  async function stay(): Promise<void> {
    const all = [...live];
    const sentAt = clock.monotonic();
    isAsking = true;
    const renewed = await limits.stay(
      all.map(({ place }) => place),
      PLACE_MS,
    );
    isAsking = false;
    if (!renewed.ok) return;
    const places = new Set(renewed.output);
    for (const one of all) {
      if (places.has(one.place)) one.until = sentAt + PLACE_MS;
      else one.end.abort();
    }
  }

  function look(): void {
    const now = clock.monotonic();
    let isDue = false;
    for (const { until, end } of live) {
      if (until - now < END_BEFORE_MS) end.abort();
      else if (until - now < PLACE_MS - STAY_MS) isDue = true;
    }
    if (isDue && !isAsking) void stay();
  }

  return {
    hold(place: string, asked: number): LivePlace {
      const one: LivePlace = { place, end: new AbortController(), until: asked + PLACE_MS };
      live.add(one);
      timer ??= setInterval(look, POLL_MS);
      return one;
    },
    letGo(one: LivePlace): void {
      live.delete(one);
      if (live.size > 0) return;
      clearInterval(timer);
      timer = undefined;
    },
  };
}

/** Creates a queue of requests in the order of their calls. `wake` ends the pause of the first one. */
function createQueue() {
  const waiting: (() => void)[] = [];
  let nudge: (() => void) | undefined;
  return {
    /** Waits until the request is the first. Returns false if the signal aborts before. */
    async join(signal: AbortSignal): Promise<boolean> {
      const { promise, resolve } = Promise.withResolvers<void>();
      if (waiting.push(resolve) === 1) return true;
      signal.addEventListener('abort', () => resolve(), { once: true });
      if (signal.aborted) resolve();
      await promise;
      const at = waiting.indexOf(resolve);
      if (at === 0) return true;
      waiting.splice(at, 1);
      return false;
    },
    leave(): void {
      waiting.shift();
      waiting[0]?.();
    },
    wake: () => nudge?.(),
    async pause(ms: number, signal: AbortSignal): Promise<void> {
      const over = new AbortController();
      nudge = () => over.abort();
      await sleep(ms, undefined, { signal: AbortSignal.any([signal, over.signal]) }).catch(
        () => {},
      );
      nudge = undefined;
    },
  };
}

type Queue = ReturnType<typeof createQueue>;

interface Ask {
  readonly provider: string;
  readonly tenant: string;
  readonly tokens: number;
  readonly spend: bigint | undefined;
}

const calledOff = (): Failure =>
  fail('cancelled', 'request cancelled while it waited for a shared limit', { sent: false });

/** Returns a failure that a thread reports before it waits again. */
function stillFull({ limit, scope, wait_ms }: { limit: string; scope: string; wait_ms: number }) {
  const message = `shared limit \`${limit}\` of ${scope} is reached; the request waits`;
  const detail = { limit, scope, transient: true, sent: false, retry_after_ms: wait_ms };
  return fail('shared_limit', message, detail);
}

/** Returns the amounts of a request: the reported ones, none if it was certainly free, else the maximum. */
function tookOf(
  answer: Outcome<ModelReply>,
  { tokens, spend = 0n }: Ask,
  price: Price | undefined,
) {
  if (answer.ok) {
    const { usage } = answer.output;
    return { tokens: usage.tokens, spend: price ? costOf(usage, price) : 0n };
  }
  const { sent, charged } = answer.error.detail;
  return sent === false || charged === false ? { tokens: 0, spend: 0n } : { tokens, spend };
}

interface Entry {
  readonly place: string;
  /** Time of the call for the place, on the local clock. */
  readonly asked: number;
}

/** Gets and returns places. */
function createEntrance({ limits, owner, clock, random }: SharedPorts) {
  const queues = new Map<string, Queue>();
  const telling = new Set<Promise<unknown>>();
  /** Threads that have reported their wait. */
  const reported = new Set<string>();

  function queueOf({ provider, tenant }: Ask): Queue {
    const name = JSON.stringify([provider, tenant]);
    const queue = queues.get(name) ?? createQueue();
    queues.set(name, queue);
    return queue;
  }

  function exit(ask: Ask, place: string, took: { tokens: number; spend: bigint }): void {
    const report = limits.exit(place, took).then(() => queueOf(ask).wake());
    telling.add(report);
    void report.finally(() => telling.delete(report));
  }

  /** Varies a wait, so that processes do not call at the same time. */
  const jittered = (ms: number): number => ms * (1 + (random(1)[0] ?? 0) / 512);

  async function tryUntilIn(
    ask: Ask,
    signal: AbortSignal,
    isTired: () => boolean,
  ): Promise<Outcome<Entry>> {
    const { spend, ...about } = ask;
    const asking = { ...about, ...(spend !== undefined && { spend }), owner, ttlMs: PLACE_MS };
    for (;;) {
      const start = clock.monotonic();
      const entered = await limits.enter(asking);
      if (!entered.ok) {
        // The store does not respond, so the request waits.
        const isFinal = entered.error.code === 'shared_limit';
        return withDetail(entered, { sent: false, ...(!isFinal && { transient: true }) });
      }
      const answer = entered.output;
      if ('place' in answer) {
        const isInTime = clock.monotonic() - start < SEND_MS;
        if (answer.place === '' || (isInTime && !signal.aborted)) {
          return ok({ place: answer.place, asked: start });
        }
        exit(ask, answer.place, { tokens: 0, spend: 0n });
      } else {
        if (isTired()) return stillFull(answer);
        await queueOf(ask).pause(jittered(answer.wait_ms), signal);
      }
      if (signal.aborted) return calledOff();
    }
  }

  return {
    exit,
    async enter(ask: Ask, signal: AbortSignal, thread?: string): Promise<Outcome<Entry>> {
      const patience = thread !== undefined && reported.has(thread) ? SAY_AGAIN_MS : SAY_SOON_MS;
      const tired = thread === undefined ? undefined : AbortSignal.timeout(patience);
      const queue = queueOf(ask);
      const isFirst = await queue.join(tired ? AbortSignal.any([signal, tired]) : signal);
      if (signal.aborted) {
        if (isFirst) queue.leave();
        return calledOff();
      }
      const isTired = (): boolean => tired?.aborted === true;
      const entered = isFirst
        ? await tryUntilIn(ask, signal, isTired)
        : stillFull({ limit: 'requests', scope: `provider:${ask.provider}`, wait_ms: 0 });
      if (isFirst) queue.leave();
      const waits = !entered.ok && entered.error.detail.transient === true;
      if (thread !== undefined && waits) reported.add(thread);
      else if (thread !== undefined) reported.delete(thread);
      return entered;
    },
    async settled() {
      while (telling.size > 0) await Promise.all(telling);
    },
  };
}

/** Sends requests to models if machines share the limits of a key or a tenant. */
export interface SharedRequests {
  /** Returns the model with requests that wait for a place. */
  share(model: ModelPort): ModelPort;
  /** Resolves when the amounts of all requests are written. */
  settled(): Promise<void>;
}

export function createSharedRequests(ports: SharedPorts): SharedRequests {
  const holder = createHolder(ports);
  const entrance = createEntrance(ports);

  async function askOnce(
    line: ModelLine,
    ask: Ask,
    [request, signal]: Parameters<ModelLine['ask']>,
    thread: string | undefined,
    price: Price | undefined,
  ): ReturnType<ModelLine['ask']> {
    const entered = await entrance.enter(ask, signal, thread);
    if (!entered.ok) return entered;
    const { place, asked } = entered.output;
    // An empty place means that no limit exists.
    if (place === '') return await line.ask(request, signal);
    const live = holder.hold(place, asked);
    const open = AbortSignal.any([signal, live.end.signal]);
    const answer = await line.ask({ ...request, sendBy: asked + SEND_MS }, open);
    holder.letGo(live);
    entrance.exit(ask, place, tookOf(answer, ask, price));
    if (answer.ok || !live.end.signal.aborted || signal.aborted) return answer;
    const message = 'the request was ended, because the registry was unreachable for too long';
    return fail('timeout', message, { ...answer.error.detail, message });
  }

  const share =
    (line: ModelLine, provider: string, model: string, thread?: string): ModelLine['ask'] =>
    async (request, signal) => {
      const price = ports.priceOf(model);
      const whose = await ports.tenantOf(thread);
      if (!whose.ok) return withDetail(whose, { sent: false, transient: true });
      const { requestBytes = 0, ratio } = request.reading;
      const input = estimateTokens(requestBytes, ratio);
      const ask: Ask = {
        provider,
        tenant: whose.output,
        tokens: input + request.maxTokens,
        spend: price && worstCost(input, request.maxTokens, price),
      };
      for (let tries = 1; ; tries++) {
        const answer = await askOnce(line, ask, [request, signal], thread, price);
        // The request was not sent in time, so it needs a new place.
        const isLate = !answer.ok && answer.error.detail.late === true;
        if (!isLate || tries === MOST_LATE) return answer;
      }
    };

  return {
    share: (model) => async (resolved, caller) => {
      const line = await model(resolved, caller);
      if (!line.ok) return line;
      const { __thread_id: thread } = caller;
      const { model: id, provider, limited_as = provider } = resolved;
      return ok({ ask: share(line.output, limited_as, id, thread) });
    },
    settled: () => entrance.settled(),
  };
}
