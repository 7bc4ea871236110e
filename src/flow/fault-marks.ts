// Faults carry the descriptor of the values they mention: an error text can quote what was read.
// It rides in `detail` under a symbol: it survives `withDetail`, and no JSON ever shows it.
import type { Failure, Fault } from '../base/index.ts';
import { type Descriptor, EMPTY, mergeDescriptors } from './descriptor.ts';

const MARKS = Symbol('descriptor');

export function descriptorOfFault(fault: Fault): Descriptor {
  return (fault.detail as { [MARKS]?: Descriptor })[MARKS] ?? EMPTY;
}

/** Adds marks to a failure; those it already carries stay. */
export function markFailure(failure: Failure, descriptor: Descriptor): Failure {
  const before = descriptorOfFault(failure.error);
  const merged = mergeDescriptors(before, descriptor);
  if (merged === before) return failure;
  const { code, detail } = failure.error;
  return { ok: false, error: { code, detail: Object.assign({ ...detail }, { [MARKS]: merged }) } };
}
