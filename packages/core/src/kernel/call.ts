// Types of a call: the caller, its rights, and the requests of the verbs. The kernel forwards `__auth` and
// the ids and never reads them: the runtime makes an `Authority` of them (from a token or an operator's
// policy), which judges the call.
import type { Failure, JsonObject, Outcome } from '../base/index.ts';
import type {
  ActPorts,
  BodyScope,
  Frame,
  Input,
  MaybePromise,
  Operation,
  ToolEffect,
  Value,
} from '../flow/index.ts';
import type { ItemKind } from '../items/index.ts';
import type { AuthFields, Handles, Verifier } from './primitive.ts';
import type { EventFilter, Sink } from './sink.ts';

export interface Caller extends AuthFields {
  /** Surface of the call: `cli`, `mcp`, `library`, `thread` or `script`. */
  surface: string;
  /** A name for the audit; never used for a decision. */
  name?: string;
  /**
   * The object that `createKernel` got as `tierExemption`: no person is asked about the tier of this
   * call. Absent: the tier counts. No name, surface or option of a caller replaces the object, and no
   * JSON contains it.
   */
  tierExemption?: object;
  frame: Frame;
  /** Ports of the operation that this call becomes. Operations inside of it do not get them. */
  act?: ActPorts;
  /**
   * Returns the caller's current token. The kernel calls it when the call is judged, because recording
   * the intent can change the token. Absent: `__auth` is used.
   */
  auth?: () => string;
  signal?: AbortSignal;
  /** Receives the output of a child process as text without secrets. Must not throw. */
  onOutput?: (text: string) => void;
  isApproved?: boolean;
  /**
   * Content that the call may overwrite: none (`new`), none because it appends (`add`), or the content
   * with this hash. Absent: any content.
   */
  holds?: string;
  /**
   * Hash of the content that the person saw when they approved the call; `new` if there was no file.
   * Absent: no person saw the content.
   */
  approved?: string;
  /**
   * Capability names that the call is restricted to, in addition to the rights of its caller. Set for a
   * tool that consists of other tools. Absent: no restriction.
   */
  only?: readonly string[];
  /** True if the caller may only read, whatever the policy of its surface allows. */
  isViewer?: boolean;
  handles?: Handles;
  /** Key of this call, the same for every repetition after a crash or a failure. Another call never has it. */
  idempotencyKey?: string;
  /**
   * Returns additional sinks for a stream, for a program that embeds the kernel. Called once for every
   * attempt. If it is present, `return` among the destinations of the tool's config only counts events.
   */
  sinks?: () => readonly Sink[];
  /** With `sinks`: returns the filter in front of the sinks of the tool's config. */
  filter?: (() => EventFilter | undefined) | undefined;
}

/** The rights of a caller. Every answer is a refusal if the right is not certain. */
export interface Authority {
  /** Checks one call with its resolved scope. */
  readonly check: Verifier;
  /** Checks whether the caller has a grant of this name with any scope. Used before the scope is known. */
  holds(capability: string): Outcome<null>;
  /** Checks whether a tool with this effect may be called on this surface. */
  allowsEffect(effect: ToolEffect): Outcome<null>;
  /** Checks whether a directive may be returned on this surface. `signed`: a person signed it. */
  allowsDirective(signed: boolean): Outcome<null>;
  /** Returns true if the lists of categories and names let the caller see and use this item. */
  sees(kind: ItemKind, category: string, id: string): boolean;
  /**
   * Returns the list that excludes this item, such as `directives.allow_categories`. Absent: there are
   * no lists.
   */
  listAgainst?(kind: ItemKind, category: string, id: string): string | undefined;
  /**
   * Folders with items that the lists exclude. File tools refuse them, because reading a file would show
   * the item. Absent: no folders.
   */
  readonly filtered?: readonly string[];
  /** Returns the capability names of the caller. Refusals list them; no decision uses them. */
  granted?(): readonly string[];
  /** Ids of tools whose uses are limited, with the limit. */
  readonly uses?: Readonly<Record<string, number>> | undefined;
  /** Returns every glob over paths in the grants and policies. Absent: the globs are not known. */
  globs?(): readonly string[];
  /** Hash of the token, or name of the policy that answered. The audit stores it. */
  readonly subject: string;
}

/** Returns the rights of a caller. It may have to ask the store about a thread that another process runs. */
export type Authorize = (caller: Caller) => MaybePromise<Outcome<Authority>>;

export interface ExecuteRequest extends AuthFields {
  item_type: string;
  item_id: string;
  action?: string;
  parameters?: JsonObject;
  content?: string;
  dry_run?: boolean;
  project_path?: string;
  /** Values with labels for parameters of the same name. Other parameters are plain input of the caller. */
  values?: Readonly<Record<string, Value>>;
}

export interface SearchRequest {
  query: string;
  item_type?: string;
  source?: string;
  limit?: number;
  cursor?: string;
  detail?: 'name' | 'summary' | 'schema';
  category?: string;
}

export interface LoadRequest {
  item_type: string;
  item_id: string;
  source?: string;
  destination?: string;
  part?: string;
}

export interface HelpRequest {
  action?: string;
  topic?: string;
  reason?: string;
  /** With `escalate`: the missing right; `scope` says what it is needed for. */
  capability?: string;
  scope?: JsonObject;
  /** With `escalate` of a hook: the ceilings that the hook requests. */
  limits?: JsonObject;
}

/**
 * One kind of item that `execute` accepts. The runtime can add kinds; the verbs look up the kind and call it.
 */
export interface Kind {
  name: string;
  /** The accepted values of `action`. The first one is the default. */
  actions: readonly string[];
  prepare(request: ExecuteRequest): MaybePromise<Outcome<PreparedCall>>;
}

/** A call that has been checked except for its caller and rights. Nothing has been executed yet. */
export interface PreparedCall {
  readonly op: Operation;
  readonly inputs?: readonly Input[];
  /** Checks the rights of the caller. Absent: every caller may make the call. */
  gate?(authority: Authority): Outcome<null>;
  /**
   * Returns the refusal that the body would end with, so that no person is asked about such a call. Absent
   * or undefined: no refusal is known.
   */
  foresee?(
    values: readonly Value[],
    call: Omit<MadeCall, 'capture'>,
  ): MaybePromise<Failure | undefined>;
  /** Executes the call with the inputs that the guards passed on. */
  body(values: readonly Value[], call: MadeCall): MaybePromise<Outcome<Value>>;
  readonly explain?: (failure: Failure) => Failure;
}

/** The caller and its rights, as the gate determined them. */
export interface MadeCall extends Pick<BodyScope, 'capture'> {
  readonly caller: Caller;
  readonly authority: Authority;
}
