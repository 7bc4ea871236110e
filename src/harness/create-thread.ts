// The state of one running thread, made from its row and what was prepared for it.
import { type Outcome, ok } from '../base/index.ts';
import type { BudgetLimits, StoredEvent, ThreadRow } from '../store/index.ts';
import { NO_BOUNDS } from './action.ts';
import { createConversation } from './conversation.ts';
import { type Cost, createCostMeter, NO_COST, unpackCost } from './cost.ts';
import { createHookState } from './hook.ts';
import { splitLimits } from './hook-reserve.ts';
import type { EffectiveLimits } from './limit.ts';
import { createLoopDetector } from './loop-detector.ts';
import type { Prepared } from './prepare-thread.ts';
import { systemPrompt } from './prompt.ts';
import { hasHooks } from './spawn-runner.ts';
import { createApproved } from './thread-approved.ts';
import type { ThreadContext } from './thread-context.ts';
import { BUDGETED, createDeeds, type RunHook } from './thread-deeds.ts';
import { createThreadLog, type ThreadLog } from './thread-log.ts';
import { createRights } from './thread-rights.ts';
import type { World } from './world.ts';

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
  history: readonly StoredEvent[];
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
        for (const { type, data, turn = 0 } of events)
          world.onEvent?.(row.id, { type, data, turn });
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
