// A client of `/api/stream`, as the page is one: it reads frames, goes on by the last id, and can stop
// reading while its connection stays open.
import { type ClientRequest, type IncomingMessage, request } from 'node:http';
import { createParser } from 'eventsource-parser';
import { onTestFinished } from 'vitest';
import type { StreamFrame } from '../../src/model/api.ts';
import { type Heard, hear, nothingHeard } from './live.ts';
import type { Headers } from './serve.ts';

export interface StreamClient {
  readonly heard: Heard;
  readonly status: number;
  /** Comments: nothing happened, and it is still there. */
  comments(): number;
  isOver(): boolean;
  pause(): void;
  resume(): void;
  cut(): void;
}

/** `heard` of an earlier connection is gone on with, by its position. */
export async function openStream(
  url: string,
  headers: Headers,
  topics: readonly string[],
  {
    heard = nothingHeard(),
    after = heard.position,
  }: { heard?: Heard; after?: string | undefined } = {},
): Promise<StreamClient> {
  const query = new URLSearchParams({ topics: topics.join(','), ...(after ? { after } : {}) });
  const { sent, response } = await ask(`${url}/api/stream?${query.toString()}`, headers);
  let [isOver, comments] = [false, 0];
  const parser = createParser({
    onEvent: ({ id, data }) => hear(heard, JSON.parse(data) as StreamFrame, id),
    onComment: () => {
      comments += 1;
    },
  });
  response.setEncoding('utf8');
  response.on('data', (text: string) => isOver || parser.feed(text));
  const over = (): void => {
    isOver = true;
  };
  response.on('close', over).on('error', over);
  onTestFinished(() => void sent.destroy());
  return {
    heard,
    status: response.statusCode ?? 0,
    comments: () => comments,
    isOver: () => isOver,
    pause: () => void response.pause(),
    resume: () => void response.resume(),
    cut() {
      isOver = true;
      sent.destroy();
    },
  };
}

function ask(
  url: string,
  headers: Headers,
): Promise<{ sent: ClientRequest; response: IncomingMessage }> {
  return new Promise((resolve, reject) => {
    const sent = request(url, { headers, agent: false });
    sent.on('error', reject);
    sent.on('response', (response) => resolve({ sent, response }));
    sent.end();
  });
}
