// Implements `@input` of a guard on an operation: the list of its inputs, and questions about all of them.
// `@input.any.mx.taint.includes("x")` evaluates `mx.taint.includes("x")` of each input and counts the results.
import { getOwn } from '@kernmantle/core/base';
import { type Argument, makeContainer, type Value, withOrigin } from '@kernmantle/core/flow';
import { computed, elementsOf, isTruthy, makeOpaque, Opaque } from '../values/kinds.ts';
import { mxOf } from '../values/metadata.ts';

/** Returns a list that also has `.any`, `.all`, `.none`, `.totalTokens()` and `.maxTokens()`. */
export const guardInputs = (inputs: readonly Argument[]): Value =>
  withOrigin(makeContainer(inputs.map(({ value }) => value)), { inputs: true });

type Quantifier = 'any' | 'all' | 'none';

/** The values of one path for every input. */
export class Quantified extends Opaque<{ quantifier: Quantifier; values: readonly Value[] }> {
  decide(answers: readonly Value[]): Value {
    const yes = answers.filter(isTruthy).length;
    const truth = { any: yes > 0, all: yes === answers.length, none: yes === 0 };
    return computed(truth[this.content.quantifier], answers);
  }
}

export const quantifiedOf = ({ data }: Value): Quantified | undefined =>
  data instanceof Quantified ? data : undefined;

export const quantified = (quantifier: Quantifier, values: readonly Value[]): Value => {
  const preview = values.map(({ data }) => data);
  return makeOpaque(new Quantified({ quantifier, values }, preview));
};

const isQuantifier = (name: string): name is Quantifier =>
  name === 'any' || name === 'all' || name === 'none';

const tokensOf = (value: Value): number => {
  const tokens = getOwn(mxOf(value).data, 'tokens');
  return typeof tokens === 'number' ? tokens : 0;
};

const MEASURES: Readonly<Record<string, (counts: readonly number[]) => number>> = {
  totalTokens: (counts) => counts.reduce((sum, count) => sum + count, 0),
  maxTokens: (counts) => Math.max(0, ...counts),
};

/** Returns a special member of the list of inputs; `undefined` for other names. */
export function guardInputMember(value: Value, name: string): Value | undefined {
  if (value.meta.origin['inputs'] !== true) return undefined;
  if (isQuantifier(name)) return quantified(name, elementsOf(value));
  const measure = MEASURES[name];
  return measure && computed(measure(elementsOf(value).map(tokensOf)), [value]);
}
