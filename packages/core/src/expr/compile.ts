// Compiles a tree to closures, once per expression. Each closure handles one frequent shape of hooks and
// guards (`path == "text"`, `path < path * 0.9`, `"text" in path`), so that an evaluation needs no tree,
// no table and no allocation. The functions of `operators.ts` evaluate other shapes.
import type { Json } from '../base/index.ts';
import type { Meter } from './operators.ts';
import {
  calculate,
  isEqual,
  isIn,
  isOrdered,
  isTruthy,
  negate,
  type Ordering,
} from './operators.ts';
import { compilePath } from './path.ts';
import { type Arithmetic, constantList, type Link, type Node } from './syntax-tree.ts';

export type Read = (context: Json) => Json;
export type Test = (context: Json) => boolean;

type Compare = Extract<Node, { kind: 'compare' }>;

export function compileValue(node: Node, meter: Meter): Read {
  switch (node.kind) {
    case 'constant': {
      const { value } = node;
      return () => value;
    }
    case 'path':
      return compilePath(node.read.path);
    case 'list': {
      const items = node.items.map((item) => compileValue(item, meter));
      // Each evaluation makes a new list, because the caller may change it.
      return (context) => items.map((item) => item(context));
    }
    case 'negate': {
      const operand = compileValue(node.operand, meter);
      const { column } = node;
      return (context) => negate(operand(context), column);
    }
    case 'chain':
      return compileChain(compileValue(node.first, meter), node.rest, meter);
    default:
      return compileTest(node, meter);
  }
}

/** Returns a test of whether the value of the node counts as true. It computes no value that it does not need. */
export function compileTest(node: Node, meter: Meter): Test {
  switch (node.kind) {
    case 'not': {
      const operand = compileTest(node.operand, meter);
      return (context) => !operand(context);
    }
    case 'and':
    case 'or': {
      const tests = node.operands.map((operand) => compileTest(operand, meter));
      return inTurn(tests, node.kind === 'or');
    }
    case 'compare':
      return compileComparison(node, meter);
    default: {
      const read = compileValue(node, meter);
      return (context) => isTruthy(read(context), meter);
    }
  }
}

/** Returns a test that ends at the first test whose result is `stop`. */
function inTurn(tests: readonly Test[], stop: boolean): Test {
  const [a, b] = tests as [Test, Test];
  if (tests.length === 2) {
    return stop ? (context) => a(context) || b(context) : (context) => a(context) && b(context);
  }
  return (context) => {
    for (let index = 0; index < tests.length; index++) {
      if ((tests[index] as Test)(context) === stop) return stop;
    }
    return !stop;
  };
}

function compileComparison(node: Compare, meter: Meter): Test {
  switch (node.operator) {
    case '==':
      return compileEquality(node, meter);
    case '!=': {
      const test = compileEquality(node, meter);
      return (context) => !test(context);
    }
    case 'in':
      return compileMembership(node, meter);
    case 'not in': {
      const test = compileMembership(node, meter);
      return (context) => !test(context);
    }
    default:
      return compileOrdering(node.operator, node, meter);
  }
}

function compileEquality(node: Compare, meter: Meter): Test {
  // A constant is not longer than the source, so `===` needs no meter.
  if (node.right.kind === 'constant') {
    const [read, { value }] = [compileValue(node.left, meter), node.right];
    return (context) => read(context) === value;
  }
  if (node.left.kind === 'constant') {
    const [read, { value }] = [compileValue(node.right, meter), node.left];
    return (context) => read(context) === value;
  }
  const [left, right] = [compileValue(node.left, meter), compileValue(node.right, meter)];
  return (context) => isEqual(left(context), right(context), meter);
}

function compileMembership(node: Compare, meter: Meter): Test {
  const left = compileValue(node.left, meter);
  const { column } = node;
  const list = constantList(node.right);
  if (list?.every((item) => typeof item !== 'object' || item === null)) {
    return isAmong(left, list);
  }
  if (list !== undefined) return (context) => isIn(left(context), list, column, meter);
  const right = compileValue(node.right, meter);
  return (context) => isIn(left(context), right(context), column, meter);
}

/** Compares scalars by identity. A set is faster only for a long list. */
function isAmong(read: Read, list: readonly Json[]): Test {
  if (list.length > 16) {
    const members = new Set(list);
    return (context) => members.has(read(context));
  }
  return (context) => {
    const value = read(context);
    for (let index = 0; index < list.length; index++) {
      if (list[index] === value) return true;
    }
    return false;
  };
}

function compileOrdering(operator: Ordering, node: Compare, meter: Meter): Test {
  const [left, right] = [compileValue(node.left, meter), compileValue(node.right, meter)];
  const otherwise = (a: Json, b: Json) => isOrdered(operator, a, b, node.column, meter);
  switch (operator) {
    case '<':
      return (context) => {
        const a = left(context);
        const b = right(context);
        return typeof a === 'number' && typeof b === 'number' ? a < b : otherwise(a, b);
      };
    case '>':
      return (context) => {
        const a = left(context);
        const b = right(context);
        return typeof a === 'number' && typeof b === 'number' ? a > b : otherwise(a, b);
      };
    case '<=':
      return (context) => {
        const a = left(context);
        const b = right(context);
        return typeof a === 'number' && typeof b === 'number' ? a <= b : otherwise(a, b);
      };
    case '>=':
      return (context) => {
        const a = left(context);
        const b = right(context);
        return typeof a === 'number' && typeof b === 'number' ? a >= b : otherwise(a, b);
      };
  }
}

function compileChain(first: Read, rest: readonly Link[], meter: Meter): Read {
  const steps = rest.map((link) => ({ ...link, read: compileValue(link.operand, meter) }));
  const [only] = steps;
  if (only !== undefined && steps.length === 1) {
    return compilePair(only.operator, first, only.read, only.column, meter);
  }
  return (context) => {
    let value = first(context);
    for (let index = 0; index < steps.length; index++) {
      const { operator, read, column } = steps[index] as (typeof steps)[number];
      value = calculate(operator, value, read(context), column, meter);
    }
    return value;
  };
}

function compilePair(
  operator: Arithmetic,
  left: Read,
  right: Read,
  column: number,
  meter: Meter,
): Read {
  if (operator !== '*') {
    return (context) => calculate(operator, left(context), right(context), column, meter);
  }
  // Products have their own closure, because warnings often use `limits.turns * 0.9`.
  return (context) => {
    const a = left(context);
    const b = right(context);
    if (typeof a === 'number' && typeof b === 'number') {
      const product = a * b + 0;
      if (Number.isFinite(product)) return product;
    }
    return calculate('*', a, b, column, meter);
  };
}
