// One running thread: what is fixed when it starts and what changes while it runs. The parts of the
// harness (turns, steps, checkpoints) share this and nothing else.
import type { Json, JsonObject, Outcome } from '../../base/index.ts';
import type { Directive, DirectiveItem } from '../../items/index.ts';
import type { Price, ResolvedModel, ToolDefinition } from '../../llm/index.ts';
import type { Amounts } from '../../store/index.ts';
import type { CompiledHook, HookState } from '../hooks/select-hook.ts';
import type { CostMeter } from '../limits/cost.ts';
import type { EffectiveLimits, LimitAmounts, LimitName } from '../limits/limit.ts';
import type { RaiseRoom } from '../limits/raise-limits.ts';
import type { Ending } from '../loop.ts';
import type { ApprovedRights } from '../rights/approved-rights.ts';
import type { HelpSignal } from '../rights/ask-for-help.ts';
import type { ThreadRights } from '../rights/thread-token.ts';
import type { BegunCall } from '../step/call-intent.ts';
import type { LoopDetector } from '../step/loop-detector.ts';
import type { Conversation } from './conversation.ts';
import type { Flight } from './interruption.ts';
import type { Bounds, Opening } from './journal-event.ts';
import type { ThreadLog } from './journal-writer.ts';
import type { World } from './ports.ts';

export interface ThreadContext {
  readonly world: World;
  readonly id: string;
  readonly parent: string | undefined;
  readonly depth: number;
  /** Itself first, its root last: who is charged. */
  readonly chain: readonly string[];
  readonly kind: 'thread' | 'hook';
  /** Which loop runs it. */
  readonly runner: string;
  /** Does it live on when its parent ends? */
  readonly detached: boolean;
  /** How many hooks stand around it. */
  readonly nesting: number;
  readonly item: DirectiveItem;
  readonly directive: Directive;
  readonly inputs: JsonObject;
  readonly rights: ThreadRights;
  /** What people approved beyond that. */
  readonly approved: ApprovedRights;
  readonly system: string;
  /** What its model may call; the four tools when absent. */
  readonly tools?: readonly ToolDefinition[];
  /** Does it leave what the provider sends in `stream.jsonl`? */
  readonly isStreamKept: boolean;
  readonly hooks: readonly CompiledHook[];
  readonly hookState: HookState;
  /** A reservation made up front that its requests draw from. */
  readonly drawFrom: string | undefined;
  /** Where hooks draw their budget from; undefined when nothing was set aside. */
  hookReserve: string | undefined;
  /** What was set aside for hooks; not part of `limits`. */
  readonly hookLimits: LimitAmounts;
  /** The id of the call at work. */
  currentCall: string;
  readonly initialLimits: EffectiveLimits;
  readonly log: ThreadLog;
  readonly meter: CostMeter;
  /** Calls without a result, by their id. */
  readonly begun: Map<string, BegunCall>;
  /** Calls that tools are busy with, by their key. */
  readonly atWork: Map<string, BegunCall>;
  readonly conversation: Conversation;
  readonly detector: LoopDetector;
  readonly signal: AbortSignal;
  /** Requests and tools at work: told when somebody steers the thread. */
  readonly flights: Set<Flight>;
  /** Models that were switched to because another failed. */
  readonly triedModels: Set<string>;
  limits: EffectiveLimits;
  attempt: number;
  model: ResolvedModel;
  price: Price;
  bounds: Bounds;
  loops: number;
  warned: Set<string>;
  /** Tokens per byte as last reported. */
  ratio: number | undefined;
  /** Set by whoever decided that the run is over; the loop stops at the next boundary. */
  ending: Ending | undefined;
  /** Was it ended from outside? */
  stopped: boolean;
  /** The last signal that was obeyed. */
  lastSignal: number;
  /** How full the window was when it was last looked at, in tokens. */
  windowSeen: number;
  /** How often the model was asked for outputs it owes. */
  reminders: number;
  /** What a new attempt begins with. */
  opening: Opening[];
  /** A line of the harness for the model, before its next turn. */
  tell(text: string, about?: { reminder: true }): void;
  /** Sets aside along the chain; a hook's thread takes it out of what was set aside for it. */
  reserve(amounts: Amounts, key: string): Outcome<null>;
  /** `fallback`, a tier or a model id, for the rest of the run. */
  switchModel(wanted: string): Outcome<null>;
  /** Runs a hook's directive in a thread of its own; its outputs. */
  runHook(name: string, inputs: JsonObject): Promise<Outcome<Json>>;
  raiseLimits(limits: EffectiveLimits, raised: readonly LimitName[]): void;
  /** How far a hook may raise limits. */
  room(): RaiseRoom;
  /** `stuck`, `escalate` or `checkpoint`, said by the model. */
  help(signal: HelpSignal): Promise<Outcome<Json>>;
  /** Ends it from outside; what is in flight is broken off. The first reason counts. */
  stop(ending: Ending): void;
  /** A fresh conversation with the same task. */
  newAttempt(): void;
}
