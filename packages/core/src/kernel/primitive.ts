// Types of primitives, which are the last link of every tool chain. The kernel receives a table of them and
// depends on no primitive.
import type { Failure, Fault, Json, JsonObject, Outcome, Rule } from '../base/index.ts';
import type { Descriptor, MaybePromise, ResultFacts, ToolEffect, Value } from '../flow/index.ts';
import type { Sink } from './sink.ts';

/** Identity of the caller. The kernel forwards it unchanged to the verifier. */
export interface AuthFields {
  __auth?: string;
  __thread_id?: string;
  __directive_id?: string;
}

/** A right that the actual call needs, with the resolved scope (real path, host, id). */
interface PlannedNeed {
  capability: string;
  scope?: { path?: string; id?: string; host?: string; method?: string; subtree?: string };
  /** For `tool.execute`: a glob without `/` matches only signed tools. */
  signed?: boolean;
}

/** Checks whether the caller of one call has a right. Made from a token or an operator's policy. */
export interface Verifier {
  (need: PlannedNeed): Outcome<null>;
  /** Returns every glob over paths that could decide an answer. Absent: the globs are not known. */
  globs?(): readonly string[];
}

/**
 * Names that a client uses for running things instead of their ids. A client can name only what it
 * received. The kernel forwards the handles unchanged; mounted primitives use them.
 */
export interface Handles {
  /** Returns undefined for a handle that this caller did not receive. */
  idOf(handle: string): string | undefined;
  handleOf(id: string): string;
  /** Returns the id that a name from a record claims, valid or not. */
  claimOf(name: string): string;
  /** Returns ids that this caller received recently, the newest last. */
  handed?(): readonly string[];
  /** Receives the progress of a thread that the caller waits for. Must not throw. */
  onProgress?(state: JsonObject): void;
}

export interface PrimitiveCall {
  /** The full id of the leaf tool, and the declarations of its YAML file. */
  tool: {
    id: string;
    /** Folder of the YAML file that names the module, for `config.module`. */
    dir: string;
    source: 'project' | 'user' | 'installed' | 'bundle' | 'program';
    requires: readonly string[];
    effect: ToolEffect;
    sandbox: 'strict' | 'workspace' | 'none';
    env: readonly string[];
    /** Names of the parameters that a caller may pass. */
    parameters?: readonly string[];
    /** True if the call returns a handle at once and continues in the background. */
    background?: boolean;
    /** Globs that narrow what its process can read. Absent: everything that the caller may read. */
    sees?: readonly string[];
  };
  /** Code of the embedding program. Absent: the tool is not of a program. */
  program?(call: PrimitiveCall): Promise<Outcome<PrimitiveResult>>;
  /** Merged over the chain, with environment variables and parameters filled in. */
  config: JsonObject;
  /** Checked against the schema, with defaults filled in. */
  parameters: JsonObject;
  sinks: readonly Sink[];
  verify: Verifier;
  signal: AbortSignal;
  /** Real path of the project's root folder. */
  projectRoot: string;
  timeoutMs: number;
  /**
   * Called before new content replaces a file, so that no unlabelled copy ever exists. Receives the hash
   * of the content and the files that went into it. If it fails, nothing is written.
   */
  willWrite?(
    absolute: string,
    sha256: string,
    from?: readonly TouchedFile[],
    /**
     * Hash of the present content; null if there is no file. Absent: the author of the content does not matter.
     */
    before?: string | null,
  ): MaybePromise<Outcome<null>>;
  /**
   * Returns the marks of files that were read and of folders (real paths) that were listed, also if
   * nothing was found, because a missing name is information too.
   */
  seen?(files: readonly TouchedFile[], folders?: Iterable<string>): Descriptor;
  /**
   * Content that the call may overwrite: none (`new`), none because it appends (`add`), or the content
   * with this hash. Absent: any content.
   */
  holds?: string;
  /** Hash of the content that a person approved overwriting; `new`: no file. */
  approved?: string;
  /** Key of this call, the same for every repetition. A config refers to it as `{__idempotency_key}`. */
  idempotencyKey?: string;
  /** Values of environment variables that this call uses. No output may contain them. */
  secrets: readonly string[];
  /** Receives the output of a child process as text without secrets. Must not throw. */
  onOutput?(text: string): void;
  /** The caller. The kernel forwards it unchanged; mounted primitives use it. */
  from?: AuthFields & {
    surface: string;
    name?: string;
    isApproved?: boolean;
    isViewer?: boolean;
    handles?: Handles;
  };
  /** Marks of all inputs, for a primitive that passes them on outside of the pipeline. */
  given?: Descriptor;
  /** Parameters with their marks. Present if the operation reads, or if the tool starts directives. */
  values?: ReadonlyMap<string, Value>;
}

export interface PrimitiveResult {
  output: Json;
  /** Automatic labels of the result, such as `src:network` or `untrusted`. */
  labels?: readonly string[];
  /** Sources of the result, such as `file:src/a.ts`. */
  sources?: readonly string[];
  /** All marks of the output, if they were recorded when it was created. */
  marks?: Descriptor;
  /** Files whose content is in the output, or that this call wrote. Their labels are recorded. */
  files?: readonly TouchedFile[];
  /** Facts about single fields of this answer, for a tool whose operation reads. */
  facts?: ResultFacts;
  /** Fields that are existing values, with their own marks and facts. */
  parts?: ReadonlyMap<string, Value>;
}

/** A file whose content entered a result or came from one. Label records are about such files. */
export interface TouchedFile {
  access: 'read' | 'written';
  absolute: string;
  relative: string;
  /** Inode of a file with several names. The same for all of its names. */
  inode?: string | undefined;
  /** Hash of the whole content in hex: as it was read for `read`, as it is now for `written`. */
  sha256: string;
}

const notStarted = new WeakSet<Fault>();

/** Marks a failure of a call that did nothing. No program and no server had an influence on its text. */
export function markNotStarted(failure: Failure): Failure {
  notStarted.add(failure.error);
  return failure;
}

/**
 * Returns whether the call may have had an effect. Only `notBegun` decides this, never the code or the
 * fields of the fault. A copy of a fault may have had an effect.
 */
export const hasStarted = (fault: Fault): boolean => !notStarted.has(fault);

export interface Primitive {
  name: string;
  /**
   * True if directives do its work, each with its own rights. A surface that lets directives start lets it be
   * called, whatever the surface allows about effects. The primitive checks which directives may start.
   */
  isOfDirectives?: true;
  /** True if a model wrote the results in its own words, so that no field counts as a copy. */
  isRetold?: true;
  /** True if only shipped tools may use it. */
  isOfBundle?: true;
  /** Fields of a config that are passed on as written, without filling in placeholders. */
  verbatim?: readonly string[];
  /** The shape of a merged config, checked before placeholders are filled in. Absent: any config. */
  config?: Rule<unknown>;
  run(call: PrimitiveCall): Promise<Outcome<PrimitiveResult>>;
  /**
   * Returns the refusal that the call would end with whatever a person answers, if it is known before
   * anything is done.
   */
  refuses?(call: PrimitiveCall): MaybePromise<Failure | undefined>;
  /** For a dry run: describes in one JSON value what would happen, without doing it. */
  plan?(call: PrimitiveCall): Json | Promise<Json>;
  /** Loads the primitive that this one replaces until its code is needed. */
  loaded?(): Promise<Primitive>;
  /** Closes what is kept open between calls. No call follows. */
  close?(): void;
  /** The same as `close`, for a primitive whose end takes time. Settles when everything has ended. */
  ended?(): Promise<void>;
}
