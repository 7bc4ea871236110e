// Measures the lower bound for threads: the same conversation by hand. The loop fetches, splits, parses JSON and reads
// a file, without limits, checks or records.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Json } from '@kernmantle/core/base';

type Block = Record<string, Json>;
type Delta = Record<string, string | undefined>;

/** Adds one event of the provider to the blocks of the reply. */
function take(value: Record<string, unknown>, content: Block[], partial: { json: string }): void {
  const block = content.at(-1);
  if (value['type'] === 'content_block_start') {
    content.push({ ...(value['content_block'] as Block) });
  } else if (value['type'] === 'content_block_delta') {
    const { text, partial_json } = value['delta'] as Delta;
    if (text !== undefined && block) block['text'] = `${block['text'] as string}${text}`;
    if (partial_json !== undefined) partial.json += partial_json;
  } else if (value['type'] === 'content_block_stop' && partial.json !== '' && block) {
    block['input'] = JSON.parse(partial.json) as Json;
    partial.json = '';
  }
}

/** Sends a request, and repeats it once if the idle connection had just been closed. */
async function send(url: string, body: string): Promise<Response> {
  const request = {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-api-key': 'key' },
    body,
  };
  try {
    return await fetch(`${url}/v1/messages`, request);
  } catch {
    return await fetch(`${url}/v1/messages`, request);
  }
}

async function ask(url: string, messages: readonly Json[]): Promise<Block[]> {
  const body = JSON.stringify({ model: 'm', max_tokens: 100, stream: true, messages });
  const response = await send(url, body);
  const [content, partial] = [[] as Block[], { json: '' }];
  const decoder = new TextDecoder();
  let rest = '';
  for await (const chunk of response.body as unknown as AsyncIterable<Uint8Array>) {
    const events = (rest + decoder.decode(chunk, { stream: true })).split('\n\n');
    rest = events.pop() ?? '';
    for (const event of events) {
      const data = event.slice(event.indexOf('data: ') + 6);
      take(JSON.parse(data) as Record<string, unknown>, content, partial);
    }
  }
  return content;
}

/** Runs until the model requests no more calls. `name` selects the replies, like the name of a directive. */
export async function bareLoop(
  url: string,
  root: string,
  name: string,
  onTurn: () => void = () => {},
): Promise<Json> {
  const messages: Json[] = [{ role: 'user', content: name }];
  for (;;) {
    const content = await ask(url, messages);
    onTurn();
    messages.push({ role: 'assistant', content });
    const call = content.find((block) => block['type'] === 'tool_use');
    if (!call) return content;
    const input = call['input'] as { parameters: { path: string } };
    const file = readFileSync(join(root, input.parameters.path), 'utf8');
    messages.push({
      role: 'user',
      content: [{ type: 'tool_result', tool_use_id: call['id'] as string, content: file }],
    });
  }
}
