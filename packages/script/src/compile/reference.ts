// Hot: this file runs for each step of a script, and a promise costs more than most steps.
// Compiles references: `@name.field[0].method(…)`. The steps are evaluated one after the other.
import { getOwn, whenReady } from '@kernmantle/core/base';
import {
  addMarks,
  type MaybePromise,
  makeContainer,
  makeValue,
  type Value,
} from '@kernmantle/core/flow';
import { raise } from '../fault.ts';
import {
  type Compiler,
  constant,
  type Environment,
  type Eval,
  evaluateAll,
  executableOf,
  type Reading,
  type Walk,
} from '../run/environment.ts';
import { compileExistence, testsExistence } from '../run/existence.ts';
import {
  contextValue,
  findName,
  isContextName,
  isJudged,
  isPipeView,
  PROVIDED,
  refuseGuard,
} from '../run/names.ts';
import { located } from '../run/operate.ts';
import type { Expression, NodeOf, PathStep } from '../syntax/ast.ts';
import { staticText } from '../syntax/outline.ts';
import { hintOfName, isPlainText } from '../syntax/unbound.ts';
import { type AccessMode, fieldOf, indexOf, sliceOf } from '../values/access.ts';
import {
  absent,
  isAbsent,
  isReadNull,
  isStructure,
  KEEP,
  keepOf,
  makeFunction,
  makeOpaque,
} from '../values/kinds.ts';
import type { MxFacts } from '../values/metadata.ts';
import { misspeltFact, mxOf } from '../values/metadata.ts';
import { callMethod, hasMethod, LIST_METHODS, PatternData } from '../values/methods.ts';
import { guardInputMember, type Quantified, quantified, quantifiedOf } from './guard-input.ts';

/** Compiles arguments. An unknown name in an argument is an error. */
export const compileArguments = (c: Compiler, nodes: readonly Expression[]): Eval[] =>
  nodes.map((node) => c.expression(node));

/** Splits `@f(a, b)` into the called function and its arguments. */
export function compileCallee(
  c: Compiler,
  node: NodeOf<'reference'>,
): { target: Eval; steps: readonly PathStep[]; values: Eval[] } {
  const last = node.steps.at(-1);
  const isCall = last?.kind === 'call';
  const steps = isCall ? node.steps.slice(0, -1) : node.steps;
  const values = isCall ? compileArguments(c, last.arguments) : [];
  return { target: c.expression({ ...node, steps }), steps, values };
}

const modeOf = (reading: Reading): AccessMode => (reading === 'condition' ? 'lenient' : 'strict');

function field(name: string, reading: Reading, variable: string): Walk {
  const mode = modeOf(reading);
  return (value, env) => {
    const special = guardInputMember(value, name);
    if (special) return special;
    const member = executableOf(value)?.signature.members?.get(name);
    if (member) return makeFunction(member);
    const field = fieldOf(value, name, mode, isContextName(name) ? factsOf(variable, env) : {});
    if (env.frame.isJudging && isNothing(field)) refuseSlip(value, name);
    return isPipeView(value) && isNothing(field) ? absent() : field;
  };
}

/** Reads `<>.k` in the template of a file: a field of the content, or else a fact of that name. */
function fileField(name: string, reading: Reading): Walk {
  return (value) => {
    const facts = mxOf(value);
    const isOwn = isStructure(value.data) && getOwn(value.data, name) !== undefined;
    const isFact = !isOwn && getOwn(facts.data, name) !== undefined;
    return fieldOf(isFact ? facts : value, name, modeOf(reading));
  };
}

/** Fails on a misspelt member of `.mx` in a guard, because its condition would never hold. */
function refuseSlip(value: Value, name: string): void {
  const meant = misspeltFact(value, name);
  if (meant !== undefined)
    raise('not_found', `\`.mx\` has no \`${name}\``, { hint: `did you mean \`${meant}\`?` });
}

/** Returns the facts about a variable for `.mx`. */
function factsOf(name: string, { scope, unit }: Environment): MxFacts {
  const place = scope.find(name)?.place;
  const exported = unit.exports.names?.has(name) ?? false;
  return { name, exported, ...(place ? { definedAt: place } : {}) };
}

type StepOf<K extends PathStep['kind']> = Extract<PathStep, { kind: K }>;

/** Compiles a method call. Questions such as `@input.any.mx.taint.includes(…)` are read as fields. */
function method(c: Compiler, step: StepOf<'field'>, call: StepOf<'call'>, reading: Reading): Walk {
  const { name, at } = step;
  const [pattern, ...others] = call.arguments;
  const isPattern = pattern?.kind === 'pattern';
  const values = isPattern
    ? [constant(patternOf(pattern)), ...compileArguments(c, others)]
    : compileArguments(c, call.arguments);
  return (value, env) => {
    const measured = guardInputMember(value, name);
    if (measured) return measured;
    const callee = callableField(value, name);
    if (callee) return isPattern ? refusePattern() : invoke(callee, name, values, env, at);
    if (KEEP.has(name)) return keepOf(value);
    if (reading === 'condition' && isAbsent(value) && name !== 'isDefined')
      return absent(value.meta.descriptor);
    if (!hasMethod(value, name)) return callMethod(value, name, []);
    return whenReady(evaluateAll(values, env), (results) => callMethod(value, name, results));
  };
}

const patternOf = ({ body, flags }: NodeOf<'pattern'>): Value =>
  makeOpaque(new PatternData(body, flags));

/** Fails on a pattern that is used as a value. */
export const refusePattern = (): never =>
  raise('invalid_input', 'a pattern can only be passed to a method of a text', {
    hint: 'use it as the first argument of `match`, `replace`, `replaceAll` or `split`',
  });

/** Returns the function in a field, or a variant of a function; absent if there is none. */
function callableField(value: Value, name: string): Value | undefined {
  const executable = executableOf(value);
  const member = executable?.signature.members?.get(name);
  if (executable) return member && makeFunction(member);
  const { data } = value;
  if (typeof data !== 'object' || data === null || !Object.hasOwn(data, name)) return undefined;
  const found = fieldOf(value, name, 'lenient');
  return executableOf(found) && found;
}

/** True for null, except for a null that was read from data. */
const isNothing = (value: Value): boolean => value.data === null && !isReadNull(value);

export function invoke(
  target: Value,
  name: string,
  values: readonly Eval[],
  env: Environment,
  at: number,
  isStage = false,
  existence?: Eval,
): MaybePromise<Value> {
  const executable = executableOf(target);
  if (!executable) return raise('invalid_input', `\`@${name}\` is not a function`, { name });
  const site = existence ? { env, at, isStage, asked: existence } : { env, at, isStage };
  const called = located(env, at, () => executable.call(values, site));
  // The choice of the called function may itself be secret.
  return whenReady(called, (value) => addMarks(value, target.meta.descriptor));
}

function compileStep(c: Compiler, step: PathStep, reading: Reading, variable: string): Walk {
  switch (step.kind) {
    case 'field':
      return field(step.name, reading, variable);
    case 'index':
      return index(c, step.index, reading);
    case 'slice':
      return slice(c, step.from, step.to);
    case 'each':
      return (value) => value;
    case 'call': {
      const values = compileArguments(c, step.arguments);
      const [first] = step.arguments;
      const existence =
        first && testsExistence(variable) ? compileExistence(c, variable, first) : undefined;
      return (value, env) => invoke(value, variable, values, env, step.at, false, existence);
    }
  }
}

function index(c: Compiler, node: Expression, reading: Reading): Walk {
  const evaluate = c.expression(node, 'operand');
  const mode = modeOf(reading);
  return (value, env) =>
    whenReady(evaluate(env), (at) => {
      const found = indexOf(value, at, mode);
      return isPipeView(value) && isNothing(found) ? absent() : found;
    });
}

function slice(c: Compiler, from: Expression | undefined, to: Expression | undefined): Walk {
  const [start, end] = [from && c.expression(from, 'operand'), to && c.expression(to, 'operand')];
  return async (value, env) => sliceOf(value, await start?.(env), await end?.(env));
}

interface Walked {
  readonly walk: Walk;
  /** True for `[*]`. The following steps run for each element. */
  readonly isEach: boolean;
  /** True for a method of lists, which ends `[*]` and receives the whole list. */
  readonly isOfList: boolean;
  readonly name?: string;
}

/** Compiles steps. A field and the call after it are one step: a method, or a function in a field. */
function compileSteps(c: Compiler, node: NodeOf<'reference'>, reading: Reading): Walked[] {
  const walks: Walked[] = [];
  const { steps, name } = node;
  for (let at = 0; at < steps.length; at++) {
    const [step, next] = [steps[at] as PathStep, steps[at + 1]];
    // Only a field may be absent. A called function must exist, also in a condition.
    const isReceiver = !node.isOptional && steps.slice(at + 1).some(({ kind }) => kind === 'call');
    if (step.kind === 'field' && next?.kind === 'call') {
      const walk = method(c, step, next, reading);
      walks.push({ walk, isEach: false, isOfList: LIST_METHODS.has(step.name) });
      at++;
    } else {
      const own = isReceiver && reading === 'condition' ? 'operand' : reading;
      const isOfFile = name === '<>' && at === 0 && step.kind === 'field';
      const walk = isOfFile ? fileField(step.name, own) : compileStep(c, step, own, name);
      const field = step.kind === 'field' ? { name: step.name } : {};
      walks.push({ walk, isEach: step.kind === 'each', isOfList: false, ...field });
    }
  }
  return walks;
}

function walkSteps(
  walks: readonly Walked[],
  value: Value,
  env: Environment,
  at = 0,
): MaybePromise<Value> {
  const step = walks[at];
  if (!step) return value;
  if (step.isEach) return overEach(walks.slice(at + 1), value, env);
  const many = quantifiedOf(value);
  if (many) return overInputs(walks.slice(at), many, env);
  return whenReady(step.walk(value, env), (next) => walkSteps(walks, next, env, at + 1));
}

const MARKS = new Set(['labels', 'taint', 'sources', 'tokens']);

/** Evaluates the steps after `@input.any` for each input and combines the results. */
async function overInputs(
  walks: readonly Walked[],
  many: Quantified,
  env: Environment,
): Promise<Value> {
  const answers: Value[] = [];
  // `@input.any.taint` means `@input.any.mx.taint`, and every plain value has a text.
  const name = walks[0]?.name ?? '';
  const isOfMarks = MARKS.has(name);
  for (const item of many.content.values) {
    const isPlain = typeof item.data !== 'object' || item.data === null;
    const isTested = isOfMarks || (name === 'text' && isPlain);
    answers.push(await walkSteps(walks, isTested ? mxOf(item) : item, env));
  }
  return answers.every(({ data }) => typeof data === 'boolean')
    ? many.decide(answers)
    : quantified(many.content.quantifier, answers);
}

/** Evaluates the steps after `[*]` for each element. */
async function overEach(walks: readonly Walked[], list: Value, env: Environment): Promise<Value> {
  const { data } = list;
  if (!Array.isArray(data)) return raise('invalid_input', '`[*]` needs a list');
  const items = data.map((_, at) => indexOf(list, makeValue(at), 'lenient'));
  const end = walks.findIndex(({ isOfList }) => isOfList);
  const each = end < 0 ? walks : walks.slice(0, end);
  const elements: Value[] = [];
  for (const item of items) elements.push(await walkSteps(each, item, env));
  const all = makeContainer(elements, list.meta.elements ? undefined : list.meta.descriptor);
  return end < 0 ? all : await walkSteps(walks.slice(end), all, env);
}

/** Compiles the steps after a value without a name, as in `<a.json>.k[0]`. */
export function walkStepsOf(c: Compiler, steps: readonly PathStep[], reading: Reading): Walk {
  if (steps.length === 0) return (value) => value;
  const node = { kind: 'reference', name: '', steps, isOptional: false, at: 0, end: 0 } as const;
  const walks = compileSteps(c, node, reading);
  return (value, env) => walkSteps(walks, value, env);
}

/** In a guard and in the functions that it calls, only a name that the script tests may be unbound. */
const mustBeBound = ({ frame }: Environment, name: string): boolean =>
  frame.isJudging && !PROVIDED.has(name);

function unknownName(env: Environment, name: string): never {
  const names: string[] = [];
  for (let scope: typeof env.scope | undefined = env.scope; scope; scope = scope.parent)
    names.push(...scope.names());
  const hint = hintOfName(name, names);
  return raise('not_found', `\`@${name}\` is not defined`, { name, ...(hint ? { hint } : {}) });
}

const asksDefined = ([first]: readonly PathStep[]): boolean =>
  first?.kind === 'field' && first.name === 'isDefined';

/** Returns the first member of `@mx`. `@mx["guard"]` means `@mx.guard`. */
function contextStep([first]: readonly PathStep[]): { readonly name: string } | undefined {
  if (first?.kind !== 'index') return first?.kind === 'field' ? first : undefined;
  const { index } = first;
  const written = index.kind === 'template' ? staticText(index) : undefined;
  const name = index.kind === 'literal' ? index.value : written;
  return name === 'guard' ? { name } : undefined;
}

/** Compiles `@mx.name…`, which computes only that member. */
function contextReference(
  c: Compiler,
  node: NodeOf<'reference'>,
  reading: Reading,
): Eval | undefined {
  const [, second, third] = node.steps;
  const first = contextStep(node.steps);
  if (!isContextName(node.name) || !first || second?.kind === 'call') return undefined;
  const part = second?.kind === 'field' && third?.kind !== 'call' ? second.name : undefined;
  // An argument can have the name `names` too; it is read with `@mx.args["names"]`.
  const hasInner = /^op(?:eration)?$/.test(first.name) || `${first.name}.${part}` === 'args.names';
  const inner = hasInner ? part : undefined;
  const isNeeded = reading === 'value';
  const rest = { ...node, steps: node.steps.slice(inner === undefined ? 1 : 2) };
  const walks = compileSteps(c, rest, reading === 'value' ? 'condition' : reading);
  return (env) =>
    located(env, node.at, () =>
      walkSteps(walks, contextValue(env, first.name, inner, isNeeded, node.isOptional), env),
    );
}

export function compileReference(c: Compiler, node: NodeOf<'reference'>, requested: Reading): Eval {
  const reading = node.isOptional ? 'condition' : requested;
  const context = contextReference(c, node, reading);
  const walks = compileSteps(c, node, reading);
  const isTested = node.isOptional || asksDefined(node.steps);
  const isLenient = reading !== 'value' || isTested;
  const { name, at } = node;
  const find: Eval = (env) =>
    located(env, at, () => {
      const bound = findName(env, name);
      if (!bound && (!isLenient || (!isTested && mustBeBound(env, name))))
        return unknownName(env, name);
      return walkSteps(walks, bound ? bound.value : absent(), env);
    });
  if (walks.length === 0) return (env) => env.scope.find(name)?.value ?? find(env);
  return context ? (env) => (env.scope.find(name) ? find(env) : context(env)) : find;
}

/** Compiles a reference in a text. Returns `undefined` for an unknown name, which stays unchanged. */
export function compileKnownReference(
  c: Compiler,
  node: NodeOf<'reference'>,
  reading: Reading,
): Eval<Value | undefined> {
  const evaluate = compileReference(c, node, reading);
  const { name, steps } = node;
  const isCalled = steps.some(({ kind }) => kind === 'call');
  const isGuard = contextStep(steps)?.name === 'guard' && isContextName(name);
  const isNeeded = reading !== 'condition' && !node.isOptional && !isPlainText(c.unit.text, node);
  // A text cannot contain undefined, so `@mx.guard` fails in a text outside of guards.
  const needsGuard = isGuard && reading !== 'condition' && !node.isOptional;
  return (env) => {
    if (needsGuard && !isJudged(env)) return located(env, node.at, refuseGuard);
    if (isContextName(name)) return evaluate(env);
    const cell = env.scope.find(name);
    if (cell) return cell.isMissing ? undefined : evaluate(env);
    const bound = findName(env, name);
    // `@json` in `bob@json.org` is a function only if it is called.
    if (bound && (isCalled || !executableOf(bound.value))) return evaluate(env);
    return isNeeded && mustBeBound(env, name)
      ? located(env, node.at, () => unknownName(env, name))
      : undefined;
  };
}
