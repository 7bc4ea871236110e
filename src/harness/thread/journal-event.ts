// What a journal can say. Everything that is written about a thread is one of these, and whoever reads
// a journal (resume, replay, transcripts, the command line) has it as one of these: `encode` and
// `decode` in journal-codec.ts are the only ways in and out.
import type { Fault, Json, JsonObject } from '../../base/index.ts';
import type { ToolEffect } from '../../items/index.ts';
import type { Block, BrokenReply, Stop, Usage } from '../../llm/index.ts';
import type { ThreadStatus } from '../../store/index.ts';
import type { LimitEvent, WarningEvent } from '../limits/limit.ts';

interface Entry<Type extends string, Data> {
  readonly type: Type;
  readonly data: Data;
}

/** As `packMarks` writes a descriptor. */
export type Marks = { labels: string[]; taint: string[]; sources: string[] };

/** What `packCost` and `packLimits` write; `unpackCost` and `unpackLimits` read them, and refuse. */
export type PackedCost = JsonObject;
export type PackedLimits = JsonObject;

/** Retries of the whole run, and how often each step was skipped since it was last done. */
export interface Bounds {
  readonly retries: number;
  readonly skips: Readonly<Record<string, number>>;
}

/** The call that opens every conversation; the harness made it, no model. */
export interface InjectedCall {
  readonly content: readonly Block[];
  readonly injected: true;
}

export interface Reply {
  readonly content: readonly Block[];
  readonly stop: Stop;
  readonly usage: Usage;
  readonly model: string;
  readonly price_row: string;
  readonly spend: string;
  /** Of the request, for the estimate of the next one. */
  readonly bytes: number;
  /** Asked by a script, in a conversation of its own. */
  readonly apart?: true;
  readonly injected?: never;
}

export interface UserMessage {
  readonly text: string;
  readonly marks: Marks;
}

export interface ToolResult {
  readonly call_id: string;
  readonly tool?: string;
  readonly content: Json;
  readonly is_error: boolean;
  readonly marks: Marks;
}

/** What a conversation begins with; also inside `retry`, when another directive begins it. */
export type Opening =
  | Entry<'user_message', UserMessage>
  | Entry<'assistant_message', InjectedCall>
  | Entry<'tool_result', ToolResult>;

/** A model request that came to nothing, and what was done about it. */
export type FailedRequest = Fault & { readonly next?: 'wait' | 'fallback' };

export type ApprovalNote =
  | {
      readonly kind: 'question' | 'capability';
      readonly state: 'pending';
      readonly approval: string;
      readonly action: string;
    }
  | {
      readonly kind: 'capability';
      readonly state: 'approved';
      readonly approval: string;
      readonly capability: string;
      readonly scope?: JsonObject;
      /** Milliseconds since 1970. */
      readonly expires?: number;
      readonly beyond?: true;
      readonly by: string;
    }
  | {
      readonly kind: 'capability';
      readonly state: 'used' | 'returned';
      readonly approval: string;
      readonly call_id: string;
      readonly capability: string;
      readonly scope: JsonObject;
      readonly uses_left: number;
    }
  | Proposal;

/** A changed directive that somebody has to look at, or that the policy lets through. */
export interface Proposal {
  readonly kind: 'call';
  readonly action: 'anneal';
  readonly state: 'auto' | 'pending';
  readonly directive: string;
  /** Why the run failed. */
  readonly behind: { readonly code: string; readonly reason: string };
  readonly text: string;
  readonly approval?: string;
  /** The hash of the directive as it was. */
  readonly before?: string;
}

export interface ToolCall {
  readonly call_id: string;
  readonly tool: string;
  readonly verb: string;
  readonly effect: ToolEffect;
  readonly arguments: Json;
  readonly volatile?: readonly string[];
  readonly key?: string;
  /** Tells whether a recorded cost holds it already. */
  readonly n?: number;
  /** The thread that it is going to spawn. */
  readonly child?: string;
}

export interface HookAnswered {
  readonly directive: string;
  readonly event: 'before_step' | 'after_step' | 'error' | 'limit' | 'warning';
  readonly step: string;
  readonly deed: string;
  readonly notes: JsonObject;
  readonly duration_ms: number;
  /** Which hooks are on the far side of their edge. */
  readonly fired: readonly number[];
  readonly bounds: Bounds;
  readonly model?: string;
  readonly limits?: PackedLimits;
}

export interface ThreadStart {
  readonly directive: string;
  readonly version: string;
  readonly inputs: JsonObject;
  readonly model: string;
  readonly message: string;
  readonly limits: PackedLimits;
  readonly stream?: true;
}

export interface SignalNote {
  readonly kind: string;
  readonly by: string;
  /** Of the signal that was obeyed; absent when a process says that it starts or resumes. */
  readonly id?: number;
  readonly reason?: string;
  /** The snapshot that a resume goes back to. */
  readonly from?: number;
}

export type JournalEvent =
  | Entry<'thread_start', ThreadStart>
  | Entry<
      'status',
      { readonly status: ThreadStatus; readonly by?: string; readonly reason?: string }
    >
  | Entry<'user_message', UserMessage>
  | Entry<'assistant_message', InjectedCall | Reply>
  | Entry<'tool_call', ToolCall>
  | Entry<'tool_result', ToolResult>
  | Entry<
      'turn_start',
      {
        readonly max_tokens: number;
        readonly model: string;
        readonly provider: string;
        readonly key: string;
        readonly n?: number;
      }
    >
  | Entry<
      'turn_end',
      | { readonly done: true }
      | { readonly called_off: true; readonly charged?: PackedCost }
      | { readonly withheld: true }
      /** Its reservation was given back. */
      | { readonly unsent: true }
    >
  | Entry<
      'cost_update',
      { readonly cost: PackedCost } | { readonly charged_unread: number; readonly tokens: number }
    >
  | Entry<
      'hook_start',
      { readonly thread_id: string; readonly directive: string; readonly event: string }
    >
  | Entry<'hook', HookAnswered>
  | Entry<'hook_state', { readonly fired: readonly number[] }>
  | Entry<'permission_denied', Fault>
  | Entry<'limit', LimitEvent>
  | Entry<'warning', WarningEvent>
  | Entry<'loop_detected', Fault>
  | Entry<
      'retry',
      | { readonly attempt: number; readonly annealed?: never }
      | {
          readonly attempt: number;
          readonly annealed: true;
          readonly version: string;
          readonly opening: readonly Opening[];
        }
    >
  | Entry<'model_fallback', { readonly to: string; readonly because: string }>
  | Entry<
      'spawn',
      {
        readonly thread_id: string;
        readonly directive: string;
        readonly runner: string;
        readonly detached: boolean;
      }
    >
  | Entry<
      'child_end',
      {
        readonly thread_id: string;
        readonly status: ThreadStatus;
        readonly reason: string;
        readonly cost: PackedCost;
      }
    >
  | Entry<'injected_message', UserMessage & { readonly by: string; readonly reminder?: true }>
  | Entry<'signal', SignalNote>
  | Entry<'approval', ApprovalNote>
  | Entry<'snapshot', { readonly reason: string; readonly at?: number }>
  | Entry<'error', FailedRequest>
  | Entry<'stream_error', FailedRequest | (BrokenReply & { readonly code?: never })>
  /** What somebody else had noted; nothing is restored from it. */
  | Entry<'logged', { readonly event_type: string; readonly data: JsonObject; readonly by: string }>
  | Entry<
      'thread_end',
      {
        readonly status: ThreadStatus;
        readonly reason: string;
        /** Of the fault behind it. */
        readonly code?: string;
        readonly cost?: PackedCost;
      }
    >;

/** As it is written: it has its turn, and no number yet. */
export type Noted = JournalEvent & { readonly turn: number };
export type EventType = JournalEvent['type'];
export type DataOf<Type extends EventType> = Extract<JournalEvent, { type: Type }>['data'];
/** With its place in the journal. */
export type Recorded = JournalEvent & {
  readonly thread: string;
  readonly seq: number;
  readonly ts: number;
  readonly turn: number;
};
/** Without its place. */
export function notedOf(event: Recorded): Noted {
  const { thread: _thread, seq: _seq, ts: _ts, ...noted } = event;
  return noted;
}
export type RecordedOf<Type extends EventType> = Extract<Recorded, { type: Type }>;
