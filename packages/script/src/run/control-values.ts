// How control leaves a place: `=> v`, `done v`, `continue v`, `skip`, `retry hint`. It travels as the
// data of a value, so that it keeps its marks and passes through operations like any result; whoever
// owns the place (function, loop, stage) takes the value out again.
import { addMarks, type Descriptor, type Value, type Verdict } from '@kernmantle/core/flow';
import { raise } from '../fault.ts';
import { absent, makeOpaque, Opaque } from '../values/kinds.ts';

type LeaveWord = 'return' | 'done' | 'continue' | 'skip' | 'retry';

interface Left {
  readonly word: LeaveWord;
  readonly value: Value;
}

class Leave extends Opaque<Left> {}

export const leave = (word: LeaveWord, value: Value = absent()): Value =>
  makeOpaque(new Leave({ word, value }, word), value.meta.descriptor);

/** What it leaves with has been marked on the way by everything that decided about leaving. */
export function leaveOf({ data, meta }: Value): Left | undefined {
  if (!(data instanceof Leave)) return undefined;
  const { word, value } = data.content;
  return { word, value: addMarks(value, meta.descriptor) };
}

/** What `=> v` gives back where it ends; everything else leaves further. */
export function takeReturn(value: Value): Value {
  const left = leaveOf(value);
  return left?.word === 'return' ? left.value : value;
}

/** Leaving has a meaning only where somebody takes it. */
export function refuseLeave(value: Value): Value {
  const left = leaveOf(value);
  if (!left) return value;
  if (left.word === 'return') return left.value;
  const isRetry = left.word === 'retry';
  return raise('invalid_input', `\`${left.word}\` has no meaning here`, {
    hint: isRetry ? 'only a pipeline stage can ask for another attempt' : 'only a loop has rounds',
  });
}

// A guard's decision on its way out of the arm that made it: data of a value, like a `Leave`.

class Ruling extends Opaque<Verdict> {}

/** `marks`: of what it was made of. */
export const ruling = (verdict: Verdict, marks?: Descriptor): Value =>
  makeOpaque(new Ruling(verdict, verdict.kind), marks);

export const verdictOf = ({ data }: Value): Verdict | undefined =>
  data instanceof Ruling ? data.content : undefined;
