// Reads the recorded steps of a script from its thread's journal. A resumed script runs again from its beginning. A
// recorded step is not repeated, and the script gets its recorded result.
import { setImmediate as othersTurn } from 'node:timers/promises';
import { canonicalJson, fail, type Json, type Outcome, ok } from '../../base/index.ts';
import type { MaybePromise, Value } from '../../flow/index.ts';
import { type DataOf, madeCalls, type Recorded } from '../../journal/index.ts';
import { resultIn } from '../thread/recorded-answers.ts';

/** A step of a script in the journal. */
export interface RecordedStep {
  call: string;
  intent: DataOf<'tool_call'>;
  /** Result of the step. Absent: the process ended before the step did. */
  result?: Outcome<Value>;
  /** True if a person is asked about the step, which has not begun. */
  waits: boolean;
}

export type RecordedSteps = Awaited<ReturnType<typeof createScriptRecord>>;

const PREFIX = 'step_';

const nameOf = (verb: string, request: Json): string => canonicalJson([verb, request]);

/** Returns all steps of a script by call id, in the order in which they began. */
export async function recordedSteps(
  history: readonly Recorded[],
  whole: (content: Json) => Json | Promise<Json>,
): Promise<Map<string, RecordedStep>> {
  const steps = new Map<string, RecordedStep>();
  for (const { call: past, intent, result } of madeCalls(history)) {
    const call = past.id;
    if (!call.startsWith(PREFIX)) continue;
    const step: RecordedStep = { call, intent: intent.data, waits: past.approval?.waits === true };
    steps.set(call, step);
    if (!result || result.seq < intent.seq) continue;
    step.result = resultIn({ ...result.data, content: await whole(result.data.content) });
  }
  return steps;
}

export const differs = (step: string, recorded: RecordedStep): Outcome<never> =>
  fail(
    'steps_differ',
    `the script is not deterministic: it called \`${recorded.intent.tool}\` before the interruption and ${step} now; do not read the clock, random values or changed files before a call`,
    { recorded: recorded.intent.tool, call_id: recorded.call },
  );

/**
 * Creates the record of a script. `before`: number of steps of earlier scripts, whose names are in use. `settle` is
 * awaited before each check whether a waiting path is ready.
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
  let rest = steps.size;
  let number = before + steps.size;
  let paths = 1;
  const waiting: { isReady(): boolean; wake(isReady: boolean): void }[] = [];
  let looks = 0;
  const first = (): RecordedStep | undefined => [...open.values()].flat()[0];
  /** Wakes the paths that are ready. If every path waits, none can become ready, so all of them are woken. */
  async function look(): Promise<void> {
    looks += 1;
    const own = looks;
    // Some promises lie between the end of a path and the path that waits for it. They settle first.
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
    /** Returns the recorded step, `undefined` for a new step. Fails with `steps_differ` for an unexpected step. */
    async take(verb: string, request: Json): Promise<Outcome<RecordedStep | undefined>> {
      const step = open.get(nameOf(verb, request))?.shift();
      if (step) {
        rest -= 1;
        void look();
        return ok(step);
      }
      // Parallel branches can reach their steps in another order. A new step begins once all recorded steps are
      // taken.
      if (rest > 0) await wait(() => rest === 0);
      const missing = first();
      return missing ? differs(`\`${verb}\` with other arguments`, missing) : ok(undefined);
    },
    /** Changes the number of parallel paths. A path that waits for other paths does not count. */
    paths(change: number): void {
      paths += change;
      void look();
    },
    /** Waits until this path is ready. Returns false if no path can continue, so that this one does. */
    wait,
    /** Returns the name of a step that begins now. In a replay the step already has one. */
    nextCall(name?: string): string {
      number += 1;
      return name ?? `${PREFIX}${number}`;
    },
    /** Returns the number of steps that have a name. */
    count: () => number,
    /** Returns a recorded step that the script has not reached, and `undefined` if there is none. */
    left: () => (rest > 0 ? first() : undefined),
  };
}
