// What stands at the end of every chain. The kernel owns this type and receives a table of
// primitives; it never asks what one does.
import type { Failure, Fault, Json, JsonObject, Outcome, Rule } from '../base/index.ts';
import type { Descriptor, MaybePromise, ResultFacts, ToolEffect, Value } from '../flow/index.ts';
import type { Sink } from './sink.ts';

/** Forwarded untouched from the caller to whoever verifies. */
export interface AuthFields {
  __auth?: string;
  __thread_id?: string;
  __directive_id?: string;
}

/** One right that the actual call needs, with the scope as resolved (real path, host, id). */
interface PlannedNeed {
  capability: string;
  scope?: { path?: string; id?: string; host?: string; method?: string; subtree?: string };
  /** For `tool.execute`: a glob without `/` matches signed tools only. */
  signed?: boolean;
}

/** Answers for one call whether its caller holds a right. Made from a token or an operator's policy. */
export interface Verifier {
  (need: PlannedNeed): Outcome<null>;
  /** Every glob over paths that could decide an answer; absent: nobody knows them. */
  globs?(): readonly string[];
}

/**
 * What a client calls things that run, instead of by their ids: it can speak of those alone that it was
 * handed. Forwarded untouched; only a mounted primitive knows what they stand for.
 */
export interface Handles {
  /** Undefined for whatever was not handed to this caller. */
  idOf(handle: string): string | undefined;
  handleOf(id: string): string;
  /** What a record says of a name: the id that it claims, good or not, without what makes it a handle. */
  claimOf(name: string): string;
  /** Ids of what this caller was handed lately, the newest last. */
  handed?(): readonly string[];
  /** Told how far something is that the caller waits for; must not throw. */
  onProgress?(state: JsonObject): void;
}

export interface PrimitiveCall {
  /** The leaf tool's full id and what its YAML declares. */
  tool: {
    id: string;
    /** Folder of the YAML file that named a module, for `config.module`. */
    dir: string;
    source: 'project' | 'user' | 'installed' | 'bundle' | 'program';
    requires: readonly string[];
    effect: ToolEffect;
    sandbox: 'strict' | 'workspace' | 'none';
    env: readonly string[];
    /** Names of the parameters that a caller may give. */
    parameters?: readonly string[];
    /** It is to answer at once, with a handle. */
    background?: boolean;
    /** Globs over what its process may look at, of what the caller may read; absent: all of that. */
    sees?: readonly string[];
  };
  /** Merged over the chain, environment expanded, parameters filled in. */
  config: JsonObject;
  /** Checked against the schema, defaults filled in. */
  parameters: JsonObject;
  sinks: readonly Sink[];
  verify: Verifier;
  signal: AbortSignal;
  /** Real path of the project's root folder. */
  projectRoot: string;
  timeoutMs: number;
  /**
   * To be called before new content takes a file's place, so that no unlabelled copy ever exists:
   * the content's hash, and the files that went into it. When it fails, nothing is written.
   */
  willWrite?(
    absolute: string,
    sha256: string,
    from?: readonly TouchedFile[],
    /** Of what is there now; null when that is nothing. Absent: it does not matter whose it is. */
    before?: string | null,
  ): MaybePromise<Outcome<null>>;
  /**
   * Marks of files that were read and of folders (real paths) whose names were looked at, also where
   * nothing was found: what is missing is told by the same look.
   */
  seen?(files: readonly TouchedFile[], folders?: Iterable<string>): Descriptor;
  /** What it may write over: nothing (`new`), nothing of what is there (`add`), the content of this hash. */
  holds?: string;
  /** The content that a person approved a write over, by its hash; `new`: nothing. */
  approved?: string;
  /** The same when this very call is made again; config writes it as `{__idempotency_key}`. */
  idempotencyKey?: string;
  /** Values of environment variables that this call expanded: never to be shown. */
  secrets: readonly string[];
  /** Told what a child process prints, as it comes and without secrets; must not throw. */
  onOutput?(text: string): void;
  /** Who called, forwarded untouched; only a mounted primitive knows what to do with it. */
  from?: AuthFields & {
    surface: string;
    name?: string;
    isApproved?: boolean;
    isViewer?: boolean;
    handles?: Handles;
  };
  /** Marks of everything that went in, for a primitive that hands it on outside the pipeline. */
  given?: Descriptor;
  /** Parameters with their marks; of a tool whose operation reads, or that starts directives. */
  values?: ReadonlyMap<string, Value>;
}

export interface PrimitiveResult {
  output: Json;
  /** Automatic labels of what came back, e.g. `src:network`, `untrusted`. */
  labels?: readonly string[];
  /** Where it came from, e.g. `file:src/a.ts`. */
  sources?: readonly string[];
  /** All marks of the output, when somebody has kept them since it was made. */
  marks?: Descriptor;
  /** Files whose content is in the output, or was written by this call: their labels are kept. */
  files?: readonly TouchedFile[];
  /** Of a tool whose operation reads: what may be said of single fields of this very answer. */
  facts?: ResultFacts;
  /** The same where fields are values that were there before, with marks and facts of their own. */
  parts?: ReadonlyMap<string, Value>;
}

/** A file whose content entered a result or came from one: what label records are kept about. */
export interface TouchedFile {
  access: 'read' | 'written';
  /** Real path. */
  absolute: string;
  relative: string;
  /** Of a file with several names: the same for all of them. */
  inode?: string | undefined;
  /** Hex, of the whole content; for `read` as it was read, for `written` as it now is. */
  sha256: string;
}

const unbegun = new WeakSet<Fault>();

/** Marks a failure of a call that did nothing: no word in it came from a program or a server. */
export function notBegun(failure: Failure): Failure {
  unbegun.add(failure.error);
  return failure;
}

/** Known by where it failed, never by its code or its fields. A copy of a fault counts as begun. */
export const hasBegun = (fault: Fault): boolean => !unbegun.has(fault);

export interface Primitive {
  name: string;
  /**
   * What it does is done by directives, each under its own rights: a surface that lets them be started
   * lets this be called, whatever it says of effects. Which ones, it asks itself.
   */
  isOfDirectives?: true;
  /** A model wrote its results in its own words, so no field of them is known to be a copy. */
  isRetold?: true;
  /** Only tools that are shipped stand on it. */
  isOfBundle?: true;
  /** Fields of a config that are handed over as they were written: nothing is filled in. */
  verbatim?: readonly string[];
  /** What a merged config must look like, judged before anything is filled in; absent: anything goes. */
  config?: Rule<unknown>;
  run(call: PrimitiveCall): Promise<Outcome<PrimitiveResult>>;
  /** Why this call would be refused whatever a person answers, as far as it is known before anything is done. */
  refuses?(call: PrimitiveCall): MaybePromise<Failure | undefined>;
  /** For a dry run: what would happen, in one JSON value, without doing it. */
  plan?(call: PrimitiveCall): Json | Promise<Json>;
  /** The one that it stands for until its code is needed. */
  loaded?(): Promise<Primitive>;
  /** Nothing is to be run any more: what is kept open between calls is closed. */
  close?(): void;
  /** The same, for one that others have to be waited for: settles when nothing of it is left. */
  ended?(): Promise<void>;
}
