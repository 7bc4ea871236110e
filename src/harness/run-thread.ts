// From a prepared directive to its result: the row and its lease, the injected beginning, the loop,
// the end. A thread that a process left behind is rebuilt from its journal and goes on.
import {
  fail,
  getOwn,
  type Json,
  type JsonObject,
  type Outcome,
  ok,
  plainText,
} from '../base/index.ts';
import { describe, EMPTY } from '../flow/index.ts';
import type { Block, ModelReply, ToolCallBlock } from '../llm/index.ts';
import type {
  BudgetLimits,
  NewEvent,
  StoredEvent,
  ThreadRow,
  ThreadStatus,
} from '../store/index.ts';
import { NO_BOUNDS } from './action.ts';
import { createConversation, packMarks, unpackMarks } from './conversation.ts';
import { createCostMeter, NO_COST, packCost, unpackCost } from './cost.ts';
import { packLimits } from './effective-limits.ts';
import { createHookState } from './hook.ts';
import type { EffectiveLimits, LimitName } from './limit.ts';
import { type Ending, runLoop } from './loop.ts';
import { createLoopDetector } from './loop-detector.ts';
import { finalOutputs, missingOutputs, resultText } from './outputs.ts';
import {
  modelFor,
  type Prepared,
  prepareThread,
  priceFor,
  type RunRequest,
} from './prepare-thread.ts';
import { injection, systemPrompt } from './prompt.ts';
import { raiseWarnings } from './thread-checkpoint.ts';
import type { ThreadContext } from './thread-context.ts';
import { createThreadLog } from './thread-log.ts';
import { obeySignals } from './thread-signals.ts';
import { runSteps, unknownOutcome } from './thread-step.ts';
import { mintRights } from './thread-token.ts';
import { runTurn } from './thread-turn.ts';
import type { ThreadResult, World } from './world.ts';

const LEASE_MS = 30_000;
const RENEW_MS = 10_000;
/** A token outlives the thread's deadline by this much, for the last records. */
const GRACE_MS = 60_000;
const FROM_USER = describe({ taint: ['src:user'] });

/** `deploy_staging_20300131_235959_x7k2`, in UTC. */
export function threadId(name: string, world: Pick<World, 'clock' | 'random'>): string {
  const stamp = new Date(world.clock.now())
    .toISOString()
    .replace(/[-:]/g, '')
    .replace('T', '_')
    .slice(0, 15);
  const suffix = [...world.random(4)].map((byte) => (byte % 36).toString(36)).join('');
  return `${name.slice(0, 59)}_${stamp}_${suffix}`;
}

const BUDGETED = ['tokens', 'spend', 'spawns', 'input_tokens', 'output_tokens'] as const;

const budgetOf = (limits: EffectiveLimits): BudgetLimits =>
  Object.fromEntries(
    BUDGETED.flatMap((name) => (limits[name] ? [[name, limits[name].value]] : [])),
  );

interface Start {
  prepared: Prepared;
  row: ThreadRow;
  epoch: number;
  signal: AbortSignal;
  history: readonly StoredEvent[];
}

function createContext(
  world: World,
  { prepared, row, epoch, signal, history }: Start,
): Outcome<ThreadContext> {
  const { item, directive, inputs, hooks, limits } = prepared;
  const chain = world.store.chain(row.id);
  if (!chain.ok) return chain;
  const key = world.tokenKey();
  if (!key.ok) return key;
  const lifetime = Number(limits.duration?.value ?? 0n) + GRACE_MS;
  const rights = mintRights(
    {
      thread: row.id,
      directive,
      project: world.project,
      expires: world.clock.now() + lifetime,
      core: item.source === 'bundle' && item.signature.state === 'bundle',
    },
    world.library,
    key.output,
  );
  if (!rights.ok) return rights;
  const before = history.length === 0 ? ok(NO_COST) : unpackCost(row.cost);
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
  const thread: ThreadContext = {
    world,
    id: row.id,
    parent: row.parent,
    depth: row.depth,
    chain: chain.output,
    nesting: 0,
    item,
    directive,
    inputs,
    rights: rights.output,
    system: systemPrompt(agents, universal),
    hooks,
    hookState: createHookState(),
    hookReserve: undefined,
    initialLimits: limits,
    log,
    meter: createCostMeter(() => world.clock.monotonic(), before.ok ? before.output : NO_COST),
    conversation: createConversation(),
    detector: createLoopDetector(),
    signal,
    limits,
    attempt: row.attempt,
    model: prepared.model,
    price: prepared.price,
    bounds: NO_BOUNDS,
    loops: 0,
    warned: new Set(),
    ratio: undefined,
    ending: undefined,
    notes: [],
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
    async runHook(name, hookInputs) {
      const result = await runChild(world, thread, name, hookInputs);
      return result;
    },
    raiseLimits(raised, names: readonly LimitName[]) {
      thread.limits = raised;
      for (const name of names) {
        const value = raised[name]?.value;
        if (value === undefined || !(BUDGETED as readonly string[]).includes(name)) continue;
        world.store.raiseLimit(thread.id, name as keyof BudgetLimits, value);
      }
    },
    room: () => ({
      isRoot: thread.parent === undefined,
      initial: limits,
      factor: 2,
      policy: world.policies().policy.limits,
      ...(thread.price.context === undefined ? {} : { window: BigInt(thread.price.context) }),
    }),
    newAttempt() {
      thread.attempt += 1;
      thread.meter.newAttempt();
      thread.conversation.clear();
      log.note('retry', { attempt: thread.attempt }, { attempt: thread.attempt });
      for (const event of thread.opening) replay(thread, event);
    },
    opening: [],
  };
  return ok(thread);
}

/** A hook's directive as a thread of its own: own limits, narrowed rights, nesting bounded. */
async function runChild(
  world: World,
  thread: ThreadContext,
  name: string,
  inputs: JsonObject,
): Promise<Outcome<Json>> {
  const prepared = await prepareThread(world, { directive: name, inputs });
  if (!prepared.ok) return prepared;
  const script = prepared.output.directive.process.script;
  if (script) return returnScript(script.text, prepared.output.inputs);
  if (thread.nesting >= 2) return fail('hook_failed', 'hooks are nested deeper than 2');
  const ran = await runPrepared(
    world,
    prepared.output,
    { parent: thread.id, kind: 'hook' },
    thread.signal,
    '',
  );
  if (!ran.ok) return ran;
  return ran.output.status === 'completed'
    ? ok(ran.output.outputs)
    : fail('hook_failed', `hook thread ended ${ran.output.status}: ${ran.output.reason}`);
}

/** The smallest script there is, until the language stands: `/return { … }` with inputs put in. */
export function returnScript(text: string, inputs: JsonObject): Outcome<Json> {
  const body = /^\s*\/return\s+(\{[\s\S]*\})\s*$/.exec(text)?.[1];
  if (body === undefined) {
    return fail('hook_failed', 'only scripts of the form `/return { … }` can run in this version');
  }
  const filled = body.replace(/"@(\w+)"/g, (whole, name: string) =>
    Object.hasOwn(inputs, name) ? JSON.stringify(inputs[name]) : whole,
  );
  try {
    return ok(JSON.parse(filled) as Json);
  } catch (error) {
    return fail('hook_failed', `the script's \`/return\` is not JSON: ${(error as Error).message}`);
  }
}

/** What opens every conversation: the harness itself executes the directive and shows the result. */
async function openingEvents(
  world: World,
  prepared: Prepared,
  message: string,
): Promise<Outcome<NewEvent[]>> {
  const { directive, inputs } = prepared;
  const { request, call } = injection(directive.name, inputs, 'call_directive');
  const ready = await world.kernel.execute(
    { item_type: 'directive', item_id: prepared.item.id, parameters: inputs },
    { surface: 'harness', name: 'harness', frame: world.frame() },
  );
  if (!ready.ok) return ready;
  const marks = packMarks(ready.output.meta.descriptor);
  const events: NewEvent[] = [
    {
      type: 'user_message',
      data: { text: request, marks: packMarks(FROM_USER) },
    },
    { type: 'assistant_message', data: { content: [call] as unknown as Json, injected: true } },
    {
      type: 'tool_result',
      data: { call_id: call.id, content: ready.output.data, is_error: false, marks },
    },
  ];
  if (message !== '') {
    events.push({ type: 'user_message', data: { text: message, marks: packMarks(FROM_USER) } });
  }
  return ok(events);
}

/** Puts one event of the journal into the conversation. */
function replay(thread: ThreadContext, { type, data }: NewEvent): void {
  const { conversation } = thread;
  const marks = unpackMarks(data.marks);
  if (type === 'user_message' || type === 'injected_message')
    conversation.user(plainText(data.text), marks);
  else if (type === 'assistant_message') conversation.assistant(data.content as unknown as Block[]);
  else if (type === 'tool_result') {
    conversation.result(
      plainText(data.call_id),
      data.content ?? null,
      marks,
      data.is_error === true,
    );
  }
}

const MAX_REMINDERS = 2;

/** A reply without calls ends the run; when it owes outputs, the model is asked for them first. */
function finalEnding(thread: ThreadContext, reply: ModelReply): Ending | undefined {
  const text = reply.content.map((block) => (block.type === 'text' ? block.text : '')).join('');
  const outputs = finalOutputs(thread.directive, text);
  if (outputs?.ok) return { status: 'completed', reason: '', text, outputs: outputs.output };
  const owed = missingOutputs(thread.directive, undefined);
  if (owed.length === 0) return { status: 'completed', reason: '', text };
  const why = outputs ? outputs.error.detail.message : `the outputs ${owed.join(', ')} are missing`;
  if (thread.reminders >= MAX_REMINDERS)
    return { status: 'failed', reason: why, text, code: 'invalid_input' };
  thread.reminders += 1;
  thread.notes.push(
    `[harness] ${why}; return them with execute {"item_type":"directive","item_id":"${thread.directive.name}","action":"return","parameters":{…}}`,
  );
  return undefined;
}

function portsOf(thread: ThreadContext) {
  const between = async (): Promise<Ending | undefined> => {
    if (thread.ending) return thread.ending;
    if (!thread.log.isHeld())
      return { status: 'interrupted', reason: 'another process holds the thread' };
    const told = obeySignals(thread);
    if (told) return told;
    await raiseWarnings(thread);
    return thread.ending;
  };
  return {
    between,
    turn: () => runTurn(thread),
    pending: () => thread.conversation.pending(),
    perform: (calls: readonly ToolCallBlock[]) => runSteps(thread, calls, between),
    final: async (reply: ModelReply): Promise<Ending | undefined> => finalEnding(thread, reply),
  };
}

/** The lease is renewed while the loop runs; a thread whose process is gone is found by its end. */
function keepLease(world: World, id: string, epoch: number): () => void {
  const timer = setInterval(() => world.store.renew(id, epoch, LEASE_MS), RENEW_MS);
  timer.unref();
  return () => clearInterval(timer);
}

function finish(thread: ThreadContext, ending: Ending, epoch: number): ThreadResult {
  const { world, id, log, meter, directive } = thread;
  const cost = packCost(meter.read());
  const text = resultText(directive, ending.status === 'completed', ending.text);
  const result: ThreadResult = {
    thread_id: id,
    status: ending.status,
    outputs: ending.outputs ?? {},
    text,
    reason: ending.reason,
    cost,
    ...(ending.code ? { code: ending.code } : {}),
  };
  if (ending.status !== 'interrupted') {
    log.note(
      'thread_end',
      { status: ending.status, reason: ending.reason, cost },
      {
        status: ending.status as ThreadStatus,
        cost,
        result: result as unknown as Json,
      },
    );
  }
  world.store.release(id, epoch);
  return result;
}

async function drive(thread: ThreadContext, epoch: number): Promise<ThreadResult> {
  const release = keepLease(thread.world, thread.id, epoch);
  try {
    return finish(thread, await runLoop(portsOf(thread)), epoch);
  } finally {
    release();
  }
}

async function runPrepared(
  world: World,
  prepared: Prepared,
  place: { parent?: string; kind?: 'thread' | 'hook' },
  signal: AbortSignal,
  message: string,
): Promise<Outcome<ThreadResult>> {
  const { directive, limits, inputs, model } = prepared;
  const opening = await openingEvents(world, prepared, message);
  if (!opening.ok) return opening;
  const first: NewEvent = {
    type: 'thread_start',
    data: {
      directive: directive.name,
      version: directive.version,
      inputs,
      model: model.model,
      message,
      limits: packLimits(limits),
    },
  };
  const row = world.store.createThread(
    {
      id: threadId(directive.name, world),
      directive: prepared.item.id,
      version: directive.version,
      runner: 'safety',
      project: world.project,
      limits: packLimits(limits),
      budget: budgetOf(limits),
      inputs,
      ...place,
    },
    { events: [first, ...opening.output], lease: { owner: world.owner, ttlMs: LEASE_MS } },
  );
  if (!row.ok) return row;
  world.transcript(row.output.id)([first, ...opening.output], 1);
  const made = createContext(world, {
    prepared,
    row: row.output,
    epoch: row.output.epoch,
    signal,
    history: [],
  });
  if (!made.ok) return made;
  const thread = made.output;
  thread.opening.push(...opening.output);
  for (const event of opening.output) replay(thread, event);
  thread.log.note('signal', { kind: 'start', by: world.owner }, { status: 'running' });
  const { script } = directive.process;
  if (script) {
    const returned = returnScript(script.text, inputs);
    return ok(finish(thread, scriptEnding(returned), row.output.epoch));
  }
  return ok(await drive(thread, row.output.epoch));
}

const scriptEnding = (returned: Outcome<Json>): Ending =>
  returned.ok
    ? { status: 'completed', reason: '', outputs: returned.output }
    : { status: 'failed', reason: returned.error.detail.message, code: returned.error.code };

/** Runs a directive as a thread, to its end or until it pauses. */
export async function runDirective(
  world: World,
  request: RunRequest,
  signal: AbortSignal = new AbortController().signal,
): Promise<Outcome<ThreadResult>> {
  const prepared = await prepareThread(world, request);
  if (!prepared.ok) return prepared;
  return await runPrepared(world, prepared.output, {}, signal, request.message ?? '');
}

/** Calls that were begun and never ended: a write is not repeated, everything else is. */
function settleBegun(thread: ThreadContext, history: readonly StoredEvent[]): void {
  const begun = new Map(
    history
      .filter(({ type }) => type === 'tool_call')
      .map(({ data }) => [plainText(data.call_id), data]),
  );
  for (const call of thread.conversation.pending()) {
    const intent = begun.get(call.id);
    if (!intent || intent.effect !== 'write') continue;
    const unknown = unknownOutcome(call, plainText(intent.tool));
    const content = { ok: false, error: unknown.error } as unknown as Json;
    thread.log.note('tool_result', {
      call_id: call.id,
      content,
      is_error: true,
      marks: packMarks(EMPTY),
    });
    thread.conversation.result(call.id, content, EMPTY, true);
  }
}

/** Goes on with a thread that was interrupted or paused. */
export async function resumeThread(
  world: World,
  id: string,
  signal: AbortSignal = new AbortController().signal,
): Promise<Outcome<ThreadResult>> {
  const lease = world.store.claim(id, world.owner, LEASE_MS);
  if (!lease.ok) return lease;
  const row = world.store.thread(id);
  if (!row.ok) return row;
  const history = world.store.read(id);
  if (!history.ok) return history;
  const start = history.output.find(({ type }) => type === 'thread_start')?.data ?? {};
  const prepared = await prepareThread(world, {
    directive: row.output.directive,
    inputs: row.output.inputs as JsonObject,
    model: plainText(getOwn(start, 'model')),
  });
  if (!prepared.ok) {
    world.store.release(id, lease.output.epoch);
    return prepared;
  }
  const { epoch } = lease.output;
  const made = createContext(world, {
    prepared: prepared.output,
    row: row.output,
    epoch,
    signal,
    history: history.output,
  });
  if (!made.ok) return made;
  const thread = made.output;
  const lastAttempt = history.output.findLastIndex(({ type }) => type === 'retry');
  for (const event of history.output.slice(lastAttempt + 1)) replay(thread, event);
  thread.log.note('signal', { kind: 'resume', by: world.owner }, { status: 'running' });
  settleBegun(thread, history.output);
  chargeOpen(thread);
  return ok(await drive(thread, epoch));
}

/** A request whose answer never came may have been charged: its reservation is, in full. */
function chargeOpen({ world, id }: ThreadContext): void {
  const open = world.store.openReservations(id);
  for (const { key, amounts } of open.ok ? open.output : []) world.store.settle(key, amounts);
}
