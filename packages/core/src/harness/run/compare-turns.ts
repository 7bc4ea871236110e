// Sends the recorded conversation of each turn to another model and compares the calls of its reply with the recorded
// ones. INVARIANT: no call is ever executed, and no reply becomes a part of a conversation.
import { canonicalJson, getOwn, type Json, type JsonObject, plainText } from '../../base/index.ts';
import { hidesUntrusted, type Recorded, type RecordedOf } from '../../journal/index.ts';
import type { Block } from '../../llm/index.ts';
import type { Ending } from '../loop.ts';
import { loadWholes, shortenShown } from '../step/large-result.ts';
import { Conversation } from '../thread/conversation.ts';
import { addToConversation, startOver } from '../thread/talk.ts';
import type { Talk, Thread } from '../thread/thread.ts';
import { runTurn } from '../turn/turn.ts';

type AskedThread = Parameters<typeof runTurn>[0];

/** Returns the calls of a reply: the tool, or the verb of another call, and its arguments. */
const callsIn = (content: readonly Block[]): JsonObject[] =>
  content.flatMap((block) => {
    if (block.type !== 'tool_call') return [];
    const { name, arguments: request } = block;
    const tool = name === 'execute' ? plainText(getOwn(request, 'item_id')) || name : name;
    return [{ tool, arguments: request }];
  });

/** Returns the reply of the turn that begins at this position. `undefined`: the turn has none. */
function replyOf(
  history: readonly Recorded[],
  at: number,
): RecordedOf<'assistant_message'> | undefined {
  for (const event of history.slice(at + 1)) {
    if (event.type === 'turn_start') return undefined;
    if (event.type !== 'assistant_message') continue;
    return event.data.injected || event.data.apart ? undefined : event;
  }
  return undefined;
}

async function talkOf(
  thread: Pick<Thread, 'ports' | 'talk'>,
  history: readonly Recorded[],
): Promise<Talk> {
  const { ports, talk } = thread;
  const { createReferences } = await import('../thread/references.ts');
  const references = hidesUntrusted(history)
    ? createReferences((content) => shortenShown(ports, content))
    : undefined;
  const { fallback: _, ...model } = talk.model;
  return {
    ...talk,
    conversation: new Conversation(references),
    ...(references && { references }),
    model,
    fallback: undefined,
    opening: [],
    isCompared: true,
  };
}

/** Asks for one turn, until there is a reply or an ending. */
async function askTurn(thread: AskedThread, between: () => Promise<Ending | undefined>) {
  for (;;) {
    const ending = await between();
    if (ending) return { ending };
    const turn = await runTurn(thread);
    if (!('again' in turn)) return turn;
  }
}

/** Runs a comparison. Its outputs are the compared turns, also if a limit ends it early. */
export async function compareTurns(
  thread: AskedThread,
  between: () => Promise<Ending | undefined>,
): Promise<Ending> {
  const { comparison } = thread.place;
  if (!comparison) {
    const reason = 'a comparison cannot be resumed; start it again';
    return { status: 'failed', reason, code: 'conflict' };
  }
  const { history, from, to } = comparison;
  const talk = await talkOf(thread, history);
  const asking = { ...thread, talk };
  await loadWholes(asking, history);
  const turns: { turn: number; same: boolean; recorded: Json; answered: Json }[] = [];
  const report = (): Json => {
    const same = turns.filter((one) => one.same).length;
    return { turns, same, different: turns.length - same };
  };
  for (const [at, event] of history.entries()) {
    const { type, data, turn } = event;
    const reply = type === 'turn_start' && turn >= from && turn <= to && replyOf(history, at);
    if (reply) {
      const result = await askTurn(asking, between);
      if ('ending' in result) return { ...result.ending, outputs: report() };
      const [recorded, answered] = [callsIn(reply.data.content), callsIn(result.reply.content)];
      const same = canonicalJson(recorded) === canonicalJson(answered);
      turns.push({ turn, same, recorded, answered });
    }
    addToConversation(asking, event);
    if (type === 'retry' && data.try === undefined) startOver(asking, data.opening);
  }
  return { status: 'completed', reason: '', outputs: report() };
}
