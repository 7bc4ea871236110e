// A server of models on loopback, with answers of endpoints and the stream of Chat Completions.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { onTestFinished } from 'vitest';

type Handler = (request: IncomingMessage, response: ServerResponse, body: string) => unknown;
/** Answers by path: a JSON value, or a function that answers. Any other path is 404. */
export type Endpoints = Readonly<Record<string, unknown>>;

export interface ModelServer {
  readonly url: string;
  readonly port: number;
  readonly requests: { path: string; body: string; authorization: string | undefined }[];
}

/** Starts the server until the test ends. */
export async function startModelServer(endpoints: Endpoints): Promise<ModelServer> {
  const requests: ModelServer['requests'] = [];
  const server = createServer((request, response) => {
    void text(request).then((body) => answerTo(request, response, body));
  });
  function answerTo(request: IncomingMessage, response: ServerResponse, body: string): unknown {
    const path = request.url ?? '';
    requests.push({ path, body, authorization: request.headers.authorization });
    const answer = endpoints[path];
    if (typeof answer === 'function') return (answer as Handler)(request, response, body);
    response.statusCode = answer === undefined ? 404 : 200;
    response.setHeader('content-type', 'application/json');
    return response.end(JSON.stringify(answer ?? { error: 'not found' }));
  }
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(
    () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  );
  const { port } = server.address() as AddressInfo;
  return { url: `http://127.0.0.1:${port}`, port, requests };
}

/** Answers with the deltas of a stream of Chat Completions, and a usage of 10 and 5 tokens. */
export function sendChat(
  response: ServerResponse,
  deltas: readonly unknown[],
  stop = 'stop',
): void {
  response.setHeader('content-type', 'text/event-stream');
  const frame = (value: unknown): string => `data: ${JSON.stringify(value)}\n\n`;
  const about = { id: 'chat_1', model: 'small-1' };
  const chunk = (delta: unknown, finish_reason: string | null) =>
    frame({ ...about, choices: [{ index: 0, delta, finish_reason }] });
  const usage = { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 };
  response.end(
    `${deltas.map((delta) => chunk(delta, null)).join('')}${chunk({}, stop)}${frame({ ...about, choices: [], usage })}data: [DONE]\n\n`,
  );
}

export const callDelta = (index: number, name: string, given: unknown) => ({
  tool_calls: [
    {
      index,
      id: `call_${index}`,
      type: 'function',
      function: { name, arguments: JSON.stringify(given) },
    },
  ],
});

/** Answers like a model with every capability that a test of models asks for. */
export const ableModel: Handler = (_request, response, body) => {
  if (body.includes('function add')) {
    return sendChat(response, [callDelta(0, 'add', { a: 2, b: 3 })], 'tool_calls');
  }
  if (body.includes('function weather')) {
    const towns = ['Oslo', 'Rome'].map((town, index) => callDelta(index, 'weather', { town }));
    return sendChat(response, towns, 'tool_calls');
  }
  const isJson = body.includes('JSON object');
  sendChat(response, [{ content: isJson ? '{"town": "Oslo", "degrees": 3}' : 'ready' }]);
};
