import type { Json } from '../../base/index.ts';
import { EMPTY, makeValue, type Value } from '../../flow/index.ts';

// A function as a value. It travels like anything else: in variables, fields, lists, through imports.

interface Signature {
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

/**
 * Data that is an object of ours: it travels as the data of a value like any other, its content is
 * private, so that freezing stops at it, and whoever prints it sees what `shown` says.
 */
export class Opaque<T> {
  readonly #content: T;
  readonly #shown: Json;

  constructor(content: T, shown: Json) {
    this.#content = content;
    this.#shown = shown;
    Object.freeze(this);
  }

  get content(): T {
    return this.#content;
  }

  toJSON(): Json {
    return this.#shown;
  }
}

/** How it is called is not said here (`Executable`): values know no environment. */
export class FunctionData<Call = unknown> extends Opaque<{ signature: Signature; call: Call }> {
  constructor(signature: Signature, call: Call) {
    super({ signature, call }, `<function(${signature.parameters.join(', ')})>`);
  }

  get signature(): Signature {
    return this.content.signature;
  }
}

export const isFunctionData = (data: unknown): data is FunctionData => data instanceof FunctionData;

export const makeOpaque = (data: Opaque<unknown>, descriptor = EMPTY): Value =>
  makeValue(data as unknown as Json, { descriptor });

export const makeFunction = (data: FunctionData): Value => makeOpaque(data);
