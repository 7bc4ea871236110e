// Asks the person in the client about calls that wait for an approval. INVARIANT: an answer always applies to the
// request that the client has shown: its id and its digest, which is computed again after the answer.
import { getOwn, isObject, type Json, type JsonObject, plainText } from '@kernmantle/core/base';
import type { Noted } from '@kernmantle/core/journal';
import { approvalDigest, choicesFor, type PersonAnswer } from '@kernmantle/core/runtime';
import type { Approval, Store } from '@kernmantle/core/store';
import type { PersonFor } from '../conversation/answers.ts';
import type { Rpc } from './rpc.ts';
import { shown, shownJson, textBlock, type Updates } from './updates.ts';

const OPTIONS: Readonly<Partial<Record<ReturnType<typeof choicesFor>[number], JsonObject>>> = {
  once: { optionId: 'once', name: 'Allow once', kind: 'allow_once' },
  value: { optionId: 'value', name: 'Allow this target for the session', kind: 'allow_always' },
  deny: { optionId: 'deny', name: 'Deny', kind: 'reject_once' },
};
/** Maximum number of requests whose calls are cached. */
const MAX_REQUESTS = 1000;

interface PermissionPorts {
  readonly rpc: Rpc;
  readonly session: string;
  readonly store: Pick<Store, 'approvals' | 'thread'>;
  readonly updates: Updates;
  /** False: the policy leaves decisions to other channels. */
  mayApprove(): boolean;
}

/** Completes arguments that the request shows cut. `whole` has the arguments of the same call. */
const completed = (cut: Json | undefined, whole: JsonObject = {}): JsonObject =>
  Object.fromEntries(
    Object.entries(isObject(cut) ? cut : {}).map(([name, value]) => {
      const all = getOwn(whole, name);
      const isCut = typeof value === 'string' && typeof all === 'string' && value.endsWith(' …');
      return [name, isCut && all.startsWith(value.slice(0, -2)) ? all : value];
    }),
  );

/** Returns the answer for an option. An unknown option denies. */
function answerFor(option: string, choices: readonly string[]): Omit<PersonAnswer, 'digest'> {
  const isOffered = choices.includes(option) && option in OPTIONS;
  if (!isOffered || option === 'deny') return { decision: 'denied', why: '' };
  return { decision: 'approved', why: '', ...(option === 'value' && { answer: { value: true } }) };
}

export function createPermissions({ rpc, session, store, updates, mayApprove }: PermissionPorts) {
  /** Ids of calls by the id of their request. */
  const calls = new Map<string, string>();

  async function digestOf(id: string): Promise<string | undefined> {
    const found = await store.approvals({ id, state: 'pending' });
    const [row] = found.ok ? found.output : [];
    const asker = row?.thread === undefined ? undefined : await store.thread(row.thread);
    return row && asker?.ok ? approvalDigest(row, asker.output.epoch).digest : undefined;
  }
  function requestOf(row: Approval, question: string): JsonObject {
    const id = calls.get(row.id) ?? row.id;
    const { tool, operation, arguments: cut } = row.shown;
    const values = completed(cut, updates.argumentsOf(id));
    const call = updates.announce(id, plainText(tool ?? operation), values, 'pending');
    const text = { type: 'content', content: textBlock(shown(question)) };
    const content = Array.isArray(call.content) ? call.content : [];
    const options = choicesFor(row).flatMap((choice) => OPTIONS[choice] ?? []);
    // The whole arguments are what the person approves, so they are never cut.
    const toolCall = { ...call, rawInput: shownJson(values, Number.POSITIVE_INFINITY) };
    return { sessionId: session, toolCall: { ...toolCall, content: [text, ...content] }, options };
  }

  const personFor: PersonFor = (signal) => async (question, over, row) => {
    const digest = mayApprove() ? await digestOf(row.id) : undefined;
    if (digest === undefined) return undefined;
    const answer = await rpc.request(
      'session/request_permission',
      requestOf(row, question),
      AbortSignal.any([over, signal]),
    );
    const outcome = answer.ok ? getOwn(answer.output, 'outcome') : undefined;
    // A cancelled dialog and a lost client leave the request pending.
    if (getOwn(outcome, 'outcome') !== 'selected') return undefined;
    if (!mayApprove() || (await digestOf(row.id)) !== digest) return undefined;
    const option = plainText(getOwn(outcome, 'optionId') ?? '');
    return { ...answerFor(option, choicesFor(row)), digest };
  };
  return {
    personFor,
    /** Receives the events of the session and of the threads below it, for the calls of its requests. */
    hear(thread: string, { type, data, turn }: Noted): void {
      if (type !== 'approval' || data.state !== 'pending' || !('call_id' in data)) return;
      const { approval, call_id } = data;
      if (approval === undefined || call_id === undefined) return;
      const id = updates.idOf(turn, call_id);
      calls.set(approval, thread === session ? id : `${thread}-${id}`);
      const [oldest] = calls.keys();
      if (calls.size > MAX_REQUESTS && oldest !== undefined) calls.delete(oldest);
    },
  };
}
