// A thread in reference mode whose process is killed: its references are the same ones, of large results
// too, what they stand for is not shown by going on, and its journal tells the same again.
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { endLives, live, openRegistry, rowsOf } from '@kernmantle/test-support/crash-driver';
import { type CrashStage, probeTools } from '@kernmantle/test-support/crash-project';
import { expectSame } from '@kernmantle/test-support/expect-same';
import { makeFixture, TRUSTING } from '@kernmantle/test-support/project';
import { ofToday } from '@kernmantle/test-support/soak';
import { call, directiveText } from '@kernmantle/test-support/thread-project';
import { afterEach, expect, test } from 'vitest';
import { type ScriptedReply, startScriptedProvider } from '../../src/llm/index.ts';

let made: CrashStage | undefined;
afterEach(async () => {
  await endLives();
  await made?.provider.close();
  made?.fixture.remove();
});

const MARKER = 'zqStrangersWords';
const mails = (count: number) => ({
  mails: Array.from({ length: count }, (_, at) => ({ id: `m${at}`, subject: `${MARKER} ${at}` })),
});
const tool = (id: string, count: number) => ({
  [`.ai/tools/own/${id}.yaml`]: [
    `tool_id: ${id}\ndescription: a test\nexecutor_id: script\nparameters: []\neffect: read`,
    'result: { free_text: [subject] }',
    `config: { script: ${JSON.stringify(`/return ${JSON.stringify(mails(count))}`)} }\n`,
  ].join('\n'),
});
const SAYS: readonly ScriptedReply[] = [
  { tool_calls: [call('own/few')] },
  { tool_calls: [call('own/many')] },
  { tool_calls: [call('probe/write', { at: 'of $r3: $r2' })] },
  { text: 'first $r1, last $r1502, whole $r1503.mails[7].id' },
];

async function open(): Promise<CrashStage> {
  const provider = await startScriptedProvider((request) => SAYS[request.assistant_messages - 1]);
  if (!provider.ok) throw new Error(provider.error.detail.message);
  const ids = ['own/few', 'own/many', 'probe/write'];
  const fixture = makeFixture({
    '../home/policy.yaml': TRUSTING,
    ...tool('few', 2),
    ...tool('many', 1500),
    '.ai/directives/lead.md': directiveText('lead', {
      permissions: ids.map((id) => `<execute resource="tool" id="${id}"/>`).join(''),
      untrusted: 'reference',
      inputs: '<input name="tag" type="string">x</input>',
    }),
  });
  Object.assign(fixture.env, { ANTHROPIC_BASE_URL: provider.output.url, ANTHROPIC_API_KEY: 'key' });
  made = { fixture, provider: provider.output };
  return made;
}

const written = ({ fixture }: CrashStage): string[] => {
  const file = join(fixture.root, 'write.log');
  const text = existsSync(file) ? readFileSync(file, 'utf8').trim() : '';
  return text.split('\n').map((line) => line.slice(0, line.lastIndexOf(' ')));
};

const MOMENTS = [
  'lead tool_result 1',
  'lead tool_call 2',
  'lead tool_result 2',
  'lead turn_start 3',
  'lead tool_result 3',
  'lead turn_start 4',
];

test.each(ofToday(MOMENTS, 2))(
  'killed at `%s` it has the references that it had',
  async (moment) => {
    const stage = await open();
    await live(stage, moment).over;
    const life = live(stage);
    await life.over;
    const line = life.lines.find((text) => text.startsWith('done ')) ?? 'done {}';
    expect(JSON.parse(line.slice('done '.length))).toMatchObject({
      ok: true,
      output: {
        status: 'completed',
        text: `first ${MARKER} 0, last ${MARKER} 1499, whole m7`,
        marks: { labels: ['untrusted'] },
      },
    });
    expect(written(stage)).toEqual([`of ${MARKER} 0: ${MARKER} 1`]);
    const bodies = stage.provider.requests.map(({ body }) => JSON.stringify(body));
    expect(bodies.join('')).not.toContain(MARKER);
    const named = bodies.map((body) => [...body.matchAll(/reference\\+":\\+"(\$r\d+)/g)].join());
    // Each begins as the one before.
    for (const [at, names] of named.entries())
      expect(names.startsWith(named[at - 1] ?? '')).toBe(true);
    const store = await openRegistry(stage);
    const [row] = await rowsOf(store);
    await store.close();
    const runtime = await stage.fixture.open({ tools: probeTools(() => null) });
    const threads = await runtime.threads();
    const replayed = threads.ok ? await threads.output.replay(row?.id ?? '') : threads;
    await runtime.close();
    expectSame(replayed);
  },
);
