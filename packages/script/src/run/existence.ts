// Implements `@exists(…)` and `@fileExists(…)`. The syntax of the argument decides what is tested: a quoted
// text is a path, `<…>` a file, and everything else a value. A failed lookup gives false. A refusal, a
// cancellation or an exceeded limit stays an error.
import {
  addMarks,
  descriptorOfFault,
  makeValue,
  mergeAll,
  type Value,
} from '@kernmantle/core/flow';
import { type ScriptFault, toFault } from '../fault.ts';
import { type ActionExpression, type Expression, type NodeOf, visit } from '../syntax/ast.ts';
import { computed, isFileList, lengthOf } from '../values/kinds.ts';
import { textOf } from '../values/text.ts';
import { type Compiler, type Environment, type Eval, resolvePath } from './environment.ts';
import { judgeReading } from './operate.ts';

const QUESTION = /^(?:file)?exists$/i;

export const testsExistence = (name: string): boolean => QUESTION.test(name);

/** Returns the file of `<…>` without fields, alone or as the only part of a quoted text. */
function fileIn(node: Expression): NodeOf<'file'> | undefined {
  if (node.kind === 'file') return node.steps.length === 0 ? node : undefined;
  const [part, ...others] = node.kind === 'template' ? node.parts : [];
  const isFile = typeof part === 'object' && part.kind === 'file-part';
  return isFile && part.stages.length + others.length === 0 ? fileIn(part.file) : undefined;
}

/** True for a text, with or without references. */
export const isText = (node: ActionExpression): boolean =>
  node.kind === 'template' || (node.kind === 'literal' && typeof node.value === 'string');

/** True for a text or a file, which name a path. */
export const isPlace = (node: Expression): boolean => isText(node) || fileIn(node) !== undefined;

const GLOB = /[*?[{]/;

/** False if policies forbid to read the path. Such a file does not exist for the script. */
async function mayRead(path: string, env: Environment): Promise<boolean> {
  try {
    await judgeReading(path, env);
    return true;
  } catch (error) {
    const fault = toFault(error);
    if (fault.fault.code !== 'permission_denied') throw fault;
    return false;
  }
}

async function isAnyReadable(paths: readonly string[], env: Environment): Promise<boolean> {
  for (const path of paths) if (await mayRead(path, env)) return true;
  return false;
}

/** Returns whether a file or folder exists. With `mayMatch` a path that does not exist may also be a glob. */
async function isAt(env: Environment, written: Value, mayMatch: boolean): Promise<Value> {
  const path = textOf(written).trim();
  if (path === '') return computed(false, [written]);
  await env.run.written();
  const { world } = env.run;
  const place = resolvePath(env, path);
  const lookup = await world.exists(place, env.frame);
  const answer = (isThere: boolean) => addMarks(computed(isThere, [written]), lookup.descriptor);
  if (lookup.found) return answer(await mayRead(place, env));
  const matched = mayMatch && GLOB.test(path) ? await world.glob(place, env.frame) : undefined;
  if (!matched?.ok) return answer(false);
  const { found, descriptor } = matched.output;
  return addMarks(answer(await isAnyReadable(found, env)), descriptor);
}

const FINAL =
  /^(?:bail|cancelled|signalled|needs_input|not_recorded|ended_by_hook|permission_denied|signature_invalid|sandbox_missing|journal_unreadable|(?:approval|store|stale|lease|disk)_\w+|\w+_exceeded)$/;

/** Returns the fault of a failed test. Throws it if the script has to end. */
function failed(error: unknown): ScriptFault {
  const fault = toFault(error);
  if (FINAL.test(fault.fault.code)) throw fault;
  return fault;
}

/** Returns the answer for a failed test. It has the marks of all names in the argument. */
function failing(node: Expression): (env: Environment, fault: ScriptFault) => Value {
  const names = new Set<string>();
  visit(node, (inner) => {
    if (inner.kind === 'reference') names.add(inner.name);
  });
  return ({ scope, frame }, { fault }) => {
    const used = [...names].flatMap((name) => scope.find(name)?.value.meta.descriptor ?? []);
    const descriptor = mergeAll([...used, frame.influence, descriptorOfFault(fault)]);
    return makeValue(false, { descriptor });
  };
}

/** Compiles the test of a file. It does not read a whole file, so a folder or an invalid JSON file exists too. */
function fileQuestion(c: Compiler, node: NodeOf<'file'>): Eval {
  const path = c.text(node.path.parts);
  if (!node.sections && !node.definitions) return async (env) => isAt(env, await path(env), true);
  const load = c.expression(node);
  return async (env) => {
    const whole = await isAt(env, await path(env), true);
    if (whole.data !== true) return whole;
    const value = await load(env);
    const isThere = Array.isArray(value.data) ? lengthOf(value) > 0 : value.data !== null;
    return computed(isThere, [whole, value]);
  };
}

function question(c: Compiler, node: Expression, isOfFiles: boolean): Eval {
  const file = fileIn(node);
  if (file) return fileQuestion(c, file);
  const evaluate = c.expression(node, 'condition');
  if (isText(node) && !isOfFiles) return async (env) => isAt(env, await evaluate(env), true);
  return async (env) => {
    const value = await evaluate(env);
    if (!isOfFiles || value.data === null) return computed(value.data !== null, [value]);
    return isFileList(value) ? computed(lengthOf(value) > 0, [value]) : isAt(env, value, false);
  };
}

/** Compiles the test of one argument. The result is true or false and is an error only if the script has to end. */
export function compileExistence(c: Compiler, name: string, node: Expression): Eval {
  const ask = question(c, node, /^file/i.test(name));
  const answerTo = failing(node);
  return async (env) => {
    try {
      return await ask(env);
    } catch (error) {
      const answer = answerTo(env, failed(error));
      const { code, detail } = toFault(error).fault;
      // A write with an unknown outcome gives the same answer as a missing file. Only the code in `@mx.errors`
      // differs.
      if (code === 'outcome_unknown')
        env.path.errors = {
          list: [{ code, message: detail.message }],
          marks: answer.meta.descriptor,
        };
      return answer;
    }
  };
}
