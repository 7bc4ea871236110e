// What a script has done before, read from its thread's journal. A script that goes on runs again from
// its beginning; what it already did is not done again: it gets what that came to.
import { setImmediate as othersTurn } from 'node:timers/promises';
import { canonicalJson, fail, type Json, type Outcome, ok } from '../../base/index.ts';
import type { MaybePromise, Value } from '../../flow/index.ts';
import { type DataOf, madeCalls, type Recorded } from '../../journal/index.ts';
import { resultIn } from '../thread/recorded-answers.ts';

/** A step as the journal has it. */
export interface RecordedStep {
  call: string;
  intent: DataOf<'tool_call'>;
  /** Absent: its process ended before it did. */
  result?: Outcome<Value>;
  /** A person is asked about it: it has not begun. */
  waits: boolean;
}

export type RecordedSteps = Awaited<ReturnType<typeof createScriptRecord>>;

const PREFIX = 'step_';

const nameOf = (verb: string, given: Json): string => canonicalJson([verb, given]);

/** All steps of a script, in the order they were begun. */
export async function recordedSteps(
  history: readonly Recorded[],
  whole: (content: Json) => Json | Promise<Json>,
): Promise<Map<string, RecordedStep>> {
  const steps = new Map<string, RecordedStep>();
  for (const { call: made, intent, result } of madeCalls(history)) {
    const call = made.id;
    if (!call.startsWith(PREFIX)) continue;
    const step: RecordedStep = { call, intent: intent.data, waits: made.approval?.waits === true };
    steps.set(call, step);
    if (!result || result.seq < intent.seq) continue;
    step.result = resultIn({ ...result.data, content: await whole(result.data.content) });
  }
  return steps;
}

export const differs = (step: string, recorded: RecordedStep): Outcome<never> =>
  fail(
    'steps_differ',
    `the script did not come by \`${recorded.intent.tool}\` again, which it had done before it was interrupted, but by ${step}; it reads something that has changed, or time or chance decide in it`,
    { recorded: recorded.intent.tool, call_id: recorded.call },
  );

/**
 * `before`: so many steps were done by others, and have their names. `settle` is awaited before it is looked whether
 * a path that waits is ready.
 */
export async function createScriptRecord(
  history: readonly Recorded[],
  whole: (content: Json) => Json | Promise<Json> = (content) => content,
  before = 0,
  settle: () => MaybePromise<void> = () => undefined,
) {
  const steps = await recordedSteps(history, whole);
  const open = new Map<string, RecordedStep[]>();
  for (const step of steps.values()) {
    const name = nameOf(step.intent.verb, step.intent.arguments);
    open.set(name, [...(open.get(name) ?? []), step]);
  }
  let left = steps.size;
  let number = before + steps.size;
  let paths = 1;
  const waiting: { isReady(): boolean; wake(isReady: boolean): void }[] = [];
  let looks = 0;
  const first = (): RecordedStep | undefined => [...open.values()].flat()[0];
  /** Wakes the paths that are ready; all of them when every path waits, because nothing would make one ready then. */
  async function look(): Promise<void> {
    looks += 1;
    const own = looks;
    // A path that ends and the path that waits for it are some promises apart: all of them are settled first.
    await othersTurn();
    await settle();
    if (own !== looks) return;
    const ready = waiting.filter(({ isReady }) => isReady());
    const isStuck = ready.length === 0 && waiting.length >= paths;
    for (const path of isStuck ? [...waiting] : ready) {
      waiting.splice(waiting.indexOf(path), 1);
      path.wake(!isStuck);
    }
  }
  async function wait(isReady: () => boolean): Promise<boolean> {
    const { promise: woken, resolve: wake } = Promise.withResolvers<boolean>();
    waiting.push({ isReady, wake });
    void look();
    return await woken;
  }
  return {
    /** Undefined: it is a step that was never begun. A failure: another one was done in its place. */
    async take(verb: string, given: Json): Promise<Outcome<RecordedStep | undefined>> {
      const step = open.get(nameOf(verb, given))?.shift();
      if (step) {
        left -= 1;
        void look();
        return ok(step);
      }
      // Branches that run at the same time may come by in another order. A new step is begun when the recorded
      // ones were taken.
      if (left > 0) await wait(() => left === 0);
      const missing = first();
      return missing ? differs(`\`${verb}\` with other arguments`, missing) : ok(undefined);
    },
    /** The script goes on along so many more paths at once, or fewer; one that waits for others counts no more. */
    paths(change: number): void {
      paths += change;
      void look();
    },
    /** This path waits until it is ready. False: no path can go on, so it does. */
    wait,
    /** A name for a step that is begun now; in a replay it has one. */
    nextCall(name?: string): string {
      number += 1;
      return name ?? `${PREFIX}${number}`;
    },
    /** How many have a name by now. */
    count: () => number,
    /** Recorded, and not asked for; undefined when there is none. */
    left: () => (left > 0 ? first() : undefined),
  };
}
