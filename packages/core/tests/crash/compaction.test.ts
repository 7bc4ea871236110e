// A process is killed at every commit around a pass that makes room: before the request for a summary, during it, between
// the reply and the event of the pass, and after that event. Nothing is lost, made twice or charged twice.
import { endLives, live, openRegistry, rowsOf } from '@kernmantle/test-support/crash-driver';
import { linesOf, probeTools, TOKENS } from '@kernmantle/test-support/crash-project';
import { expectSame } from '@kernmantle/test-support/expect-same';
import { budgetOf } from '@kernmantle/test-support/registry-reads';
import { ofToday, runs, timeoutMs } from '@kernmantle/test-support/soak';
import { call, directive, read, stage } from '@kernmantle/test-support/thread-project';
import { afterEach, expect, test } from 'vitest';
import { getOwn, plainText } from '../../src/base/index.ts';
import type { ScriptedReply, ScriptedRequest } from '../../src/llm/index.ts';
import type { Store, StoredEvent } from '../../src/store/index.ts';

afterEach(endLives);

const KILLS = runs(8, 200);
const NOTES = 20;
const USAGE = { input_tokens: TOKENS - 10, output_tokens: 10 };
const FILES = Object.fromEntries(
  Array.from({ length: NOTES }, (_, at) => [`notes/${at}.txt`, 'word '.repeat(400)]),
);
const PARTS = {
  permissions:
    '<read resource="filesystem" path="notes/**"/><execute resource="tool" id="fs/read_file"/><execute resource="tool" id="probe/write"/>',
  inputs: '<input name="tag" type="string" required="false"/>',
  limits:
    '<turns>9000</turns><tool_calls>9000</tool_calls><tokens>900000000</tokens><spend>1000</spend><duration>86400</duration><context compact="auto" at="0.5" keep="1">9000</context>',
};

/** Every commit of two turns and of the pass between them, as it is recorded and as it is told. */
const MOMENTS = ['', ' committed'].flatMap((when) =>
  [1, 2, 3, 4, 5]
    .flatMap((at) => ['turn_start', 'assistant_message', 'turn_end'].map((type) => `${type} ${at}`))
    .concat('compaction 1', 'compaction 2')
    .map((moment) => `lead ${moment}${when}`),
);

/** Each turn says which step it is, and so does a summary. Odd steps write, even ones read. */
function reply({ body }: ScriptedRequest, isOver: boolean): ScriptedReply {
  const steps = JSON.stringify(body).match(/step \d+/g) ?? [];
  const last = Math.max(0, ...steps.map((text) => Number(text.slice('step '.length))));
  if (getOwn(body, 'tools') === undefined) return { text: `Done: step ${last}`, usage: USAGE };
  if (isOver) return { text: 'all done', usage: USAGE };
  const step = last + 1;
  const next =
    step % 2 === 1
      ? { tool_calls: [call('probe/write', { at: `step-${step}` })] }
      : read(`notes/${step % NOTES}.txt`);
  return { ...next, text: `step ${step}`, usage: USAGE };
}

async function journalOf(store: Store, id: string): Promise<StoredEvent[]> {
  const all: StoredEvent[] = [];
  for (;;) {
    const page = await store.read(id, { after: all.at(-1)?.seq ?? 0 });
    if (!page.ok) throw new Error(page.error.detail.message);
    if (page.output.length === 0) return all;
    all.push(...page.output);
  }
}

/** Each recorded reply is charged once, and each request without a reply at its worst case. */
async function checkCharges(store: Store, id: string, events: readonly StoredEvent[]) {
  let charged = 0;
  for (const { type, data } of events) {
    if (type === 'cost_update' && data.charged_unread !== undefined) charged += Number(data.tokens);
    if (type === 'turn_end') charged += Number(getOwn(data.charged, 'tokens') ?? 0);
    if (type === 'assistant_message' && data.injected !== true) charged += TOKENS;
  }
  const budget = await budgetOf(store, id);
  if (!budget.ok) throw new Error(budget.error.detail.message);
  expect(budget.output.reserved).toMatchObject({ tokens: 0n, spend: 0n });
  expect(budget.output.used.tokens).toBe(BigInt(charged));
}

test(`killed ${KILLS} times around its passes, a thread loses nothing and pays once`, {
  timeout: timeoutMs(60_000 + KILLS * 5000),
}, async () => {
  let isOver = false;
  const made = await stage({ ...directive('lead', PARTS), ...FILES }, (request) =>
    reply(request, isOver),
  );
  const store = await openRegistry(made);
  const moments = ofToday(MOMENTS, Math.min(KILLS, MOMENTS.length));
  for (let kill = 0; kill < KILLS; kill++) {
    const before = (await rowsOf(store)).reduce((sum, { seq }) => sum + seq, 0);
    const life = live(made, moments[kill % moments.length]);
    await life.over;
    const told = life.lines.filter((line) => line.startsWith('event ')).length;
    const after = (await rowsOf(store)).reduce((sum, { seq }) => sum + seq, 0);
    expect(after).toBeGreaterThanOrEqual(before + told);
  }
  isOver = true;
  await live(made).over;

  const [lead, ...others] = await rowsOf(store);
  expect(others).toEqual([]);
  const { id = '', status = '' } = lead ?? {};
  expect(status).toBe('completed');
  const events = await journalOf(store, id);
  expect(events.map(({ seq }) => seq)).toEqual(events.map((_, at) => at + 1));
  const passes = events.filter(({ type }) => type === 'compaction');
  expect(passes.length).toBeGreaterThan(KILLS / 8);
  expect(passes.map(({ data }) => data.number)).toEqual(passes.map((_, at) => at + 1));
  // A recorded reply is used, so each pass has at most one.
  const replies = events.filter(({ data }) => data.compact !== undefined);
  expect(new Set(replies.map(({ data }) => data.compact)).size).toBe(replies.length);
  expect(replies.length).toBeGreaterThan(0);
  await checkCharges(store, id, events);
  // Each write is made once, or its outcome is unknown.
  const written = linesOf(made, 'write').map((line) => line.split(' ')[0]);
  expect(new Set(written).size).toBe(written.length);
  const unknown = events.filter(({ type, data }) =>
    type === 'tool_result'
      ? plainText(getOwn(data.content, 'error')).includes('outcome_unknown')
      : false,
  );
  const writes = events.filter(
    ({ type, data }) => type === 'tool_call' && data.tool === 'probe/write',
  );
  expect(written.length).toBeGreaterThanOrEqual(writes.length - unknown.length);
  await store.close();

  const runtime = await made.fixture.open({ tools: probeTools(() => 'never run') });
  const threads = await runtime.threads();
  if (!threads.ok) throw new Error(threads.error.detail.message);
  expectSame(await threads.output.replay(id));
  await runtime.close();
  if (process.env.KERNMANTLE_FIGURES) {
    const begun = events.filter(({ type }) => type === 'turn_start').length;
    const lost = events.filter(({ data }) => data.charged_unread !== undefined).length;
    process.stderr.write(
      `${KILLS} kills: ${events.length} events, ${begun} requests, ${passes.length} passes, ${replies.length} summaries, ${lost} replies lost, ${writes.length} writes of which ${unknown.length} unknown\n`,
    );
  }
});
