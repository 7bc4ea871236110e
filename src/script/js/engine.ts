// Runs the js blocks of one script, all in one context (`context.ts`). A call is synchronous unless the
// block waits for a timer or for a function of the script, or the engine is not loaded yet.
import {
  type Failure,
  type Fault,
  fail,
  isObject,
  type Outcome,
  ok,
  parseJson,
} from '../../base/index.ts';
import {
  type Descriptor,
  EMPTY,
  type MaybePromise,
  mergeDescriptors,
  removeLabels,
  type Value,
} from '../../flow/index.ts';
import { ScriptFault } from '../fault.ts';
import type { JsArgument, JsCall, JsEngine, JsResult } from '../world.ts';
import { createUnits, type Unit, type Units } from './block-body.ts';
import {
  type Broken,
  type Entered,
  type Entry,
  type JsContext,
  MEMORY_MB,
  openContext,
  type Part,
} from './context.ts';
import { dataText, isPlainText, readData } from './data.ts';
import { ANSWERS, type AskHost } from './globals.ts';

const DEFAULT_TIMEOUT_MS = 30_000;
const MAX_PRINTED = 1 << 20;
const MAX_TIMERS = 10_000;
const MAX_DELAY = 2 ** 31 - 1;

// ---- one call while it lasts

/** What it printed, how long it may take, how it ended. */
interface Job {
  readonly id: number;
  readonly call: JsCall;
  readonly timeoutMs: number;
  readonly logs: string[];
  readonly warnings: string[];
  /** A refusal that a function of the script met: the block cannot make it undone. */
  readonly denied: Fault | undefined;
  print(kind: 'log' | 'warn', line: string): void;
  leftMs(): number;
  /** Notes why a function of the script failed and gives the message for the block. */
  failed(error: unknown): string;
  /** The fault behind an exception that only passed through the block. */
  original(failure: Failure): Failure;
  settle(outcome: Outcome<JsResult>): void;
  /** How it ended, or a promise of it; `onLate` is called when the time is over. */
  outcome(onLate: () => void): MaybePromise<Outcome<JsResult>>;
}

const slowFault = ({ timeoutMs }: Pick<Job, 'timeoutMs'>): Failure =>
  fail('timeout', `the js block ran longer than ${timeoutMs / 1000} s; set \`timeout\` if it may`);

const memoryFault = (): Failure =>
  fail(
    'tool_failed',
    `the js block needs more memory or stack than there is (${MEMORY_MB} MB); use \`node { … }\` for more`,
    { error: 'out_of_memory' },
  );

/** Names that `node` blocks have. */
const ELSEWHERE = /^'(Intl|process|require|fetch|Buffer|setImmediate)' is not defined$/;

/** A failure that says what was thrown; the text comes from a block and is believed in nothing. */
function thrownFault(text: string, isFull: boolean): Failure {
  const read = parseJson(text);
  const { message, name } = read.ok && isObject(read.output) ? read.output : {};
  const line = typeof message === 'string' ? message.split('\n', 1)[0] : '';
  // With no memory left there is none for an error either, and null is thrown.
  if (line === 'out of memory' || (isFull && line === 'null')) return memoryFault();
  const hint = ELSEWHERE.test(line ?? '') ? ': a js block has no such thing; use `node { … }`' : '';
  const detail = typeof name === 'string' && name !== '' ? { error: name } : {};
  return fail('tool_failed', `${line || 'an error without a message'}${hint}`, detail);
}

function createJob(id: number, call: JsCall): Job {
  const timeoutMs = Math.max(1, call.timeoutMs ?? DEFAULT_TIMEOUT_MS);
  const deadline = performance.now() + timeoutMs;
  const [logs, warnings]: [string[], string[]] = [[], []];
  let printed = 0;
  let fault: Fault | undefined;
  let ended: Outcome<JsResult> | undefined;
  let tell: ((outcome: Outcome<JsResult>) => void) | undefined;
  return {
    id,
    call,
    timeoutMs,
    logs,
    warnings,
    get denied() {
      return fault?.code === 'permission_denied' ? fault : undefined;
    },
    print(kind, line) {
      const list = kind === 'log' ? logs : warnings;
      if (printed <= MAX_PRINTED) list.push(line.slice(0, MAX_PRINTED));
      else if (printed < Infinity) list.push('… truncated');
      printed = printed > MAX_PRINTED ? Infinity : printed + line.length + 1;
    },
    leftMs: () => Math.max(1, Math.ceil(deadline - performance.now())),
    failed(error) {
      const known = error instanceof ScriptFault ? error.fault : undefined;
      if (fault?.code !== 'permission_denied') fault = known;
      return known?.detail.message ?? (error instanceof Error ? error.message : String(error));
    },
    original: (failure) =>
      fault?.detail.message === failure.error.detail.message
        ? { ok: false, error: fault }
        : failure,
    settle(outcome) {
      ended = outcome;
      tell?.(outcome);
    },
    outcome(onLate) {
      if (ended) return ended;
      return new Promise((resolve) => {
        const late = setTimeout(onLate, Math.max(1, deadline - performance.now()));
        tell = (outcome) => {
          clearTimeout(late);
          resolve(outcome);
        };
      });
    },
  };
}

// ---- timers

/** None keeps the process alive by itself: a call that waits has a deadline, and that does. */
function createTimers(fire: (job: Job, id: number) => void) {
  const timers = new Map<number, { handle: NodeJS.Timeout; job: Job }>();

  function stop(id: number): void {
    clearTimeout(timers.get(id)?.handle);
    timers.delete(id);
  }

  return {
    /** `text`: `o` once or `r` again and again, and the milliseconds. Says why it cannot be. */
    start(job: Job, id: number, text: string): string {
      if (timers.size >= MAX_TIMERS) return `a script may have ${MAX_TIMERS} timers at once`;
      const ms = Math.min(Math.max(1, Number(text.slice(1)) || 1), MAX_DELAY);
      const repeats = text[0] === 'r';
      const run = (): void => {
        if (!repeats) timers.delete(id);
        fire(job, id);
      };
      stop(id);
      const handle = (repeats ? setInterval(run, ms) : setTimeout(run, ms)).unref();
      timers.set(id, { handle, job });
      return '';
    },
    stop,
    /** Those of one job, or all. */
    stopAll(job?: Job): void {
      for (const [id, timer] of timers) if (!job || timer.job === job) stop(id);
    },
  };
}

// ---- what a block is given

/** Adds what the argument is made of; the letter says how (`createCalls`). */
function give(argument: JsArgument, parts: Part[]): string {
  if (argument.kind === 'undefined') {
    parts.push('u');
    return 'd';
  }
  const { data } = argument;
  if (argument.kind === 'data') {
    const isPlain = typeof data === 'string' ? isPlainText(data) : typeof data !== 'object';
    parts.push(isPlain ? (data as Part) : dataText(data));
    return isPlain ? 'p' : 'd';
  }
  parts.push(dataText(data), argument.text);
  if (argument.kind === 'kept') parts.push(dataText(argument.mx));
  return argument.kind === 'kept' ? 'k' : argument.isStage ? 's' : 't';
}

/** A context and what was compiled in it. */
interface Inside {
  readonly context: JsContext;
  readonly units: Units<Entry>;
}

/** Functions and facts by name: those that the block mentions, and those that they mention. */
function define(
  { context, units }: Inside,
  job: Job,
  free: readonly string[],
  known: Set<string>,
): Outcome<null> {
  const { call } = job;
  for (const name of free) {
    if (known.has(name)) continue;
    known.add(name);
    const helper = call.helpers.findLast((one) => one.name === name);
    if (!helper) context.call('name', [name, dataText(call.mx())]);
    else if (helper.source === undefined) context.call('define', [job.id, name, 0, 0]);
    else {
      const names = call.helpers.map((one) => one.name);
      const unit = units.get(helper.source, helper.parameters, names);
      if (!unit.ok) return unit;
      const more = define({ context, units }, job, unit.output.free, known);
      if (!more.ok) return more;
      context.call('define', [job.id, name, unit.output.id, unit.output.arity]);
    }
  }
  return ok(null);
}

// ---- the engine

/** A value that nobody vouches for does not become trusted by having been near one that is. */
const remembered = (descriptor: Descriptor): Descriptor => removeLabels(descriptor, ['trusted']);

const NONE: readonly string[] = Object.freeze([]);

export function createJsEngine(): JsEngine {
  const jobs = new Map<number, Job>();
  const timers = createTimers((job, id) => resume(job, 'fire', [id]));
  let inside: Inside | undefined;
  let opening: Promise<Outcome<Inside>> | undefined;
  /**
   * The marks of everything that ever went in. Whatever a block left behind (a global, a prototype, a
   * timer) may come out of another one, so every result carries all of them.
   */
  let seen: Descriptor = EMPTY;
  let current: Job | undefined;
  let count = 0;
  let tickets = 0;
  let isClosed = false;

  const notice = (descriptor: Descriptor): void => {
    if (descriptor !== EMPTY) seen = mergeDescriptors(seen, remembered(descriptor));
  };

  /** What the context asks: a kind of question, a number, a text. */
  const answer: AskHost = (kind, id, text) => {
    if (kind === 'log' || kind === 'warn') current?.print(kind, text);
    else if (kind === 'timer')
      return current ? timers.start(current, id, text) : 'the script ended';
    else if (kind === 'clear') timers.stop(id);
    else if (kind === 'call') return callHelper(jobs.get(id), text);
    else if (kind === 'settle') settle(jobs.get(id), text);
    else return ANSWERS.get(kind)?.(text) ?? '';
    return '';
  };

  /** What a block hears from a function of the script. */
  function callHelper(job: Job | undefined, text: string): string {
    const name = text.slice(0, text.indexOf('\n'));
    const helper = job?.call.helpers.findLast((one) => one.name === name);
    if (!job || !helper) return `ethe function \`${name}\` cannot be called any more`;
    const failed = (error: unknown): string => `e${job.failed(error)}`;
    try {
      const values = readData(text.slice(name.length + 1));
      const value = helper.call(Array.isArray(values) ? values : [], seen);
      return value instanceof Promise ? promise(job, value.then(taken, failed)) : taken(value);
    } catch (error) {
      return failed(error);
    }
  }
  const taken = ({ data, meta }: Value): string => {
    notice(meta.descriptor);
    return dataText(data);
  };
  function promise(job: Job, text: Promise<string>): string {
    const ticket = ++tickets;
    void text.then((said) => resume(job, 'answer', [ticket, said]));
    return `p${ticket}`;
  }

  /** On behalf of a job: what is printed inside is its. */
  function entering(job: Job, work: () => Entered): Entered {
    const outer = current;
    current = job;
    try {
      return work();
    } finally {
      current = outer;
    }
  }
  /** Goes on with something that a block waits for. */
  function resume(job: Job, what: 'fire' | 'answer', parts: readonly Part[]): void {
    if (!inside) return;
    const { context } = inside;
    const entered = entering(job, () =>
      context.within(job.leftMs(), () => context.call(what, parts)),
    );
    if ('broken' in entered) end(job, leftBroken(job, entered.broken));
    else if (entered.said[0] === 'e') settle(job, entered.said);
  }

  const settle = (job: Job | undefined, text: string): void => {
    if (job) end(job, resultOf(job, text));
  };
  function end(job: Job, outcome: Outcome<JsResult>): void {
    if (!jobs.delete(job.id)) return;
    job.settle(outcome);
    if (!outcome.ok) timers.stopAll(job);
  }
  function resultOf(job: Job, text: string): Outcome<JsResult> {
    if (job.denied) return { ok: false, error: job.denied };
    if (text[0] === 'e') {
      const isFull = inside?.context.isFull() === true;
      return leftFull(job.original(thrownFault(text.slice(1), isFull)));
    }
    const value = readData(text);
    return ok({ value, logs: job.logs, warnings: job.warnings, descriptor: seen });
  }

  /** Ends everything that is under way inside; the next call finds a new context. */
  function leave(failure: Failure): void {
    timers.stopAll();
    inside = undefined;
    for (const job of jobs.values()) end(job, failure);
  }
  function leftBroken(job: Job, why: Broken): Failure {
    const failure =
      why === 'time'
        ? slowFault(job)
        : why === 'memory'
          ? memoryFault()
          : fail('cancelled', 'the js block was interrupted');
    // Inside of another entry, the outer one finds the same.
    if (!inside?.context.isEntered()) leave(failure);
    return failure;
  }

  /** After a failure: with its memory used up, a context is good for nothing any more. */
  function leftFull(failure: Failure): Failure {
    if (inside?.context.isFull() && !inside.context.isEntered()) leave(failure);
    return failure;
  }

  /** Undefined: it is no such call, or did not yield a number or a text. */
  function runBrief({ context }: Inside, call: JsCall, unit: Unit<Entry>): JsResult | undefined {
    const parts: Part[] = [];
    for (const { value } of call.parameters) if (give(value, parts) !== 'p') return undefined;
    const value = context.enterPlain(unit.entry, parts);
    if (value === undefined) return undefined;
    notice(call.descriptor);
    return { value, logs: NONE, warnings: NONE, descriptor: seen };
  }

  function start(there: Inside, call: JsCall, unit: Unit<Entry>): MaybePromise<Outcome<JsResult>> {
    const { context } = there;
    const job = createJob(++count, call);
    notice(call.descriptor);
    const parts: Part[] = [job.id, ''];
    let shape = '';
    for (const { value } of call.parameters) shape += give(value, parts);
    parts[1] = shape;
    jobs.set(job.id, job);
    let defined: Outcome<null> = ok(null);
    const entered = entering(job, () =>
      context.within(job.timeoutMs, () => {
        if (unit.free.length > 0) {
          context.call('open', []);
          defined = define(there, job, unit.free, new Set());
        }
        return defined.ok ? context.enter(unit.entry, parts) : 'u';
      }),
    );
    if ('said' in entered && entered.said === 'p') {
      return job.outcome(() => end(job, leftFull(slowFault(job))));
    }
    jobs.delete(job.id);
    if ('broken' in entered) return leftBroken(job, entered.broken);
    return defined.ok ? resultOf(job, entered.said) : defined;
  }

  async function open(): Promise<Outcome<Inside>> {
    try {
      const context = await openContext(answer);
      const units = createUnits<Entry>((code) => context.compile(code));
      inside = { context, units };
      return ok(inside);
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      return fail('dependency_missing', `the engine of js blocks cannot be loaded: ${why}`);
    } finally {
      opening = undefined;
    }
  }
  function runIn(there: Inside, call: JsCall): MaybePromise<Outcome<JsResult>> {
    if (isClosed) return fail('cancelled', 'the script has ended');
    const names = call.parameters.map(({ name }) => name);
    const helpers = call.helpers.map(({ name }) => name);
    const unit = there.units.get(call.source, names, helpers);
    if (unit.ok) {
      const brief = unit.output.isBrief ? runBrief(there, call, unit.output) : undefined;
      return brief ? ok(brief) : start(there, call, unit.output);
    }
    return leftFull(there.context.isFull() ? memoryFault() : unit);
  }

  return {
    run(call) {
      if (inside || isClosed) return runIn(inside as Inside, call);
      opening ??= open();
      return opening.then((opened) => (opened.ok ? runIn(opened.output, call) : opened));
    },
    close() {
      if (isClosed) return;
      isClosed = true;
      leave(fail('cancelled', 'the script ended before its js block did'));
    },
  };
}
