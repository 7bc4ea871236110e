// Repeats the model requests of a reader in a replay. A replay runs no tool, but the thread has paid for these
// requests and recorded them. So they are made again, with their recorded size, and answered from the journal.
import { plainText } from '../../base/index.ts';
import { isValue, makeValue, mergeAll } from '../../flow/index.ts';
import type { Recorded } from '../../journal/index.ts';
import { readsOf } from '../../kernel/index.ts';
import { handleSignalsBetween } from '../reading/ask-reader.ts';
import { askModel, chooseModel } from '../script-thread/script-actions.ts';
import type { BudgetHolder, Thread } from '../thread/thread.ts';

const EMPTY_PROMPT = JSON.stringify({ type: 'text', text: '' }).length;

/** Returns the size of the request, from its reply. A request without a reply was made again. */
function sizeOf(events: readonly Recorded[]): number {
  for (const { type, data } of events) {
    if (type === 'assistant_message' && !data.injected && data.apart) return data.bytes;
  }
  return EMPTY_PROMPT;
}

/** Returns the recorded model. `undefined`: the directive itself chooses this model. */
function tierFor(thread: BudgetHolder, first: Recorded | undefined): string | undefined {
  const recorded = first?.type === 'turn_start' ? first.data.model : undefined;
  const own = chooseModel(thread, undefined);
  return own.ok && own.output.model.model === recorded ? undefined : recorded;
}

/** Makes the recorded requests of a tool call again. `rest` returns the recorded events from here on. */
export async function askAgain(
  thread: Thread,
  request: { item_id?: unknown; values?: unknown },
  rest: () => Promise<readonly Recorded[]>,
): Promise<void> {
  const found = thread.ports.library.find('tool', plainText(request.item_id));
  if (!found.ok || readsOf(found.output) !== 'quarantined') return;
  const values = Object.values(request.values ?? {}).filter(isValue);
  const descriptor = mergeAll(values.map(({ meta }) => meta.descriptor));
  let remaining = await rest();
  for (;;) {
    const [first] = remaining;
    // While this call is open, every event of a later turn belongs to a request of its tool.
    if (!first || first.turn <= thread.journal.turn) return;
    thread.talk.conversation.learn(descriptor, false);
    const text = 'x'.repeat(Math.max(0, sizeOf(remaining) - EMPTY_PROMPT));
    const question = { prompt: makeValue(text, { descriptor }), tier: tierFor(thread, first) };
    await askModel(thread, question, () => handleSignalsBetween(thread));
    const now = await rest();
    if (now.length === remaining.length) return;
    remaining = now;
  }
}
