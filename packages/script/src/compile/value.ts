// Hot: this file runs for each step of a script, and a promise costs more than most steps.
// Compiles values and operators: lists, objects, arithmetic and choices.
import { whenReady } from '@kernmantle/core/base';
import {
  addMarks,
  EMPTY,
  makeContainer,
  mergeDescriptors,
  type Value,
} from '@kernmantle/core/flow';
import { raise } from '../fault.ts';
import { type Compiler, type Eval, evaluateAll, type Reading, under } from '../run/environment.ts';
import { located, valueAt } from '../run/operate.ts';
import type { Expression, NodeOf } from '../syntax/ast.ts';
import { entriesOf, isTruthy, kindName, shapeMarks, typeName } from '../values/kinds.ts';
import { minus, negate, operatorFunction } from '../values/operators.ts';
import { quantifiedOf } from './guard-input.ts';

export function compileArray(c: Compiler, node: NodeOf<'array'>): Eval {
  const items = node.items.map(({ value, isOptional, isSpread }) => ({
    evaluate: isSpread
      ? compileSpread(c, value, 'array')
      : c.expression(value, isOptional ? 'condition' : 'value'),
    isOptional,
    isSpread,
  }));
  const evaluates = items.map(({ evaluate }) => evaluate);
  return (env) =>
    whenReady(evaluateAll(evaluates, env), (values) => {
      const elements: Value[] = [];
      let own = EMPTY;
      for (const [at, { isOptional, isSpread }] of items.entries()) {
        const value = valueAt(values, at);
        if (isOptional) own = mergeDescriptors(own, value.meta.descriptor);
        if (isSpread) {
          own = mergeDescriptors(own, shapeMarks(value));
          elements.push(...entriesOf(value).map(([, item]) => item));
        } else if (!isOptional || isTruthy(value)) elements.push(value);
      }
      return makeContainer(elements, own);
    });
}

/** Compiles `...` in a list or object. Fails with `invalid_input` if the value is of another kind. */
function compileSpread(c: Compiler, node: Expression, expected: 'array' | 'object'): Eval {
  const evaluate = c.expression(node);
  return (env) =>
    located(env, node.at, () =>
      whenReady(evaluate(env), (value) => {
        if (typeName(value) === expected) return value;
        const where = expected === 'array' ? 'a list needs a list' : 'an object needs an object';
        return raise('invalid_input', `\`...\` in ${where}, not ${kindName(value)}`);
      }),
    );
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
  const evaluates = entries.map(({ evaluate }) => evaluate);
  return (env) =>
    whenReady(evaluateAll(evaluates, env), (values) => {
      const members = new Map<string, Value>();
      let shape = EMPTY;
      for (const [at, { key, isOptional }] of entries.entries()) {
        const value = valueAt(values, at);
        if (isOptional) shape = mergeDescriptors(shape, value.meta.descriptor);
        if (key === undefined) {
          shape = mergeDescriptors(shape, shapeMarks(value));
          for (const [name, item] of entriesOf(value)) members.set(name, item);
        } else if (!isOptional || isTruthy(value)) members.set(key, value);
      }
      return makeContainer(members, EMPTY, shape);
    });
}

export function compileUnary(c: Compiler, node: NodeOf<'unary'>): Eval {
  const evaluate = c.expression(node.value, node.operator === '!' ? 'condition' : 'operand');
  const apply = node.operator === '!' ? negate : minus;
  return (env) => whenReady(evaluate(env), apply);
}

/** Compiles `&&`, `||` and `??`. The result is the deciding operand with the marks of every evaluated operand. */
function shortCircuit(
  c: Compiler,
  node: NodeOf<'binary'>,
  keepsLeft: (left: Value) => boolean,
): Eval {
  const left = c.expression(node.left, 'condition');
  const right = c.expression(node.right, 'condition');
  return (env) =>
    whenReady(left(env), (first) => {
      if (keepsLeft(first)) return first;
      const { descriptor } = first.meta;
      return whenReady(right(under(env, descriptor)), (value) => addMarks(value, descriptor));
    });
}

export function compileBinary(c: Compiler, node: NodeOf<'binary'>, reading: Reading): Eval {
  const { operator } = node;
  if (operator === '&&') return shortCircuit(c, node, (left) => !isTruthy(left));
  if (operator === '||') return shortCircuit(c, node, isTruthy);
  if (operator === '??') return shortCircuit(c, node, (left) => left.data !== null);
  const inner = reading === 'condition' ? reading : 'operand';
  const [left, right] = [c.expression(node.left, inner), c.expression(node.right, inner)];
  const apply = operatorFunction(operator);
  const both: Eval = (env) =>
    whenReady(left(env), (one) =>
      whenReady(right(env), (other) => {
        // `@input.any.mx.tokens > 100` compares every input.
        const many = quantifiedOf(one);
        if (!many) return apply(one, other);
        return many.decide(many.content.values.map((value) => apply(value, other)));
      }),
    );
  return operator === '+' ? (env) => located(env, node.at, () => both(env)) : both;
}

export function compileTernary(c: Compiler, node: NodeOf<'ternary'>): Eval {
  const condition = c.expression(node.condition, 'condition');
  const first = c.expression(node.then, 'condition');
  const second = c.expression(node.else, 'condition');
  return (env) =>
    whenReady(condition(env), (chosen) => {
      const { descriptor } = chosen.meta;
      const branch = isTruthy(chosen) ? first : second;
      return whenReady(branch(under(env, descriptor)), (value) => addMarks(value, descriptor));
    });
}
