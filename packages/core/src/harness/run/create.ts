// Creates the state of one running thread from its row and its prepared directive.
import { type Outcome, ok } from '../../base/index.ts';
import { hidesUntrusted, type Recorded, startOf } from '../../journal/index.ts';
import type { LeasedThread } from '../../store/index.ts';
import { createCostMeter, NO_COST, unpackCost } from '../limits/cost.ts';
import { createApproved } from '../rights/approved-rights.ts';
import { createRules, rulesIn } from '../rights/thread-rules.ts';
import { createRights } from '../rights/thread-token.ts';
import { shortenShown } from '../step/large-result.ts';
import { createLoopDetector } from '../step/loop-detector.ts';
import { detachedKey } from '../thread/budget.ts';
import { Conversation } from '../thread/conversation.ts';
import { JournalWriter } from '../thread/journal-writer.ts';
import { withoutStrangers } from '../thread/opening.ts';
import { nativeTools, outputTool, permittedTools } from '../thread/permitted-tools.ts';
import { agentPrompt, systemPrompt } from '../thread/prompt.ts';
import type { References } from '../thread/references.ts';
import { NO_BOUNDS } from '../thread/restore.ts';
import { createRoom } from '../thread/room.ts';
import type { Control, HarnessPorts, Prepared, RunHook, Talk, Thread } from '../thread/thread.ts';
import { MODEL_TOOLS } from '../turn/ask-model.ts';
import { openReserve, splitLimits } from './run-hook.ts';
import { hasHooks } from './runner.ts';

interface Start {
  prepared: Prepared;
  held: LeasedThread;
  /** Time of the request for the lease, by the clock of `live.leases`. */
  since: number;
  signal: AbortSignal;
  history: readonly Recorded[];
  /** The parent, if it runs in this process. */
  parent?: Thread | undefined;
  drawFrom?: string | undefined;
  /** Division of the limits between the thread and its hooks. Absent: it is computed. */
  split?: ReturnType<typeof splitLimits>;
  /** True if the model gets untrusted text by reference alone. Absent: the journal contains the answer. */
  isReference?: boolean;
  /** Runs a hook's directive. It is an argument, because a hook is a thread that needs this file. */
  runHook: RunHook;
}

const openWriter = (...args: ConstructorParameters<typeof JournalWriter>): JournalWriter =>
  new JournalWriter(...args);

function openJournal(
  ports: HarnessPorts,
  { held, since, history }: Start,
  control: Control,
): JournalWriter {
  const { id } = held.row;
  const write = ports.watch.transcript(id, held.row);
  // Events that others appended while the thread was parked have no turn, and neither has a change of status.
  const turn = history.findLast(({ turn, type }) => turn > 0 && type !== 'status')?.turn ?? 0;
  const writeAndTell: typeof write = (events, firstSeq) => {
    write(events, firstSeq);
    for (const event of events) ports.watch.onEvent?.(id, event);
  };
  const open = ports.replay?.openJournal ?? openWriter;
  return open(held, turn, since, {
    store: ports.store,
    now: ports.threads.live.leases.now,
    transcribe: ports.watch.onEvent ? writeAndTell : write,
    alarmed() {
      for (const interruption of control.interruptions) interruption.check();
    },
    wrong({ error: { code, detail } }) {
      control.ending ??= { status: 'failed', reason: detail.message, code };
    },
    unwritten(rows) {
      for (const row of rows) ports.watch.audit?.write(row);
    },
  });
}

/** Creates the references of a thread whose model must not read untrusted text. Otherwise their module is not loaded. */
async function referencesOf(
  ports: HarnessPorts,
  { isReference, history }: Start,
): Promise<References | undefined> {
  if (!(isReference ?? hidesUntrusted(history))) return undefined;
  const { createReferences } = await import('../thread/references.ts');
  return createReferences((content) => shortenShown(ports, content));
}

async function talkOf(ports: HarnessPorts, start: Start): Promise<Talk> {
  const { prepared, parent } = start;
  const { model, price, directive, stream } = prepared;
  const references = await referencesOf(ports, start);
  const { agent } = directive;
  const isNative = directive.model?.tools === 'native';
  const all = {
    ...ports.instructions(),
    tools: isNative ? permittedTools(ports, directive, parent) : [],
  };
  const { agents, universal, tools } = references ? await withoutStrangers(ports, all) : all;
  return {
    conversation: new Conversation(references),
    ...(references && { references }),
    system: agent ? agentPrompt(agent, references && tools) : systemPrompt(agents, universal),
    ...(isNative && {
      tools: [
        ...(agent?.hasKernelTools === false ? [] : MODEL_TOOLS),
        ...nativeTools(tools),
        ...outputTool(prepared.item.id, directive),
      ],
    }),
    isStreamKept: stream === true,
    model,
    price,
    fallback: directive.model?.fallback_id,
    triedModels: new Set(),
    ratio: undefined,
    opening: [],
    reminders: 0,
    room: createRoom(),
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
    leaving: undefined,
    past: 0,
    hadEnded: false,
    interruptions: new Set(),
    intents: new Map(),
    failures: new Map(),
    escalated: new Map(),
    atWork: new Map(),
    currentCall: '',
  };
}

export async function createThread(ports: HarnessPorts, start: Start): Promise<Outcome<Thread>> {
  const { prepared, held, parent, runHook } = start;
  const { row } = held;
  const { id, depth, chain, kind, runner, detached } = row;
  const own = await createRights(ports, row, prepared);
  if (!own.ok) return own;
  const rules = createRules({
    own: rulesIn(prepared, ports.project),
    inherited: startOf(start.history)?.rules,
    parent: parent?.rights.rules,
  });
  if (!rules.ok) return rules;
  // A thread with an unreadable cost does not start, because a cost of zero would lift its limits.
  const read = Object.keys(row.cost).length === 0 ? ok(NO_COST) : unpackCost(row.cost);
  if (!read.ok) return read;
  const cost = read.output;
  // The plain loop has no hooks, so nothing is reserved for them.
  const list = hasHooks(runner) ? prepared.hooks : [];
  const split = start.split ?? splitLimits(ports, prepared.limits, list);
  const reserve = openReserve(held);
  const control = controlOf(start);
  const thread: Thread = {
    ports,
    place: {
      id,
      parent: row.parent,
      depth,
      chain,
      kind,
      runner,
      detached,
      nesting: (parent?.place.nesting ?? 0) + (kind === 'hook' ? 1 : 0),
      ...(prepared.plan && { plan: prepared.plan }),
      ...(prepared.comparison && { comparison: prepared.comparison }),
      item: prepared.item,
      directive: prepared.directive,
      inputs: prepared.inputs,
    },
    rights: {
      get own() {
        return own.output();
      },
      approved: createApproved(() => thread),
      rules: rules.output,
    },
    budget: {
      meter: createCostMeter(() => ports.clock.monotonic(), cost),
      limits: split.own,
      initial: prepared.limits,
      drawFrom:
        start.drawFrom ?? (detached && row.parent !== undefined ? detachedKey(id) : undefined),
      warned: new Set(),
      windowSeen: cost.context_tokens,
    },
    talk: await talkOf(ports, start),
    hooks: {
      list,
      fired: new Set(),
      bounds: NO_BOUNDS,
      reserve: reserve?.key,
      limits: split.hooks,
      left: reserve?.amounts ?? {},
      pending: new Map(),
      run: runHook,
    },
    control,
    journal: openJournal(ports, start, control),
  };
  await thread.rights.approved.load();
  return ok(thread);
}
