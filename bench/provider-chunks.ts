// Runs a provider that sends a text in many pieces, each in its own chunk. The scripted provider would send all
// available events in one chunk.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { WORDINGS } from '../packages/core/src/llm/scripted/protocols.ts';

const PIECE = 'ten bytes.';
const usage = { input_tokens: 500, output_tokens: 20, cache_read_tokens: 0, cache_write_tokens: 0 };

async function answerTo(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const count = Number(/deltas_(\d+)/.exec(await text(request))?.[1]);
  const answer = {
    id: 'x',
    model: 'm',
    text: PIECE.repeat(count),
    thinking: '',
    seal: '',
    calls: [],
  };
  const said = { ...answer, stop: 'end', usage, piece: PIECE.length } as const;
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  for (const frame of WORDINGS.anthropic.frames({ ...said, calls: [] }, true)) {
    response.write(frame);
  }
  response.end();
}

const server = createServer((request, response) => {
  answerTo(request, response).catch(() => response.destroy());
});
server.listen(0, '127.0.0.1', () => {
  process.stdout.write(`http://127.0.0.1:${(server.address() as AddressInfo).port}\n`);
});
process.stdin.on('end', () => {
  server.closeAllConnections();
  server.close();
});
process.stdin.resume();
