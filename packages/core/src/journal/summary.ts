// Computes the state of a thread for lists, live views and exit codes: why it stopped, what runs now, its limits.
import { getOwn, type JsonObject } from '../base/index.ts';
import type { ThreadStatus } from '../store/index.ts';
import { eventFlags } from './event-facts.ts';
import type { DataOf } from './events.ts';
import { type Projection, withPart } from './projection.ts';
import type { Recorded } from './read-journal.ts';

interface SummaryState {
  /** Number of the last event that changed the state. */
  readonly seq: number;
  readonly status: ThreadStatus | undefined;
  /** Reason for which the thread stopped, for people. Undefined while it runs. */
  readonly reason: string | undefined;
  readonly cause: DataOf<'status'>['cause'] | undefined;
  /** Code of the fault that ended the thread. Undefined: no fault ended it. */
  readonly code: string | undefined;
  /** Current turn of the attempt. 0: the attempt has no turn yet. */
  readonly turn: number;
  readonly isReplying: boolean;
  /** True until the last request has a reply or a call. It stays true if the request fails. */
  readonly isUnanswered: boolean;
  /** The tools of calls without a result, by call id, in the order of their intents. */
  readonly openCalls: ReadonlyMap<string, string>;
  readonly denied: number;
  /** Limits that the caller set at the start, with those that people set since. */
  readonly limitsSet: JsonObject;
  /** Limits in force, including those that hooks raised. */
  readonly limits: JsonObject;
  /** The first value of each limit that was changed. */
  readonly raisedFrom: JsonObject;
  readonly endedAt: number | undefined;
}

type SummaryChange = Partial<SummaryState>;
const NOT_STOPPED = { reason: undefined, cause: undefined, code: undefined, endedAt: undefined };

/** Returns the change that puts these entries in force. */
function withLimits({ limits, raisedFrom }: SummaryState, entries: JsonObject): SummaryChange {
  const first: JsonObject = {};
  for (const [name, entry] of Object.entries(entries)) {
    const [before, now] = [getOwn(limits[name], 'value'), getOwn(entry, 'value')];
    if (before !== undefined && now !== undefined && before !== now) first[name] = before;
  }
  return { limits: { ...limits, ...entries }, raisedFrom: { ...first, ...raisedFrom } };
}

const withLimitsSet = (state: SummaryState, limits: JsonObject): SummaryState => ({
  ...state,
  limitsSet: { ...state.limitsSet, ...limits },
  ...withLimits(state, limits),
});

/** Returns the limits that a hook raised. Its event has all limits, some without the reserve of hooks. */
function raisedBy({ limits }: SummaryState, { directive, limits: all = {} }: DataOf<'hook'>) {
  const raised: JsonObject = {};
  for (const [name, entry] of Object.entries(all)) {
    const value = getOwn(entry, 'value');
    if (getOwn(entry, 'from') !== 'hook' || value === undefined) continue;
    if (value !== getOwn(limits[name], 'value'))
      raised[name] = { value, from: `raised by ${directive}` };
  }
  return raised;
}

function withCall(state: SummaryState, id: string, tool?: string): SummaryChange {
  if (tool === undefined && !state.openCalls.has(id)) return {};
  const openCalls = new Map(state.openCalls);
  openCalls.delete(id);
  if (tool !== undefined) openCalls.set(id, tool);
  return { openCalls };
}

/** Returns the fields that the role of an event in its turn changes. */
function turnPart(event: Recorded): SummaryChange {
  switch (eventFlags(event.type).turn) {
    case 'begins':
      return { isReplying: true, isUnanswered: true, turn: event.turn, endedAt: undefined };
    case 'replies':
      return 'injected' in event.data
        ? { isUnanswered: false }
        : { isReplying: false, isUnanswered: false };
    case 'calls':
      return { isUnanswered: false };
    case 'ends':
    case 'fails':
      return { isReplying: false };
    default:
      return {};
  }
}

function ownPart(state: SummaryState, event: Recorded): SummaryChange {
  switch (event.type) {
    case 'thread_start':
      return withLimitsSet(state, event.data.limits);
    case 'status': {
      const { status, reason, cause } = event.data;
      if (status === 'running') return { status, ...NOT_STOPPED };
      return { status, cause, ...(reason && { reason }) };
    }
    case 'thread_end': {
      const { status, reason, code } = event.data;
      return { status, reason: reason || undefined, code, endedAt: event.ts };
    }
    case 'tool_call':
      return withCall(state, event.data.call_id, event.data.tool);
    case 'tool_result':
      return withCall(state, event.data.call_id);
    case 'fork':
      return {
        ...withLimitsSet(
          { ...state, limitsSet: {}, limits: {}, raisedFrom: {} },
          event.data.limits,
        ),
        ...NOT_STOPPED,
        status: 'running',
        denied: 0,
        openCalls: new Map(),
      };
    case 'permission_denied':
      return { denied: state.denied + 1 };
    case 'retry':
      return event.data.attempt === undefined ? {} : { turn: 0, openCalls: new Map() };
    case 'hook':
      return event.data.limits ? withLimits(state, raisedBy(state, event.data)) : {};
    case 'signal':
      return event.data.limits ? withLimitsSet(state, event.data.limits) : {};
    default:
      return {};
  }
}

const projection: Projection<SummaryState> = {
  name: 'summary',
  initial: () => ({
    seq: 0,
    status: undefined,
    ...NOT_STOPPED,
    turn: 0,
    isReplying: false,
    isUnanswered: false,
    openCalls: new Map(),
    denied: 0,
    limitsSet: {},
    limits: {},
    raisedFrom: {},
  }),
  apply(state, event) {
    if (event.seq <= state.seq) return state;
    const next = withPart(state, { ...turnPart(event), ...ownPart(state, event) });
    return next === state ? state : { ...next, seq: event.seq };
  },
};

/** `withLimitsSet` is for a reader that skips events. The registry has the limits of the skipped events. */
export const summary = { ...projection, withLimitsSet };
