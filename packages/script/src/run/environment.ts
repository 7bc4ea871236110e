// Hot: this file runs for each step of a script, and a promise costs more than most steps.
// Defines the types that all parts of the compiler share. An `Environment` is the context of an evaluation.
// The text of a script determines the scope and the file. The run determines the frame, the calls and the pipeline.
// It is immutable, except for `path` and `run`.
import { isAbsolute, join, resolve } from 'node:path';
import { inTurn, type Json, type JsonObject, whenReady } from '@kernmantle/core/base';
import {
  type ActPorts,
  childFrame,
  type Descriptor,
  EMPTY,
  type Frame,
  type MaybePromise,
  mergeDescriptors,
  type Operation,
  type Value,
} from '@kernmantle/core/flow';
import type { ScriptFault } from '../fault.ts';
import type { ActionExpression, Expression, PipelineStage, TemplatePart } from '../syntax/ast.ts';
import { FunctionData } from '../values/kinds.ts';
import type { ScriptWorld } from '../world.ts';
import type { VariableScope } from './scope.ts';

export interface SourceUnit {
  /** Absolute path. The text of `-e` and stdin has a name in angle brackets. */
  readonly file: string;
  /** Name of the file in messages. */
  readonly name: string;
  readonly folder: string;
  readonly text: string;
  readonly frontMatter: Value;
  /** True for an imported file: effects and commands at its top level do not run. */
  readonly isModule: boolean;
  /** Marks of an imported file; empty for the script itself. All values and operations of the file get them. */
  readonly marks: Descriptor;
  readonly scope: VariableScope;
  /** Names set by `export { … }`. Absent names: everything is exported. */
  readonly exports: { names: Map<string, string> | undefined };
  /** Names of its guards. They can be exported and imported, but they have no value. */
  readonly guards: Set<string>;
  /** True if the script itself tests the name, as in `@x?`, `@x ?? 1` or `@x == null`. */
  testsName(name: string): boolean;
}

/** One run of a script, with everything it imports. */
export interface RunState {
  readonly world: ScriptWorld;
  readonly act: ActPorts;
  /** Frame in which statements of a file start. Guards, hooks and policies are added to it. */
  ground: Frame;
  readonly input: Value;
  readonly payload: Value;
  /** Variables set by `output … to env:NAME`, for later commands. */
  readonly environment: Map<string, Value>;
  /** Functions that blocks can call by name, from statements such as `exe js = { … }`. */
  readonly helpers: Readonly<Record<HelperLanguage, Map<string, Executable>>>;
  /** Names of the functions that were called, in order. */
  readonly calls: string[];
  /** Returns the text that was printed so far. */
  document(): string;
  warn(message: string, unit: SourceUnit, at: number): void;
  /** Delivers text that a successful command or block wrote to stderr. */
  stderr(text: string): void;
  /** Prints the output of an operation in pieces. At its end the whole output is one effect. */
  live(line: number): LiveOutput;
  /** Adds work that writes effects which a guard has released. */
  later(work: Promise<unknown>): void;
  /** Resolves when that work is done. The next statement, and every read or start of a process, waits for it. */
  written(): Promise<unknown> | undefined;
  /** Called before every round of a loop, so that timers and signals run. Fails if the script was cancelled. */
  yieldTurn(pauseMs?: number): Promise<void> | undefined;
  readonly import: ImportPort;
  /** True if the file may declare privileged guards: the script that a person started and the project's modules. */
  mayBePrivileged(unit: SourceUnit): boolean;
  /** True if a person started the script outside of a thread. Then privileged guards may make exceptions. */
  readonly mayLift: boolean;
  /** The `allow` and `deny` patterns in force, for profiles. */
  readonly policies: Patterns[];
  /** Value of `return { … }` in a directive or tool. */
  outputs: Value | undefined;
}

/** Counts `work` as a concurrent path until it is done. A replay asks whether any path can continue. */
export async function asPath<T>({ world }: Pick<RunState, 'world'>, work: Promise<T>): Promise<T> {
  world.paths?.(1);
  try {
    return await work;
  } finally {
    world.paths?.(-1);
  }
}

/** Waits for other paths. The waiting path does not count until they are done. */
export async function joinPaths(
  { world }: Pick<RunState, 'world'>,
  works: readonly Promise<unknown>[],
) {
  world.paths?.(-1);
  try {
    await Promise.all(works);
  } finally {
    world.paths?.(1);
  }
}

/** The output of one operation while it runs. */
export interface LiveOutput {
  push(text: string): void;
  /** Ends the output. Returns the printed text; `undefined` if there was none. */
  end(descriptor: Descriptor): string | undefined;
}

/** The `allow` and `deny` lists of a script's policy. */
export interface Patterns {
  /** Patterns that are allowed. Absent: everything is allowed that `deny` does not match. */
  readonly allow: readonly string[] | undefined;
  readonly deny: readonly string[];
  /** Patterns that `allow` may open although they are dangerous. */
  readonly danger: readonly string[];
  /** The folders that relative file patterns start from, and the resolver of links. */
  readonly world: Pick<ScriptWorld, 'root' | 'home' | 'dangers' | 'realPath'>;
}

/** Loads a module and returns its exports. It is a port, so that no file imports the whole compiler. */
export type ImportPort = (
  path: string,
  skipDirs: readonly string[] | undefined,
  env: Environment,
) => MaybePromise<Exports>;

export interface Exports {
  readonly names: ReadonlyMap<string, Value>;
  readonly frontMatter: Value;
  readonly path: string;
  /** Data that is a namespace by itself, such as a JSON file or a folder. */
  readonly whole?: Value | undefined;
  readonly guards?: ReadonlySet<string>;
}

/** State collected on the way through a function or file. It applies to everything after it. */
interface TakenPath {
  /** Marks of conditions that could have ended the function or file. */
  marks: Descriptor;
  /** Errors of the last parallel loop or group, for `@mx.errors`. */
  errors: { readonly list: Json; readonly marks: Descriptor } | undefined;
}

export const newPath = (from?: TakenPath): TakenPath => ({
  marks: from?.marks ?? EMPTY,
  errors: from?.errors,
});

export interface CallChain {
  readonly executable: object;
  readonly parent: CallChain | undefined;
  readonly depth: number;
}

export interface Environment {
  readonly scope: VariableScope;
  readonly unit: SourceUnit;
  readonly run: RunState;
  readonly frame: Frame;
  /** Callbacks for every operation in this environment. */
  readonly act: ActPorts;
  readonly chain: CallChain | undefined;
  readonly pipe: Pipe | undefined;
  readonly path: TakenPath;
  /** Receives the final state of the pipeline on the right-hand side of an assignment. */
  readonly note: ((pipe: Json) => void) | undefined;
  /** True at the top level of a module, where definitions run but effects and commands do not. */
  readonly isDefining: boolean;
  /** Parameters of the current function. Code blocks inside of it read them as variables. */
  readonly named: readonly Named[];
  /** Options `stdin`, `timeout` and `stream` for the next process. */
  readonly process: ProcessOptions | undefined;
  /** State of the statement that prints the result. Output that was printed in pieces is not printed again. */
  readonly printing?: Printing;
}

export interface Printing {
  streamed?: string | undefined;
}

/** A parameter of a function, or a name before the braces of code. */
export interface Named {
  readonly name: string;
  readonly value: Value;
}

export interface ProcessOptions {
  readonly stdin: Value | undefined;
  readonly timeoutMs: number | undefined;
  readonly isStream: boolean;
}

export type Eval<T = Value> = (env: Environment) => MaybePromise<T>;

export type Walk = (value: Value, env: Environment) => MaybePromise<Value>;

export interface CallSite {
  readonly env: Environment;
  readonly at: number;
  /** True for a pipeline stage: absent parameters are empty texts, and the input is data. */
  readonly isStage: boolean;
  /** Answers a test such as `@exists(…)` by the syntax of its argument; absent for other calls. */
  readonly asked?: Eval;
}

/** Calls a function; throws `ScriptFault`. The arguments are evaluated inside its operation, once per attempt. */
export type ScriptCall = (values: readonly Eval[], site: CallSite) => MaybePromise<Value>;

/** The fault of a refused or unfinished call, and the marks for its result. */
export interface CallRefusal {
  readonly fault: ScriptFault;
  readonly marks: Descriptor;
}

/** Returns the result of a call that a guard refused. `values` are the arguments of that call. */
type Refused = (
  values: readonly Value[],
  site: CallSite,
  refusal: CallRefusal,
) => MaybePromise<Value>;

export const constant =
  <T>(value: T): Eval<T> =>
  () =>
    value;

/** Languages of blocks that can call functions of the script by name. */
export type HelperLanguage = 'js' | 'node' | 'py';

/** The body of a function in code, for calls from other code. */
interface HelperBody {
  readonly op: Operation;
  /** Marks of the file of the function. */
  readonly marks: Descriptor;
  /** The reason why the body cannot be compiled beside another one; absent if it can. */
  readonly refusal: string | undefined;
  /** Returns the variables before the braces of the code, with their values. */
  captured(env: Environment): MaybePromise<readonly Named[]>;
}

interface Callable {
  readonly call: ScriptCall;
  /** The `denied =>` arm of the function. Absent: it has none. */
  readonly refused: Refused | undefined;
  readonly helper?: HelperBody | undefined;
}

export class Executable extends FunctionData<Callable> {
  get call(): ScriptCall {
    return this.content.call.call;
  }

  get refused(): Refused | undefined {
    return this.content.call.refused;
  }

  get helper(): HelperBody | undefined {
    return this.content.call.helper;
  }
}

export function executableOf(value: Value): Executable | undefined {
  const data: unknown = value.data;
  return data instanceof Executable ? data : undefined;
}

/** Evaluates values one after the other, in order. */
export function evaluateAll<T>(values: readonly Eval<T>[], env: Environment): MaybePromise<T[]> {
  const results: T[] = [];
  const done = inTurn(values, (evaluate) =>
    whenReady(evaluate(env), (value) => {
      results.push(value);
    }),
  );
  return whenReady(done, () => results);
}

/** An unknown name is an error for `value`, and undefined for the others. `condition` also allows missing fields. */
export type Reading = 'value' | 'operand' | 'condition';

/** The parts of the compiler use each other only through this interface. */
export interface Compiler {
  readonly unit: SourceUnit;
  /** True inside of a function, where lines print nothing and the values of `when` arms return. */
  readonly isFunction: boolean;
  /** Returns the compiler for the body of a function. */
  forFunction(): Compiler;
  expression(node: Expression, reading?: Reading): Eval;
  action(node: ActionExpression): Eval;
  /** Compiles a list of lines. The result is a `Leave` if a line leaves. */
  lines(nodes: readonly ActionExpression[]): Eval;
  text(parts: readonly TemplatePart[]): Eval;
  /** Compiles a pipeline. `format` is `"json"` or `"text"`, for the source. */
  stages(source: Expression | undefined, stages: readonly PipelineStage[], format?: Eval): Eval;
  piped(stages: readonly PipelineStage[]): Walk;
}

export function under(env: Environment, marks: Descriptor): Environment {
  return marks === EMPTY ? env : { ...env, frame: childFrame(env.frame, { influence: marks }) };
}

export function addPathMarks(path: TakenPath, marks: Descriptor): void {
  path.marks = mergeDescriptors(path.marks, marks);
}

/** Returns the environment for the next line, with the state of the path. */
export function withPathMarks(env: Environment): Environment {
  const { marks, errors } = env.path;
  if (marks === EMPTY && errors === undefined) return env;
  const ctx =
    errors === undefined ? {} : { ctx: { errors: errors.list, errorMarks: errors.marks } };
  return { ...env, frame: childFrame(env.frame, { influence: marks, ...ctx }) };
}

/** Resolves a path of a script. It is relative to the file that contains it; `@root/…` is relative to the project. */
export function resolvePath(env: Environment, written: string): string {
  const path = written.trim();
  const rooted = /^@(?:root|base)(?:\/|$)/.exec(path);
  if (rooted) return resolve(env.run.world.root, path.slice(rooted[0].length));
  return isAbsolute(path) ? resolve(path) : join(env.unit.folder, path);
}

/** State of one attempt of one pipeline stage, which `@p` and `@mx.pipe` show. A stage receives a frozen copy. */
export interface Pipe {
  /** Number of the stage, from 1; the source is 0. */
  readonly stage: number;
  readonly attempt: number;
  readonly hint: Value | undefined;
  readonly input: Value;
  /** Outputs of the stages so far. `outputs[0]` is the source. */
  readonly outputs: readonly Value[];
  readonly tries: readonly Try[];
  /** Results of the stage that is being repeated, during the repetition. */
  readonly reruns: readonly Value[] | undefined;
  readonly history: readonly (readonly Value[])[];
  /** Guard results, which grow while the pipeline runs. */
  readonly guards: Json[];
}

export interface Try {
  readonly attempt: number;
  readonly result: 'retry' | 'done';
  readonly hint: Value | undefined;
  readonly output: Value;
}

const data = (value: Value | undefined): Json => value?.data ?? null;

/** Returns the facts for `@mx.pipe` and its aliases. */
export const pipeFacts = (pipe: Pipe): JsonObject => ({
  try: pipe.attempt,
  tries: pipe.tries.map((one) => ({ ...one, hint: data(one.hint), output: data(one.output) })),
  stage: pipe.stage,
  length: pipe.outputs.length - 1,
  input: data(pipe.input),
  lastOutput: pipe.outputs.length > 1 ? data(pipe.outputs.at(-1)) : null,
  hint: data(pipe.hint),
  guards: [...pipe.guards],
  isPipeline: true,
});
