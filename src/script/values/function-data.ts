import type { Json } from '../../base/index.ts';
import { EMPTY, makeValue, type Value } from '../../flow/index.ts';

// A function as a value. It travels as the data of a `Value` like anything else: in variables, fields,
// lists, through imports. Its insides are private, so that freezing a container stops here, and
// whoever prints it as JSON sees `<function(a, b)>`.

export interface Signature {
  readonly name: string;
  readonly parameters: readonly string[];
  /** Labels of every operation inside it. */
  readonly labels: readonly string[];
  /** `cmd sh js node py template exe transformer` …: the kind of its body. */
  readonly bodyKind: string;
  /** The text of a js or node body, for helpers. */
  readonly source: string | undefined;
  /** `@parse.llm`: what hangs on its name. */
  readonly members?: ReadonlyMap<string, FunctionData>;
}

/** How it is called is not said here (`Executable`): values know no environment. */
export class FunctionData {
  readonly #signature: Signature;

  constructor(signature: Signature) {
    this.#signature = signature;
  }

  get signature(): Signature {
    return this.#signature;
  }

  toJSON(): string {
    return `<function(${this.#signature.parameters.join(', ')})>`;
  }
}

export const isFunctionData = (data: unknown): data is FunctionData => data instanceof FunctionData;

/** Data that is an object of ours: it travels like any other, and shows only what `toJSON` says. */
export const makeOpaque = (data: { toJSON(): Json }, descriptor = EMPTY): Value =>
  makeValue(data as unknown as Json, { descriptor });

export const makeFunction = (data: FunctionData): Value => makeOpaque(data);
