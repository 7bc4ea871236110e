// Computes the calls of a thread. Each call has the numbers of the events of its reply, intents, denial, approval
// request and result. The content of these events stays in the journal.
import { getOwn, isObject, type Json } from '../base/index.ts';
import { type Projection, project } from './projection.ts';
import type { Recorded, RecordedOf } from './read-journal.ts';

export interface Call {
  readonly id: string;
  readonly turn: number;
  /** Id of the tool, or the verb of a call that executes no tool. */
  readonly tool: string;
  /** Argument `action` of the call. Absent: the call has no such argument. */
  readonly action?: string;
  readonly target?: string;
  /** Event of the reply that requested the call. Absent: a script or the harness made the call. */
  readonly reply?: number;
  /** Events of the intents. A repeated call has one more. */
  readonly intents: readonly number[];
  /** Last denial of the call. Absent: it was never denied. */
  readonly denial?: { readonly seq: number; readonly stage?: string };
  /** Event of the denial that is in force. Absent: the call was never denied, or was repeated since. */
  readonly deniedAt?: number;
  /** Last approval request of the call. `waits`: its answer was not used so far. */
  readonly approval?: { readonly id: string; readonly state: AskState; readonly waits: boolean };
  readonly result?: { readonly seq: number; readonly isError: boolean };
}
type AskState = 'pending' | 'used' | 'denied' | 'expired';

const BLOCK = 64;

/** The state is immutable. Calls are in blocks, so that a change copies one block instead of all calls. */
class CallState {
  readonly blocks: readonly ReadonlyMap<string, Call>[];
  /** Number of the last event that changed the state. */
  readonly seq: number;
  /** Number of uses of each approved capability, by approval. A returned use does not count. */
  readonly uses: ReadonlyMap<string, number>;
  /** Block of each call. States of one journal share the map, so an entry can be wrong for this state. */
  readonly #index: Map<string, number>;

  constructor(
    blocks: CallState['blocks'] = [],
    seq = 0,
    uses: CallState['uses'] = new Map(),
    index = new Map<string, number>(),
  ) {
    this.blocks = blocks;
    this.seq = seq;
    this.uses = uses;
    this.#index = index;
  }

  #blockOf(id: string): number {
    const at = this.#index.get(id) ?? -1;
    if (at < 0 || this.blocks[at]?.has(id)) return at;
    return this.blocks.findLastIndex((block) => block.has(id));
  }

  find(id: string): Call | undefined {
    return this.blocks[this.#blockOf(id)]?.get(id);
  }

  /** Returns all calls in the order of their first events. */
  list(): Call[] {
    return this.blocks.flatMap((block) => [...block.values()]);
  }

  /** Returns a state in which the call is replaced or added. */
  with(seq: number, call: Call): CallState {
    const index = this.#blockOf(call.id);
    const isFull = (this.blocks.at(-1)?.size ?? BLOCK) >= BLOCK;
    const at = index >= 0 ? index : this.blocks.length - (isFull ? 0 : 1);
    this.#index.set(call.id, at);
    const block = new Map(this.blocks[at]).set(call.id, call);
    return new CallState(this.blocks.toSpliced(at, 1, block), seq, this.uses, this.#index);
  }

  withUse(seq: number, approval: string, count: 1 | -1): CallState {
    const uses = new Map(this.uses).set(approval, (this.uses.get(approval) ?? 0) + count);
    return new CallState(this.blocks, seq, uses, this.#index);
  }
}

/** Returns the call of an event. The first event of a call creates it. */
const callFor = (state: CallState, id: string, turn: number): Call =>
  state.find(id) ?? { id, turn, tool: '', intents: [] };

function actionIn(args: Json): { action?: string } {
  const inner = getOwn(args, 'parameters');
  const action = getOwn(isObject(inner) ? inner : args, 'action');
  return typeof action === 'string' ? { action } : {};
}

function toolIn(name: string, args: Json): string {
  const id = getOwn(args, 'item_id');
  return name === 'execute' && typeof id === 'string' ? id : name;
}

/** Adds the calls of a reply, because a call that is refused before its intent has no other event. */
function applyReply(
  state: CallState,
  { seq, turn, data }: RecordedOf<'assistant_message'>,
): CallState {
  let next = state;
  for (const block of data.content) {
    if (block.type !== 'tool_call' || next.find(block.id)) continue;
    const { id, name, arguments: args } = block;
    const tool = toolIn(name, args);
    next = next.with(seq, { id, turn, tool, ...actionIn(args), reply: seq, intents: [] });
  }
  return next;
}

export const calls: Projection<CallState> = {
  name: 'calls',
  initial: () => new CallState(),
  apply(state, event) {
    const { seq, turn } = event;
    if (seq <= state.seq) return state;
    switch (event.type) {
      case 'assistant_message':
        return applyReply(state, event);
      case 'tool_call': {
        const { call_id, tool, target, arguments: args } = event.data;
        const { deniedAt: _, ...call } = callFor(state, call_id, turn);
        return state.with(seq, {
          ...call,
          tool,
          ...actionIn(args),
          ...(target !== undefined && { target }),
          intents: [...call.intents, seq],
        });
      }
      case 'permission_denied': {
        const { call_id } = event.data;
        if (call_id === undefined) return state;
        const call = callFor(state, call_id, turn);
        const stage = event.data.stage ?? call.denial?.stage;
        return state.with(seq, {
          ...call,
          denial: { seq, ...(stage && { stage }) },
          deniedAt: seq,
        });
      }
      case 'tool_result': {
        const { call_id, is_error: isError, tool } = event.data;
        const call = callFor(state, call_id, turn);
        return state.with(seq, { ...call, tool: tool ?? call.tool, result: { seq, isError } });
      }
      case 'approval': {
        const { data } = event;
        if (data.kind === 'capability' && (data.state === 'used' || data.state === 'returned'))
          return state.withUse(seq, data.approval, data.state === 'used' ? 1 : -1);
        if (data.kind !== 'call' || data.action !== 'ask') return state;
        const call = callFor(state, data.call_id, turn);
        const { approval: id, state: answer } = data;
        const waits = answer === 'pending' || (answer !== 'used' && call.approval?.waits === true);
        return state.with(seq, { ...call, approval: { id, state: answer, waits } });
      }
      default:
        return state;
    }
  },
};

/** A call with the events of its last intent, its last denial and its result. */
export interface CallEvents {
  readonly call: Call;
  readonly intent?: RecordedOf<'tool_call'>;
  readonly denial?: RecordedOf<'permission_denied'>;
  readonly result?: RecordedOf<'tool_result'>;
}

/** Returns the calls of a journal by their ids. */
export function readCalls(events: readonly Recorded[]): ReadonlyMap<string, CallEvents> {
  const bySeq = new Map(events.map((event) => [event.seq, event]));
  const entries = project(calls, events)
    .list()
    .map((call): [string, CallEvents] => {
      const intent = bySeq.get(call.intents.at(-1) ?? 0);
      const denial = bySeq.get(call.denial?.seq ?? 0);
      const result = bySeq.get(call.result?.seq ?? 0);
      const entry = {
        call,
        ...(intent?.type === 'tool_call' && { intent }),
        ...(denial?.type === 'permission_denied' && { denial }),
        ...(result?.type === 'tool_result' && { result }),
      };
      return [call.id, entry];
    });
  return new Map(entries);
}

/** A call whose intent is recorded. */
export type MadeCall = CallEvents & Required<Pick<CallEvents, 'intent'>>;

/** Returns the calls of a journal that have an intent, in the order of their first intents. */
export const madeCalls = (events: readonly Recorded[]): MadeCall[] =>
  [...readCalls(events).values()]
    .flatMap((one) => (one.intent ? [{ ...one, intent: one.intent }] : []))
    .toSorted((a, b) => (a.call.intents[0] ?? 0) - (b.call.intents[0] ?? 0));
