// Shows the second part of the demo: threads with a scripted model over HTTP. The first thread reads
// files, is denied a write, fires a hook at 90 % of its turns and ends at a limit. The demo then checks
// its cost. The second thread reads a poisoned message and obeys it. The secret stays in the project,
// and the demo prints the provenance of the refusal.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Outcome, ok, plainText } from '@kernmantle/core/base';
import type { ThreadResult } from '@kernmantle/core/harness';
import { readStored } from '@kernmantle/core/journal';
import {
  costOf,
  createPrices,
  formatMoney,
  parseScript,
  type ScriptedReply,
  type Usage,
} from '@kernmantle/core/llm';
import { reports } from '@kernmantle/core/reports';
import { BUNDLE } from '@kernmantle/core/runtime';
import type { StoredEvent } from '@kernmantle/core/store';
import { drawProvenance } from '../commands/provenance.ts';
import { createRunView } from '../threads/live-view.ts';
import { countRefused, printResult } from '../threads/result-text.ts';
import { count } from '../threads/status-text.ts';
import { type DemoProject, heading } from './demo-project.ts';

/** Returns the replies of the model, slower if a person watches. */
export function scriptedReplies(isWatched: boolean): Outcome<ScriptedReply[]> {
  const pace = isWatched ? { delay_ms: 400, pace_ms: 25, piece: 8 } : {};
  const all: ScriptedReply[] = [];
  for (const name of ['demo-model.yaml', 'demo-mail-model.yaml']) {
    const replies = parseScript(readFileSync(join(BUNDLE, name), 'utf8'));
    if (!replies.ok) return replies;
    all.push(...replies.output.map((reply) => ({ ...reply, ...pace })));
  }
  return ok(all);
}

async function runThread(
  { runtime, terminal }: DemoProject,
  directive: string,
): Promise<Outcome<Played>> {
  terminal.out(`${terminal.paint('blue', '$')} km run ${directive}`);
  // The result belongs to the output of the demo. On a terminal, the live view draws it.
  const display = terminal.isInteractive
    ? terminal
    : { ...terminal, isLive: false, note: terminal.out };
  const view = createRunView({ ...display, json: false });
  const opened = await runtime.threads(view.live);
  if (!opened.ok) return opened;
  const { store, run } = opened.output;
  await view.begin(store);
  const outcome = await run({ directive });
  await view.end();
  if (!outcome.ok) return outcome;
  const row = await store.thread(outcome.output.thread_id);
  const refused = await countRefused(store, outcome.output.thread_id);
  printResult(outcome.output, { limits: row.ok ? row.output.limits : {}, ...refused }, display);
  const events = await readStored(store, outcome.output.thread_id);
  return events.ok ? ok({ result: outcome.output, events: events.output }) : events;
}

interface Played {
  result: ThreadResult;
  events: StoredEvent[];
}

/** Recomputes the cost from usage and prices. It must equal the cost of the thread. */
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
      ? terminal.paint('green', 'the sums are equal')
      : terminal.paint('red', 'the sums differ');
  terminal.out(
    `  ${requests} requests, ${input} tokens in, ${cached} from the cache, ${output} out (${row})`,
  );
  terminal.out(`  ${spend} USD by the price row, ${charged} USD charged: ${verdict}`);
  return spend === charged;
}

/** True if every event that this part demonstrates occurred. */
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
  const played = await runThread(stage, 'chase_todos');
  if (!played.ok) {
    terminal.finish(played, () => {});
    return false;
  }
  heading(terminal, 'its cost', 'The amount that a provider would charge, request by request.');
  const addsUp = showCost(played.output, stage);
  return addsUp && wentWell(played.output);
}

/** Runs a thread that obeys a poisoned message. The harness denies the call. */
export async function showPoison(stage: DemoProject): Promise<boolean> {
  const { terminal, runtime } = stage;
  heading(
    terminal,
    'a poisoned message',
    'inbox/urgent.md tells its reader to send the key to a stranger. The model obeys.',
  );
  const played = await runThread(stage, 'answer_urgent');
  const opened = played.ok ? await runtime.threads() : played;
  if (!played.ok || !opened.ok) {
    terminal.finish(opened, () => {});
    return false;
  }
  const { explainRefusal } = await reports.provenance();
  const { thread_id } = played.output.result;
  const explained = await explainRefusal(opened.output.store, thread_id);
  terminal.out(`\n${terminal.paint('blue', '$')} km provenance ${thread_id}`);
  if (explained.ok) drawProvenance(explained.output, terminal);
  const isHeld = played.output.events.some(({ type }) => type === 'permission_denied');
  return isHeld && explained.ok && played.output.result.status === 'completed';
}
