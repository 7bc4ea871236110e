// One run: a task of a user, perhaps an attack on it, a mode and a variant, and what is known of it while
// it is under way.
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

/** A tool of the suite was really called. */
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
  /** Where the arguments of each call are from. */
  readonly given: readonly GivenArguments[];
  readonly injection: InjectionTask | undefined;
  /** What stands in every text that attacks, and in no other. */
  readonly sign: string;
  /** Names of the suite's tools. */
  readonly tools: readonly string[];
  readonly executions: Execution[];
  /** Values that a reader gave because an attacker wanted it to. */
  readonly misread: Json[];
  /** Questions to a person, each with the tool that it is about. */
  readonly questions: { readonly tool: string; readonly text: string }[];
  /** For what is written in it: nothing else is called so. */
  readonly name: string;
}

/** A task as it is, where `isCalm`, and under each attack that it is paired with. */
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
    const given = sourcesOf(asIs, factsBy);
    const shared = { suite: suite.name, tools, mode, variant, given, sign };
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
