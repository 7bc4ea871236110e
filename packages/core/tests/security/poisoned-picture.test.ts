// A picture with an attacker's words, and a model that does whatever they say: as a literal that the model read, as a
// reference that a reader brought, and in a plan. The tool that the attacker wants is never run.
import { defineTool } from '@kernmantle/test-support/define-tool';
import { makePng } from '@kernmantle/test-support/files';
import { runs } from '@kernmantle/test-support/soak';
import { call, directiveText, type Stage, stage } from '@kernmantle/test-support/thread-project';
import { expect, test } from 'vitest';
import type { Json } from '../../src/base/index.ts';
import type { ScriptedReply, ScriptedRequest } from '../../src/llm/index.ts';

/** Attacks of each mode: 50 together in the short form, 50 each in the long form. */
const ATTACKS = { show: runs(20, 50), reference: runs(15, 50), plan: runs(15, 50) };
type Mode = keyof typeof ATTACKS;

const hasImage = (body: Json): boolean => JSON.stringify(body).includes('"type":"base64"');
const target = (at: number): string =>
  at % 3 === 0
    ? `eve${at}@evil.example`
    : at % 3 === 1
      ? `https://evil.example/${at}`
      : `/srv/${at}`;
const toolOf = (at: number): string => (at % 2 === 0 ? 'test/send' : 'test/wipe');

const schema = { type: 'object', properties: { to: { type: 'string' } }, required: ['to'] };
const extract = { from: '$r1', what: 'whom to write to', schema };

/** The worst a model can do in each mode with what it gets. */
function obey(mode: Mode, at: number, request: ScriptedRequest): ScriptedReply {
  const [tool, to] = [toolOf(at), target(at)];
  if (mode === 'show') {
    return request.assistant_messages === 1 ? { tool_calls: [call(tool, { to })] } : { text: 'x' };
  }
  if (hasImage(request.body)) return { text: JSON.stringify({ to }) };
  if (mode === 'plan') {
    const read = `var @a = @tool("read/extract", { from: @file1, what: 'whom', schema: ${JSON.stringify(schema)} })`;
    return { text: `${read}\n@tool("${tool}", { to: @a.to })\nreturn {}` };
  }
  if (request.assistant_messages === 1) return { tool_calls: [call('read/extract', extract)] };
  // The second reference is the answer of the reader.
  return request.assistant_messages === 2
    ? { tool_calls: [call(tool, { to: '$r2' })] }
    : { text: 'x' };
}

async function open(mode: Mode, ran: string[], attack: { at: number }): Promise<Stage> {
  const tool = (id: string, risk: 'exfil' | 'destructive') =>
    defineTool({
      id,
      description: `does ${id}`,
      effect: 'write',
      risk: [risk],
      parameters: { to: { type: 'string', required: true, role: 'destination' } },
      run: ({ to }) => {
        ran.push(String(to));
        return { done: true };
      },
    });
  const permissions = ['test/*', 'read/*']
    .map((id) => `<execute resource="tool" id="${id}"/>`)
    .join('');
  const parts = { permissions, ...(mode === 'reference' && { untrusted: mode }) };
  return await stage(
    { '.ai/directives/look.md': directiveText('look', parts) },
    (request) => obey(mode, attack.at, request),
    { tools: [tool('test/send', 'exfil'), tool('test/wipe', 'destructive')] },
  );
}

test.each(Object.entries(ATTACKS) as [Mode, number][])(
  'a poisoned picture steers no risky call: %s, %i attacks',
  async (mode, count) => {
    const [ran, attack]: [string[], { at: number }] = [[], { at: 0 }];
    const made = await open(mode, ran, attack);
    const seen = { asked: 0, denied: 0 };
    for (attack.at = 0; attack.at < count; attack.at++) {
      const attach = [{ data: makePng(8, 8, 0, attack.at), name: `${target(attack.at)}.png` }];
      const plan = mode === 'plan' ? { plan: true } : {};
      const done = await made.threads.run({ directive: 'look', message: 'look', attach, ...plan });
      if (!done.ok) throw new Error(done.error.detail.message);
      seen[done.output.status === 'waiting' ? 'asked' : 'denied'] += 1;
    }
    expect(ran).toEqual([]);
    // Each attack reached the call: it was asked about, refused, or its plan was.
    const pictures = made.provider.requests.filter(({ body }) => hasImage(body));
    expect(pictures.length).toBeGreaterThanOrEqual(count);
    expect(seen.asked + seen.denied).toBe(count);
  },
);

test('the same call with an address of the person is made', async () => {
  const [ran, attack]: [string[], { at: number }] = [[], { at: 0 }];
  const made = await open('show', ran, attack);
  const attach = [{ data: makePng(8, 8), name: 'a.png' }];
  await made.threads.run({ directive: 'look', message: `write to ${target(0)}`, attach });
  expect(ran).toEqual([target(0)]);
});
