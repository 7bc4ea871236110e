// What a tool that reads for a thread has asked a model while it was at work. In a replay no tool is run, but
// the thread has paid for these requests and noted them, so they are made again, of the size they had, and
// answered from the journal.
import { plainText } from '../../base/index.ts';
import { isValue, makeValue, mergeAll } from '../../flow/index.ts';
import type { Recorded } from '../../journal/index.ts';
import { readsOf } from '../../kernel/index.ts';
import { heardBetween } from '../reading/ask-reader.ts';
import { askModel, chooseModel } from '../script-thread/script-actions.ts';
import type { BudgetHolder, Thread } from '../thread/thread.ts';

const NOTHING_SAID = JSON.stringify({ type: 'text', text: '' }).length;

/** How large the request was: one that nobody answered was made again. */
function sizeOf(events: readonly Recorded[]): number {
  for (const { type, data } of events) {
    if (type === 'assistant_message' && !data.injected && data.apart) return data.bytes;
  }
  return NOTHING_SAID;
}

/** The directive's own way to a model where that leads to it, with what else it says. */
function tierFor(thread: BudgetHolder, first: Recorded | undefined): string | undefined {
  const recorded = first?.type === 'turn_start' ? first.data.model : undefined;
  const own = chooseModel(thread, undefined);
  return own.ok && own.output.model.model === recorded ? undefined : recorded;
}

/** `rest`: what the journal has from here on. */
export async function askAgain(
  thread: Thread,
  request: { item_id?: unknown; values?: unknown },
  rest: () => Promise<readonly Recorded[]>,
): Promise<void> {
  const found = thread.ports.library.find('tool', plainText(request.item_id));
  if (!found.ok || readsOf(found.output) !== 'quarantined') return;
  const given = Object.values(request.values ?? {}).filter(isValue);
  const descriptor = mergeAll(given.map(({ meta }) => meta.descriptor));
  let left = await rest();
  for (;;) {
    const [first] = left;
    // Whatever belongs to a later turn while this call is open was asked by it.
    if (!first || first.turn <= thread.journal.turn) return;
    thread.talk.conversation.learn(descriptor, false);
    const text = 'x'.repeat(Math.max(0, sizeOf(left) - NOTHING_SAID));
    const question = { prompt: makeValue(text, { descriptor }), tier: tierFor(thread, first) };
    await askModel(thread, question, () => heardBetween(thread));
    const now = await rest();
    if (now.length === left.length) return;
    left = now;
  }
}
