// Hot: runs for each step of a script, and a promise costs more than most steps.
// Where evaluation stands. Lexical: scope and unit. Dynamic: the flow frame (guards, `ctx`), the chain
// of calls, the pipeline we are a stage of. All immutable; only `Path` and `Run` change, and each says
// what for.
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

/** One file of a script. */
export interface SourceUnit {
  /** Absolute; `-e` and stdin have a name in angle brackets. */
  readonly file: string;
  /** As shown to people. */
  readonly name: string;
  readonly folder: string;
  readonly text: string;
  readonly frontMatter: Value;
  /** Imported: effects and commands at its top level do not run. */
  readonly isModule: boolean;
  /** Of the file it was imported from: all that it says and does carries them. */
  readonly marks: Descriptor;
  readonly scope: VariableScope;
  /** Set by `export { … }`; undefined names: everything. */
  readonly exports: { names: Map<string, string> | undefined };
  /** Names of its guards: they can be exported and imported, and stand for no value. */
  readonly guards: Set<string>;
  /** Does the script itself ask whether there is such a name (`@x?`, `@x ?? 1`, `@x == null`)? */
  asksFor(name: string): boolean;
}

/** One run of a script, with everything it imports. */
export interface RunState {
  readonly world: ScriptWorld;
  readonly act: ActPorts;
  /** What statements at the top of a file start from: guards, hooks and policies add to it. */
  ground: Frame;
  readonly input: Value;
  readonly payload: Value;
  /** Set by `output … to env:NAME`, for later commands. */
  readonly environment: Map<string, Value>;
  /** `exe js = { … }` and its like. */
  readonly helpers: Readonly<Record<HelperLanguage, Map<string, Executable>>>;
  /** Names of the functions called so far. */
  readonly calls: string[];
  /** What was printed so far. */
  document(): string;
  warn(message: string, unit: SourceUnit, at: number): void;
  /** What a successful command or block wrote to stderr. */
  stderr(text: string): void;
  /** Shows what is printed as it comes; at its end the whole is one effect. */
  live(line: number): LiveOutput;
  /** Effects held back and let go may still have to be written. */
  later(work: Promise<unknown>): void;
  /** When they are: before the next statement of a file, and before anything is read or started. */
  written(): Promise<unknown> | undefined;
  /**
   * Before every round of a loop. Most of a script is done in one go; after so many rounds, timers and
   * signals have their turn, and a script that is to end does; so it does in a pause.
   */
  breathe(pauseMs?: number): Promise<void> | undefined;
  readonly import: ImportPort;
  /** Statements that may name privileged guards: the script a person started, and project modules. */
  mayBePrivileged(unit: SourceUnit): boolean;
  /** Started by a person, not in a thread: what those guards allow is an exception to policies. */
  readonly mayLift: boolean;
  /** The `allow` and `deny` patterns in force, for profiles. */
  readonly policies: Patterns[];
  /** `return { … }` of a directive or tool. */
  outputs: Value | undefined;
}

// Paths of a script that run at the same time. A run that repeats the script's steps asks whether one of them can still go on.

/** Adds a path until this work is done. */
export async function asPath<T>({ world }: Pick<RunState, 'world'>, work: Promise<T>): Promise<T> {
  world.paths?.(1);
  try {
    return await work;
  } finally {
    world.paths?.(-1);
  }
}

/** Waits for other paths: this one does nothing meanwhile. */
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

/** The output of one operation while it lasts. */
export interface LiveOutput {
  push(text: string): void;
  /** The text that was shown; undefined when there was none. */
  end(descriptor: Descriptor): string | undefined;
}

/** `allow` and `deny` of a script's policy. */
export interface Patterns {
  /** Undefined: nothing is closed. */
  readonly allow: readonly string[] | undefined;
  readonly deny: readonly string[];
  /** What of the dangerous `allow` is to open. */
  readonly danger: readonly string[];
  /** Globs of files are read from its folders, and links followed in it. */
  readonly world: Pick<ScriptWorld, 'root' | 'home' | 'dangers' | 'realPath'>;
}

/** Loads a module and gives its exports; kept apart so that no file needs the whole compiler. */
export type ImportPort = (
  path: string,
  skipDirs: readonly string[] | undefined,
  env: Environment,
) => MaybePromise<Exports>;

export interface Exports {
  readonly names: ReadonlyMap<string, Value>;
  readonly frontMatter: Value;
  readonly path: string;
  /** Data that is a namespace by itself: a JSON file, a folder. */
  readonly whole?: Value | undefined;
  readonly guards?: ReadonlySet<string>;
}

/** What has been learnt on the way through a function or file, for everything after it. */
interface TakenPath {
  /** Marks of conditions that could have led away. */
  marks: Descriptor;
  /** Of the last parallel loop or group, for `@mx.errors`. */
  errors: { readonly list: Json; readonly marks: Descriptor } | undefined;
}

export const newPath = (from?: TakenPath): TakenPath => ({
  marks: from?.marks ?? EMPTY,
  errors: from?.errors,
});

export interface CallChain {
  readonly executable: object;
  readonly parent: CallChain | undefined;
  /** Of calls inside of one another, from 1. */
  readonly depth: number;
}

export interface Environment {
  readonly scope: VariableScope;
  readonly unit: SourceUnit;
  readonly run: RunState;
  readonly frame: Frame;
  /** Of every operation here. */
  readonly act: ActPorts;
  readonly chain: CallChain | undefined;
  readonly pipe: Pipe | undefined;
  readonly path: TakenPath;
  /** For an assignment: the state in which the pipeline of its right-hand side ended. */
  readonly note: ((pipe: Json) => void) | undefined;
  /** The top level of a module: definitions run, effects and commands do not. */
  readonly isDefining: boolean;
  /** Parameters of the function we are in: code blocks inside it see them as variables. */
  readonly named: readonly Named[];
  /** `with { stdin, timeout, stream }` for the process about to be started. */
  readonly process: ProcessOptions | undefined;
  /** The statement that prints what comes out of this: not again what was shown as it came. */
  readonly printing?: Printing;
}

export interface Printing {
  streamed?: string | undefined;
}

/** A parameter of a function, or a name listed before the braces of code. */
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

/** From one value to another, where evaluation stands. */
export type Walk = (value: Value, env: Environment) => MaybePromise<Value>;

// How a function is called, whatever its body: arguments by position, and from where.

/** Where a call stands. */
export interface CallSite {
  readonly env: Environment;
  readonly at: number;
  /** The call is a pipeline stage: its missing parameters are empty text, its input is data. */
  readonly isStage: boolean;
  /** Of a call that asks whether something is there: the answer, by how its argument is written. */
  readonly asked?: Eval;
}

/**
 * Throws `ScriptFault`; a function gives `absent()` when it returns nothing. Its arguments are
 * evaluated inside the call's operation, once per attempt.
 */
export type ScriptCall = (values: readonly Eval[], site: CallSite) => MaybePromise<Value>;

/** Why a call was not performed, or not to its end, and what its answer carries. */
export interface CallRefusal {
  readonly fault: ScriptFault;
  readonly marks: Descriptor;
}

/** What a function answers when a guard refused its call: the values it would have got. */
type Refused = (
  values: readonly Value[],
  site: CallSite,
  refusal: CallRefusal,
) => MaybePromise<Value>;

export const given =
  <T>(value: T): Eval<T> =>
  () =>
    value;

/** Kinds of blocks that call functions of the script by name. */
export type HelperLanguage = 'js' | 'node' | 'py';

/** What a function whose body is code tells, so that other code can call it. */
interface HelperBody {
  readonly op: Operation;
  /** Of the file it stands in. */
  readonly marks: Descriptor;
  /** Why its body cannot stand beside another one. */
  readonly refusal: string | undefined;
  /** The names listed before its braces, with what they stand for where it stands. */
  captured(env: Environment): MaybePromise<readonly Named[]>;
}

interface Callable {
  readonly call: ScriptCall;
  /** Its `denied =>` arm. */
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

/** One after the other, in order. */
export function evaluateAll<T>(values: readonly Eval<T>[], env: Environment): MaybePromise<T[]> {
  const found: T[] = [];
  const done = inTurn(values, (evaluate) =>
    whenReady(evaluate(env), (value) => {
      found.push(value);
    }),
  );
  return whenReady(done, () => found);
}

/**
 * `value`: an unknown name is an error. `operand`: it is undefined. `condition`: fields of plain
 * values are undefined too.
 */
export type Reading = 'value' | 'operand' | 'condition';

/** The pieces of the compiler see one another through this only. */
export interface Compiler {
  readonly unit: SourceUnit;
  /** Inside a function: lines print nothing by themselves, and values of `when` arms return. */
  readonly isFunction: boolean;
  /** The same for a function's body. */
  forFunction(): Compiler;
  expression(node: Expression, reading?: Reading): Eval;
  action(node: ActionExpression): Eval;
  /** A list of lines; answers with a `Leave` when one of them leaves. */
  lines(nodes: readonly ActionExpression[]): Eval;
  text(parts: readonly TemplatePart[]): Eval;
  /** `format`: `"json"` or `"text"`, for the source. */
  stages(source: Expression | undefined, stages: readonly PipelineStage[], format?: Eval): Eval;
  /** Stages over a value that is already there. */
  piped(stages: readonly PipelineStage[]): Walk;
}

/** The same place under a condition. */
export function under(env: Environment, marks: Descriptor): Environment {
  return marks === EMPTY ? env : { ...env, frame: childFrame(env.frame, { influence: marks }) };
}

export function learn(path: TakenPath, marks: Descriptor): void {
  path.marks = mergeDescriptors(path.marks, marks);
}

/** The frame for the next line: everything learnt on the way holds for it. */
export function onPath(env: Environment): Environment {
  const { marks, errors } = env.path;
  if (marks === EMPTY && errors === undefined) return env;
  const ctx =
    errors === undefined ? {} : { ctx: { errors: errors.list, errorMarks: errors.marks } };
  return { ...env, frame: childFrame(env.frame, { influence: marks, ...ctx }) };
}

// Paths in a script are relative to the file they are written in; `@root/…` to the project.

export function resolvePath(env: Environment, written: string): string {
  const path = written.trim();
  const rooted = /^@(?:root|base)(?:\/|$)/.exec(path);
  if (rooted) return resolve(env.run.world.root, path.slice(rooted[0].length));
  return isAbsolute(path) ? resolve(path) : join(env.unit.folder, path);
}

// What a stage can know about its pipeline: `@p`, `@mx.pipe`. One object per pipeline run; each stage
// sees a frozen picture of it.

/** One pass through one stage. */
export interface Pipe {
  /** From 1; the source is 0. */
  readonly stage: number;
  readonly attempt: number;
  readonly hint: Value | undefined;
  readonly input: Value;
  /** `outputs[0]` is the source. */
  readonly outputs: readonly Value[];
  readonly tries: readonly Try[];
  /** What the stage that is asked again has given since, while it is being asked. */
  readonly reruns: readonly Value[] | undefined;
  readonly history: readonly (readonly Value[])[];
  /** Grows while the pipeline runs. */
  readonly guards: Json[];
}

/** One attempt of the retry context we are in. */
export interface Try {
  readonly attempt: number;
  readonly result: 'retry' | 'done';
  readonly hint: Value | undefined;
  readonly output: Value;
}

const data = (value: Value | undefined): Json => value?.data ?? null;

/** For `@mx.pipe` and its aliases. */
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
