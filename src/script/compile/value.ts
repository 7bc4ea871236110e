// Values and operators: literals, lists, objects, arithmetic, choice.
import { addMarks, EMPTY, makeContainer, mergeDescriptors, type Value } from '../../flow/index.ts';
import { raise } from '../fault.ts';
import { type Compiler, type Eval, type Reading, under } from '../run/environment.ts';
import { located } from '../run/operate.ts';
import type { Expression, NodeOf } from '../syntax/ast.ts';
import { entriesOf, isTruthy, kindName, shapeMarks, typeName } from '../values/kinds.ts';
import { applied, minus, negate } from '../values/operators.ts';
import { quantifiedOf } from './guard-input.ts';

export function compileArray(c: Compiler, node: NodeOf<'array'>): Eval {
  const items = node.items.map(({ value, isOptional, isSpread }) => ({
    evaluate: isSpread
      ? compileSpread(c, value, 'array')
      : c.expression(value, isOptional ? 'condition' : 'value'),
    isOptional,
    isSpread,
  }));
  return async (env) => {
    const found: Value[] = [];
    let own = EMPTY;
    for (const { evaluate, isOptional, isSpread } of items) {
      const value = await evaluate(env);
      if (isOptional) own = mergeDescriptors(own, value.meta.descriptor);
      if (isSpread) {
        own = mergeDescriptors(own, shapeMarks(value));
        found.push(...entriesOf(value).map(([, item]) => item));
      } else if (!isOptional || isTruthy(value)) found.push(value);
    }
    return makeContainer(found, own);
  };
}

/** What `...` takes apart: a list in a list, an object in an object. */
function compileSpread(c: Compiler, node: Expression, wanted: 'array' | 'object'): Eval {
  const evaluate = c.expression(node);
  return (env) =>
    located(env, node.at, async () => {
      const value = await evaluate(env);
      if (typeName(value) === wanted) return value;
      const where = wanted === 'array' ? 'a list needs a list' : 'an object needs an object';
      return raise('invalid_input', `\`...\` in ${where}, not ${kindName(value)}`);
    });
}

export function compileObject(c: Compiler, node: NodeOf<'object'>): Eval {
  const entries = node.entries.map((entry) =>
    entry.kind === 'spread'
      ? { key: undefined, isOptional: false, evaluate: compileSpread(c, entry.value, 'object') }
      : {
          key: entry.key,
          isOptional: entry.isOptional,
          evaluate: c.expression(entry.value, entry.isOptional ? 'condition' : 'value'),
        },
  );
  return async (env) => {
    const found = new Map<string, Value>();
    let shape = EMPTY;
    for (const { key, isOptional, evaluate } of entries) {
      const value = await evaluate(env);
      if (isOptional) shape = mergeDescriptors(shape, value.meta.descriptor);
      if (key === undefined) {
        shape = mergeDescriptors(shape, shapeMarks(value));
        for (const [name, item] of entriesOf(value)) found.set(name, item);
      } else if (!isOptional || isTruthy(value)) found.set(key, value);
    }
    return makeContainer(found, EMPTY, shape);
  };
}

export function compileUnary(c: Compiler, node: NodeOf<'unary'>): Eval {
  const evaluate = c.expression(node.value, node.operator === '!' ? 'condition' : 'operand');
  const apply = node.operator === '!' ? negate : minus;
  return async (env) => apply(await evaluate(env));
}

/** `&&`, `||`, `??`: the deciding operand is the value, and both sides' marks stay on it. */
function shortCircuit(
  c: Compiler,
  node: NodeOf<'binary'>,
  keepsLeft: (left: Value) => boolean,
): Eval {
  const left = c.expression(node.left, 'condition');
  const right = c.expression(node.right, 'condition');
  return async (env) => {
    const first = await left(env);
    if (keepsLeft(first)) return first;
    const { descriptor } = first.meta;
    return addMarks(await right(under(env, descriptor)), descriptor);
  };
}

export function compileBinary(c: Compiler, node: NodeOf<'binary'>, reading: Reading): Eval {
  const { operator } = node;
  if (operator === '&&') return shortCircuit(c, node, (left) => !isTruthy(left));
  if (operator === '||') return shortCircuit(c, node, isTruthy);
  if (operator === '??') return shortCircuit(c, node, (left) => left.data !== null);
  const inner = reading === 'condition' ? reading : 'operand';
  const [left, right] = [c.expression(node.left, inner), c.expression(node.right, inner)];
  const apply = applied(operator);
  const both: Eval = async (env) => {
    const [one, other] = [await left(env), await right(env)];
    // `@input.any.mx.tokens > 100`: asked of every input.
    const many = quantifiedOf(one);
    if (!many) return apply(one, other);
    return many.decide(many.content.values.map((value) => apply(value, other)));
  };
  return operator === '+' ? (env) => located(env, node.at, () => both(env)) : both;
}

export function compileTernary(c: Compiler, node: NodeOf<'ternary'>): Eval {
  const condition = c.expression(node.condition, 'condition');
  const first = c.expression(node.then, 'condition');
  const second = c.expression(node.else, 'condition');
  return async (env) => {
    const chosen = await condition(env);
    const { descriptor } = chosen.meta;
    const branch = isTruthy(chosen) ? first : second;
    return addMarks(await branch(under(env, descriptor)), descriptor);
  };
}
