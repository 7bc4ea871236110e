// Canaries in the environment, in inputs and in tool results: the model may read them, nobody who opens
// a file or watches a run does.
import { readdirSync, readFileSync, rmSync, truncateSync } from 'node:fs';
import { join } from 'node:path';
import { runCommand } from '@kernmantle/test-support/command-line';
import { isLate } from '@kernmantle/test-support/late-store';
import {
  directiveText,
  execute,
  READ,
  type Stage,
  stage,
} from '@kernmantle/test-support/thread-project';
import { expect, test } from 'vitest';
import type { JsonObject, Outcome } from '../../src/base/index.ts';
import type { ScriptedReply } from '../../src/llm/index.ts';
import { readTranscript } from '../../src/store/index.ts';

const FROM_ENV = 'cnry-env/1f9c+"ü"&x=7';
const FROM_INPUT = 'cnry-input 58aa/"q"';
const FROM_RESULT = 'cnry-result-0d41-zz';
const CANARIES = [FROM_ENV, FROM_INPUT, FROM_RESULT];

const base64 = (text: string, before = '') => Buffer.from(before + text).toString('base64');
const written = (text: string): string[] => [
  text,
  base64(text),
  base64(text, 'ab'),
  Buffer.from(text).toString('base64url'),
  Buffer.from(text).toString('hex'),
  encodeURIComponent(text),
  JSON.stringify(text),
  JSON.stringify(JSON.stringify(text)),
];
/** What would give the secret away: without the ends, which depend on what stands around it. */
const telling = (text: string): string[] => written(text).map((form) => form.slice(4, -4));
const FORMS = CANARIES.flatMap(telling);

function expectSilent(text: string, where: string): void {
  for (const form of FORMS) expect(text.includes(form), `${where} shows ${form}`).toBe(false);
}

/** Every file that the run left behind. */
function records({ fixture }: Stage): Map<string, string> {
  const found = new Map<string, string>();
  const folder = join(fixture.root, '.ai');
  for (const name of readdirSync(folder, { recursive: true, encoding: 'utf8' })) {
    if (name.startsWith('tools') || name.startsWith('directives')) continue;
    try {
      found.set(name, readFileSync(join(folder, name), 'latin1'));
    } catch {
      // A folder.
    }
  }
  return found;
}

function must<T>(outcome: Outcome<T>): T {
  if (!outcome.ok) throw new Error(outcome.error.detail.message);
  return outcome.output;
}

const INPUTS =
  '<inputs><input name="api_key" type="string" required="true">x</input></inputs><process>';
const files = {
  '.ai/directives/look.md': directiveText('look', {
    permissions: `${READ}<execute resource="tool" id="locker"/>`,
  }).replace('<process>', INPUTS),
  '.ai/tools/locker.yaml':
    'tool_id: locker\ntool_type: file\nversion: "1.0.0"\ncategory: test\ndescription: Reads a secret\nexecutor_id: fs/read_file\nlabels: [secret]\nrequires: [fs.read]\neffect: read\nparameters: [{name: path, type: string, required: true, role: path}]\n',
  'notes/leak.txt': [FROM_ENV, FROM_INPUT].flatMap(written).join('\n'),
  'notes/locked.txt': FROM_RESULT,
};
const told = [FROM_ENV, FROM_INPUT, FROM_RESULT].join(' and ');
const script: ScriptedReply[] = [
  {
    text: `I know ${FROM_ENV} and ${FROM_INPUT}.`,
    tool_calls: [
      execute('fs/read_file', { path: 'notes/leak.txt' }),
      execute('locker', { path: 'notes/locked.txt' }),
    ],
  },
  {
    tool_calls: [
      execute('fs/read_file', { path: `notes/${FROM_ENV}` }),
      execute('fs/read_file', { path: `private/${FROM_ENV}` }),
      execute(`no/${FROM_INPUT}`, {}),
    ],
  },
  { text: `They are ${told}, also ${base64(FROM_ENV)} and ${encodeURIComponent(FROM_INPUT)}.` },
];

/** Runs it until its first step is done; answers with its id and who can take it up again. */
async function runToPause({ runtime, threads: { store } }: Stage) {
  const threads = must(
    await runtime.threads({
      async onEvent(thread, { type, turn }) {
        if (type !== 'tool_result' || turn !== 1) return;
        await store.signal({ thread, kind: 'pause', payload: {}, key: 'one', by: 'a test' });
      },
    }),
  );
  const { status, thread_id: paused } = must(await threads.run(request));
  expect(status).toBe('paused');
  return { paused, threads };
}

async function prepare(): Promise<Stage> {
  const made = await stage(files, script);
  made.fixture.env.SERVICE_TOKEN = FROM_ENV;
  return made;
}
const request = { directive: 'look', inputs: { api_key: FROM_INPUT } };

// Looks into the file.
test.skipIf(isLate)('no record of a run shows a secret, in any form', async () => {
  const made = await prepare();
  const live: unknown[] = [];
  const threads = await made.runtime.threads({
    onEvent: (thread, event) => void live.push([thread, event]),
    onText: (_thread, piece) => void live.push(piece),
  });
  if (!threads.ok) throw new Error('no threads');
  const result = await threads.output.run(request);
  expect(result).toMatchObject({ ok: true, output: { status: 'completed' } });
  // The model did read them.
  const sent = JSON.stringify(made.provider.requests.at(-1)?.body);
  for (const canary of CANARIES)
    expect(sent).toContain(JSON.stringify(canary).slice(1, -1).slice(0, 9));
  expectSilent(JSON.stringify(live), 'a live event');
  expectSilent(live.filter((piece) => typeof piece === 'string').join(''), 'the text as it comes');
  expectSilent(JSON.stringify(result), 'the result');
  const left = records(made);
  expect([...left.keys()].some((name) => name.endsWith('registry.db'))).toBe(true);
  expect([...left.keys()].some((name) => name.endsWith('transcript.jsonl'))).toBe(true);
  for (const [name, bytes] of left) expectSilent(bytes, name);
  // Each call is a row, with the right it was judged by.
  const rows = await made.runtime.audit.read({ limit: 50 });
  const calls = (rows.ok ? rows.output : []).filter(({ surface }) => surface === 'thread');
  const seen = calls.map((row) => `${row.decision} ${row.operation}`);
  // Calls that only read may run at the same time.
  expect(seen.toSorted()).toEqual([
    'allowed tool:fs/read_file',
    'allowed tool:locker',
    'denied tool:fs/read_file',
    'failed execute:tool:no/[secret]',
    'failed tool:fs/read_file',
  ]);
  expect(calls[0]?.subject).toMatch(/^token:[0-9a-f]{16}$/);
});

test('a run on the command line shows none in its events either', async () => {
  const made = await prepare();
  const words = ['run', 'look', `api_key=${FROM_INPUT}`, '--json'];
  const ran = await runCommand(words, made.fixture.root, made.fixture.env);
  expect(ran.code, ran.output).toBe(0);
  expectSilent(ran.output, 'the command line');
  for (const [name, bytes] of records(made)) expectSilent(bytes, name);
});

test('a thread that is taken up again knows what it knew', async () => {
  const made = await prepare();
  const { paused } = await runToPause(made);
  const before = JSON.stringify(made.provider.requests.at(-1)?.body);
  // As another process would: nothing of the first runtime is left but its files.
  const second = await made.fixture.open();
  const again = must(await second.threads());
  expect(await again.resume(paused)).toMatchObject({ output: { status: 'completed' } });
  const after = JSON.stringify(made.provider.requests.at(-1)?.body);
  expect(after.length).toBeGreaterThan(before.length);
  const escaped = JSON.stringify(FROM_ENV).slice(1, -1);
  expect(after).toContain(escaped);
  expect(after).not.toContain('{secret ');
  for (const [name, bytes] of records(made)) expectSilent(bytes, name);
  expect(JSON.stringify(await again.history(paused))).toContain(escaped);
  await second.close();
});

test('what is secret to a parent is secret to its child, whatever it is called there', async () => {
  const made = await stage(
    {
      '.ai/directives/boss.md': directiveText('boss', {
        permissions: '<orchestration enabled="true"/>',
      }).replace('<process>', INPUTS),
      '.ai/directives/kid.md': directiveText('kid').replace(
        '<process>',
        '<inputs><input name="note" type="string" required="true">x</input></inputs><process>',
      ),
    },
    [
      {
        tool_calls: [
          execute('threads/thread_directive', {
            directive_name: 'kid',
            inputs: { note: FROM_INPUT },
            wait_ms: 10_000,
          }),
        ],
      },
      { text: `I was told ${FROM_INPUT}` },
      { text: 'done' },
    ],
  );
  const done = await made.threads.run({ directive: 'boss', inputs: { api_key: FROM_INPUT } });
  expect(done).toMatchObject({ ok: true, output: { status: 'completed', text: 'done' } });
  const rows = await made.threads.store.query({});
  expect(rows.ok && rows.output.rows.map((row) => row.directive).toSorted()).toEqual([
    'boss',
    'kid',
  ]);
  for (const [name, bytes] of records(made)) expectSilent(bytes, name);
});

test('a question to a person shows none, and its answer is found', async () => {
  const made = await stage(files, [
    {
      tool_calls: [
        { name: 'help', arguments: { action: 'escalate', reason: `may I use ${FROM_INPUT}` } },
      ],
    },
    { text: 'done' },
  ]);
  const waiting = await made.threads.run(request);
  const id = waiting.ok ? waiting.output.thread_id : '';
  expect(waiting).toMatchObject({ output: { status: 'waiting' } });
  const [asked] = must(await made.threads.store.approvals({ state: 'pending' }));
  expect(JSON.stringify(asked)).toContain('may I use [secret]');
  const answer = {
    decision: 'approved',
    who: 'me',
    channel: 'cli',
    why: '',
    answer: 'yes',
  } as const;
  must(await made.threads.store.decide(asked?.id ?? '', answer));
  expect(await made.threads.resume(id)).toMatchObject({ output: { status: 'completed' } });
  expect(JSON.stringify(made.provider.requests.at(-1)?.body)).toContain('yes');
  for (const [name, bytes] of records(made)) expectSilent(bytes, name);
});

test.each([
  ['lost', (file: string) => rmSync(file)],
  ['cut off', (file: string) => truncateSync(file, 40)],
])('a transcript that was %s is whole again when its thread goes on', async (_, harm) => {
  const made = await prepare();
  const { paused, threads } = await runToPause(made);
  const dir = join(made.fixture.root, '.ai', 'threads');
  harm(join(dir, paused, 'transcript.jsonl'));
  expect(await threads.resume(paused)).toMatchObject({ output: { status: 'completed' } });
  const shown = readTranscript(dir, paused);
  const journal = await made.threads.store.read(paused);
  if (!shown.ok || !journal.ok) throw new Error('cannot be read');
  expect(shown.output.problems).toEqual([]);
  expect(shown.output.lines.map(({ seq, type }) => [seq, type])).toEqual(
    journal.output.map(({ seq, type }) => [seq, type]),
  );
  expectSilent(JSON.stringify(shown.output.lines), 'the transcript');
});

test('arguments are a hash and how they begin, unless the settings say more', async () => {
  const line = async (policy: string): Promise<JsonObject | undefined> => {
    const made = await stage({ ...files, '../home/policy.yaml': policy }, script);
    const done = await made.threads.run(request);
    const id = done.ok ? done.output.thread_id : '';
    const shown = readTranscript(join(made.fixture.root, '.ai', 'threads'), id);
    return shown.ok ? shown.output.lines.find(({ type }) => type === 'tool_call')?.data : undefined;
  };
  expect((await line('unsigned: allow\n'))?.arguments).toMatchObject({
    hash: expect.stringMatching(/^sha256:[0-9a-f]{64}$/),
    preview: expect.stringContaining('notes/leak.txt'),
  });
  const full = (await line('unsigned: allow\ntranscript: full\n'))?.arguments;
  expect(full).toMatchObject({ parameters: { path: 'notes/leak.txt' } });
});
