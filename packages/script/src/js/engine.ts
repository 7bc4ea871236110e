// Hot: this file runs for each step of a script, and a promise costs more than most steps.
// Runs the js blocks of one script, all in one context (`context.ts`). A call is synchronous unless the
// block waits for a timer or a function of the script, or the engine is not loaded yet.
import {
  type Failure,
  type Fault,
  fail,
  isObject,
  messageOf,
  type Outcome,
  ok,
  parseJson,
} from '@kernmantle/core/base';
import {
  type Descriptor,
  EMPTY,
  type MaybePromise,
  mergeDescriptors,
  removeLabels,
  type Value,
} from '@kernmantle/core/flow';
import { ScriptFault } from '../fault.ts';
import type { JsCall, JsEngine, JsResult } from '../world.ts';
import {
  type Broken,
  callInside,
  enter,
  enterPlain,
  isFull,
  type JsContext,
  MEMORY_MB,
  openContext,
  type Unit,
  unitOf,
  within,
} from './context.ts';
import { addArgument, dataText, type Primitive, readData } from './data.ts';
import { ANSWERS } from './globals.ts';

const DEFAULT_TIMEOUT_MS = 30_000;
const MAX_PRINTED = 1 << 20;
const MAX_TIMERS = 10_000;
const MAX_DELAY = 2 ** 31 - 1;

class Job {
  readonly id: number;
  readonly call: JsCall;
  readonly timeoutMs: number;
  readonly deadline: number;
  readonly logs: string[] = [];
  readonly warnings: string[] = [];
  /** Number of printed characters. It is infinite after the maximum was reached. */
  printed = 0;
  /** Fault of a called function of the script. A refusal stays, because the block must not be able to hide it. */
  fault: Fault | undefined;
  ended: Outcome<JsResult> | undefined;
  tell: ((outcome: Outcome<JsResult>) => void) | undefined;

  constructor(id: number, call: JsCall) {
    this.id = id;
    this.call = call;
    this.timeoutMs = Math.max(1, call.timeoutMs ?? DEFAULT_TIMEOUT_MS);
    this.deadline = performance.now() + this.timeoutMs;
  }
}

class Engine {
  readonly jobs = new Map<number, Job>();
  /** Timers never keep the process alive. A waiting call keeps it alive until its deadline. */
  readonly timers = new Map<number, { handle: NodeJS.Timeout; job: Job }>();
  context: JsContext | undefined;
  opening: Promise<Outcome<JsContext>> | undefined;
  /**
   * Marks of everything that was ever passed in. A block can leave data behind in a global, a prototype or
   * a timer, and another block can return it. So every result has all these marks.
   */
  marks: Descriptor = EMPTY;
  /** The job that receives the printed text. */
  current: Job | undefined;
  jobCount = 0;
  tickets = 0;
  isClosed = false;
}

export function createJsEngine(): JsEngine {
  const engine = new Engine();
  return {
    run(call) {
      if (engine.isClosed) return ENDED;
      if (engine.context) return runIn(engine, engine.context, call);
      engine.opening ??= open(engine);
      return engine.opening.then((opened) =>
        opened.ok ? runIn(engine, opened.output, call) : opened,
      );
    },
    close() {
      if (engine.isClosed) return;
      engine.isClosed = true;
      discardContext(engine, fail('cancelled', 'the script ended before its js block did'));
    },
  };
}

const ENDED = fail('cancelled', 'the script has ended');

async function open(engine: Engine): Promise<Outcome<JsContext>> {
  try {
    engine.context = await openContext((kind, id, text) => answer(engine, kind, id, text));
    return ok(engine.context);
  } catch (error) {
    return fail(
      'dependency_missing',
      `the engine of js blocks cannot be loaded: ${messageOf(error)}`,
    );
  } finally {
    engine.opening = undefined;
  }
}

const slowFault = ({ timeoutMs }: Job): Failure =>
  fail('timeout', `the js block ran longer than ${timeoutMs / 1000} s; set a longer \`timeout\``);

const memoryFault = (): Failure =>
  fail(
    'tool_failed',
    `the js block exceeded the memory or stack (${MEMORY_MB} MB); use \`node { … }\` for more`,
    { error: 'out_of_memory' },
  );

/** Matches the error for a name that exists only in `node` blocks. */
const ELSEWHERE = /^'(Intl|process|require|fetch|Buffer|setImmediate)' is not defined$/;

/** Returns the fault of a thrown error. Its text comes from a block and is untrusted data. */
function thrownFault(text: string, isFull: boolean): Failure {
  const read = parseJson(text);
  const { message, name } = read.ok && isObject(read.output) ? read.output : {};
  const line = typeof message === 'string' ? message.split('\n', 1)[0] : '';
  // Without memory the engine cannot create an error, and null is thrown.
  if (line === 'out of memory' || (isFull && line === 'null')) return memoryFault();
  const hint = ELSEWHERE.test(line ?? '') ? ': not available in js blocks; use `node { … }`' : '';
  const detail = typeof name === 'string' && name !== '' ? { error: name } : {};
  return fail('tool_failed', `${line || 'an error without a message'}${hint}`, detail);
}

/** Ends all jobs with a failure. The next call opens a new context. */
function discardContext(engine: Engine, failure: Failure): void {
  for (const id of engine.timers.keys()) stopTimer(engine, id);
  engine.context = undefined;
  for (const job of engine.jobs.values()) end(engine, job, failure);
}

function end(engine: Engine, job: Job, outcome: Outcome<JsResult>): void {
  if (!engine.jobs.delete(job.id)) return;
  job.ended = outcome;
  job.tell?.(outcome);
  if (outcome.ok) return;
  for (const [id, timer] of engine.timers) if (timer.job === job) stopTimer(engine, id);
}

function failBroken(engine: Engine, job: Job, why: Broken): Failure {
  const failure = {
    time: () => slowFault(job),
    memory: memoryFault,
    interrupt: () => fail('cancelled', 'the js block was interrupted'),
  }[why]();
  // A nested entry does not discard the context, because the outer entry finds the same state and does it.
  if (!engine.context?.depth) discardContext(engine, failure);
  return failure;
}

/** Discards the context if its memory is used up. Returns the failure. */
function discardIfFull(engine: Engine, failure: Failure): Failure {
  const { context } = engine;
  if (context && isFull(context) && context.depth === 0) discardContext(engine, failure);
  return failure;
}

const isRefusal = (fault: Fault | undefined): boolean => fault?.code === 'permission_denied';

function resultOf(engine: Engine, job: Job, text: string): Outcome<JsResult> {
  const { logs, warnings, fault } = job;
  if (fault && isRefusal(fault)) return { ok: false, error: fault };
  if (text[0] !== 'e')
    return ok({ value: readData(text), logs, warnings, descriptor: engine.marks });
  const thrown = thrownFault(text.slice(1), engine.context ? isFull(engine.context) : false);
  // The exception may be the fault of a called function that the block did not catch.
  const isPassing = fault?.detail.message === thrown.error.detail.message;
  return discardIfFull(engine, isPassing ? { ok: false, error: fault } : thrown);
}

function outcomeOf(engine: Engine, job: Job): MaybePromise<Outcome<JsResult>> {
  if (job.ended) return job.ended;
  return new Promise((resolve) => {
    const onLate = (): void => end(engine, job, discardIfFull(engine, slowFault(job)));
    const late = setTimeout(onLate, Math.max(1, job.deadline - performance.now()));
    job.tell = (outcome) => {
      clearTimeout(late);
      resolve(outcome);
    };
  });
}

/** Handles a question of the context: a kind, a number and a text. */
function answer(engine: Engine, kind: string, id: number, text: string): string {
  const { current, jobs } = engine;
  const job = jobs.get(id);
  switch (kind) {
    case 'log':
    case 'warn':
      if (current) print(current, kind === 'log' ? current.logs : current.warnings, text);
      if (kind === 'log') current?.call.onOutput?.(`${text}\n`);
      return '';
    case 'timer':
      return current ? startTimer(engine, current, id, text) : 'the script ended';
    case 'clear':
      stopTimer(engine, id);
      return '';
    case 'call':
      return callHelper(engine, job, text);
    case 'settle':
      if (job) end(engine, job, resultOf(engine, job, text));
      return '';
    default:
      return ANSWERS.get(kind)?.(text) ?? '';
  }
}

function print(job: Job, list: string[], line: string): void {
  if (job.printed <= MAX_PRINTED) list.push(line.slice(0, MAX_PRINTED));
  else if (job.printed < Infinity) list.push('… truncated');
  job.printed = job.printed > MAX_PRINTED ? Infinity : job.printed + line.length + 1;
}

/** Starts a timer. `text` is `o` (once) or `r` (repeated) and the milliseconds. Returns why it was refused. */
function startTimer(engine: Engine, job: Job, id: number, text: string): string {
  const { timers } = engine;
  if (timers.size >= MAX_TIMERS) return `a script can have at most ${MAX_TIMERS} timers`;
  const ms = Math.min(Math.max(1, Number(text.slice(1)) || 1), MAX_DELAY);
  const repeats = text[0] === 'r';
  const run = (): void => {
    if (!repeats) timers.delete(id);
    resume(engine, job, 'fire', [id]);
  };
  stopTimer(engine, id);
  const handle = (repeats ? setInterval(run, ms) : setTimeout(run, ms)).unref();
  timers.set(id, { handle, job });
  return '';
}

function stopTimer({ timers }: Engine, id: number): void {
  clearTimeout(timers.get(id)?.handle);
  timers.delete(id);
}

/** Calls a function of the script. Returns its encoded result for the block. */
function callHelper(engine: Engine, job: Job | undefined, text: string): string {
  const name = text.slice(0, text.indexOf('\n'));
  const helper = job?.call.helpers.findLast((one) => one.name === name);
  if (!job || !helper) return `ethe function \`${name}\` cannot be called after its block ended`;
  const failed = (error: unknown): string => {
    const fault = error instanceof ScriptFault ? error.fault : undefined;
    if (!isRefusal(job.fault)) job.fault = fault;
    return `e${fault?.detail.message ?? messageOf(error)}`;
  };
  const taken = ({ data, meta }: Value): string => {
    recordMarks(engine, meta.descriptor);
    return dataText(data);
  };
  try {
    const values = readData(text.slice(name.length + 1));
    const value = helper.call?.(Array.isArray(values) ? values : [], engine.marks);
    if (!value) return failed(`the function \`${name}\` cannot be called from here`);
    if (!(value instanceof Promise)) return taken(value);
    const ticket = ++engine.tickets;
    void value
      .then(taken, failed)
      .then((answer) => resume(engine, job, 'answer', [ticket, answer]));
    return `p${ticket}`;
  } catch (error) {
    return failed(error);
  }
}

/** Continues a block after a timer or an answer. */
function resume(
  engine: Engine,
  job: Job,
  what: 'fire' | 'answer',
  parts: readonly Primitive[],
): void {
  const { context } = engine;
  if (!context) return;
  const restMs = Math.max(1, Math.ceil(job.deadline - performance.now()));
  const entered = runAsJob(engine, job, () =>
    within(context, restMs, () => callInside(context, what, parts)),
  );
  if ('broken' in entered) end(engine, job, failBroken(engine, job, entered.broken));
  else if (entered.said[0] === 'e') end(engine, job, resultOf(engine, job, entered.said));
}

/** Runs work as a part of a job, which receives its output. */
function runAsJob<T>(engine: Engine, job: Job, work: () => T): T {
  const outer = engine.current;
  engine.current = job;
  try {
    return work();
  } finally {
    engine.current = outer;
  }
}

/** Adds marks to the context, but never `trusted`, because another value in it may not be trusted. */
function recordMarks(engine: Engine, descriptor: Descriptor): void {
  if (descriptor !== EMPTY)
    engine.marks = mergeDescriptors(engine.marks, removeLabels(descriptor, ['trusted']));
}

function runIn(engine: Engine, js: JsContext, call: JsCall): MaybePromise<Outcome<JsResult>> {
  if (engine.isClosed) return ENDED;
  const names = call.parameters.map(({ name }) => name);
  const helpers = call.helpers.map(({ name }) => name);
  const unit = unitOf(js, call.source, names, helpers);
  if (!unit.ok) return discardIfFull(engine, isFull(js) ? memoryFault() : unit);
  const brief = unit.output.isBrief ? runBrief(engine, js, call, unit.output) : undefined;
  return brief ? ok(brief) : start(engine, js, call, unit.output);
}

const NONE: readonly string[] = Object.freeze([]);

/** Runs a brief block. Returns `undefined` if a value or the result is neither a number nor a text. */
function runBrief(engine: Engine, js: JsContext, call: JsCall, unit: Unit): JsResult | undefined {
  const parts: Primitive[] = [];
  for (const { value } of call.parameters) if (addArgument(value, parts) !== 'p') return undefined;
  const value = enterPlain(js, unit, parts);
  if (value === undefined) return undefined;
  recordMarks(engine, call.descriptor);
  return { value, logs: NONE, warnings: NONE, descriptor: engine.marks };
}

function start(
  engine: Engine,
  js: JsContext,
  call: JsCall,
  unit: Unit,
): MaybePromise<Outcome<JsResult>> {
  const job = new Job(++engine.jobCount, call);
  engine.jobs.set(job.id, job);
  recordMarks(engine, call.descriptor);
  const parts: Primitive[] = [job.id, ''];
  let shape = '';
  for (const { value } of call.parameters) shape += addArgument(value, parts);
  parts[1] = shape;
  let defined: Outcome<null> = ok(null);
  const work = (): string => {
    if (unit.free.length > 0) {
      callInside(js, 'open', []);
      defined = define(js, job, unit.free, new Set());
    }
    return defined.ok ? enter(js, unit.call, parts) : 'u';
  };
  const entered = runAsJob(engine, job, () => within(js, job.timeoutMs, work, true));
  if ('said' in entered && entered.said === 'p') return outcomeOf(engine, job);
  engine.jobs.delete(job.id);
  if ('broken' in entered) return failBroken(engine, job, entered.broken);
  return defined.ok ? resultOf(engine, job, entered.said) : defined;
}

/** Defines the functions and facts that the block mentions, and those that they mention. */
function define(
  js: JsContext,
  job: Job,
  free: readonly string[],
  defined: Set<string>,
): Outcome<null> {
  const { call } = job;
  for (const name of free) {
    if (defined.has(name)) continue;
    defined.add(name);
    const helper = call.helpers.findLast((one) => one.name === name);
    if (!helper) callInside(js, 'name', [name, dataText(call.mx())]);
    else if (helper.source === undefined) callInside(js, 'define', [job.id, name, 0, 0, '', '[]']);
    else {
      const { source, parameters, captured = [] } = helper;
      const names = call.helpers.map((one) => one.name);
      const own = [...parameters, ...captured.map((one) => one.name)];
      const unit = unitOf(js, source, own, names);
      if (!unit.ok) return unit;
      const more = define(js, job, unit.output.free, defined);
      if (!more.ok) return more;
      const parts: Primitive[] = [];
      const shape = captured.map(({ value }) => addArgument(value, parts)).join('');
      const values = JSON.stringify(parts);
      callInside(js, 'define', [job.id, name, unit.output.id, parameters.length, shape, values]);
    }
  }
  return ok(null);
}
