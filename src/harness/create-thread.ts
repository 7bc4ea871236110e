// The state of one running thread, made from its row and what was prepared for it.
import { fail, getOwn, type Json, type JsonObject, type Outcome, ok } from '../base/index.ts';
import type { BudgetLimits, StoredEvent, ThreadRow } from '../store/index.ts';
import { NO_BOUNDS } from './action.ts';
import { createConversation, packMarks } from './conversation.ts';
import { createCostMeter, NO_COST, packCost, unpackCost } from './cost.ts';
import { createHookState } from './hook.ts';
import { splitLimits } from './hook-reserve.ts';
import type { EffectiveLimits, LimitName } from './limit.ts';
import { createLoopDetector } from './loop-detector.ts';
import { modelFor, type Prepared, priceFor } from './prepare-thread.ts';
import { systemPrompt } from './prompt.ts';
import { parentToken } from './spawn-rights.ts';
import type { ThreadContext } from './thread-context.ts';
import { helpSignal } from './thread-help.ts';
import { createThreadLog } from './thread-log.ts';
import { replayEvent } from './thread-replay.ts';
import { mintRights } from './thread-token.ts';
import type { World } from './world.ts';

/** The reservation a detached child lives on. */
export const apartKey = (id: string): string => `${id}:detached`;

/** A token outlives the thread's deadline by this much, for the last records. */
const GRACE_MS = 60_000;

const BUDGETED = ['tokens', 'spend', 'spawns', 'input_tokens', 'output_tokens'] as const;

export const budgetOf = (limits: EffectiveLimits): BudgetLimits =>
  Object.fromEntries(
    BUDGETED.flatMap((name) => (limits[name] ? [[name, limits[name].value]] : [])),
  );

export interface Start {
  prepared: Prepared;
  row: ThreadRow;
  epoch: number;
  signal: AbortSignal;
  history: readonly StoredEvent[];
  /** The running parent, when it is here. */
  parent?: ThreadContext | undefined;
  drawFrom?: string | undefined;
  /** Runs a hook's directive; handed in, because a hook is a thread too. */
  runHook(thread: ThreadContext, name: string, inputs: JsonObject): Promise<Outcome<Json>>;
}

export function createContext(
  world: World,
  { prepared, row, epoch, signal, history, parent, runHook, ...start }: Start,
): Outcome<ThreadContext> {
  const { item, directive, inputs, hooks, limits } = prepared;
  const chain = world.store.chain(row.id);
  if (!chain.ok) return chain;
  const key = world.tokenKey();
  if (!key.ok) return key;
  const lifetime = Number(limits.duration?.value ?? 0n) + GRACE_MS;
  const expires = world.clock.now() + lifetime;
  const above = row.parent === undefined ? undefined : parentToken(world, row.parent, expires);
  if (above && !above.ok) return above;
  const rights = mintRights(
    {
      thread: row.id,
      directive,
      project: world.project,
      expires,
      ...(above ? { parent: above.output } : {}),
      core: item.source === 'bundle' && item.signature.state === 'bundle',
    },
    world.library,
    key.output,
  );
  if (!rights.ok) return rights;
  const before = Object.keys(row.cost).length === 0 ? ok(NO_COST) : unpackCost(row.cost);
  if (!before.ok) return before;
  const { agents, universal } = world.instructions();
  const write = world.transcript(row.id);
  const log = createThreadLog(
    row.id,
    { seq: row.seq, epoch, turn: history.at(-1)?.turn ?? 0 },
    {
      store: world.store,
      transcribe(events, firstSeq) {
        write(events, firstSeq);
        for (const { type, data, turn = 0 } of events)
          world.onEvent?.(row.id, { type, data, turn });
      },
    },
  );
  const isApart = row.detached && row.parent !== undefined;
  const drawFrom = start.drawFrom ?? (isApart ? apartKey(row.id) : undefined);
  const split = splitLimits(world, limits, hooks);
  const stopping = new AbortController();
  const thread: ThreadContext = {
    world,
    id: row.id,
    parent: row.parent,
    depth: row.depth,
    chain: chain.output,
    kind: row.kind,
    detached: row.detached,
    nesting: (parent?.nesting ?? 0) + (row.kind === 'hook' ? 1 : 0),
    item,
    directive,
    inputs,
    rights: rights.output,
    system: systemPrompt(agents, universal),
    hooks,
    hookState: createHookState(),
    drawFrom,
    hookReserve: undefined,
    hookLimits: split.hooks,
    currentCall: '',
    windowSeen: before.output.context_tokens,
    help: (signal) => helpSignal(thread, signal),
    initialLimits: limits,
    log,
    meter: createCostMeter(() => world.clock.monotonic(), before.output),
    conversation: createConversation(),
    detector: createLoopDetector(parent ? { parentTail: parent.detector.tail() } : {}),
    signal: AbortSignal.any([signal, stopping.signal]),
    limits: split.own,
    attempt: row.attempt,
    model: prepared.model,
    price: prepared.price,
    bounds: NO_BOUNDS,
    loops: 0,
    warned: new Set(),
    ratio: undefined,
    ending: undefined,
    stopped: false,
    flights: new Set(),
    triedModels: new Set(),
    tell(text, about = {}) {
      const marks = thread.conversation.marks();
      log.note('injected_message', { text, by: 'harness', marks: packMarks(marks), ...about });
      thread.conversation.user(text, marks);
    },
    reserve: (amounts, key) =>
      world.store.reserve(
        thread.chain,
        amounts,
        key,
        drawFrom === undefined ? {} : { from: drawFrom },
      ),
    lastSignal: 0,
    reminders: 0,
    switchModel(wanted) {
      const name =
        wanted === 'fallback' ? (directive.model?.fallback_id ?? thread.model.fallback) : wanted;
      const model =
        name === undefined
          ? fail('model_unavailable', 'there is no fallback model')
          : modelFor(world, name);
      if (!model.ok) return model;
      const price = priceFor(world, model.output.model, thread.limits);
      if (!price.ok) return price;
      [thread.model, thread.price] = [model.output, price.output];
      return ok(null);
    },
    runHook: (name, hookInputs) => runHook(thread, name, hookInputs),
    raiseLimits(raised, names: readonly LimitName[]) {
      thread.limits = raised;
      for (const name of names) {
        const value = raised[name]?.value;
        if (value === undefined || !(BUDGETED as readonly string[]).includes(name)) continue;
        const all = value + (split.hooks[name] ?? 0n);
        world.store.raiseLimit(thread.id, name as keyof BudgetLimits, all);
      }
    },
    room: () => ({
      isRoot: thread.parent === undefined,
      initial: limits,
      factor: Number(getOwn(world.library.config('limits').value, 'raise_factor') ?? 2),
      policy: world.policies().policy.limits,
      ...(thread.price.context === undefined ? {} : { window: BigInt(thread.price.context) }),
    }),
    stop(ending) {
      thread.ending ??= ending;
      thread.stopped = true;
      stopping.abort();
    },
    newAttempt() {
      thread.attempt += 1;
      thread.meter.newAttempt();
      thread.conversation.clear();
      const cost = packCost(thread.meter.read());
      log.note('retry', { attempt: thread.attempt }, { attempt: thread.attempt, cost });
      for (const event of thread.opening) replayEvent(thread, event);
    },
    opening: [],
  };
  return ok(thread);
}
