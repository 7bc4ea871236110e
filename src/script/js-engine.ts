// Runs the js blocks of one script in one global object of their own (`js-realm.ts`). A call is
// synchronous unless the block waits for a timer or for a function of the script.
import { type Failure, fail, type Json, type Outcome, ok } from '../base/index.ts';
import type { MaybePromise } from '../flow/index.ts';
import { ANSWERS } from './js-answers.ts';
import { giveAll } from './js-arguments.ts';
import { BOUNDED_DATA } from './js-bounded.ts';
import { dataText, readData } from './js-data.ts';
import { type Inside, openInside } from './js-inside.ts';
import { createJob, type Job, slowFault, thrownFault } from './js-job.ts';
import type { AskHost } from './js-realm-globals.ts';
import { createTimers } from './js-timers.ts';
import type { Unit } from './js-units.ts';
import type { JsCall, JsEngine, JsResult } from './world.ts';

function resultOf(job: Job, text: string): Outcome<JsResult> {
  if (job.denied) return { ok: false, error: job.denied };
  if (text[0] === 'e') return job.original(thrownFault(text.slice(1)));
  return ok({ value: readData(text), logs: job.logs, warnings: job.warnings });
}

/** What a block hears from a function of the script; `later` is told when that takes time. */
function callHelper(
  job: Job | undefined,
  text: string,
  later: (job: Job, answer: Promise<string>) => string,
): string {
  const name = text.slice(0, text.indexOf('\n'));
  const helper = job?.call.helpers.findLast((one) => one.name === name);
  if (!job || !helper) return `ethe function \`${name}\` cannot be called any more`;
  const failed = (error: unknown): string => `e${job.failed(error)}`;
  try {
    const value = helper.call(readData(text.slice(name.length + 1)) as Json[]);
    return value instanceof Promise ? later(job, value.then(dataText, failed)) : dataText(value);
  } catch (error) {
    return failed(error);
  }
}

export function createJsEngine(): JsEngine {
  const jobs = new Map<number, Job>();
  const timers = createTimers((job, id) => resume(job, 'timer', id, ''));
  let inside: Inside | undefined;
  let count = 0;
  let tickets = 0;
  let isClosed = false;

  /** What the realm asks: a kind of question, a number, a text. */
  const answer: AskHost = (kind, id, text) => {
    const current = inside?.current();
    if (kind === 'log' || kind === 'warn') current?.print(kind, text);
    else if (kind === 'timer')
      return current ? timers.start(current, id, text) : 'the script ended';
    else if (kind === 'clear') timers.stop(id);
    else if (kind === 'call') return callHelper(jobs.get(id), text, promise);
    else if (kind === 'settle') settle(jobs.get(id), text);
    else if (kind === 'extras') inside?.loadExtras();
    else return ANSWERS[kind]?.(text) ?? '';
    return '';
  };

  function promise(job: Job, text: Promise<string>): string {
    const ticket = ++tickets;
    void text.then((said) => resume(job, 'answer', ticket, said));
    return `p${ticket}`;
  }

  /** Goes on with something that a block waits for. */
  function resume(job: Job, what: string, id: number, text: string): void {
    if (!inside) return;
    inside.realm.prepare(what, id, text);
    const entered = inside.enter(job, job.leftMs());
    if (!entered.ok) end(job, entered);
    else if (entered.output[0] === 'e') settle(job, entered.output);
  }

  const settle = (job: Job | undefined, text: string): void => {
    if (job) end(job, resultOf(job, text));
  };

  function end(job: Job, outcome: Outcome<JsResult>): void {
    if (!jobs.delete(job.id)) return;
    job.settle(outcome);
    if (!outcome.ok) timers.stopAll(job);
  }

  /** Ends everything that is under way inside; the next call finds a new realm. */
  function leave(failure: Failure): void {
    timers.stopAll();
    for (const job of jobs.values()) end(job, failure);
    inside?.leave();
    inside = undefined;
  }

  function start(there: Inside, call: JsCall, unit: Unit): MaybePromise<Outcome<JsResult>> {
    const { realm, units } = there;
    const job = createJob(++count, call);
    realm.open(job.id, unit.id);
    const size = giveAll(realm, units, call, unit);
    if (!size.ok) return size;
    realm.prepare('call', job.id, '');
    jobs.set(job.id, job);
    const isFree = unit.isBounded && size.output <= BOUNDED_DATA && there.isIntact();
    const entered = there.enter(job, job.timeoutMs, isFree);
    if (entered.ok && entered.output === 'p') {
      // A free entry leaves promises where they are; this one moves them on.
      if (isFree && !there.isEntered()) there.enter(job, job.timeoutMs);
      return job.outcome(() => end(job, slowFault(job)));
    }
    jobs.delete(job.id);
    return entered.ok ? resultOf(job, entered.output) : entered;
  }

  return {
    run(call) {
      if (isClosed) return fail('cancelled', 'the script has ended');
      // What loops without end may sit in the queue of promises: it goes with its realm.
      inside ??= openInside(answer, leave);
      const names = call.parameters.map(({ name }) => name);
      const helpers = call.helpers.map(({ name }) => name);
      const unit = inside.units.get(call.source, names, helpers);
      return unit.ok ? start(inside, call, unit.output) : unit;
    },
    close() {
      if (isClosed) return;
      isClosed = true;
      leave(fail('cancelled', 'the script ended before its js block did'));
    },
  };
}
