// The second part of the demo: a real thread against a scripted model over HTTP. It reads files, is
// denied a write, a hook fires at 90 % of its turns, the limit ends it, and the cost adds up.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Outcome, ok, plainText } from '../../base/index.ts';
import { readStored, type ThreadResult } from '../../harness/index.ts';
import {
  costOf,
  createPrices,
  formatMoney,
  parseScript,
  type ScriptedReply,
  type Usage,
} from '../../llm/index.ts';
import { BUNDLE } from '../../runtime/index.ts';
import type { StoredEvent } from '../../store/index.ts';
import { countDenied, tellEnding } from '../threads/ending.ts';
import { createRunView } from '../threads/live-view.ts';
import { count } from '../threads/words.ts';
import { type DemoProject, heading } from './demo-project.ts';

/** What the model says; slower when somebody looks on. */
export function scriptedReplies(isWatched: boolean): Outcome<ScriptedReply[]> {
  const replies = parseScript(readFileSync(join(BUNDLE, 'demo-model.yaml'), 'utf8'));
  const pace = isWatched ? { delay_ms: 400, pace_ms: 25, piece: 8 } : {};
  return replies.ok ? ok(replies.output.map((reply) => ({ ...reply, ...pace }))) : replies;
}

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
  const denied = await countDenied(store, done.output.thread_id);
  tellEnding(done.output, { limits: row.ok ? row.output.limits : {}, denied }, shown);
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
