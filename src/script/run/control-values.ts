// How control leaves a place: `=> v`, `done v`, `continue v`, `skip`, `retry hint`. It travels as the
// data of a value, so that it keeps its marks and passes through operations like any result; whoever
// owns the place (function, loop, stage) takes the value out again.
import type { Json } from '../../base/index.ts';
import { addMarks, type Descriptor, EMPTY, type Value, type Verdict } from '../../flow/index.ts';
import { raise } from '../fault.ts';
import { makeOpaque } from '../values/function-data.ts';
import { absent } from '../values/kinds.ts';

type LeaveWord = 'return' | 'done' | 'continue' | 'skip' | 'retry';

class Leave {
  readonly word: LeaveWord;
  readonly #value: Value;

  constructor(word: LeaveWord, value: Value) {
    this.word = word;
    this.#value = value;
    Object.freeze(this);
  }

  get value(): Value {
    return this.#value;
  }

  toJSON(): Json {
    return this.word;
  }
}

export const leave = (word: LeaveWord, value: Value = absent()): Value =>
  makeOpaque(new Leave(word, value), value.meta.descriptor);

/** What it leaves with has been marked on the way by everything that decided about leaving. */
export function leaveOf({ data, meta }: Value): Leave | undefined {
  if (!(data instanceof Leave)) return undefined;
  const value = addMarks(data.value, meta.descriptor);
  return value === data.value ? data : new Leave(data.word, value);
}

export const marksOf = (value: Value | undefined): Descriptor => value?.meta.descriptor ?? EMPTY;

/** Leaving has a meaning only where somebody takes it. */
export function refuseLeave(value: Value): Value {
  const left = leaveOf(value);
  if (!left) return value;
  if (left.word === 'return') return left.value;
  const hint =
    left.word === 'retry'
      ? 'only a pipeline stage can ask for another attempt'
      : 'only a loop has rounds';
  return raise('invalid_input', `\`${left.word}\` has no meaning here`, { hint });
}

// A guard's decision on its way out of the arm that made it: data of a value, like a `Leave`.

class Ruling {
  readonly #verdict: Verdict;

  constructor(verdict: Verdict) {
    this.#verdict = verdict;
    Object.freeze(this);
  }

  get verdict(): Verdict {
    return this.#verdict;
  }

  toJSON(): Json {
    return this.#verdict.kind;
  }
}

export const ruling = (verdict: Verdict): Value => makeOpaque(new Ruling(verdict));

export const verdictOf = ({ data }: Value): Verdict | undefined =>
  data instanceof Ruling ? data.verdict : undefined;
