// A process that is killed while it forks a thread leaves no fork or a whole one. The fork has five secrets and two
// artifacts, and none of the secrets is ever readable text in the store.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { programWords } from '@kernmantle/test-support/built';
import { printOf } from '@kernmantle/test-support/random-threads';
import { ofToday, timeoutMs } from '@kernmantle/test-support/soak';
import {
  call,
  directiveText,
  openStage,
  READ,
  read,
  type Stage,
} from '@kernmantle/test-support/thread-project';
import { expect, test } from 'vitest';

/** A secret of the environment, one that a later environment lacks, an input, a result, and one in an artifact. */
const SECRETS = [
  'cnry-of-the-env-1f9c',
  'cnry-that-was-rotated-2b7d',
  'cnry-of-the-input-3c1e',
  'cnry-of-the-result-4d0f',
  'cnry-in-the-artifact-5e6a',
] as const;
const [ENV, ROTATED, INPUT, RESULT, LARGE] = SECRETS;
const locker =
  'tool_id: locker\ntool_type: file\nversion: "1.0.0"\ncategory: test\ndescription: Reads a secret\nexecutor_id: fs/read_file\nlabels: [secret]\nrequires: [fs.read]\neffect: read\nparameters: [{name: path, type: string, required: true, role: path}]\n';
const numbers = Array.from({ length: 12_000 }, (_, at) => at + 100_000);
/** A tool whose result is too large for an event. */
const large = (id: string, text: string, more: string) => ({
  [`.ai/tools/own/${id}.yaml`]: `tool_id: ${id}\ndescription: a test\nexecutor_id: script\nparameters: []\neffect: read\n${more}\nconfig: { script: ${JSON.stringify(`/return ${JSON.stringify({ text, numbers })}`)} }\n`,
});
const INPUTS =
  '<inputs><input name="api_key" type="string" required="true">x</input></inputs><process>';
const FILES = {
  '.ai/directives/look.md': directiveText('look', {
    permissions: `${READ}<execute resource="tool" id="locker"/><execute resource="tool" id="own/*"/>`,
  }).replace('<process>', INPUTS),
  '.ai/tools/locker.yaml': locker,
  'notes/told.txt': `${ENV} and ${ROTATED}`,
  'notes/locked.txt': RESULT,
  ...large('plain', 'nothing of note', ''),
  ...large('sealed', LARGE, 'labels: [secret]'),
};
const PLAY = {
  look: [
    { text: `I know ${INPUT}`, ...read('notes/told.txt') },
    {
      tool_calls: [call('locker', { path: 'notes/locked.txt' }), call('own/plain')],
    },
    { tool_calls: [call('own/sealed')] },
    { text: 'done' },
    { text: 'the fork is done' },
  ],
};

function expectSealed({ fixture }: Stage): void {
  const folder = join(fixture.root, '.ai', 'threads');
  for (const name of readdirSync(folder, { recursive: true, encoding: 'utf8' })) {
    if (!/\.(db|db-wal|jsonl|log)$/.test(name)) continue;
    const text = readFileSync(join(folder, name), 'latin1');
    for (const secret of SECRETS) expect(text.includes(secret), `${name}: ${secret}`).toBe(false);
  }
}

const POINTS = [
  'createThread 1 before',
  'createThread 1 after',
  'audit 1 before',
  'audit 1 after',
  'none 1 after',
];

test(
  'a kill leaves no fork or a whole one, and no secret as text',
  async () => {
    const made = await openStage(FILES, PLAY);
    Object.assign(made.fixture.env, { SOME_TOKEN: ENV, OLD_TOKEN: ROTATED });
    const runtime = await made.fixture.open();
    const opened = await runtime.threads();
    if (!opened.ok) throw new Error(opened.error.detail.message);
    const done = await opened.output.run({ directive: 'look', inputs: { api_key: INPUT } });
    if (!done.ok) throw new Error(done.error.detail.message);
    const { thread_id: source } = done.output;
    expect(done.output.status).toBe('completed');
    await runtime.close();
    const { threads } = made;
    const before = await printOf(threads, source);
    const { OLD_TOKEN: _, ...env } = made.fixture.env;
    const idsNow = async () => {
      const page = await threads.store.query({ limit: 500 });
      return page.ok ? page.output.rows.map(({ id }) => id) : [];
    };
    for (const point of ofToday(POINTS, 3)) {
      const known = new Set(await idsNow());
      const child = spawn(
        process.execPath,
        programWords('fork-process', made.fixture.root, source),
        {
          env: { ...env, DIES_AT: point },
          stdio: ['ignore', 'ignore', 'inherit'],
        },
      );
      const [code] = await once(child, 'exit');
      expect(code, point).toBe(point.startsWith('none') ? 0 : null);
      const news = (await idsNow()).filter((id) => !known.has(id));
      expect(news.length, point).toBe(point === 'createThread 1 before' ? 0 : 1);
      const [fork] = news;
      expectSealed(made);
      expect(await printOf(threads, source)).toEqual(before);
      if (fork === undefined) continue;
      const end = await threads.resume(fork);
      expect(end, point).toMatchObject({
        output: { status: 'completed', text: 'the fork is done' },
      });
      expectSealed(made);
      // The model of the fork gets the secrets that the conversation has.
      const sent = JSON.stringify(made.provider.requests.at(-1)?.body);
      for (const secret of [ENV, ROTATED, INPUT, RESULT]) expect(sent).toContain(secret);
      const events = await threads.history(fork);
      const text = JSON.stringify(events.ok ? events.output : []);
      const names = new Set(text.match(/sha256:[0-9a-f]{64}/g));
      expect(names.size).toBe(2);
      for (const name of names) {
        expect((await threads.store.artifact(fork, name)).ok, `${point}: ${name}`).toBe(true);
      }
      expect(await threads.replay(fork), point).toMatchObject({ output: { isSame: true } });
    }
  },
  timeoutMs(180_000),
);
