// Decides what a row of memory may do in the thread that reads it. No other place decides this. INVARIANT: a row
// always keeps all its marks, except `untrusted` after a person endorsed exactly this text.
import { carries, type Descriptor, describe, removeLabels } from './labels.ts';

/** How a person confirmed exactly this text. Undefined: nobody did. */
type PersonsWord = 'endorsed' | 'said' | undefined;

/** `confirmed` vouches for its text. `note` and `stranger` vouch for nothing, and a stranger's row is untrusted. */
export type MemoryStanding = 'confirmed' | 'note' | 'stranger';

interface JudgedMemory {
  readonly standing: MemoryStanding;
  /** Marks of the row in a result. */
  readonly marks: Descriptor;
}

export function judgeMemory(
  packed: Partial<Pick<Descriptor, 'labels' | 'taint' | 'sources'>>,
  how: PersonsWord,
): JudgedMemory {
  const marks = describe(packed);
  if (how === 'endorsed') {
    return { standing: 'confirmed', marks: removeLabels(marks, ['untrusted']) };
  }
  if (carries(marks, 'untrusted')) return { standing: 'stranger', marks };
  // A text that only a model wrote has no other source, whatever it claims.
  const isSaid = how === 'said' && carries(marks, 'src:user');
  return { standing: isSaid ? 'confirmed' : 'note', marks };
}

/** True for a text that a person wrote to the thread, with no other source. */
export const isFromPerson = ({ taint }: Descriptor): boolean =>
  taint.length === 1 && taint[0] === 'src:user';
