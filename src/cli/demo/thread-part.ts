// The second part of the demo: a real thread against a scripted model over HTTP. It reads files, is
// denied a write, a hook fires at 90 % of its turns, the limit ends it, and the cost adds up.
import { type Json, type JsonObject, type Outcome, ok, plainText } from '../../base/index.ts';
import { readStored, type ThreadResult } from '../../harness/index.ts';
import {
  costOf,
  createPrices,
  formatMoney,
  type ScriptedReply,
  type Usage,
} from '../../llm/index.ts';
import type { StoredEvent } from '../../store/index.ts';
import { tellEnding } from '../threads/ending.ts';
import { createRunView } from '../threads/live-view.ts';
import { count } from '../threads/words.ts';
import { type DemoProject, heading } from './demo-project.ts';

const call = (id: string, parameters: JsonObject) => ({
  name: 'execute',
  arguments: { item_type: 'tool', item_id: id, parameters } as Json,
});

/** A model that is never done. */
const STEPS: readonly Pick<ScriptedReply, 'text' | 'tool_calls'>[] = [
  { text: 'I start with the notes.', tool_calls: [call('fs/glob', { pattern: 'notes/*.md' })] },
  { tool_calls: [call('fs/read_file', { path: 'notes/release.md' })] },
  {
    text: 'I keep a list of my own.',
    tool_calls: [call('fs/write_file', { path: 'notes/todos.md', content: '- the manual\n' })],
  },
  {
    text: 'I may not write. I go on.',
    tool_calls: [call('fs/grep', { pattern: 'TODO', path: 'notes' })],
  },
  { tool_calls: [call('fs/read_file', { path: 'notes/retro.md' })] },
  {
    text: 'Perhaps there is more.',
    tool_calls: [{ name: 'search', arguments: { query: 'open points' } }],
  },
  { tool_calls: [call('fs/grep', { pattern: 'question', path: 'notes' })] },
  {
    tool_calls: [
      { name: 'load', arguments: { item_type: 'knowledge', item_id: 'style/house_style' } },
    ],
  },
  { text: 'One more look.', tool_calls: [call('fs/glob', { pattern: 'notes/**' })] },
  { text: 'And another one.', tool_calls: [call('fs/grep', { pattern: 'manual', path: 'notes' })] },
];

/** Slower when somebody looks on. */
export const scriptedReplies = (isWatched: boolean): ScriptedReply[] =>
  STEPS.map((step, index) => ({
    ...step,
    usage: { input_tokens: 900 + 150 * index, output_tokens: 60, cache_read_tokens: 400 * index },
    ...(isWatched ? { delay_ms: 400, pace_ms: 25, piece: 8 } : {}),
  }));

async function runThread({ runtime, terminal }: DemoProject) {
  // Part of what the demo prints, except on a terminal, where the view is drawn.
  const shown = terminal.isInteractive
    ? terminal
    : { ...terminal, isLive: false, note: terminal.out };
  const view = createRunView({ ...shown, json: false });
  const opened = await runtime.threads(view.live);
  if (!opened.ok) return opened;
  const { store, run } = opened.output;
  await view.begin(store);
  const done = await run({ directive: 'chase_todos' });
  await view.end();
  if (!done.ok) return done;
  const row = await store.thread(done.output.thread_id);
  tellEnding(done.output, row.ok ? row.output.limits : {}, shown);
  const events = await readStored(store, done.output.thread_id);
  return events.ok ? ok({ result: done.output, events: events.output }) : events;
}

interface Played {
  result: ThreadResult;
  events: StoredEvent[];
}

/** Each request again, from its usage and the price row: the sum must be what the thread was charged. */
function showCost({ result, events }: Played, { runtime, terminal }: DemoProject): boolean {
  const prices = createPrices(runtime.library.config('pricing').layers);
  let [sum, requests, row] = [0n, 0, ''];
  const totals = { input_tokens: 0, cache_read_tokens: 0, output_tokens: 0 };
  for (const { type, data } of events) {
    const price = prices.find(plainText(data.model));
    if (type !== 'assistant_message' || data.injected === true || !price.ok) continue;
    const usage = data.usage as unknown as Usage;
    sum += costOf(usage, price.output);
    for (const kind of Object.keys(totals) as (keyof typeof totals)[]) totals[kind] += usage[kind];
    [requests, row] = [requests + 1, price.output.row];
  }
  const [spend, charged] = [formatMoney(sum), plainText(result.cost.spend)];
  const [input, cached, output] = Object.values(totals).map(count);
  const verdict =
    spend === charged
      ? terminal.paint('green', 'it adds up')
      : terminal.paint('red', 'it does not add up');
  terminal.out(
    `  ${requests} requests, ${input} tokens in, ${cached} from the cache, ${output} out (${row})`,
  );
  terminal.out(`  ${spend} USD by the price row, ${charged} USD charged: ${verdict}`);
  return spend === charged;
}

/** Did everything happen that this part is about? */
function wentWell({ result, events }: Played): boolean {
  const has = (type: string): boolean => events.some((event) => event.type === type);
  const isHeld = has('permission_denied') && has('hook') && has('limit');
  return isHeld && result.status === 'limit' && result.code === 'turns_exceeded';
}

export async function showThread(stage: DemoProject): Promise<boolean> {
  const { terminal } = stage;
  heading(
    terminal,
    'a thread',
    'A directive runs as a thread: it may read notes/ and take ten turns. The model is scripted, the HTTP is real.',
  );
  terminal.out(`${terminal.paint('blue', '$')} km run chase_todos`);
  const played: Outcome<Played> = await runThread(stage);
  if (!played.ok) {
    terminal.finish(played, () => {});
    return false;
  }
  heading(terminal, 'its cost', 'What a provider would charge, request by request.');
  const addsUp = showCost(played.output, stage);
  return addsUp && wentWell(played.output);
}
