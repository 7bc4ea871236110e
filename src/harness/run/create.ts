// The state of one running thread, made from its row and what was prepared for it.
import { fail, getOwn, type Json, type JsonObject, type Outcome, ok } from '../../base/index.ts';
import type { BudgetLimits, ThreadRow } from '../../store/index.ts';
import { NO_BOUNDS } from '../hooks/action.ts';
import { createHookState } from '../hooks/select-hook.ts';
import {
  type Cost,
  createCostMeter,
  NO_COST,
  packCost,
  unpackCost,
  usedAmounts,
} from '../limits/cost.ts';
import type { EffectiveLimits, LimitAmounts, LimitName } from '../limits/limit.ts';
import type { RaiseRoom } from '../limits/raise-limits.ts';
import { createApproved } from '../rights/approved-rights.ts';
import { helpSignal } from '../rights/ask-for-help.ts';
import { createRights } from '../rights/thread-token.ts';
import { createLoopDetector } from '../step/loop-detector.ts';
import { createConversation, packMarks } from '../thread/conversation.ts';
import type { Recorded } from '../thread/journal-event.ts';
import { createThreadLog, type ThreadLog } from '../thread/journal-writer.ts';
import type { World } from '../thread/ports.ts';
import { systemPrompt } from '../thread/prompt.ts';
import { replayEvent } from '../thread/restore.ts';
import type { ThreadContext } from '../thread/thread.ts';
import { modelFor, type Prepared, priceFor } from './prepare.ts';
import { splitLimits } from './run-hook.ts';
import { hasHooks } from './runner.ts';

// What a thread can do to itself while it runs: say something to its model, set budget aside, take
// another model, raise its limits, begin again.

/** Charged along the chain, so the registry keeps their limits too. */
export const BUDGETED = ['tokens', 'spend', 'spawns', 'input_tokens', 'output_tokens'] as const;

export type Deeds = Pick<
  ThreadContext,
  | 'tell'
  | 'reserve'
  | 'switchModel'
  | 'raiseLimits'
  | 'room'
  | 'newAttempt'
  | 'help'
  | 'stop'
  | 'runHook'
>;

export type RunHook = (
  thread: ThreadContext,
  name: string,
  inputs: JsonObject,
) => Promise<Outcome<Json>>;

function switchModel(thread: ThreadContext, wanted: string): Outcome<null> {
  const { world, directive } = thread;
  const name =
    wanted === 'fallback' ? (directive.model?.fallback_id ?? thread.model.fallback) : wanted;
  if (name === undefined) return fail('model_unavailable', 'there is no fallback model');
  const model = modelFor(world, name);
  if (!model.ok) return model;
  const price = priceFor(world, model.output.model, thread.limits);
  if (!price.ok) return price;
  [thread.model, thread.price] = [model.output, price.output];
  return ok(null);
}

function raiseLimits(
  thread: ThreadContext,
  raised: EffectiveLimits,
  names: readonly LimitName[],
): void {
  thread.limits = raised;
  for (const name of BUDGETED) {
    const value = raised[name]?.value;
    if (value === undefined || !names.includes(name)) continue;
    const all = value + (thread.hookLimits[name] ?? 0n);
    thread.world.store.raiseLimit(thread.id, name satisfies keyof BudgetLimits, all);
  }
}

/** The most a child may have in all: what it used, and what all its ancestors still have. */
function ancestorsLeave({ world, chain, meter }: ThreadContext): LimitAmounts {
  const used = usedAmounts(meter.read());
  const most: { [name in LimitName]?: bigint } = {};
  for (const ancestor of chain.slice(1)) {
    const state = world.store.budget(ancestor);
    if (!state.ok) return {};
    const { limits, used: spent, reserved } = state.output;
    for (const name of BUDGETED) {
      const max = limits[name];
      if (max === undefined) continue;
      const all = (used[name] ?? 0n) + max - spent[name] - reserved[name];
      if (most[name] === undefined || all < most[name]) most[name] = all;
    }
  }
  return most;
}

function room(thread: ThreadContext): RaiseRoom {
  const { world, parent, price, initialLimits } = thread;
  // What was used counts.
  thread.log.flush();
  const isRoot = parent === undefined;
  return {
    isRoot,
    initial: initialLimits,
    factor: Number(getOwn(world.library.config('limits').value, 'raise_factor') ?? 2),
    policy: world.policies().policy.limits,
    ...(isRoot ? {} : { ancestors: ancestorsLeave(thread) }),
    ...(price.context === undefined ? {} : { window: BigInt(price.context) }),
  };
}

function newAttempt(thread: ThreadContext): void {
  const { meter, log, conversation } = thread;
  thread.attempt += 1;
  meter.newAttempt();
  conversation.clear();
  const { attempt } = thread;
  log.note({ type: 'retry', data: { attempt } }, { attempt, cost: packCost(meter.read()) });
  for (const event of thread.opening) replayEvent(thread, event);
}

function tell(
  { log, conversation }: ThreadContext,
  text: string,
  about: { reminder: true } | undefined,
): void {
  const marks = conversation.marks();
  const data = { text, by: 'harness', marks: packMarks(marks), ...about };
  log.note({ type: 'injected_message', data });
  conversation.user(text, marks);
}

/** `self` is asked when something is done: the thread is made with its deeds in it. */
export function createDeeds(
  self: () => ThreadContext,
  runHook: RunHook,
  stopping: AbortController,
): Deeds {
  return {
    tell: (text, about) => tell(self(), text, about),
    reserve(amounts, key) {
      const { world, chain, drawFrom } = self();
      return world.store.reserve(
        chain,
        amounts,
        key,
        drawFrom === undefined ? {} : { from: drawFrom },
      );
    },
    switchModel: (wanted) => switchModel(self(), wanted),
    raiseLimits: (limits, raised) => raiseLimits(self(), limits, raised),
    room: () => room(self()),
    newAttempt: () => newAttempt(self()),
    help: (signal) => helpSignal(self(), signal),
    stop(ending) {
      const thread = self();
      thread.ending ??= ending;
      thread.stopped = true;
      stopping.abort();
    },
    runHook: (name, inputs) => runHook(self(), name, inputs),
  };
}

/** The reservation a detached child lives on. */
export const apartKey = (id: string): string => `${id}:detached`;

export const budgetOf = (limits: EffectiveLimits): BudgetLimits =>
  Object.fromEntries(
    BUDGETED.flatMap((name) => (limits[name] ? [[name, limits[name].value]] : [])),
  );

export interface Start {
  prepared: Prepared;
  row: ThreadRow;
  epoch: number;
  signal: AbortSignal;
  history: readonly Recorded[];
  /** The running parent, when it is here. */
  parent?: ThreadContext | undefined;
  drawFrom?: string | undefined;
  /** Runs a hook's directive; handed in, because a hook is a thread too. */
  runHook: RunHook;
}

function openLog(world: World, { row, epoch, history }: Start): ThreadLog {
  const write = world.transcript(row.id);
  return createThreadLog(
    row.id,
    // What others put into the journal while nobody ran it belongs to no turn.
    { seq: row.seq, epoch, turn: history.findLast(({ turn }) => turn > 0)?.turn ?? 0 },
    {
      store: world.store,
      ...(world.writesAtOnce && { atOnce: true }),
      transcribe(events, firstSeq) {
        write(events, firstSeq);
        for (const event of events) world.onEvent?.(row.id, event);
      },
    },
  );
}

/** Where it stands in its tree. */
function placeOf({ row, parent, drawFrom }: Start) {
  const isApart = row.detached && row.parent !== undefined;
  return {
    id: row.id,
    parent: row.parent,
    depth: row.depth,
    kind: row.kind,
    runner: row.runner,
    detached: row.detached,
    nesting: (parent?.nesting ?? 0) + (row.kind === 'hook' ? 1 : 0),
    drawFrom: drawFrom ?? (isApart ? apartKey(row.id) : undefined),
  };
}

/** What changes while it runs, at its beginning. */
function stateOf(world: World, { prepared, row, parent }: Start, cost: Cost) {
  const { limits, hooks, model, price } = prepared;
  const split = splitLimits(world, limits, hooks);
  return {
    hookState: createHookState(),
    hookReserve: undefined,
    hookLimits: split.hooks,
    initialLimits: limits,
    limits: split.own,
    meter: createCostMeter(() => world.clock.monotonic(), cost),
    conversation: createConversation(),
    detector: createLoopDetector(parent ? { parentTail: parent.detector.tail() } : {}),
    attempt: row.attempt,
    model,
    price,
    bounds: NO_BOUNDS,
    loops: 0,
    warned: new Set<string>(),
    ratio: undefined,
    windowSeen: cost.context_tokens,
    currentCall: '',
    ending: undefined,
    begun: new Map<string, never>(),
    atWork: new Map<string, never>(),
    stopped: false,
    flights: new Set<never>(),
    triedModels: new Set<string>(),
    lastSignal: 0,
    reminders: 0,
    opening: [],
  };
}

/** A cost that cannot be read is no reason to begin at nothing: the limits would be lifted. */
const costSoFar = ({ cost }: ThreadRow): Outcome<Cost> =>
  Object.keys(cost).length === 0 ? ok(NO_COST) : unpackCost(cost);

/** The plain loop goes without hooks, and so nothing is set aside for them. */
const forRunner = (start: Start): Start =>
  hasHooks(start.row.runner) ? start : { ...start, prepared: { ...start.prepared, hooks: [] } };

export function createContext(world: World, given: Start): Outcome<ThreadContext> {
  const start = forRunner(given);
  const { prepared, row, signal, runHook } = start;
  const { item, directive, inputs, hooks } = prepared;
  const chain = world.store.chain(row.id);
  if (!chain.ok) return chain;
  const rights = createRights(world, row, prepared);
  if (!rights.ok) return rights;
  const cost = costSoFar(row);
  if (!cost.ok) return cost;
  const { agents, universal } = world.instructions();
  const stopping = new AbortController();
  const thread: ThreadContext = {
    world,
    ...placeOf(start),
    chain: chain.output,
    item,
    directive,
    inputs,
    hooks,
    system: systemPrompt(agents, universal),
    isStreamKept: prepared.stream === true,
    log: openLog(world, start),
    ...stateOf(world, start, cost.output),
    signal: AbortSignal.any([signal, stopping.signal]),
    ...createDeeds(() => thread, runHook, stopping),
    get rights() {
      return rights.output();
    },
    approved: createApproved(() => thread),
  };
  return ok(thread);
}
