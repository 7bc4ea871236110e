// The calls of a thread: for each call its reply, intents, denial, approval request and result, by the numbers of
// their events. The content of these events stays in the journal.
import { getOwn, isObject, type Json } from '../base/index.ts';
import type { Projection } from './projection.ts';
import type { RecordedOf } from './read-journal.ts';

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
  /** The last denial. The call can be made again after it. */
  readonly denial?: { readonly seq: number; readonly stage?: string };
  readonly approval?: { readonly id: string; readonly state: AskState };
  readonly result?: { readonly seq: number; readonly isError: boolean };
}
type AskState = 'pending' | 'used' | 'denied' | 'expired';

/** Calls are in blocks, so that a change copies one block instead of all calls. */
export interface CallState {
  readonly blocks: readonly ReadonlyMap<string, Call>[];
  /** The last event that changed the state. */
  readonly seq: number;
}
const BLOCK = 64;

const blockOf = ({ blocks }: CallState, id: string): number =>
  blocks.findLastIndex((block) => block.has(id));

export const findCall = (state: CallState, id: string): Call | undefined =>
  state.blocks[blockOf(state, id)]?.get(id);

/** All calls, in the order of their first events. */
export const listCalls = ({ blocks }: CallState): Call[] =>
  blocks.flatMap((block) => [...block.values()]);

/** The denial that is in force. A call that was made again after its denial has none. */
export const deniedAt = ({ denial, intents }: Call): number | undefined =>
  denial && denial.seq > (intents.at(-1) ?? 0) ? denial.seq : undefined;

/** Changes a call, or adds it after the last one. */
function put(state: CallState, seq: number, call: Call): CallState {
  const known = blockOf(state, call.id);
  const isFull = (state.blocks.at(-1)?.size ?? BLOCK) >= BLOCK;
  const at = known >= 0 ? known : state.blocks.length - (isFull ? 0 : 1);
  const block = new Map(state.blocks[at]).set(call.id, call);
  return { blocks: [...state.blocks.slice(0, at), block, ...state.blocks.slice(at + 1)], seq };
}

/** The call of an event, made if the event is the first one of its call. */
const callFor = (state: CallState, id: string, turn: number): Call =>
  findCall(state, id) ?? { id, turn, tool: '', intents: [] };

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
    if (block.type !== 'tool_call' || findCall(next, block.id)) continue;
    const { id, name, arguments: given } = block;
    const tool = toolIn(name, given);
    next = put(next, seq, { id, turn, tool, ...actionIn(given), reply: seq, intents: [] });
  }
  return next;
}

export const calls: Projection<CallState> = {
  name: 'calls',
  initial: () => ({ blocks: [], seq: 0 }),
  apply(state, event) {
    const { seq, turn } = event;
    if (seq <= state.seq) return state;
    switch (event.type) {
      case 'assistant_message':
        return applyReply(state, event);
      case 'tool_call': {
        const { call_id, tool, target, arguments: given } = event.data;
        const call = callFor(state, call_id, turn);
        return put(state, seq, {
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
        return put(state, seq, { ...call, denial: { seq, ...(stage && { stage }) } });
      }
      case 'tool_result': {
        const { call_id, is_error: isError, tool } = event.data;
        const call = callFor(state, call_id, turn);
        return put(state, seq, { ...call, tool: tool ?? call.tool, result: { seq, isError } });
      }
      case 'approval': {
        const { data } = event;
        if (data.kind !== 'call' || data.action !== 'ask') return state;
        const call = callFor(state, data.call_id, turn);
        return put(state, seq, { ...call, approval: { id: data.approval, state: data.state } });
      }
      default:
        return state;
    }
  },
};
