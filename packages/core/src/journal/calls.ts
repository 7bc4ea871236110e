// The calls of a thread: for each call its reply, intents, denial, approval request and result, by the numbers of
// their events. The content of these events stays in the journal.
import { getOwn, isObject, type Json } from '../base/index.ts';
import { type Projection, project } from './projection.ts';
import type { Recorded, RecordedOf } from './read-journal.ts';

export interface Call {
  readonly id: string;
  readonly turn: number;
  /** The id of the tool, or the verb of a call that executes no tool. */
  readonly tool: string;
  /** The argument `action`, of a tool that has one. */
  readonly action?: string;
  readonly target?: string;
  /** The reply that requested the call. Absent: a script or the harness made it. */
  readonly reply?: number;
  /** An intent is recorded again when the call is made again. */
  readonly intents: readonly number[];
  /** The last denial. */
  readonly denial?: { readonly seq: number; readonly stage?: string };
  /** The denial that is in force. A call that was made again after its denial has none. */
  readonly deniedAt?: number;
  /** `waits`: a person was asked, and nobody used the answer since. */
  readonly approval?: { readonly id: string; readonly state: AskState; readonly waits: boolean };
  readonly result?: { readonly seq: number; readonly isError: boolean };
}
type AskState = 'pending' | 'used' | 'denied' | 'expired';

const BLOCK = 64;

/** Immutable. Calls are in blocks, so that a change copies one block instead of all calls. */
class CallState {
  readonly blocks: readonly ReadonlyMap<string, Call>[];
  /** The last event that changed the state. */
  readonly seq: number;
  /** How often each approved capability was used, by approval. A use that was returned does not count. */
  readonly uses: ReadonlyMap<string, number>;
  /** The block of each call. States that were made from one another share the map, so an entry can be wrong here. */
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

  /** All calls, in the order of their first events. */
  list(): Call[] {
    return this.blocks.flatMap((block) => [...block.values()]);
  }

  /** Changes a call, or adds it after the last one. */
  with(seq: number, call: Call): CallState {
    const known = this.#blockOf(call.id);
    const isFull = (this.blocks.at(-1)?.size ?? BLOCK) >= BLOCK;
    const at = known >= 0 ? known : this.blocks.length - (isFull ? 0 : 1);
    this.#index.set(call.id, at);
    const block = new Map(this.blocks[at]).set(call.id, call);
    return new CallState(this.blocks.toSpliced(at, 1, block), seq, this.uses, this.#index);
  }

  withUse(seq: number, approval: string, count: 1 | -1): CallState {
    const uses = new Map(this.uses).set(approval, (this.uses.get(approval) ?? 0) + count);
    return new CallState(this.blocks, seq, uses, this.#index);
  }
}

/** The call of an event, made if the event is the first one of its call. */
const callFor = (state: CallState, id: string, turn: number): Call =>
  state.find(id) ?? { id, turn, tool: '', intents: [] };

function actionIn(given: Json): { action?: string } {
  const inner = getOwn(given, 'parameters');
  const action = getOwn(isObject(inner) ? inner : given, 'action');
  return typeof action === 'string' ? { action } : {};
}

function toolIn(name: string, given: Json): string {
  const id = getOwn(given, 'item_id');
  return name === 'execute' && typeof id === 'string' ? id : name;
}

/** A call that is refused before its intent has no event but the reply. */
function applyReply(
  state: CallState,
  { seq, turn, data }: RecordedOf<'assistant_message'>,
): CallState {
  let next = state;
  for (const block of data.content) {
    if (block.type !== 'tool_call' || next.find(block.id)) continue;
    const { id, name, arguments: given } = block;
    const tool = toolIn(name, given);
    next = next.with(seq, { id, turn, tool, ...actionIn(given), reply: seq, intents: [] });
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
        const { call_id, tool, target, arguments: given } = event.data;
        const { deniedAt: _, ...call } = callFor(state, call_id, turn);
        return state.with(seq, {
          ...call,
          tool,
          ...actionIn(given),
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

/** A call with its last intent, its last denial and its result. */
export interface CallEvents {
  readonly call: Call;
  readonly intent?: RecordedOf<'tool_call'>;
  readonly denial?: RecordedOf<'permission_denied'>;
  readonly result?: RecordedOf<'tool_result'>;
}

/** The calls of a journal, by their ids. */
export function readCalls(events: readonly Recorded[]): ReadonlyMap<string, CallEvents> {
  const bySeq = new Map(events.map((event) => [event.seq, event]));
  const entries = project(calls, events)
    .list()
    .map((call): [string, CallEvents] => {
      const intent = bySeq.get(call.intents.at(-1) ?? 0);
      const denial = bySeq.get(call.denial?.seq ?? 0);
      const result = bySeq.get(call.result?.seq ?? 0);
      const found = {
        call,
        ...(intent?.type === 'tool_call' && { intent }),
        ...(denial?.type === 'permission_denied' && { denial }),
        ...(result?.type === 'tool_result' && { result }),
      };
      return [call.id, found];
    });
  return new Map(entries);
}

/** A call that has an intent. */
export type MadeCall = CallEvents & Required<Pick<CallEvents, 'intent'>>;

/** The calls of a journal that have an intent, in the order of their first intents. */
export const madeCalls = (events: readonly Recorded[]): MadeCall[] =>
  [...readCalls(events).values()]
    .flatMap((one) => (one.intent ? [{ ...one, intent: one.intent }] : []))
    .toSorted((a, b) => (a.call.intents[0] ?? 0) - (b.call.intents[0] ?? 0));
