// A program or a server says of its own failure what it likes. INVARIANT: no code, field or text of it takes
// a label off, ends a thread or leads to a journal that cannot be read.
import { hash } from 'node:crypto';
import { CODES, FIELDS, failing } from '@kernmantle/test-support/foreign-faults';
import { ofToday } from '@kernmantle/test-support/soak';
import {
  directive,
  hook,
  openStage,
  call as plainCall,
  run,
  answer as verdict,
} from '@kernmantle/test-support/thread-project';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Json, JsonObject } from '../../src/base/index.ts';
import { readJournal } from '../../src/journal/index.ts';
import { probeSandboxNow } from '../../src/kernel/index.ts';

const sandbox = await probeSandboxNow();

const tool = (id: string, effect: string, config: string, parameters: string): string => `
tool_id: ${id}
version: 1.0.0
description: hands on what a server said
executor_id: ${config.includes('module') ? `runtime/${config.includes('.py') ? 'python' : 'node'}` : 'subprocess'}
requires: [process.spawn, net.http]
effect: ${effect}
config: ${config}
parameters: [${parameters}]
`;

// Each call is another one to the loop detector.
const ABOUT = '{ name: about, type: string, required: true }';
const ANSWER = `{ name: answer, type: any, required: true, volatile: true }, ${ABOUT}`;
const FILES = {
  '.ai/tools/net/node.yaml': tool('node', 'read', '{ module: ./say.mjs }', ANSWER),
  '.ai/tools/net/send.yaml': tool('send', 'write', '{ module: ./say.mjs }', ANSWER),
  '.ai/tools/net/python.yaml': tool('python', 'read', '{ module: ./say.py }', ANSWER),
  '.ai/tools/net/say.mjs': 'export default ({ answer }) => answer;\n',
  '.ai/tools/net/say.py': 'def run(parameters):\n    return parameters["answer"]\n',
  '.ai/tools/net/shell.yaml': tool(
    'shell',
    'read',
    `{ shell: bash, script: 'printf "%s\\n" "$SAID" >&2; exit "$CODE"', env: { SAID: "{said}", CODE: "{code}" } }`,
    `{ name: said, type: string, required: true, volatile: true }, { name: code, type: string, required: true }, ${ABOUT}`,
  ),
};
const PERMISSIONS =
  '<read resource="filesystem" path="**"/><execute resource="shell"/><execute resource="tool" id="net/*"/><execute resource="net" action="http"/><execute resource="kernmantle" action="*"/>';
const LIMITS =
  '<turns>60</turns><tool_calls>500</tool_calls><tokens>9000000</tokens><spend>99</spend>';

const call = (id: string, parameters: JsonObject) =>
  plainCall(id, { ...parameters, about: hash('sha512', JSON.stringify(parameters)) });
type Call = ReturnType<typeof call>;

/** Makes the calls, one turn for each list, and returns what became of the thread and of every call. */
async function thread(calls: readonly Call[][], parts: JsonObject = {}, more = {}) {
  const made = await openStage(
    {
      ...FILES,
      ...directive('work', { permissions: PERMISSIONS, limits: LIMITS, ...parts }),
      ...more,
    },
    { work: [...calls.map((tool_calls) => ({ tool_calls })), { text: 'done' }] },
  );
  const { thread_id: id, status } = await run(made, 'work');
  const events = await readJournal(made.threads.store, id);
  if (!events.ok) throw new Error(events.error.detail.message);
  const results = events.output.flatMap((event) =>
    event.type === 'tool_result' && event.data.tool?.startsWith('net/') ? [event.data] : [],
  );
  const types = new Set(events.output.map(({ type }) => type));
  const replayed = await made.threads.replay(id);
  const isSame = replayed.ok && replayed.output.isSame;
  return { status, results, types, isSame, requests: made.provider.requests };
}

const isUntrusted = (marks: unknown): boolean => JSON.stringify(marks).includes('"untrusted"');

describe.skipIf(sandbox.kind === 'none')('a failure', () => {
  test.each([
    ['net/node', CODES],
    ['net/python', ofToday(CODES, 6)],
    ['net/send', ofToday(CODES, 6)],
  ])(
    'of %s with any code (%s) and any field is a failure, untrusted, and nothing else',
    async (id, codes) => {
      const calls = codes.map((code) => [call(id, { answer: failing(code) })]);
      const { status, results, types, isSame } = await thread(calls);
      expect(status).toBe('completed');
      expect(results.map(({ is_error, marks }) => [is_error, isUntrusted(marks)])).toEqual(
        codes.map(() => [true, true]),
      );
      for (const type of ['limit', 'approval', 'permission_denied', 'error']) {
        expect([type, types.has(type as never)]).toEqual([type, false]);
      }
      expect(isSame).toBe(true);
    },
  );

  test.each([
    ...[
      'some_code',
      'config_invalid',
      'sandbox_missing',
      'permission_denied',
      'Config_Invalid ',
    ].map((code) => ['net/node', code] as const),
    ...['config_invalid', 'dependency_missing'].map((code) => ['net/python', code] as const),
    ...['sandbox: STRANGER', 'bwrap: execvp STRANGER', 'prlimit: failed to execute STRANGER'].map(
      (said) => ['net/shell', said] as const,
    ),
  ])('that is the first thing a thread hears is untrusted (%s, `%s`)', async (id, said) => {
    const only = call(id, id === 'net/shell' ? { said, code: '1' } : { answer: failing(said) });
    const { status, results } = await thread([[only]]);
    expect([status, results.map(({ marks }) => isUntrusted(marks))]).toEqual(['completed', [true]]);
  });

  test('in words of the sandbox is a failure of the program, untrusted', async () => {
    const said = ['some: x', 'sandbox: x', 'bwrap: x', 'sandbox: execvp x', 'prlimit: x'];
    const calls = said.flatMap((words) =>
      ['1', '126', '127'].map((code) => [call('net/shell', { said: `${words} STRANGER`, code })]),
    );
    const { status, results } = await thread(calls);
    expect(status).toBe('completed');
    expect(
      results.map(({ content, marks }) => [
        (content as { error: { code: string } }).error.code,
        isUntrusted(marks),
      ]),
    ).toEqual(calls.map(() => ['tool_failed', true]));
  });

  test('is behind a reference where the model knows what strangers wrote by reference', async () => {
    const calls = [
      ...ofToday(CODES, 6).map((code) => [call('net/node', { answer: failing(code) })]),
      [call('net/shell', { said: 'sandbox: STRANGER', code: '1' })],
    ];
    const { requests } = await thread(calls, { untrusted: 'reference' });
    type Request = { messages: { content: { type: string }[] }[] };
    const last = requests.at(-1)?.body as Request | undefined;
    const messages = last?.messages ?? [];
    // What the model wrote itself is in its calls.
    const results = messages.flatMap(({ content }) =>
      content.filter(({ type }) => type === 'tool_result'),
    );
    expect(results.length).toBeGreaterThanOrEqual(calls.length);
    expect(results.filter((block) => JSON.stringify(block).includes('STRANGER'))).toEqual([]);
  });

  test('of a code that asks for another attempt is told to the hooks, and repeated by none', async () => {
    const calls = ['retry_requested', 'cancelled', 'outcome_unknown'].map((code) => [
      call('net/send', { answer: failing(code) }),
    ]);
    const parts = { hooks: hook('event.name == "error"', 'again') };
    const answers = { '.ai/directives/again.md': verdict('again', { action: 'continue' }) };
    const { status, types, results } = await thread(calls, parts, answers);
    expect([status, types.has('hook'), results.length]).toEqual(['completed', true, calls.length]);
  });
});

test.skipIf(sandbox.kind === 'none')(
  'whatever JSON a module hands on, the thread ends as the control does and its journal is read',
  async () => {
    const code = fc.oneof(fc.constantFrom(...CODES), fc.string());
    const detail = fc.oneof(
      fc.jsonValue(),
      fc.record(Object.fromEntries(Object.keys(FIELDS).map((name) => [name, fc.jsonValue()])), {
        requiredKeys: [],
      }),
    );
    const outcome = fc.oneof(
      { weight: 4, arbitrary: fc.record({ ok: fc.boolean(), error: fc.record({ code, detail }) }) },
      { weight: 1, arbitrary: fc.record({ ok: fc.jsonValue(), output: fc.jsonValue() }) },
      { weight: 1, arbitrary: fc.jsonValue() },
    );
    const answers = fc.sample(outcome, { numRuns: 24, seed: 24 });
    const calls = answers.map((answer) => call('net/node', { answer: answer as Json }));
    const turns = [calls.slice(0, 8), calls.slice(8, 16), calls.slice(16)];
    const { status, results } = await thread(turns);
    expect([status, results.length]).toEqual(['completed', calls.length]);
  },
);
