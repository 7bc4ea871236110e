// A thread that had said its last word when its process was lost has nothing more to ask: it was only
// waiting for its children. Whoever resumes it takes the word as it stands in the journal.
import { isObject, type JsonObject, plainText } from '../base/index.ts';
import type { Block } from '../llm/index.ts';
import type { StoredEvent } from '../store/index.ts';
import type { Ending } from './loop.ts';
import { replyAt } from './replay-record.ts';
import type { ThreadContext } from './thread-context.ts';
import { finalEnding } from './thread-end.ts';
import { returned } from './thread-step.ts';

/** What is said in a conversation. */
const SAID: ReadonlySet<string> = new Set(
  'user_message assistant_message tool_result injected_message retry'.split(' '),
);

/** Somebody has something to say to it first: that may change what it does. */
function isSpokenTo({ world, id, lastSignal }: ThreadContext): boolean {
  const waiting = world.store.signals(id, lastSignal);
  return (waiting.ok ? waiting.output : []).some(
    ({ payload }) => isObject(payload) && (payload.content ?? payload.message) !== undefined,
  );
}

/** The outputs were handed back with one of these results. */
function handedBack(
  thread: ThreadContext,
  content: readonly Block[],
  results: readonly StoredEvent[],
): Ending | undefined {
  for (const { type, data } of results) {
    if (type !== 'tool_result' || data.is_error === true) continue;
    const call = content.find((block) => block.type === 'tool_call' && block.id === data.call_id);
    if (call?.type !== 'tool_call' || call.name !== 'execute') continue;
    const request: JsonObject = call.arguments;
    const ending = returned(thread, { verb: 'execute', request }, data.content ?? null);
    if (ending) return ending;
  }
  return undefined;
}

/** How the thread was going to end; undefined when there is more to do. */
export function lastWord(
  thread: ThreadContext,
  history: readonly StoredEvent[],
): Ending | undefined {
  if (isSpokenTo(thread)) return undefined;
  const at = history.findLastIndex(
    ({ type, data }) => type === 'assistant_message' && data.apart !== true,
  );
  const spoken = history[at];
  if (!spoken || spoken.data.injected === true || plainText(spoken.data.stop ?? '') === '') {
    return undefined;
  }
  const after = history.slice(at + 1).filter(({ type }) => SAID.has(type));
  const content = spoken.data.content as unknown as Block[];
  if (after.length > 0) return handedBack(thread, content, after);
  if (content.some(({ type }) => type === 'tool_call')) return undefined;
  return finalEnding(thread, replyAt(history, at));
}
