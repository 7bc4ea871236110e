// The bodies of each protocol with files, and the bytes that are put into them at sending.
import { text as wholeText } from 'node:stream/consumers';
import { makePdf, makePng } from '@kernmantle/test-support/files';
import { expect, test } from 'vitest';
import { type FileSource, putFiles } from './file-marks.ts';
import type { FileBlock, Message, Protocol } from './message.ts';
import { createRequestWriter, createWrittenMessages, requestParameters } from './request.ts';

const [PNG, PDF] = [makePng(2, 2), makePdf(1)];
const image: FileBlock = {
  type: 'file',
  sha256: 'a'.repeat(64),
  mime: 'image/png',
  bytes: PNG.length,
  name: 'a.png',
};
const pdf: FileBlock = { ...image, sha256: 'b'.repeat(64), mime: 'application/pdf', name: 'b.pdf' };
const files: FileSource = {
  sizes: new Map([
    [image.sha256, PNG.length],
    [pdf.sha256, PDF.length],
  ]),
  read: async (sha256) => (sha256 === pdf.sha256 ? PDF : PNG),
};
const call = { type: 'tool_call', id: 'c1', name: 'shot', arguments: {} } as const;
const messages: Message[] = [
  {
    role: 'user',
    content: [{ type: 'text', text: 'file "a.png":' }, image, { type: 'text', text: 'hi' }],
  },
  { role: 'assistant', content: [call, { ...call, id: 'c2' }] },
  {
    role: 'user',
    content: [
      {
        type: 'tool_result',
        id: 'c1',
        content: { ok: 1 },
        files: [pdf, { type: 'text', text: 'old' }],
      },
      { type: 'tool_result', id: 'c2', content: 'plain' },
      { type: 'text', text: 'go on' },
    ],
  },
];
const fixed = { model: 'm', system: '', tools: [], stream: true, cache: false };
const [png64, pdf64] = [PNG, PDF].map((bytes) => bytes.toString('base64'));

async function bodyOf(protocol: Protocol): Promise<unknown> {
  const writer = createRequestWriter(protocol, fixed, (parameters) => ({
    ok: true,
    output: JSON.stringify(parameters),
  }));
  const body = writer.body({ messages, maxTokens: 9, written: createWrittenMessages() });
  if (!body.ok) throw new Error(body.error.detail.message);
  expect(body.output).not.toContain(png64);
  const filled = putFiles(body.output, files);
  const text = await wholeText(filled);
  expect(Buffer.byteLength(text)).toBe(filled.bytes);
  return (JSON.parse(text) as { messages: unknown }).messages;
}

test('Anthropic Messages: images, documents, and files inside of results', async () => {
  expect(await bodyOf('anthropic')).toEqual([
    {
      role: 'user',
      content: [
        { type: 'text', text: 'file "a.png":' },
        { type: 'image', source: { type: 'base64', media_type: 'image/png', data: png64 } },
        { type: 'text', text: 'hi' },
      ],
    },
    {
      role: 'assistant',
      content: [
        { type: 'tool_use', id: 'c1', name: 'shot', input: {} },
        { type: 'tool_use', id: 'c2', name: 'shot', input: {} },
      ],
    },
    {
      role: 'user',
      content: [
        {
          type: 'tool_result',
          tool_use_id: 'c1',
          content: [
            { type: 'text', text: '{"ok":1}' },
            {
              type: 'document',
              source: { type: 'base64', media_type: 'application/pdf', data: pdf64 },
            },
            { type: 'text', text: 'old' },
          ],
        },
        { type: 'tool_result', tool_use_id: 'c2', content: 'plain' },
        { type: 'text', text: 'go on' },
      ],
    },
  ]);
});

test('OpenAI Responses: files are parts, also in the list of a result', async () => {
  const file = {
    type: 'input_file',
    filename: 'b.pdf',
    file_data: `data:application/pdf;base64,${pdf64}`,
  };
  const asked = (id: string) => ({
    type: 'function_call',
    call_id: id,
    name: 'shot',
    arguments: '{}',
  });
  expect(await bodyOf('responses')).toEqual([
    {
      type: 'message',
      role: 'user',
      content: [
        { type: 'input_text', text: 'file "a.png":' },
        { type: 'input_image', image_url: `data:image/png;base64,${png64}` },
        { type: 'input_text', text: 'hi' },
      ],
    },
    asked('c1'),
    asked('c2'),
    {
      type: 'function_call_output',
      call_id: 'c1',
      output: [{ type: 'input_text', text: '{"ok":1}' }, file, { type: 'input_text', text: 'old' }],
    },
    { type: 'function_call_output', call_id: 'c2', output: 'plain' },
    { type: 'message', role: 'user', content: [{ type: 'input_text', text: 'go on' }] },
  ]);
});

test('OpenAI Chat: files of results are in a user message after all results', async () => {
  const url = `data:image/png;base64,${png64}`;
  const file = { filename: 'b.pdf', file_data: `data:application/pdf;base64,${pdf64}` };
  const asked = (id: string) => ({
    id,
    type: 'function',
    function: { name: 'shot', arguments: '{}' },
  });
  expect(await bodyOf('openai')).toEqual([
    {
      role: 'user',
      content: [
        { type: 'text', text: 'file "a.png":' },
        { type: 'image_url', image_url: { url } },
        { type: 'text', text: 'hi' },
      ],
    },
    { role: 'assistant', content: null, tool_calls: [asked('c1'), asked('c2')] },
    { role: 'tool', tool_call_id: 'c1', content: '{"ok":1}' },
    { role: 'tool', tool_call_id: 'c2', content: 'plain' },
    {
      role: 'user',
      content: [
        { type: 'text', text: 'files of call c1:' },
        { type: 'file', file },
        { type: 'text', text: 'old' },
        { type: 'text', text: 'go on' },
      ],
    },
  ]);
});

test('no text of a conversation is replaced, and a file without bytes is empty', async () => {
  const text = JSON.stringify(
    requestParameters('anthropic', { ...fixed, messages, max_tokens: 9 }),
  );
  const mark = /"data":"(file:[^"]*:)a{64}"/.exec(text)?.[1] ?? '';
  const forged = mark.replace(/[0-9a-f]/g, '0');
  const put = (body: string, from = files) => wholeText(putFiles(body, from));
  expect(await put(`${forged}${'a'.repeat(64)}`)).toContain(forged);
  expect(await put(text, { ...files, sizes: new Map() })).toContain('"data":""');
  expect(await put('ü € 😀')).toBe('ü € 😀');
});
