// Runs the js blocks of one script in one global object of their own (`js-realm.ts`). A call is
// synchronous unless the block waits for a timer or for a function of the script.
import { types } from 'node:util';
import { type Context, constants, createContext, Script } from 'node:vm';
import { type Failure, fail, type Json, type Outcome, ok } from '../base/index.ts';
import type { MaybePromise } from '../flow/index.ts';
import { ANSWERS } from './js-answers.ts';
import { BOUNDED_DATA } from './js-bounded.ts';
import { dataText, readData } from './js-data.ts';
import { createJob, type Job, thrownFault } from './js-job.ts';
import { type Realm, realmText } from './js-realm.ts';
import { extrasText } from './js-realm-extras.ts';
import type { AskHost } from './js-realm-globals.ts';
import { keepRejectionsIn } from './js-rejections.ts';
import { createUnits, type Unit, type Units } from './js-units.ts';
import type { JsArgument, JsCall, JsEngine, JsHelper, JsResult } from './world.ts';

const MAX_TIMERS = 10_000;
const MAX_DELAY = 2 ** 31 - 1;
/** Known to blocks, and of no use to them: with nothing prepared it does nothing. */
const ENTRY = '__enter';

/** Everything a block throws stays inside; this comes from V8. Looked at without running any code. */
const isTimeout = (thrown: unknown): boolean =>
  types.isNativeError(thrown) &&
  Object.getOwnPropertyDescriptor(thrown, 'code')?.value === 'ERR_SCRIPT_EXECUTION_TIMEOUT';

const slowFault = (ms: number): Failure =>
  fail('timeout', `the js block ran longer than ${ms / 1000} s; set \`timeout\` if it may`);

interface Inside {
  readonly context: Context;
  readonly realm: Realm;
  readonly units: Units;
  readonly enter: Script;
}

export function createJsEngine(): JsEngine {
  const jobs = new Map<number, Job>();
  const timers = new Map<number, { handle: NodeJS.Timeout; job: Job }>();
  let inside: Inside | undefined;
  let letGo = (): void => undefined;
  let current: Job | undefined;
  let depth = 0;
  let count = 0;
  let tickets = 0;
  /** A block that may have replaced something ran since the realm was last looked at. */
  let isChanged = false;
  let isClosed = false;

  function open(): Inside {
    const context = createContext(constants.DONT_CONTEXTIFY, {
      codeGeneration: { strings: false, wasm: false },
      // Promises of blocks go on inside of entries only, so every step has its time limit.
      microtaskMode: 'afterEvaluate',
    });
    const make = new Script(realmText()).runInContext(context) as (
      host: AskHost,
      entry: string,
    ) => Realm;
    const realm = make(answer, ENTRY);
    letGo = keepRejectionsIn();
    const units = createUnits(context, realm.addUnit);
    return { context, realm, units, enter: new Script(`${ENTRY}()`) };
  }

  // ---- what the realm asks

  const answer: AskHost = (kind, id, text) => {
    if (kind === 'log' || kind === 'warn') current?.print(kind, text);
    else if (kind === 'timer') return startTimer(id, text);
    else if (kind === 'clear') stopTimer(id);
    else if (kind === 'call') return callHelper(jobs.get(id), text);
    else if (kind === 'settle') settle(jobs.get(id), () => resultOf(jobs.get(id) as Job, text));
    else if (kind === 'extras') loadExtras();
    else return ANSWERS[kind]?.(text) ?? '';
    return '';
  };

  function loadExtras(): void {
    const { realm, context } = inside as Inside;
    realm.setExtras(new Script(extrasText()).runInContext(context));
  }

  function startTimer(id: number, text: string): string {
    const job = current;
    if (!job || isClosed) return 'the script has ended';
    if (timers.size >= MAX_TIMERS) return `a script may have ${MAX_TIMERS} timers at once`;
    const ms = Math.min(Math.max(1, Number(text.slice(1))), MAX_DELAY);
    const repeats = text[0] === 'r';
    const fire = (): void => {
      if (!repeats) timers.delete(id);
      resume(job, 'timer', id, '');
    };
    // The deadline of a waiting call keeps the process alive, a timer alone does not.
    const handle = (repeats ? setInterval(fire, ms) : setTimeout(fire, ms)).unref();
    timers.set(id, { handle, job });
    return '';
  }

  function stopTimer(id: number): void {
    clearTimeout(timers.get(id)?.handle);
    timers.delete(id);
  }

  function callHelper(job: Job | undefined, text: string): string {
    const name = text.slice(0, text.indexOf('\n'));
    const helper = job?.call.helpers.find((one) => one.name === name);
    if (!job || !helper) return `ethe function \`${name}\` cannot be called any more`;
    const failed = (error: unknown): string => `e${job.failed(error)}`;
    try {
      const values = readData(text.slice(name.length + 1)) as Json[];
      const value = helper.call(values);
      if (!(value instanceof Promise)) return dataText(value);
      const ticket = ++tickets;
      void value.then(
        (data) => resume(job, 'answer', ticket, dataText(data)),
        (error: unknown) => resume(job, 'answer', ticket, failed(error)),
      );
      return `p${ticket}`;
    } catch (error) {
      return failed(error);
    }
  }

  // ---- entering

  /** With a time limit, unless one is running already or none is needed. */
  function enter(job: Job, limitMs: number, isFree = false): Outcome<string> {
    const { realm, context, enter: script } = inside as Inside;
    const [outer, before] = [current, depth];
    current = job;
    depth += 1;
    try {
      if (before > 0 || isFree) return ok(realm.enter());
      isChanged = true;
      const limits = { timeout: limitMs, displayErrors: false };
      return ok(script.runInContext(context, limits) as string);
    } catch (thrown) {
      if (isTimeout(thrown)) {
        // Whatever loops without end may sit in the queue of promises: it goes with its realm.
        if (before === 0) leaveRealm(slowFault(job.timeoutMs));
        return slowFault(job.timeoutMs);
      }
      return fail('internal_error', 'a js block could not be run: no stack or memory is left');
    } finally {
      current = outer;
      depth = before;
    }
  }

  /** Ends everything that is under way inside; the next call finds a new realm. */
  function leaveRealm(failure: Failure): void {
    for (const id of timers.keys()) stopTimer(id);
    for (const job of jobs.values()) settle(job, () => failure);
    letGo();
    letGo = () => undefined;
    inside = undefined;
    isChanged = false;
  }

  /** Goes on with something that a block waits for. */
  function resume(job: Job, what: string, id: number, text: string): void {
    if (isClosed || !inside) return;
    inside.realm.prepare(what, id, text);
    const entered = enter(job, job.leftMs());
    if (!entered.ok) settle(job, () => entered);
    else if (entered.output[0] === 'e') settle(job, () => resultOf(job, entered.output));
  }

  function resultOf(job: Job, text: string): Outcome<JsResult> {
    if (job.denied) return { ok: false, error: job.denied };
    if (text[0] === 'e') return job.original(thrownFault(text.slice(1)));
    return ok({ value: readData(text), logs: job.logs, warnings: job.warnings });
  }

  function settle(job: Job | undefined, outcome: () => Outcome<JsResult>): void {
    if (!job || !jobs.has(job.id)) return;
    const made = outcome();
    jobs.delete(job.id);
    job.settle(made);
    if (made.ok) return;
    for (const [id, timer] of timers) if (timer.job === job) stopTimer(id);
  }

  // ---- arguments

  /** How many characters were given. */
  function give(realm: Realm, argument: JsArgument): number {
    if (argument.kind === 'undefined') realm.give('data', 'u', '', '');
    else if (argument.kind === 'data' && typeof argument.data !== 'object') {
      realm.give('plain', argument.data, '', '');
      return typeof argument.data === 'string' ? argument.data.length : 0;
    } else {
      const text = dataText(argument.data);
      if (argument.kind === 'data') realm.give('data', text, '', '');
      else if (argument.kind === 'kept') {
        realm.give('kept', text, argument.text, dataText(argument.mx));
      } else realm.give(argument.isStage ? 'stage' : 'text', text, argument.text, '');
      return text.length;
    }
    return 0;
  }

  /** Helpers that the block mentions, and those that they mention. */
  function define(call: JsCall, free: readonly string[], known: Set<string>): Outcome<null> {
    const { realm, units } = inside as Inside;
    const names = call.helpers.map(({ name }) => name);
    for (const name of free) {
      if (known.has(name)) continue;
      known.add(name);
      const helper = call.helpers.findLast((one) => one.name === name);
      if (!helper) realm.give('named', dataText(call.mx()), name, '');
      else if (helper.source === undefined) realm.define(name, -1, 0, '[]');
      else {
        const unit = units.get(helper.source, helper.parameters, names);
        if (!unit.ok) return unit;
        const more = define(call, unit.output.free, known);
        if (!more.ok) return more;
        realm.define(name, unit.output.id, unit.output.arity, JSON.stringify(unit.output.free));
      }
    }
    return ok(null);
  }

  function start(call: JsCall, unit: Unit): MaybePromise<Outcome<JsResult>> {
    const { realm } = inside as Inside;
    const job = createJob(++count, call);
    realm.open(job.id, unit.id);
    let size = 0;
    for (const { value } of call.parameters) size += give(realm, value);
    const defined = define(call, unit.free, new Set());
    if (!defined.ok) return defined;
    for (const name of unit.free) realm.giveNamed(name);
    realm.prepare('call', job.id, '');
    jobs.set(job.id, job);
    const isFree = unit.isBounded && size <= BOUNDED_DATA && isIntact(realm);
    const entered = enter(job, job.timeoutMs, isFree);
    if (entered.ok && entered.output === 'p') return wait(job, isFree);
    jobs.delete(job.id);
    return entered.ok ? resultOf(job, entered.output) : entered;
  }

  function isIntact(realm: Realm): boolean {
    if (isChanged && realm.isIntact()) isChanged = false;
    return !isChanged;
  }

  function wait(job: Job, isFree: boolean): MaybePromise<Outcome<JsResult>> {
    // A free entry leaves promises where they are; this one moves them on.
    if (isFree && depth === 0) enter(job, job.timeoutMs);
    return job.outcome(() => settle(job, () => slowFault(job.timeoutMs)));
  }

  return {
    run(call) {
      if (isClosed) return fail('cancelled', 'the script has ended');
      inside ??= open();
      const names = call.parameters.map(({ name }) => name);
      const helpers = call.helpers.map(({ name }: JsHelper) => name);
      const unit = inside.units.get(call.source, names, helpers);
      return unit.ok ? start(call, unit.output) : unit;
    },
    close() {
      if (isClosed) return;
      isClosed = true;
      leaveRealm(fail('cancelled', 'the script ended before its js block did'));
    },
  };
}
