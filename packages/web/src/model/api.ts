// Data types of `/api`, `/api/stream` and `/api/socket`. The server writes them; the page and
// `threads top` read them. Answers use the envelope of `--json`: `{ok: true, output}` or `{ok:
// false, error: {code, detail: {message, …}}}`. Times are milliseconds since 1970 unless a name
// says otherwise. Text of models and tools is redacted, but still untrusted: only `ForeignText`
// renders it.

import type { SlimEvent } from '@kernmantle/core/journal';
import type { openMemory, ProjectSchedules } from '@kernmantle/core/runtime';

export type { SlimEvent };

/** Output of an action of core that succeeds. */
type OutputOf<Act extends (...values: never[]) => Promise<unknown>> = Extract<
  Awaited<ReturnType<Act>>,
  { ok: true }
>['output'];
export type ShownSchedule = OutputOf<ProjectSchedules['list']>[number];
export type Tone = NonNullable<SlimEvent['tone']>;

export type WebRole = 'view' | 'steer' | 'approve';

/** Any JSON value. `JsonView` renders it on the page. */
export type Data =
  | null
  | boolean
  | number
  | string
  | readonly Data[]
  | { readonly [name: string]: Data };
export type DataObject = { readonly [name: string]: Data };

/** Answer of `GET me`, and of `POST session` without the `key`. */
export interface Me {
  readonly who: string;
  readonly role: WebRole;
  /** Name and path of the project folder. */
  readonly project: string;
  readonly path: string;
  readonly version: string;
  readonly currency: string;
  /** True if machines share the store and workers run the threads. */
  readonly fleet: boolean;
  readonly expires: number;
}

/** A limit and its use. Money is in the currency of `Me`, time in seconds. */
export interface LimitMeter {
  /** Name of the limit: `spend`, `turns`, `tokens`, `duration_seconds`, `tool_calls`, `spawns`, … */
  readonly name: string;
  readonly used: number;
  readonly reserved: number;
  readonly max?: number;
  /** Source of the limit: directive, policy, bundle, caller, `raised by …`. */
  readonly from?: string;
  readonly raised_from?: number;
}

/** A thread as every list shows it. */
export interface ListedRun {
  readonly id: string;
  readonly parent?: string;
  readonly root: string;
  readonly depth: number;
  readonly kind: 'thread' | 'hook';
  readonly directive: string;
  readonly version: string;
  readonly runner: string;
  readonly detached: boolean;
  /** Title of the run, at most 80 characters. Untrusted. Absent: it has no message and no text input. */
  readonly title?: string;
  readonly status: string;
  /** Number of events in the journal. */
  readonly seq: number;
  readonly attempt: number;
  readonly created: number;
  readonly updated: number;
  readonly ended?: number;
  /** Same fields as in `--json`: turns, tokens, tool_calls, spend (text), duration_seconds, estimated. */
  readonly cost: DataObject;
  readonly meters: readonly LimitMeter[];
  readonly denied: number;
  /** Number of other calls that failed after all retries. */
  readonly failed: number;
  /** Number of pending approval requests of this thread, without its children. */
  readonly due: number;
  /** Current activity: a tool, `reply`, or the kind of pending request. A name, never untrusted text. */
  readonly now?: string;
  /** Reason of the end (`thread_end.reason`) and its code. Untrusted. */
  readonly reason?: string;
  readonly code?: string;
  /** True if a process of this server runs the thread. */
  readonly here: boolean;
  /** Id of the worker that owns the lease (`host:process@…`). Absent without workers. Untrusted. */
  readonly worker?: string;
  /** Key of the queue (`queueKey`) if the thread waits for a worker. */
  readonly queue?: string;
}

export interface Totals {
  readonly waits: number;
  readonly at_work: number;
  readonly ended: number;
  readonly due: number;
}

/** `GET schedules`. `servers`: number of live processes that fire them. */
export interface ScheduleList {
  readonly rows: readonly ShownSchedule[];
  readonly servers: number;
}

/** `GET threads`. Newest first. Running children of a listed parent are included. */
export interface ThreadList {
  readonly rows: readonly ListedRun[];
  readonly totals: Totals;
  readonly directives: readonly string[];
  readonly next_cursor?: string;
  /** A stream that starts at this position continues the list without a gap. */
  readonly position: string;
}

/** A right that the thread got at its start or by an approval, and its use. */
export interface RightUse {
  /** Same text as in `explain`: `fs.read notes/**`. */
  readonly name: string;
  readonly capability: string;
  readonly scope: DataObject;
  readonly uses: number;
  readonly refused: number;
  readonly state: 'used' | 'unused' | 'asks' | 'approved';
  /** Parts that a policy removed from the right. */
  readonly capped?: readonly string[];
  /** Only for an approved right: remaining uses, end time, and the person who approved it. */
  readonly left?: number;
  readonly until?: number;
  readonly by?: string;
}

export interface ThreadView {
  readonly thread: ListedRun;
  readonly inputs: Data;
  readonly result?: Data;
  /** Outputs of an ended thread. Absent: it has none. Untrusted. */
  readonly outputs?: Data;
  /** The last reply, at most 20,000 characters. Absent: no reply yet. Untrusted. */
  readonly reply?: string;
  readonly model: string;
  /** `explain --thread`: items by hash and key, permissions, policies, guards, rules, by, sandbox. */
  readonly ran: DataObject;
  readonly rights: readonly RightUse[];
  /** Pending approval requests of this thread and of all its descendants. */
  readonly due: readonly ListedApproval[];
  readonly children: readonly ListedRun[];
  /** Actions that the current status allows. */
  readonly acts: readonly WebAction[];
  /** Highest value that each limit can be raised to, and the source of that ceiling. */
  readonly ceilings: { readonly [limit: string]: { readonly max: number; readonly from: string } };
  /** Highest possible cost of the next turn. Absent if it cannot be computed. */
  readonly worst_turn?: number;
  readonly position: string;
}

export type WebAction =
  | 'pause'
  | 'resume'
  | 'inject'
  | 'interrupt'
  | 'compact'
  | 'stop'
  | 'kill'
  | 'replay'
  | 'fork';

/**
 * `GET threads/ID/events`, oldest first: events after `after`, or the last ones before `before`.
 * Without both it returns the newest.
 */
export interface EventPage {
  readonly events: readonly SlimEvent[];
  /** Seqs of the first and the last event of the journal; 0 if it is empty. */
  readonly first: number;
  readonly last: number;
}

/** A piece of a long text. `GET …?offset=next` returns the next piece; no `next` means the end. */
export interface LongText {
  readonly text: string;
  readonly bytes: number;
  readonly offset: number;
  readonly next?: number;
}

export interface ArgumentView {
  readonly name: string;
  /** Exact text of the argument, or its start if `is_cut`. */
  readonly text: string;
  readonly bytes: number;
  readonly is_cut: boolean;
  readonly labels: readonly string[];
  /** `from directive`, `from the user`, `from the model`, `field of a trusted result`, … */
  readonly origin: string;
  /** Role of the argument: destination, path, command, content. */
  readonly role?: string;
}

/** The gates of a call in their order: right, limits, policy, run. */
export interface Gate {
  readonly stage: 'right' | 'limits' | 'policy' | 'run';
  readonly state: 'passed' | 'refused' | 'asks' | 'not reached' | 'failed' | 'open' | 'unknown';
  readonly by: string;
}

export interface EventDetail {
  /** The event as JSON. A long event is `{}` here, and `raw` has its text in pieces. */
  readonly event: Data;
  readonly raw: LongText;
  /** The part that a person reads: arguments, the result, a message. */
  readonly content?: LongText;
  /** Seqs of the call, its denial and its result, if the event is one of them. */
  readonly call?: { readonly call?: number; readonly denied?: number; readonly result?: number };
  readonly arguments?: readonly ArgumentView[];
  readonly gates?: readonly Gate[];
  /** Outcome in one line, without untrusted text: `Denied before anything was sent`. */
  readonly verdict?: string;
  /** Message of the fault. Untrusted. Absent: no fault. */
  readonly why?: string;
  /** Only for a hook: its condition in the current version of the directive. */
  readonly when?: string;
  /** Remedies, including the line to add. */
  readonly ways?: readonly string[];
  readonly artifacts?: readonly string[];
  /** Command of the terminal that shows the same. */
  readonly command: string;
}

export interface ProvenanceStep {
  readonly id: number;
  readonly operation: string;
  readonly place: { readonly file: string | null; readonly line: number | null };
  readonly labels: readonly string[];
  readonly sources: readonly string[];
  /** Ids of earlier steps that are its inputs. */
  readonly from: readonly number[];
  /** Seq of the event that the step represents. */
  readonly seq?: number;
}

/** `GET threads/ID/provenance`: same fields as `km provenance --json`. */
export interface ProvenanceView {
  readonly subject: string;
  readonly refusal: Data;
  readonly labels: readonly string[];
  readonly sources: readonly string[];
  readonly from: readonly number[];
  readonly nodes: readonly ProvenanceStep[];
}

type ApprovalKinds = 'call' | 'capability' | 'limit' | 'question';

/** `GET approvals`: same fields as `approvals ls --json`, and more for lists. */
export interface ListedApproval {
  readonly id: string;
  readonly kind: ApprovalKinds;
  readonly state: 'pending' | 'approved' | 'denied' | 'expired' | 'used';
  readonly thread?: string;
  /** Title of the requesting thread. Untrusted. */
  readonly thread_title?: string;
  readonly directive?: string;
  /** Short name of the call or right: tool and target. Untrusted. */
  readonly title: string;
  /** Rule, guard or tier that requires the approval. */
  readonly rule?: string;
  readonly shown: DataObject;
  readonly uses: number;
  readonly asked: number;
  readonly expires?: number;
  readonly decided?: number;
  readonly who?: string;
  readonly channel?: string;
  readonly why?: string;
  /** Digest of `shown`. The client sends it with its decision. Its first digits are `mark`: `7F3A-91C2`. */
  readonly digest: string;
  readonly mark: string;
}

/** `GET approvals?state&thread`: oldest first. `state=decided` returns the latest requests that are not pending. */
export interface ApprovalList {
  readonly approvals: readonly ListedApproval[];
  /** A stream that starts at this position continues the list without a gap. */
  readonly position: string;
}

export type DecisionWord = 'once' | 'value' | 'scope' | 'deny' | 'answer';

export interface ApprovalReview {
  readonly approval: ListedApproval;
  readonly tool?: string;
  readonly effect?: string;
  readonly tier?: string;
  /** An argument that `is_cut` is read in pieces from `GET approvals/ID/argument?name=NAME&offset=N` (`LongText`). */
  readonly arguments: readonly ArgumentView[];
  readonly gates: readonly Gate[];
  readonly provenance?: ProvenanceView;
  /** Only for a capability: the grant, and the line that would declare it. */
  readonly grant?: { readonly name: string; readonly line: string; readonly beyond: boolean };
  /** Only for a call: arguments with untrusted sources, and their position in the text that was read. Untrusted. */
  readonly tainted?: readonly {
    readonly name: string;
    readonly labels: readonly string[];
    readonly from: readonly string[];
    readonly place?: string;
    readonly excerpt?: string;
  }[];
  /** Only for a call: earlier calls of the same tool by threads of this directive, the latest first. */
  readonly before?: readonly {
    readonly at: string;
    readonly thread: string;
    /** True if the steering arguments had the same values. */
    readonly same?: boolean;
    readonly came_to: string;
  }[];
  readonly limit?: {
    readonly name: string;
    readonly now: number;
    readonly asked: number;
    readonly ceiling?: number;
    readonly from?: string;
  };
  /** Text of the question; for a changed directive also the proposed text. Untrusted. */
  readonly question?: string;
  /** Unified diff of a write to a file, against its content at the time of the request. Untrusted. */
  readonly diff?: string;
  /** Reason of the request, from the fault. Untrusted. */
  readonly because?: string;
  /** Text of the model reply that contains the call. Untrusted. */
  readonly says?: string;
  readonly rights: readonly RightUse[];
  readonly meters: readonly LimitMeter[];
  readonly turn?: number;
  readonly seq?: number;
  /** Allowed decisions, the safe one last. `named` lists the arguments that `value` would fix. */
  readonly choices: readonly DecisionWord[];
  readonly named?: readonly string[];
}

export interface DecisionRequest {
  readonly decision: DecisionWord;
  readonly digest: string;
  readonly uses?: number;
  readonly for_seconds?: number;
  /** Only with `scope`, for a call: allowed path or address, `GLOB` or `NAME=GLOB`. */
  readonly glob?: string;
  readonly beyond?: boolean;
  readonly why?: string;
  readonly answer?: string;
}

export interface ResumeRequestBody {
  readonly limits?: { readonly [limit: string]: number | string };
  readonly model?: string;
  readonly message?: string;
  readonly from?: number | 'last';
  readonly why?: string;
  readonly attach?: readonly UploadedFile[];
}

/** A file of `POST uploads` for a thread. `trusted`: the person vouches for it, with the role `approve`. */
export interface UploadedFile {
  readonly upload: string;
  readonly trusted?: boolean;
  /** The file is a text that the person pasted. */
  readonly paste?: boolean;
}

/** `POST threads/ID/fork`: starts a new thread that continues at a boundary of this one. */
export interface ForkRequestBody extends Omit<ResumeRequestBody, 'from'> {
  /** Number of an event, `turn:N` or `last`. Absent: `last`. */
  readonly at?: number | `turn:${number}` | 'last';
}

/** `POST threads/ID/inject`: adds a message before the next turn. */
export interface InjectRequestBody {
  readonly text: string;
  readonly role: 'user' | 'system';
}

/** `POST threads/ID/pause`, `interrupt`, `stop` and `kill`. */
export interface SignalRequestBody {
  readonly reason?: string;
  /** Only for `interrupt`: message to the model that replaces the interrupted reply. */
  readonly text?: string;
}

/** Answer of `POST threads/ID/replay`, same fields as `km replay --json`. */
export interface ReplayView {
  readonly isSame: boolean;
  /** Number of equal events, and number of recorded events. */
  readonly same: number;
  readonly recorded: number;
  readonly status?: string;
  /** First event that differs, on both sides. Null: that side has already ended. Untrusted. */
  readonly difference?: {
    readonly seq: number;
    readonly recorded: Data;
    readonly replayed: Data;
  };
}

export interface RunRequestBody {
  readonly directive: string;
  readonly inputs: DataObject;
  readonly limits?: { readonly [limit: string]: number | string };
  readonly model?: string;
  readonly message?: string;
  readonly attach?: readonly UploadedFile[];
  /** A conversation, which later messages continue. */
  readonly chat?: boolean;
}

/** Answer of an action on a thread. */
export interface ActionResult {
  readonly thread_id: string;
  readonly kind: string;
  readonly status: string;
}

/** `GET threads/ID/cost`: cost per turn. Hooks are separate. */
export interface ThreadCostView {
  readonly turns: readonly {
    readonly turn: number;
    readonly seq: number;
    readonly ts: number;
    readonly model: string;
    readonly price_row: string;
    readonly input: number;
    readonly cached: number;
    readonly output: number;
    readonly spend: number;
    readonly estimated: boolean;
  }[];
  readonly hooks: readonly RunCost[];
  readonly children: readonly RunCost[];
  /** `summaries`: the part of `spend` for summaries of old turns. Absent: none. */
  readonly total: Pick<RunCost, 'spend' | 'tokens'> & { readonly summaries?: number };
}

interface RunCost {
  readonly thread: string;
  readonly directive: string;
  readonly spend: number;
  readonly tokens: number;
}

export interface CostGroup {
  readonly name: string;
  readonly threads: number;
  readonly tokens: number;
  readonly spend: string;
  /** The part of `spend` for summaries of old turns. Absent: none. */
  readonly summaries?: string;
  /** Only in groups by directive. `hook`: cost of its runs as a hook of other threads. */
  readonly kind?: 'hook';
  /** Only in groups by directive: number of refusals, and of runs that ended at a limit. */
  readonly denied?: number;
  readonly at_limit?: number;
  /** Only in groups by model. `input` does not include tokens from a cache. */
  readonly requests?: number;
  readonly input?: number;
  readonly cached?: number;
  readonly output?: number;
  readonly price_row?: string;
  /** Only in groups by day: cost of each model. */
  readonly models?: readonly { readonly name: string; readonly spend: string }[];
  readonly estimated?: boolean;
}

/** `GET cost?since=30d`: `km cost --json`, each group with its `name`; `since` is an age or milliseconds since 1970. */
export interface CostReport {
  readonly currency: string;
  readonly since: number;
  readonly total: CostGroup;
  readonly by_directive: readonly CostGroup[];
  readonly by_model: readonly CostGroup[];
  readonly by_day: readonly CostGroup[];
}

/** One entry of `GET items`, with the fields of `search --json`. */
export interface ListedItem {
  readonly item_type: 'directive' | 'tool' | 'knowledge';
  readonly item_id: string;
  readonly title?: string;
  readonly summary?: string;
  readonly version?: string;
  readonly source?: string;
  readonly signature: string;
  readonly unavailable?: string;
}

/** `GET items?q&kind&cursor`: at most 100 items. */
export interface ItemList {
  readonly items: readonly ListedItem[];
  /** True if there are more items than listed. */
  readonly has_more: boolean;
  readonly next_cursor?: string;
  readonly total?: number;
}

export interface ItemInput {
  readonly name: string;
  readonly type: string;
  readonly required: boolean;
  readonly default?: Data;
  readonly enum?: readonly Data[];
  readonly description?: string;
}

/** `GET items/KIND/ID`: output of `show` and `explain` for the item. */
export interface ItemView {
  readonly item: DataObject;
  readonly signature: DataObject;
  /** Current text of the file, for directives and knowledge. Untrusted. */
  readonly body?: LongText;
  readonly file?: string;
  readonly inputs: readonly ItemInput[];
  /** `explain --json` of a directive or a tool. */
  readonly explained?: DataObject;
  readonly can_run: boolean;
  /** Reasons why the item cannot run, one line each. */
  readonly missing: readonly string[];
  readonly steps: readonly string[];
  readonly runs: number;
  readonly denied: number;
  readonly limits: readonly LimitMeter[];
  /** Tiers and model ids that a run can choose, tiers first. */
  readonly models: readonly string[];
}

/** One entry of `GET scripts`: a file of the project that `km script` can run. */
export interface ListedScript {
  readonly id: string;
  readonly file: string;
  readonly bytes: number;
}

export interface ScriptList {
  readonly scripts: readonly ListedScript[];
  /** True if the project is too large for a complete search. */
  readonly has_more?: boolean;
}

/** `GET scripts/ID`. The answer of `POST scripts/ID/run {payload}` also has the outcome in `run`. */
export interface ScriptDocument {
  readonly id: string;
  readonly file: string;
  /** Source text of the file. Readers treat it as untrusted. */
  readonly document: string;
  readonly run?: {
    readonly outcome: string;
    readonly exit_code: number;
    /** True if the script had more than 1,000 effects. Each listed text has at most 64 KB. */
    readonly has_more?: boolean;
    readonly effects: readonly {
      readonly kind: string;
      readonly text: string;
      readonly target?: string;
      readonly labels: readonly string[];
      readonly line: number | null;
    }[];
    readonly fault?: {
      readonly code: string;
      readonly message: string;
      readonly line?: number;
      readonly column?: number;
      /** Only for `needs_input`: id of the approval that must be decided before the next run. */
      readonly approval?: string;
    };
    readonly provenance?: ProvenanceView;
  };
}

/** `GET health`: `doctor --json`, with the store and the streams. */
export interface HealthView {
  readonly healthy: boolean;
  readonly findings: readonly {
    readonly about: string;
    readonly state: 'good' | 'note' | 'bad';
    readonly message: string;
    readonly fix?: string;
  }[];
  readonly server: {
    readonly version: string;
    readonly started: number;
    readonly streams: number;
    readonly sockets: number;
    readonly running: number;
    readonly lag_ms: number;
    readonly memory_mb: number;
  };
}

/** `GET memory`: the newest texts that threads kept. All texts can be untrusted. */
export interface MemoryView {
  readonly memories: OutputOf<Awaited<ReturnType<typeof openMemory>>['list']>;
  readonly total: number;
}

/** A worker, as it registered itself. All its texts are untrusted. */
export interface FleetWorker {
  readonly id: string;
  readonly host: string;
  readonly version: string;
  readonly slots: number;
  /** Number of threads that it owns the lease of. */
  readonly busy: number;
  /** Empty: the worker takes threads without a tenant. */
  readonly tenants: readonly string[];
  readonly projects: readonly { readonly project: string; readonly items: string }[];
  /** True if the worker takes no new threads and finishes its own. */
  readonly draining: boolean;
  readonly memory: number;
  /** Difference of its clock to the clock of the store, in milliseconds. */
  readonly clock_off: number;
  /** Start of the worker, and in `heartbeat` its last heartbeat, by the clock of the store. */
  readonly started: number;
  readonly heartbeat: number;
  /** True if heartbeats stopped. Other workers get its threads. The view lists it for ten minutes. */
  readonly gone: boolean;
}

/** Waiting threads for a worker that has this project with these items. */
export interface FleetQueue {
  readonly tenant: string;
  readonly project: string;
  readonly items: string;
  readonly ready: number;
  readonly later: number;
  /** Start of the longest wait, by the clock of the store. */
  readonly oldest: number;
  readonly served_by: number;
}

/** A thread of this project with a lease, and the worker that owns it. */
export interface FleetHold {
  readonly thread: string;
  readonly directive: string;
  readonly status: string;
  readonly worker: string;
  /** End of the lease by the clock of the store. A live worker renews it every few seconds. */
  readonly lease_until: number;
}

/** A limit over all machines. Money is in the currency of `Me`. */
export interface FleetLimit {
  readonly scope: string;
  readonly concurrent?: number;
  readonly requests_per_minute?: number;
  readonly tokens_per_minute?: number;
  readonly spend_per_day?: number;
}

export interface FleetState {
  /** Address of the store without its password. */
  readonly place: string;
  /** Time of the store at this read. `heartbeat`, `oldest` and `lease_until` use the same clock. */
  readonly now: number;
  /** This project, in the form that workers register. */
  readonly own: { readonly project: string; readonly items: string } | null;
  readonly workers: readonly FleetWorker[];
  readonly queues: readonly FleetQueue[];
  /** At most 200 threads with a lease, the latest first. */
  readonly held: readonly FleetHold[];
  readonly limits: readonly FleetLimit[];
}

export interface FleetView {
  /** Null: the store is a file, and threads run in the process of the server. */
  readonly fleet: FleetState | null;
  /** A stream that starts at this position continues the view without a gap. */
  readonly position: string;
}

/** A frame of a stream. `id` is the position; `text` and `reset` have none. */
export type StreamFrame =
  | {
      readonly kind: 'batch';
      /** Complete rows; the last one of an id wins. */
      readonly threads?: readonly ListedRun[];
      readonly totals?: Totals;
      readonly approvals?: readonly ListedApproval[];
      readonly fleet?: FleetState;
      readonly events?: readonly {
        readonly thread: string;
        readonly events: readonly SlimEvent[];
      }[];
    }
  /** A piece of the current reply. It can be dropped, and `assistant_message` replaces it. */
  | { readonly kind: 'text'; readonly thread: string; readonly text: string }
  /** Frames were dropped: read the snapshot of this topic again, and events from `after` on. */
  | { readonly kind: 'reset'; readonly topic: string; readonly after?: number };

/** A topic is `threads`, `approvals`, `fleet` or `thread:ID`. */
export type Topic = string;
