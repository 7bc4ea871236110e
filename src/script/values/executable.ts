// How a function is called, whatever its body: arguments by position, and from where.

import type { Json } from '../../base/index.ts';
import { type MaybePromise, makeValue, type Value } from '../../flow/index.ts';
import type { ScriptFault } from '../fault.ts';
import type { Env, Eval } from '../run/environment.ts';

/** Evaluated inside the call's operation, once per attempt. */
export interface Argument {
  readonly evaluate: Eval;
}

/** Where a call stands. */
export interface CallSite {
  readonly env: Env;
  readonly at: number;
  /** The call is a pipeline stage: its missing parameters are empty text, its input is data. */
  readonly isStage: boolean;
}

/** Throws `ScriptFault`; a function gives `absent()` when it returns nothing. */
export type Call = (values: readonly Argument[], site: CallSite) => MaybePromise<Value>;

/** What a function answers when a guard refused its call: the values it would have got. */
export type Refused = (
  values: readonly Value[],
  site: CallSite,
  fault: ScriptFault,
) => MaybePromise<Value>;

export const given = (value: Value): Argument => ({ evaluate: () => value });

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
  readonly description: string | undefined;
  /** The text of a js or node body, for helpers. */
  readonly source: string | undefined;
  /** `@parse.llm`: what hangs on its name. */
  readonly members?: ReadonlyMap<string, Executable>;
}

export class Executable {
  readonly #signature: Signature;
  readonly #call: Call;
  readonly #refused: Refused | undefined;

  constructor(signature: Signature, call: Call, refused?: Refused) {
    this.#signature = signature;
    this.#call = call;
    this.#refused = refused;
    Object.freeze(this);
  }

  get signature(): Signature {
    return this.#signature;
  }

  get call(): Call {
    return this.#call;
  }

  /** Its `denied =>` arm. */
  get refused(): Refused | undefined {
    return this.#refused;
  }

  toJSON(): string {
    return `<function(${this.#signature.parameters.join(', ')})>`;
  }
}

export const isExecutable = (data: unknown): data is Executable => data instanceof Executable;

export const executableOf = ({ data }: Value): Executable | undefined =>
  isExecutable(data) ? data : undefined;

export const makeExecutable = (executable: Executable): Value =>
  makeValue(executable as unknown as Json);
