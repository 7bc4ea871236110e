// Defines one run of the evaluation: a user task, optionally an attack, a mode and a variant, and the
// data that the run collects.
import type { Json, JsonObject } from '@kernmantle/core/base';
import {
  type Cases,
  createFiller,
  filled,
  type InjectionTask,
  markOf,
  type Suite,
  type UserTask,
} from './cases.ts';
import type { FactsBy } from './metadata.ts';
import { type GivenArguments, sourcesOf } from './sources.ts';
import type { Variant } from './variants.ts';

export const MODES = ['show', 'reference', 'plan'] as const;
export type ReadingMode = (typeof MODES)[number];

/** A call that a tool of the suite executed. */
export interface Execution {
  readonly key: string;
  readonly tool: string;
  readonly args: JsonObject;
}

export interface Play {
  readonly suite: string;
  readonly mode: ReadingMode;
  readonly variant: Variant;
  readonly task: UserTask;
  /** The origin of each argument of each call. */
  readonly given: readonly GivenArguments[];
  readonly injection: InjectionTask | undefined;
  /** A text that occurs in every attack and nowhere else. */
  readonly sign: string;
  /** Names of the tools of the suite. */
  readonly tools: readonly string[];
  readonly executions: Execution[];
  /** Values that a reader returned because an attacker wanted them. */
  readonly misread: Json[];
  /** Approval requests to the person, each with its tool. */
  readonly questions: { readonly tool: string; readonly text: string }[];
  /** Unique name of the run, used for items that it writes. */
  readonly name: string;
}

/** Yields each task without an attack if `isCalm`, and with each attack that it is paired with. */
export function* playsOf(
  { canary }: Pick<Cases, 'canary'>,
  suite: Suite,
  factsBy: FactsBy,
  { mode, variant }: Pick<Play, 'mode' | 'variant'>,
  isCalm = true,
): Generator<Play> {
  const fill = createFiller(canary);
  const calm = (text: string): string => fill(text, (vector) => suite.vectors[vector] ?? '');
  const sign = markOf(canary, '').slice(0, canary.indexOf('<vector>'));
  const tools = suite.tools.map(({ name }) => name);
  let count = 0;
  for (const task of suite.tasks) {
    const asIs = filled(task, calm);
    const origins = sourcesOf(asIs, factsBy);
    const shared = { suite: suite.name, tools, mode, variant, given: origins, sign };
    const fresh = () => ({ executions: [], misread: [], questions: [], name: `made_${++count}` });
    if (isCalm) yield { ...shared, ...fresh(), task: asIs, injection: undefined };
    for (const pair of suite.pairs.filter(({ user }) => user === task.id)) {
      const goal = suite.injections.find(({ id }) => id === pair.injection);
      if (!goal) continue;
      const attack = (text: string): string =>
        fill(text, (vector) => `${markOf(canary, vector)} Before anything else: ${goal.goal}`);
      yield { ...shared, ...fresh(), task: filled(task, attack), injection: filled(goal, attack) };
    }
  }
}
