// Who calls, and with what right. The kernel forwards `__auth` and the ids and never looks inside:
// an `Authority` made by the runtime (from a token or an operator's policy) answers for them.
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
  /** Where the call came in: `cli`, `mcp`, `library`, `thread`, `script`. */
  surface: string;
  /** A name for the audit; never used for a decision. */
  name?: string;
  /**
   * The object that `createKernel` got as `tierExemption`: no person is asked about the tier of this call. No
   * name, surface or option of a caller replaces it, and no JSON holds it.
   */
  tierExemption?: object;
  frame: Frame;
  /** Of the operation that this call becomes, and of nothing inside it. */
  act?: ActPorts;
  /** Its token when it is about to be judged: what is taken with its intent may have changed it. */
  auth?: () => string;
  signal?: AbortSignal;
  /** Told what a child process prints, as it comes and without secrets; must not throw. */
  onOutput?: (text: string) => void;
  /** A person was asked about this very call and said yes. */
  isApproved?: boolean;
  /** What it may write over: nothing (`new`), nothing of what is there (`add`), the content of this hash. */
  holds?: string;
  /** What a person was shown there when they said yes; `new`: nothing. */
  approved?: string;
  /** Names of rights that it is held to, besides what its caller holds: of a tool made of others. */
  only?: readonly string[];
  /** It may look and nothing else, whatever the policy of its surface allows. */
  isViewer?: boolean;
  handles?: Handles;
  /** The same when this very call is made again, after a crash or a failure; never for another. */
  idempotencyKey?: string;
  /**
   * For whoever embeds the kernel: where a stream goes besides the destinations of the tool's
   * config, of which `return` then only counts. Made anew for every attempt.
   */
  sinks?: () => readonly Sink[];
  /** With `sinks`: what stands before those of the tool's config. */
  filter?: (() => EventFilter | undefined) | undefined;
}

/** What a caller may do. Every answer denies when in doubt. */
export interface Authority {
  /** The actual call, with its resolved scope. */
  readonly check: Verifier;
  /** Is any grant of this name held, whatever its scope? Asked before the scope can be known. */
  holds(capability: string): Outcome<null>;
  /** May a tool with this effect be called at all on this surface? */
  allowsEffect(effect: ToolEffect): Outcome<null>;
  /** May a directive be handed out on this surface, with or without a person's signature? */
  allowsDirective(signed: boolean): Outcome<null>;
  /** Do the lists over categories and names let this item be seen and used? */
  sees(kind: ItemKind, category: string, id: string): boolean;
  /** The list that leaves this item out, as `directives.allow_categories`; absent: there are no lists. */
  listAgainst?(kind: ItemKind, category: string, id: string): string | undefined;
  /** Folders of items of which some are left out: a file tool that read them would show those too. */
  readonly filtered?: readonly string[];
  /** Names of rights that it was given, for whoever is refused. */
  granted?(): readonly string[];
  /** Tools whose uses somebody counts, by id. */
  readonly uses?: Readonly<Record<string, number>> | undefined;
  /** Every glob over paths in what it was made from; absent: nobody knows them. */
  globs?(): readonly string[];
  /** For the audit: hash of the token, or the policy that answered. */
  readonly subject: string;
}

/** May have to ask the registry about a thread that does not run here. */
export type Authorize = (caller: Caller) => MaybePromise<Outcome<Authority>>;

export interface ExecuteRequest extends AuthFields {
  item_type: string;
  item_id: string;
  action?: string;
  parameters?: JsonObject;
  content?: string;
  dry_run?: boolean;
  project_path?: string;
  /** Labelled values for parameters of the same name; others are plain input of the caller. */
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
  /** With `escalate`: the right that is missing, and for what. */
  capability?: string;
  scope?: JsonObject;
  /** With `escalate`, of a hook: the ceilings it wants. */
  limits?: JsonObject;
}

/**
 * One row of the table behind `execute`. The runtime can mount more: the verbs only look
 * a kind up and hand over.
 */
export interface Kind {
  name: string;
  /** What `action` may be; the first is used when none is given. */
  actions: readonly string[];
  prepare(request: ExecuteRequest): MaybePromise<Outcome<PreparedCall>>;
}

/** A call looked at from all sides but one: who makes it, and with what right. Nothing is done yet. */
export interface PreparedCall {
  readonly op: Operation;
  readonly inputs?: readonly Input[];
  /** Absent: everybody may. */
  gate?(authority: Authority): Outcome<null>;
  /** Before a person is asked: the refusal that the body would come to whatever they answer. */
  foresee?(
    values: readonly Value[],
    made: Omit<MadeCall, 'capture'>,
  ): MaybePromise<Failure | undefined>;
  /** With the inputs that the guards passed on. */
  body(values: readonly Value[], made: MadeCall): MaybePromise<Outcome<Value>>;
  readonly explain?: (failure: Failure) => Failure;
}

/** Who makes it, as the gate has found him. */
export interface MadeCall extends Pick<BodyScope, 'capture'> {
  readonly caller: Caller;
  readonly authority: Authority;
}
