// Represents `=> v`, `done v`, `continue v`, `skip` and `retry hint`, and the decision of a guard. Each is
// the data of a value, so that it keeps its marks and passes through operations like a result. The
// function, loop, stage or guard that it leaves takes the value out again.
import { addMarks, type Descriptor, type Value, type Verdict } from '@kernmantle/core/flow';
import { raise } from '../fault.ts';
import { absent, makeOpaque, Opaque } from '../values/kinds.ts';

type LeaveWord = 'return' | 'done' | 'continue' | 'skip' | 'retry';

interface LeavingValue {
  readonly word: LeaveWord;
  readonly value: Value;
}

class Leave extends Opaque<LeavingValue> {}

export const leave = (word: LeaveWord, value: Value = absent()): Value =>
  makeOpaque(new Leave({ word, value }, word), value.meta.descriptor);

/** Returns the word and value of a leaving value with the marks that led there; absent for others. */
export function leaveOf({ data, meta }: Value): LeavingValue | undefined {
  if (!(data instanceof Leave)) return undefined;
  const { word, value } = data.content;
  return { word, value: addMarks(value, meta.descriptor) };
}

/** Returns the value of `=> v`. Other values are returned unchanged. */
export function takeReturn(value: Value): Value {
  const leaving = leaveOf(value);
  return leaving?.word === 'return' ? leaving.value : value;
}

/** Fails if nothing around the value can handle the word. */
export function refuseLeave(value: Value): Value {
  const leaving = leaveOf(value);
  if (!leaving) return value;
  if (leaving.word === 'return') return leaving.value;
  const isRetry = leaving.word === 'retry';
  return raise('invalid_input', `\`${leaving.word}\` cannot be used here`, {
    hint: isRetry ? 'use it in a pipeline stage' : 'use it in a loop',
  });
}

class Ruling extends Opaque<Verdict> {}

/** Makes the value of a decision. `marks` are the marks of the values it was computed from. */
export const ruling = (verdict: Verdict, marks?: Descriptor): Value =>
  makeOpaque(new Ruling(verdict, verdict.kind), marks);

export const verdictOf = ({ data }: Value): Verdict | undefined =>
  data instanceof Ruling ? data.content : undefined;
