// How control leaves a place: `=> v`, `done v`, `continue v`, `skip`, `retry hint`. It travels as the
// data of a value, so that it keeps its marks and passes through operations like any result; whoever
// owns the place (function, loop, stage) takes the value out again.
import type { Json } from '../base/index.ts';
import { type Descriptor, EMPTY, makeValue, type Value } from '../flow/index.ts';
import { absent } from './absent.ts';

export type LeaveWord = 'return' | 'done' | 'continue' | 'skip' | 'retry';

export class Leave {
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
  makeValue(new Leave(word, value) as unknown as Json, { descriptor: value.meta.descriptor });

export const leaveOf = ({ data }: Value): Leave | undefined =>
  data instanceof Leave ? data : undefined;

export const marksOf = (value: Value | undefined): Descriptor => value?.meta.descriptor ?? EMPTY;
