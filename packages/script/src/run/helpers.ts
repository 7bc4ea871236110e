// Implements helpers: functions of a script that code blocks call by name (`exe js = { up, clean }`). A block
// is one operation together with its helpers, because their bodies are compiled beside it. INVARIANT: every
// guard that judges calls of a helper always judges the block. The captured values of helpers are inputs of
// the block, and the block has the labels of its helpers and of their files.
import type { Input, MaybePromise, Value } from '@kernmantle/core/flow';
import { raise } from '../fault.ts';
import { HELPER_BODIES } from '../syntax/outline.ts';
import {
  type Environment,
  type Executable,
  executableOf,
  type HelperLanguage,
  type Named,
  under,
} from './environment.ts';
import { operate } from './operate.ts';

/** Adds a helper, as in `exe py = { name }`. */
export function addHelper({ scope, run }: Environment, language: HelperLanguage, name: string) {
  const found = scope.find(name);
  const executable = found && executableOf(found.value);
  if (!executable)
    return raise('not_found', `\`${name}\` is not a function and cannot be a helper`, { name });
  const { bodyKind } = executable.signature;
  const { helper } = executable;
  if (!helper || !HELPER_BODIES[language].includes(bodyKind)) {
    const bodies = HELPER_BODIES[language].map((word) => `\`${word} { … }\``).join(' or ');
    return raise('invalid_input', `\`${name}\` cannot be a helper of ${language} blocks`, {
      name,
      hint: `its body must be ${bodies}`,
    });
  }
  if (helper.refusal !== undefined)
    raise('invalid_input', `\`${name}\` ${helper.refusal}`, { name });
  return run.helpers[language].set(name, executable);
}

/** A helper that a block, or one of its helpers, mentions. */
export interface UsedHelper {
  readonly name: string;
  readonly executable: Executable;
  readonly captured: readonly Named[];
}

const NONE: readonly never[] = Object.freeze([]);

const mentions = (source: string, name: string): boolean =>
  new RegExp(
    `(?<![\\p{ID_Continue}$])${name.replaceAll('-', '_')}(?![\\p{ID_Continue}$])`,
    'u',
  ).test(source);

/** Returns the helpers that a block uses. `own` has names with another meaning in the block itself. */
export async function helpersIn(
  env: Environment,
  language: HelperLanguage,
  source: string,
  own: readonly Named[],
): Promise<readonly UsedHelper[]> {
  const all = env.run.helpers[language];
  const used = new Map<string, UsedHelper>();
  const open = [source];
  for (let text = open.pop(); text !== undefined; text = open.pop()) {
    const isBlock = used.size === 0;
    for (const [name, executable] of all) {
      const isOwn = isBlock && own.some((one) => one.name === name);
      if (used.has(name) || isOwn || !mentions(text, name)) continue;
      const captured = (await executable.helper?.captured(env)) ?? NONE;
      used.set(name, { name, executable, captured });
      open.push(executable.signature.source ?? '');
    }
  }
  return [...used.values()];
}

/** Runs a block inside of the operations of its helpers, whose guards judge everything that goes in. */
export function asHelpers(
  env: Environment,
  helpers: readonly UsedHelper[],
  inputs: readonly Input[],
  work: (env: Environment, inputs: readonly Input[]) => MaybePromise<Value>,
): MaybePromise<Value> {
  const [first, ...others] = helpers;
  const helper = first?.executable.helper;
  if (!helper) return work(env, inputs);
  return operate(under(env, helper.marks), helper.op, inputs, (passed, inner) => {
    const passedInputs = inputs.map((input, at) => ({
      ...input,
      value: passed[at] ?? input.value,
    }));
    return asHelpers(inner, others, passedInputs, work);
  });
}
