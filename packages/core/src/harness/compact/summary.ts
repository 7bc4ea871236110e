// Asks a model for the summary of turns, in a request without tools and in a conversation of its own. The turns are
// rendered as text between two lines with a random mark, so that no result can pretend to be a message.
import { type JsonObject, type Outcome, ok, plainText, shorten } from '../../base/index.ts';
import { type Descriptor, describe, mergeAll } from '../../flow/index.ts';
import { type Recorded, unpackMarks } from '../../journal/index.ts';
import { type Block, formatMoney, type Message, type ModelReply } from '../../llm/index.ts';
import type { Ending } from '../loop.ts';
import { modelFor, priced } from '../thread/choose-model.ts';
import { Conversation } from '../thread/conversation.ts';
import { replyAt } from '../thread/recorded-answers.ts';
import { shippedInstruction } from '../thread/shipped-text.ts';
import type { Talk, Thread } from '../thread/thread.ts';
import { runTurn } from '../turn/turn.ts';
import { type AskedFor, bytesFor, figuresOf, summaryModel, type Window } from './room.ts';

const [MAX_ARGUMENTS, MAX_RESULT] = [1000, 2000];
const MARK_BYTES = 12;

function lineOf(role: Message['role'], block: Block): JsonObject | undefined {
  switch (block.type) {
    case 'text':
      return { role, text: block.text };
    case 'tool_call':
      return {
        role,
        call: block.name,
        arguments: shorten(JSON.stringify(block.arguments), MAX_ARGUMENTS),
      };
    case 'tool_result': {
      const result = shorten(plainText(block.content), MAX_RESULT);
      return { role: 'tool', ...(block.is_error && { failed: true }), result };
    }
    case 'thinking':
      return undefined;
  }
}

/** Returns the messages as lines of JSON with at most `room` characters. The oldest lines are left out. */
export function renderedTurns(messages: readonly Message[], room: number): string {
  const lines: string[] = [];
  let rest = room;
  for (const { role, content } of messages.toReversed()) {
    for (const block of content.toReversed()) {
      const line = lineOf(role, block);
      const text = line && JSON.stringify(line);
      if (text === undefined) continue;
      rest -= text.length + 1;
      if (rest < 0) return ['[the oldest messages are left out]', ...lines.toReversed()].join('\n');
      lines.push(text);
    }
  }
  return lines.toReversed().join('\n');
}

interface SummaryTask {
  readonly number: number;
  readonly replaced: readonly Message[];
  readonly window: Window;
  readonly request: AskedFor | undefined;
}

function promptOf(thread: Thread, { replaced, window, request }: SummaryTask): string {
  const mark = `=====${Buffer.from(thread.ports.random(MARK_BYTES)).toString('hex')}=====`;
  const { ratio, room } = thread.talk;
  const characters = bytesFor(window.whole / 2, ratio);
  const before = room.last.summary;
  return [
    ...(before === undefined ? [] : ['Summary of the turns before these:', mark, before, mark, '']),
    ...(request?.focus ? ['Keep above all:', mark, request.focus.text, mark, ''] : []),
    'The turns to summarise:',
    mark,
    renderedTurns(replaced, characters),
    mark,
  ].join('\n');
}

/** The text of an accepted summary, or why there is none. */
export type Summary = { readonly spend?: string; readonly model?: string } & (
  | { readonly text: string }
  | { readonly rejected: string }
);

function judged({ content, stop, broken, model }: ModelReply): Summary {
  const text = content
    .map((block) => (block.type === 'text' ? block.text : ''))
    .join('')
    .trim();
  if (broken || stop !== 'end')
    return { model, rejected: `the reply ended with ${broken?.reason ?? stop}` };
  return text === '' ? { model, rejected: 'the reply is empty' } : { model, text };
}

/** Returns the summary that a lost process recorded and did not use. */
function recordedSummary(events: readonly Recorded[], number: number): Summary | undefined {
  const at = events.findLastIndex(
    ({ type, data }) =>
      type === 'assistant_message' && !data.injected && data.compact === number && !data.withheld,
  );
  const event = events[at];
  const reply = replyAt(events, at);
  if (event?.type !== 'assistant_message' || event.data.injected || !reply) return undefined;
  return { ...judged(reply), spend: event.data.spend };
}

function modelOf({ ports, talk, budget }: Thread): Outcome<Pick<Talk, 'model' | 'price'>> {
  const name = summaryModel(ports);
  if (name === undefined) return ok({ model: talk.model, price: talk.price });
  return priced(ports, modelFor(ports, name), budget.limits);
}

/** Marks of everything that the summariser reads. */
const marksOf = ({ talk }: Thread, request: AskedFor | undefined): Descriptor =>
  mergeAll([
    talk.conversation.ownMarks(),
    request?.focus ? unpackMarks(request.focus.marks) : describe({}),
  ]);

/**
 * Returns the summary of these turns. A request that fails, is refused or cannot be paid gives none. `events`: the
 * events since the last pass, with the reply of a lost process. Returns an ending if a signal stopped the thread.
 */
export async function askForSummary(
  thread: Thread,
  task: SummaryTask,
  events: readonly Recorded[],
  between: () => Promise<Ending | undefined>,
): Promise<Summary | { readonly ending: Ending } | 'stopped'> {
  const recorded = recordedSummary(events, task.number);
  if (recorded) return recorded;
  const system = shippedInstruction(thread.ports, 'system/compaction_prompt');
  if (!system.ok) return { rejected: system.error.detail.message };
  const chosen = modelOf(thread);
  if (!chosen.ok) return { rejected: chosen.error.detail.message };
  const conversation = new Conversation();
  conversation.user(promptOf(thread, task), marksOf(thread, task.request));
  const most = Math.min(figuresOf(thread.ports).summary_tokens, Math.floor(task.window.whole / 8));
  const { references: _, ...own } = thread.talk;
  const talk: Talk = {
    ...own,
    ...chosen.output,
    conversation,
    system: system.output,
    ratio: undefined,
    fallback: undefined,
    triedModels: new Set(),
    tools: [],
    compact: { number: task.number, most },
  };
  const { spend: before } = thread.budget.meter.read();
  const turn = await runTurn({ ...thread, talk });
  if ('reply' in turn) {
    const { spend } = thread.budget.meter.read();
    return { ...judged(turn.reply), spend: formatMoney(spend - before) };
  }
  if ('ending' in turn) {
    const { control, journal } = thread;
    const isOver = control.ending !== undefined || journal.lost() !== undefined;
    return isOver ? { ending: turn.ending } : { rejected: turn.ending.reason };
  }
  const ending = await between();
  return ending ? { ending } : 'stopped';
}
