// Turns the events of a thread into those of an agent's run. They are for people who watch a run: events of children
// and of the harness itself are left out.
import type { Json, JsonObject } from '@kernmantle/core/base';
import type { Approval } from '@kernmantle/core/store';
import type { ThreadEvent, ThreadRun } from '../thread-run.ts';
import { DENIED } from './error.ts';

/** One event of a run. After `retry` the text since the last result or the start is void. */
export type AgentEvent =
  | { readonly type: 'text' | 'reasoning'; readonly delta: string }
  | {
      readonly type: 'tool-call';
      readonly id: string;
      readonly tool: string;
      readonly input: Json;
    }
  | {
      readonly type: 'tool-result';
      readonly id: string;
      readonly tool: string;
      readonly output: Json;
      /** Code of the failure. Absent: the call succeeded. */
      readonly error?: string;
      readonly labels: readonly string[];
    }
  | {
      readonly type: 'denied';
      readonly id: string;
      readonly code: string;
      readonly why: string;
      readonly ways: Json;
    }
  | {
      readonly type: 'approval';
      readonly id: string;
      readonly tool: string;
      readonly input: Json;
      readonly why: string;
      readonly digest: string;
    }
  | { readonly type: 'retry'; readonly reason: string }
  | {
      readonly type: 'cost';
      readonly turns: number;
      readonly tokens: number;
      readonly spend: string;
    }
  | { readonly type: 'missed'; readonly count: number };

/** Reads a pending approval request, with the digest of what it asks for. */
export type ApprovalReader = (
  thread: string,
  id: string,
) => Promise<{ readonly approval: Approval; readonly digest: string } | undefined>;

const memberOf = (value: Json | undefined, name: string): Json | undefined =>
  typeof value === 'object' && value !== null && !Array.isArray(value) && Object.hasOwn(value, name)
    ? value[name]
    : undefined;

const wordsIn = (value: Json | undefined): string => (typeof value === 'string' ? value : '');

/** Returns labels without those that name a source. */
export const plainLabels = (marks: Partial<Record<'labels' | 'taint', readonly string[]>> = {}) => [
  ...new Set(
    [...(marks.labels ?? []), ...(marks.taint ?? [])].filter((one) => !/^(?:src|dir):/.test(one)),
  ),
];

type Results = Extract<ThreadEvent, { type: 'tool_result' }>['data'];

/** Returns the event of a result. A refusal is `denied`, with the ways to get the missing right. */
function resultEvent({ call_id: id, tool = '', content, is_error, marks }: Results): AgentEvent {
  const error = is_error ? memberOf(content, 'error') : undefined;
  const code = wordsIn(memberOf(error, 'code'));
  if (code === DENIED) {
    const detail = memberOf(error, 'detail');
    const why = wordsIn(memberOf(detail, 'message'));
    return { type: 'denied', id, code, why, ways: memberOf(detail, 'ways') ?? [] };
  }
  const output = content;
  const labels = plainLabels(marks);
  return { type: 'tool-result', id, tool, output, labels, ...(is_error && { error: code }) };
}

async function approvalEvent(
  thread: string,
  id: string,
  approvals: ApprovalReader,
): Promise<AgentEvent | undefined> {
  const found = await approvals(thread, id);
  if (!found) return undefined;
  const request: JsonObject = found.approval.shown;
  return {
    type: 'approval',
    id,
    tool: wordsIn(request.tool),
    input: request.arguments ?? {},
    why: wordsIn(request.question) || wordsIn(request.why),
    digest: found.digest,
  };
}

/** Returns why a request is repeated. A run that starts again has no reason of its own. */
const reasonOf = (data: object): string =>
  'because' in data ? String(data.because) : 'the run starts again';

/** Returns the events for one event of the thread. `returns`: calls that only return the output. */
async function eventsFor(
  event: ThreadEvent,
  returns: Set<string>,
  approvals: ApprovalReader,
): Promise<readonly (AgentEvent | undefined)[]> {
  switch (event.type) {
    case 'text':
    case 'reasoning':
      return [{ type: event.type, delta: event.data.text }];
    case 'cost':
      return [{ type: 'cost', ...event.data }];
    case 'tool_call': {
      const { call_id: id, tool, arguments: request } = event.data;
      if (memberOf(request, 'action') === 'return') returns.add(id);
      else
        return [{ type: 'tool-call', id, tool, input: memberOf(request, 'parameters') ?? request }];
      return [];
    }
    case 'tool_result':
      return returns.has(event.data.call_id) ? [] : [resultEvent(event.data)];
    case 'approval': {
      const { state, approval } = event.data;
      const isAsked = state === 'pending' && approval !== undefined;
      return isAsked ? [await approvalEvent(event.thread, approval, approvals)] : [];
    }
    case 'retry':
      return [{ type: 'retry', reason: reasonOf(event.data) }];
    default:
      return [];
  }
}

/** Yields the events of the thread itself, and `missed` if the program reads too slowly. */
export async function* agentEvents(
  run: ThreadRun,
  approvals: ApprovalReader,
): AsyncGenerator<AgentEvent, void> {
  const returns = new Set<string>();
  let root: string | undefined;
  for await (const event of run) {
    if (event.type === 'missed') yield { type: 'missed', count: event.data.count };
    root ??= event.thread;
    if (event.thread !== root) continue;
    for (const one of await eventsFor(event, returns, approvals)) if (one) yield one;
  }
}
