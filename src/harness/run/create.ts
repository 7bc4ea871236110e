// The state of one running thread, made from its row and what was prepared for it.
import { type Outcome, ok } from '../../base/index.ts';
import type { Held, ThreadRow } from '../../store/index.ts';
import { NO_BOUNDS } from '../hooks/action.ts';
import { type Cost, createCostMeter, NO_COST, unpackCost } from '../limits/cost.ts';
import type { EffectiveLimits } from '../limits/limit.ts';
import { createApproved } from '../rights/approved-rights.ts';
import { createRights } from '../rights/thread-token.ts';
import { createLoopDetector } from '../step/loop-detector.ts';
import { apartKey } from '../thread/budget.ts';
import { Conversation } from '../thread/conversation.ts';
import type { Recorded } from '../thread/journal-event.ts';
import { JournalWriter } from '../thread/journal-writer.ts';
import { systemPrompt } from '../thread/prompt.ts';
import type {
  Budget,
  Control,
  HarnessPorts,
  Place,
  Prepared,
  RunHook,
  Talk,
  Thread,
} from '../thread/thread.ts';
import { openReserve, splitLimits } from './run-hook.ts';
import { hasHooks } from './runner.ts';

interface Start {
  prepared: Prepared;
  held: Held;
  /** When the lease was asked for, by the clock of `live.leases`. */
  since: number;
  signal: AbortSignal;
  history: readonly Recorded[];
  /** The running parent, when it is here. */
  parent?: Thread | undefined;
  drawFrom?: string | undefined;
  /** When that was worked out already. */
  split?: ReturnType<typeof splitLimits>;
  /** Runs a hook's directive; handed in, because a hook is a thread too. */
  runHook: RunHook;
}

function openJournal(
  ports: HarnessPorts,
  { held, since, history }: Start,
  control: Control,
): JournalWriter {
  const { row, epoch, heard, lease_ms } = held;
  const write = ports.watch.transcript(row.id, row);
  return new JournalWriter(
    row.id,
    {
      seq: row.seq,
      epoch,
      // What others put into the journal while nobody ran it belongs to no turn.
      turn: history.findLast(({ turn }) => turn > 0)?.turn ?? 0,
      heard,
      lease_ms,
      since,
    },
    {
      store: ports.store,
      now: () => ports.threads.live.leases.now(),
      transcribe(events, firstSeq) {
        write(events, firstSeq);
        for (const event of events) ports.watch.onEvent?.(row.id, event);
      },
      alarmed() {
        for (const interruption of control.interruptions) interruption.check();
      },
    },
  );
}

function placeOf({ prepared, held: { row }, parent }: Start): Place {
  const { id, depth, chain, kind, runner, detached } = row;
  const { item, directive, inputs } = prepared;
  const nesting = (parent?.place.nesting ?? 0) + (kind === 'hook' ? 1 : 0);
  const where = { id, parent: row.parent, depth, chain, kind, runner, detached, nesting };
  return { ...where, item, directive, inputs };
}

function budgetFor(
  ports: HarnessPorts,
  { held: { row }, drawFrom, prepared }: Start,
  limits: EffectiveLimits,
  cost: Cost,
): Budget {
  const isApart = row.detached && row.parent !== undefined;
  return {
    meter: createCostMeter(() => ports.clock.monotonic(), cost),
    limits,
    initial: prepared.limits,
    drawFrom: drawFrom ?? (isApart ? apartKey(row.id) : undefined),
    warned: new Set(),
    windowSeen: cost.context_tokens,
  };
}

function talkOf(ports: HarnessPorts, { prepared, parent }: Start): Talk {
  const { agents, universal } = ports.instructions();
  const { model, price, directive, stream } = prepared;
  return {
    conversation: new Conversation(),
    system: systemPrompt(agents, universal),
    isStreamKept: stream === true,
    model,
    price,
    fallback: directive.model?.fallback_id,
    triedModels: new Set(),
    ratio: undefined,
    opening: [],
    reminders: 0,
    detector: createLoopDetector(parent ? { parentTail: parent.talk.detector.tail() } : {}),
    loops: 0,
  };
}

function controlOf({ held: { row }, signal }: Start): Control {
  const stopping = new AbortController();
  return {
    attempt: row.attempt,
    signal: AbortSignal.any([signal, stopping.signal]),
    stopping,
    ending: undefined,
    stopped: false,
    interruptions: new Set(),
    intents: new Map(),
    atWork: new Map(),
    currentCall: '',
  };
}

/** A cost that cannot be read is no reason to begin at nothing: the limits would be lifted. */
const costSoFar = ({ cost }: ThreadRow): Outcome<Cost> =>
  Object.keys(cost).length === 0 ? ok(NO_COST) : unpackCost(cost);

/** The plain loop goes without hooks, and so nothing is set aside for them. */
const forRunner = (start: Start): Start =>
  hasHooks(start.held.row.runner)
    ? start
    : { ...start, prepared: { ...start.prepared, hooks: [] } };

export async function createThread(ports: HarnessPorts, given: Start): Promise<Outcome<Thread>> {
  const start = forRunner(given);
  const { prepared, held, runHook } = start;
  const { row } = held;
  const own = await createRights(ports, row, prepared);
  if (!own.ok) return own;
  const cost = costSoFar(row);
  if (!cost.ok) return cost;
  const split = start.split ?? splitLimits(ports, prepared.limits, prepared.hooks);
  const reserve = openReserve(held);
  const control = controlOf(start);
  const thread: Thread = {
    ports,
    place: placeOf(start),
    rights: {
      get own() {
        return own.output();
      },
      approved: createApproved(() => thread),
    },
    budget: budgetFor(ports, start, split.own, cost.output),
    talk: talkOf(ports, start),
    hooks: {
      list: prepared.hooks,
      state: { fired: new Set() },
      bounds: NO_BOUNDS,
      reserve: reserve?.key,
      limits: split.hooks,
      left: reserve?.amounts ?? {},
      run: runHook,
    },
    control,
    journal: openJournal(ports, start, control),
  };
  await thread.rights.approved.load();
  return ok(thread);
}
