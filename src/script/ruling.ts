// A guard's decision on its way out of the arm that made it: data of a value, like a `Leave`.
import type { Json } from '../base/index.ts';
import { makeValue, type Value, type Verdict } from '../flow/index.ts';

export class Ruling {
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

export const ruling = (verdict: Verdict): Value =>
  makeValue(new Ruling(verdict) as unknown as Json);

export const verdictOf = ({ data }: Value): Verdict | undefined =>
  data instanceof Ruling ? data.verdict : undefined;
