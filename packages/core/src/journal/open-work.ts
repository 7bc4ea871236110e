// Computes the work of a thread that is open after its last event: calls without a result, requests without an
// answer, hooks without a decision, and children without an end. A process that resumes the thread continues it.
import { type Json, plainText } from '../base/index.ts';
import { eventFlags } from './event-facts.ts';
import type { Projection } from './projection.ts';
import { PASSED_HOOK, type Recorded, type RecordedOf } from './read-journal.ts';
import type { HookStart, Marks } from './shapes.ts';

/** A call since the last reply of the model that has an intent without a result. */
interface OpenCall {
  readonly id: string;
  readonly intent: RecordedOf<'tool_call'>;
  /** The number of the first intent since the last result of the call. */
  readonly since: number;
}
/** A call that failed too often, with its result. Its approval request is pending. */
interface EscalatedNote {
  readonly approval: string;
  readonly held: Json;
  readonly marks?: Marks;
}

/** The part of the state that a rewind restores. */
interface Undoable {
  readonly calls: ReadonlyMap<string, OpenCall>;
  /** Calls with an approval request whose answer was not used, with the number of its event. */
  readonly asked: ReadonlyMap<string, number>;
  /** Number of a reply that hooks can still withhold. Absent: no reply is open. */
  readonly openReply?: number;
  /** Hooks without a decision, by the ids of their threads. */
  readonly hooks: ReadonlyMap<string, HookStart>;
  readonly approvals: ReadonlyMap<string, EscalatedNote>;
}

export interface OpenWork extends Undoable {
  /** Number of the last event that changed the state. */
  readonly seq: number;
  /** Requests that were sent and not answered: the keys of their reservations, with their turns. */
  readonly requests: ReadonlyMap<string, number>;
  /** The last request. `n`: its number among the counted turns. A request that failed is not answered. */
  readonly lastRequest?: {
    readonly turn: number;
    readonly n: number | undefined;
    readonly isAnswered: boolean;
  };
  /** Children that the thread spawned and whose end is not in its journal. */
  readonly children: ReadonlySet<string>;
  /** The state at each snapshot. A rewind goes back to one of them. */
  readonly snapshots: readonly { readonly seq: number; readonly state: Undoable }[];
}

const withEntry = <T>(map: ReadonlyMap<string, T>, key: string, value: T): ReadonlyMap<string, T> =>
  new Map(map).set(key, value);

function dropEntries<T>(
  map: ReadonlyMap<string, T>,
  isLeftOut: (value: T, key: string) => boolean,
): ReadonlyMap<string, T> {
  const rest = [...map].filter(([key, value]) => !isLeftOut(value, key));
  return rest.length === map.size ? map : new Map(rest);
}

/** Returns the state without the calls before event `seq`, a reply of the model. */
function since(state: OpenWork, seq: number): OpenWork {
  const { openReply: _, ...rest } = state;
  return {
    ...rest,
    calls: dropEntries(state.calls, ({ intent }) => intent.seq <= seq),
    asked: dropEntries(state.asked, (question) => question <= seq),
  };
}

/** Applies an event that stays in force after a rewind, so it also changes the state of each snapshot. */
function applyLasting<State extends Undoable>(state: State, event: Recorded): State {
  if (event.type === 'hook') {
    const { thread_id } = event.data;
    return thread_id !== undefined && state.hooks.has(thread_id)
      ? { ...state, hooks: dropEntries(state.hooks, (_, id) => id === thread_id) }
      : state;
  }
  if (event.type !== 'approval' || event.data.kind !== 'question') return state;
  const { approval, held, marks, call_id } = event.data;
  if (held === undefined || call_id === undefined) return state;
  const note = { approval, held, ...(marks && { marks }) };
  return { ...state, approvals: withEntry(state.approvals, call_id, note) };
}

function applyResult(state: OpenWork, { data }: RecordedOf<'tool_result'>): OpenWork {
  const { call_id: call } = data;
  const hooks = dropEntries(state.hooks, (start) => start.call_id === call);
  const isKnown = state.calls.has(call) || state.approvals.has(call);
  if (!isKnown && hooks === state.hooks) return state;
  return {
    ...state,
    hooks,
    calls: dropEntries(state.calls, (_, id) => id === call),
    approvals: dropEntries(state.approvals, (_, id) => id === call),
  };
}

/** Applies the approval request of a call. Only the state `used` removes the request. */
function applyQuestion(state: OpenWork, { seq, data }: RecordedOf<'approval'>): OpenWork {
  if (data.kind !== 'call' || data.action !== 'ask') return state;
  const { call_id: call } = data;
  if (data.state === 'pending') return { ...state, asked: withEntry(state.asked, call, seq) };
  return data.state === 'used' && state.asked.has(call)
    ? { ...state, asked: dropEntries(state.asked, (_, id) => id === call) }
    : state;
}

function applyReply(state: OpenWork, { seq, data }: RecordedOf<'assistant_message'>): OpenWork {
  if (data.injected) return since(state, seq);
  if (data.apart || data.withheld) return state;
  return data.open ? { ...state, openReply: seq } : since(state, seq);
}

/** Applies an event to calls, hooks and approvals, which a rewind restores. */
function applyUndoable(state: OpenWork, event: Recorded): OpenWork {
  switch (event.type) {
    case 'assistant_message':
      return applyReply(state, event);
    case 'turn_end': {
      const { openReply, ...rest } = state;
      if (openReply === undefined) return state;
      return event.data.done ? since(state, openReply) : rest;
    }
    case 'tool_call': {
      const id = event.data.call_id;
      const first = state.calls.get(id)?.since ?? event.seq;
      const call = { id, intent: event, since: first };
      return { ...state, calls: withEntry(state.calls, id, call) };
    }
    case 'tool_result':
      return applyResult(state, event);
    case 'approval':
      return applyQuestion(state, event);
    case 'hook_start': {
      const { data } = event;
      return { ...state, hooks: withEntry(state.hooks, data.thread_id, data) };
    }
    case 'error': {
      const thread = plainText(event.data.detail.thread ?? '');
      return PASSED_HOOK.has(event.data.code) && state.hooks.has(thread)
        ? { ...state, hooks: dropEntries(state.hooks, (_, id) => id === thread) }
        : state;
    }
    default:
      return state;
  }
}

/** Returns true if a request has no answer: it failed, or its process cancelled it at its end. */
const isBrokenOff = ({ type, data }: Recorded): boolean =>
  type === 'error' ||
  (type === 'stream_error' && data.code !== undefined) ||
  (type === 'turn_end' && 'failed' in data);

function applyRequest(state: OpenWork, event: Recorded): OpenWork {
  const { type, turn, data } = event;
  if (type === 'turn_start') {
    const lastRequest = { turn, n: data.n, isAnswered: false };
    return { ...state, lastRequest, requests: withEntry(state.requests, data.key, turn) };
  }
  if (type === 'cost_update') {
    const isCharged = 'charged_unread' in data && state.requests.size > 0;
    return isCharged ? { ...state, requests: new Map() } : state;
  }
  const role = eventFlags(type).turn;
  if (role === undefined || role === 'calls') return state;
  const isEnd = type === 'turn_end' || (type === 'assistant_message' && !data.injected);
  const requests = isEnd ? dropEntries(state.requests, (of) => of === turn) : state.requests;
  const { lastRequest } = state;
  const isAnswered = lastRequest?.isAnswered === false && !isBrokenOff(event);
  if (!isAnswered && requests === state.requests) return state;
  return {
    ...state,
    requests,
    ...(isAnswered && { lastRequest: { ...lastRequest, isAnswered } }),
  };
}

function applyChild(state: OpenWork, { type, data }: Recorded): OpenWork {
  if (type === 'spawn') {
    return { ...state, children: new Set(state.children).add(data.thread_id) };
  }
  if (type !== 'child_end' || !state.children.has(data.thread_id)) return state;
  const children = new Set(state.children);
  children.delete(data.thread_id);
  return { ...state, children };
}

const NONE: Undoable = {
  calls: new Map(),
  asked: new Map(),
  hooks: new Map(),
  approvals: new Map(),
};

const undoableOf = ({ calls, asked, openReply, hooks, approvals }: OpenWork): Undoable => ({
  calls,
  asked,
  hooks,
  approvals,
  ...(openReply !== undefined && { openReply }),
});

/** Restores the state of the last snapshot that is not later than `from`. */
function rewind(state: OpenWork, from: number): OpenWork {
  const { openReply: _, ...rest } = state;
  const snapshots = state.snapshots.filter(({ seq }) => seq <= from);
  return { ...rest, ...(snapshots.at(-1)?.state ?? NONE), snapshots };
}

function applyLastingToAll(state: OpenWork, event: Recorded): OpenWork {
  const next = applyLasting(state, event);
  const snapshots = state.snapshots.map((one) => {
    const changed = applyLasting(one.state, event);
    return changed === one.state ? one : { ...one, state: changed };
  });
  const isSame = snapshots.every((one, at) => one === state.snapshots[at]);
  return isSame ? next : { ...next, snapshots };
}

const NOTHING_OPEN: OpenWork = {
  ...NONE,
  seq: 0,
  requests: new Map(),
  children: new Set(),
  snapshots: [],
};

function applyEvent(state: OpenWork, event: Recorded): OpenWork {
  const { type, data, seq } = event;
  // The open work of the source stays with the source.
  if (type === 'fork') return { ...NOTHING_OPEN };
  if (type === 'snapshot') {
    const snapshot = { seq, state: undoableOf(state) };
    return { ...state, snapshots: [...state.snapshots, snapshot] };
  }
  if (type === 'signal') {
    const isRewind = data.kind === 'resume' && data.from !== undefined;
    return isRewind ? rewind(state, data.from) : state;
  }
  const lasting = eventFlags(type).survivesRewind ? applyLastingToAll(state, event) : state;
  return applyChild(applyRequest(applyUndoable(lasting, event), event), event);
}

/**
 * A rewind restores calls, hooks and approvals. It does not restore requests and children, because they cost money
 * even if the conversation does not contain them.
 */
export const openWork: Projection<OpenWork> = {
  name: 'openWork',
  initial: () => NOTHING_OPEN,
  apply(state, event) {
    if (event.seq <= state.seq) return state;
    const next = applyEvent(state, event);
    return next === state ? state : { ...next, seq: event.seq };
  },
};
