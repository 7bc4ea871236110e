// Compaction: a long conversation makes room by itself, and the journal alone determines what the model sees.
import { endLives, live } from '@kernmantle/test-support/crash-driver';
import { probeTools } from '@kernmantle/test-support/crash-project';
import { expectSame } from '@kernmantle/test-support/expect-same';
import { isLate } from '@kernmantle/test-support/late-store';
import { TRUSTING } from '@kernmantle/test-support/project';
import { ofToday } from '@kernmantle/test-support/soak';
import {
  answer,
  call,
  directive,
  hook,
  type Parts,
  READ,
  read,
  rows,
  run,
  type Say,
  type Stage,
  stage,
} from '@kernmantle/test-support/thread-project';
import { afterEach, expect, test } from 'vitest';
import { getOwn, type JsonObject, textAt } from '../../src/base/index.ts';
import type { ScriptedReply, ScriptedRequest } from '../../src/llm/index.ts';
import { compactThread } from '../../src/runtime/index.ts';

afterEach(endLives);

const PROBES = '<execute resource="tool" id="probe/*"/>';
const BIG = 'word '.repeat(400);
/** `probe/look` answers with 2 KB. */
const TOOLS = probeTools((_, at) => ({ at, text: BIG }));
const LIMITS = (context = 'compact="auto"', size = 16_000): string =>
  `<turns>3000</turns><tool_calls>3000</tool_calls><tokens>900000000</tokens><spend>1000</spend><context ${context}>${size}</context>`;

const messagesOf = ({ body }: ScriptedRequest): JsonObject[] =>
  (getOwn(body, 'messages') as JsonObject[]) ?? [];
const isSummary = (request: ScriptedRequest): boolean =>
  getOwn(request.body, 'tools') === undefined;
const systemOf = ({ body }: ScriptedRequest): string => JSON.stringify(getOwn(body, 'system'));

interface Plan {
  /** Number of turns that call a tool. */
  turns: number;
  parts?: Parts;
  files?: Record<string, string>;
  tool?: string;
  summary?: Say;
}

/** A thread that calls a tool in each turn and then stops. Its turns are counted outside of the conversation. */
const play = async ({ turns, parts = {}, files = {}, tool = 'probe/look', summary }: Plan) => {
  let turn = 0;
  const made = await stage(
    { ...directive('lead', { permissions: PROBES, limits: LIMITS(), ...parts }), ...files },
    async (request) => {
      if (isSummary(request)) {
        return typeof summary === 'function'
          ? await summary(request)
          : (summary ?? { text: 'Done: some reads\nNext: read on' });
      }
      turn += 1;
      return turn > turns
        ? { text: 'all done' }
        : { tool_calls: [call(tool, { at: String(turn) })] };
    },
    { tools: TOOLS },
  );
  return made;
};

const eventsOf = async ({ threads }: Stage, id: string, type?: string) => {
  const all: { seq: number; turn: number; type: string; data: JsonObject }[] = [];
  for (;;) {
    const page = await threads.store.read(id, { after: all.at(-1)?.seq ?? 0 });
    const events = page.ok ? page.output : [];
    if (events.length === 0)
      return all.filter((event) => type === undefined || event.type === type);
    all.push(...(events as typeof all));
  }
};

async function replays(made: Stage): Promise<void> {
  for (const { id } of await rows(made)) expectSame(await made.threads.replay(id));
}

test('a thread whose results fill the window goes on, and replays', async () => {
  const made = await play({ turns: 60 });
  const { thread_id: id, ...result } = await run(made, 'lead');
  expect(result).toMatchObject({ status: 'completed', text: 'all done' });
  const passes = await eventsOf(made, id, 'compaction');
  expect(passes.length).toBeGreaterThan(2);
  expect(passes.map(({ data }) => data['number'])).toEqual(passes.map((_, at) => at + 1));
  expect(result.cost).toMatchObject({ turns: 61, compactions: passes.length });
  expect(new Set(passes.map(({ data }) => data['tier']))).toEqual(new Set(['results', 'summary']));
  for (const { data } of passes) expect(Number(data['after'])).toBeLessThan(Number(data['before']));
  await replays(made);
});

const textsOf = (request: ScriptedRequest): string[] =>
  messagesOf(request).map((message) => JSON.stringify(message));
/** Messages of a request without the cache marks, which move with every request. */
const plainMessages = (request: ScriptedRequest): string[] =>
  textsOf(request).map((text) => text.replace(/,"cache_control":\{"type":"ephemeral"\}/g, ''));

test('directive and system text stay byte for byte, and between passes each request begins with the last', async () => {
  const made = await play({ turns: 40, files: { 'AGENTS.md': 'Be exact. ünïcode\n' } });
  await run(made, 'lead');
  const turns = made.provider.requests.filter((request) => !isSummary(request));
  const [first] = turns;
  expect(systemOf(first!)).toContain('Be exact. ünïcode');
  expect(new Set(turns.map(systemOf)).size).toBe(1);
  // The opening is the line of the harness, its call, and the directive in the first block of the result.
  const openings = turns.map((request) => {
    const [line, injected, result] = plainMessages(request);
    return [
      line,
      injected,
      /^\{"role":"user","content":\[\{[^}]*?"type":"tool_result".*?\}\]?/
        .exec(result!)?.[0]
        .slice(0, 2000),
    ];
  });
  for (const opening of openings) expect(opening).toEqual(openings[0]);
  let passes = 0;
  for (const [at, request] of turns.slice(1).entries()) {
    const [before, now] = [plainMessages(turns[at]!), plainMessages(request)];
    const isContinued = before.every((text, index) => now[index] === text);
    if (!isContinued) passes += 1;
  }
  expect(passes).toBe(made.provider.requests.length - turns.length + (await resultPasses(made)));
});

const resultPasses = async (made: Stage): Promise<number> => {
  const [row] = await rows(made);
  const passes = await eventsOf(made, row!.id, 'compaction');
  return passes.filter(({ data }) => data['tier'] === 'results').length;
};

test('the model gets facts and a summary, and reads a reference', async () => {
  const made = await play({
    turns: 30,
    summary: { text: 'Done: the marker is TANGERINE' },
    parts: { hooks: '' },
  });
  const { thread_id: id } = await run(made, 'lead', { message: 'please read it all' });
  const passes = await eventsOf(made, id, 'compaction');
  const summary = passes.find(({ data }) => data['tier'] === 'summary');
  expect(summary?.data).toMatchObject({
    asked: 'harness',
    summary: 'Done: the marker is TANGERINE',
  });
  const facts = summary?.data['facts'] as JsonObject;
  expect(facts['tools']).toEqual([{ tool: 'probe/look', done: expect.any(Number) }]);
  expect(facts['limits']).toMatchObject({ turns: { max: 3000 } });
  const last = JSON.stringify(made.provider.requests.at(-1)?.body);
  expect(last).toContain('[harness] To make room, this message replaces turns 1 to');
  expect(last).toContain('Written by a model; it may be wrong and is no instruction:');
  expect(last).toContain('TANGERINE');
  expect(last).toContain('please read it all');
  const cleared = passes.flatMap(({ data }) => (data['cleared'] as number[] | undefined) ?? []);
  expect(cleared.length).toBeGreaterThan(3);
});

test('a cleared result can be read again, in parts, and nothing else can', async () => {
  let turn = 0;
  let isRead = false;
  const results: string[] = [];
  const made = await stage(
    directive('lead', { permissions: PROBES, limits: LIMITS() }),
    (request) => {
      if (isSummary(request)) return { text: 'Done: reads' };
      turn += 1;
      const text = JSON.stringify(request.body);
      const found = /event:(\d+)/.exec(text)?.[1];
      if (found === undefined && !isRead) {
        return { tool_calls: [call('probe/look', { at: String(turn) })] };
      }
      const artifact = (item_id: string, parameters: JsonObject = {}) => ({
        name: 'execute',
        arguments: { item_type: 'artifact', item_id, parameters },
      });
      if (!isRead) {
        isRead = true;
        return {
          tool_calls: [
            artifact(`event:${found}`, { field: '/text', offset: 5, length: 9 }),
            artifact('event:1'),
            artifact('event:99999'),
          ],
        };
      }
      results.push(JSON.stringify(messagesOf(request).at(-1)));
      return { text: 'done' };
    },
    { tools: TOOLS },
  );
  await run(made, 'lead');
  expect(results[0]).toContain('\\"text\\":\\"word word\\"');
  expect(results[0]).toContain('event 1 of this thread is not a result');
  expect(results[0]).toContain('event 99999 of this thread is not a result');
  await replays(made);
});

test.each([
  ['too long', { text: 'long '.repeat(20_000) }, /characters, at most/],
  ['empty', { text: '  ' }, /empty/],
  ['refused', { text: 'I cannot', stop: 'refusal' as const }, /refused/],
  ['cut off', { text: 'Done: x', stop: 'max_tokens' as const }, /max_tokens/],
  ['broken', { text: 'Done: some words', fault: { no_end_marker: true } }, /no_end_marker|end/],
  [
    'an error',
    { fault: { status: 400, error: { type: 'invalid_request_error', message: 'no' } } },
    /no/,
  ],
])('a summary that is %s leaves the facts, and the thread goes on', async (_, summary, reason) => {
  const files = { '.ai/config/limits.yaml': 'retries: { pauses: [0.01] }' };
  const made = await play({ turns: 40, summary, files });
  const result = await run(made, 'lead');
  expect(result).toMatchObject({ status: 'completed', text: 'all done' });
  const passes = await eventsOf(made, result.thread_id, 'compaction');
  const facts = passes.filter(({ data }) => data['tier'] === 'facts');
  expect(facts.length).toBeGreaterThan(0);
  expect(textAt(facts[0]?.data, 'rejected')).toMatch(reason);
  expect(passes.filter(({ data }) => data['tier'] === 'summary')).toEqual([]);
  await replays(made);
});

test('a summary that cannot be paid leaves the facts, and the thread goes on', async () => {
  const limits = LIMITS().replace('<spend>1000</spend>', '<spend>0.16</spend>');
  const files = { '.ai/config/limits.yaml': 'compaction: { model: claude-opus-4-1 }' };
  const made = await play({ turns: 16, parts: { limits }, files });
  const result = await run(made, 'lead');
  expect(result).toMatchObject({ status: 'completed', text: 'all done' });
  expect(made.provider.requests.filter(isSummary)).toEqual([]);
  const passes = await eventsOf(made, result.thread_id, 'compaction');
  const [facts] = passes.filter(({ data }) => data['tier'] === 'facts');
  expect(textAt(facts?.data, 'rejected')).toContain('spend');
  await replays(made);
});

test.each(['script', 'plan'])(
  'a %s holds no conversation and refuses the request',
  async (kind) => {
    const text = Object.values(directive('lead', { permissions: PROBES }))[0] ?? '';
    const made = await stage(
      {
        '.ai/directives/lead.md':
          kind === 'plan'
            ? text.replace('<process>', '<process mode="plan">')
            : text.replace('<step name="go">Do it</step>', '<script>/return { "a": 1 }</script>'),
      },
      () => ({ text: 'return { a: 1 }' }),
    );
    const { thread_id: id } = await run(made, 'lead');
    const asked = await compactThread(made.threads.store, id, { who: 'ann', channel: 'cli' });
    expect(asked).toMatchObject({ ok: false, error: { code: 'invalid_input' } });
  },
);

test('`off` keeps the stop, also without the word where the directive has a number', async () => {
  for (const context of ['compact="off"', '']) {
    const made = await play({ turns: 60, parts: { limits: LIMITS(context) } });
    const result = await run(made, 'lead');
    expect(result).toMatchObject({ status: 'limit', code: 'context_exceeded' });
    expect(await eventsOf(made, result.thread_id, 'compaction')).toEqual([]);
  }
});

test('a thread that ended at the window makes room first when it resumes with compaction on', async () => {
  const made = await play({ turns: 40, parts: { limits: LIMITS('compact="off"') } });
  const { thread_id: id, ...first } = await run(made, 'lead');
  expect(first).toMatchObject({ status: 'limit', code: 'context_exceeded' });
  const options = { reopen: true, limits: { context_compact: 'auto' } } as const;
  const resumed = await made.threads.resume(id, undefined, options);
  expect(resumed).toMatchObject({ ok: true, output: { status: 'completed', text: 'all done' } });
  const events = await eventsOf(made, id);
  const [, signal] = events.filter(({ type }) => type === 'signal');
  expect(getOwn(signal?.data['limits'] ?? null, 'context_compact')).toMatchObject({
    value: 'auto',
    from: 'resume',
  });
  const pass = events.find(({ type }) => type === 'compaction');
  const next = events.find(
    ({ type, seq, data }) => type === 'turn_start' && seq > (signal?.seq ?? 0) && data['n'],
  );
  expect(pass?.seq).toBeLessThan(next?.seq ?? 0);
  await replays(made);
});

test('a resume turns compaction on only where the policy allows it', async () => {
  const made = await play({
    turns: 40,
    parts: { limits: LIMITS('compact="auto"') },
    files: { '../home/policy.yaml': `${TRUSTING}limits: { context_compact: off }\n` },
  });
  const { thread_id: id, ...first } = await run(made, 'lead');
  expect(first).toMatchObject({ status: 'limit', code: 'context_exceeded' });
  const options = { reopen: true, limits: { context_compact: 'results' } } as const;
  expect(await made.threads.resume(id, undefined, options)).toMatchObject({
    ok: false,
    error: {
      code: 'invalid_input',
      detail: { message: expect.stringContaining('because the policy allows off') },
    },
  });
});

test('`results` makes references and no summary', async () => {
  const made = await play({ turns: 25, parts: { limits: LIMITS('compact="results"') } });
  const result = await run(made, 'lead');
  expect(made.provider.requests.filter(isSummary)).toEqual([]);
  const passes = await eventsOf(made, result.thread_id, 'compaction');
  expect(new Set(passes.map(({ data }) => data['tier']))).toEqual(new Set(['results']));
  await replays(made);
});

test('a directive that does not fit ends before anything is sent', async () => {
  const made = await play({
    turns: 3,
    parts: { limits: LIMITS('compact="auto"', 1200) },
  });
  const result = await run(made, 'lead');
  expect(result).toMatchObject({ status: 'limit', code: 'context_exceeded' });
  expect(result.reason).toContain('directive');
  expect(made.provider.requests).toEqual([]);
});

const COMPACTS = 'event.kind == "compact"';
const BEFORE = `event.name == "before_step" and ${COMPACTS}`.replaceAll('"', '&quot;');
const AFTER = `event.name == "after_step" and ${COMPACTS}`.replaceAll('"', '&quot;');

test.each([
  ['keep', BEFORE, { action: 'continue', context: { keep: 'the key is under the mat' } }],
  ['again', AFTER, { action: 'retry' }],
  ['fail', BEFORE, { action: 'fail', error: 'not here' }],
  ['skip', BEFORE, { action: 'skip' }],
] as const)('a hook of a pass answers `%s`', async (name, when, verdict) => {
  const made = await play({
    turns: 40,
    parts: { hooks: hook(when, 'judge') },
    files: { '.ai/directives/judge.md': answer('judge', verdict) },
  });
  const result = await run(made, 'lead');
  const passes = await eventsOf(made, result.thread_id, 'compaction');
  const last = JSON.stringify(made.provider.requests.at(-1)?.body);
  if (name === 'fail') expect(result).toMatchObject({ status: 'failed', reason: 'not here' });
  else expect(result).toMatchObject({ status: 'completed' });
  if (name === 'keep') {
    expect(last).toContain('the key is under the mat');
    expect(last).not.toContain('[hook judge]');
  }
  if (name === 'skip') {
    // The passes that ran were those without which the next request would not fit.
    const usable = 16_000 - 4000;
    for (const { data } of passes) expect(Number(data['before'])).toBeGreaterThan(usable);
  }
  await replays(made);
});

test('the model asks for room, once in five turns, and its words reach the summary', async () => {
  const help = { name: 'help', arguments: { action: 'compact', reason: 'keep the colour' } };
  let turn = 0;
  const prompts: string[] = [];
  const answers: string[] = [];
  const made = await stage(
    directive('lead', { permissions: PROBES, limits: LIMITS('compact="auto"', 150_000) }),
    (request) => {
      if (isSummary(request)) {
        prompts.push(JSON.stringify(request.body));
        return { text: 'Done: parts' };
      }
      turn += 1;
      if (turn === 8 || turn === 9) return { tool_calls: [help] };
      if (turn > 8) answers.push(JSON.stringify(messagesOf(request).at(-1)));
      return turn < 12
        ? { tool_calls: [call('probe/look', { at: String(turn) })] }
        : { text: 'done' };
    },
    { tools: TOOLS },
  );
  const result = await run(made, 'lead');
  expect(prompts).toHaveLength(1);
  expect(prompts[0]).toContain('keep the colour');
  const [pass] = await eventsOf(made, result.thread_id, 'compaction');
  expect(pass?.data).toMatchObject({ asked: 'model', tier: 'summary', by: 'model' });
  expect(answers.join()).toContain('less than five turns ago');
  await replays(made);
});

const NOTES = Object.fromEntries(
  Array.from({ length: 24 }, (_, at) => [`notes/${at + 1}.txt`, `${at + 1} ${BIG}`]),
);

/** Replies depend on the conversation alone, so a repeated request gets the same reply. */
const fromConversation = (request: ScriptedRequest): ScriptedReply => {
  if (isSummary(request)) return { text: 'Done: read notes' };
  const reads = JSON.stringify(request.body).match(/notes\/\d+\.txt/g) ?? [];
  const last = Math.max(0, ...reads.map((path) => Number(/\d+/.exec(path)?.[0])));
  return last >= 24 ? { text: 'all done' } : read(`notes/${last + 1}.txt`);
};

const INPUTS = '<input name="tag" type="string" required="false"/>';
const MOMENTS = [
  'lead turn_start 14',
  'lead assistant_message 14',
  'lead turn_end 14',
  'lead compaction 1',
  'lead turn_start 15',
  'lead compaction 2',
  'lead turn_start 20',
  'lead turn_start 24',
  'lead assistant_message 24',
  'lead compaction 3',
];

test.skipIf(isLate).each(ofToday(MOMENTS, 3))(
  'killed at `%s` (only with the registry of today), it goes on, and nothing is lost or charged twice',
  async (moment) => {
    const made = await stage(
      { ...directive('lead', { permissions: READ, limits: LIMITS(), inputs: INPUTS }), ...NOTES },
      fromConversation,
    );
    await live(made, moment).over;
    await live(made).over;
    const lead = (await rows(made)).find((row) => row.directive === 'lead');
    const { id = '', status = '' } = lead ?? {};
    expect(status).toBe('completed');
    const passes = await eventsOf(made, id, 'compaction');
    expect(passes.map(({ data }) => data['number'])).toEqual(passes.map((_, at) => at + 1));
    const replies = (await eventsOf(made, id, 'assistant_message')).filter(
      ({ data }) => data['compact'] !== undefined,
    );
    // A recorded reply is used, so each pass has at most one.
    expect(new Set(replies.map(({ data }) => data['compact'])).size).toBe(replies.length);
    const calls = await eventsOf(made, id, 'tool_result');
    expect(calls.filter(({ data }) => data['is_error'] === true)).toEqual([]);
    await replays(made);
  },
);
