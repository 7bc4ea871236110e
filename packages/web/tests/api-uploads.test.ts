// Files of the page: sent first, named by the start or the resume, and gone when they were used.
import { request } from 'node:http';
import { systemClock } from '@kernmantle/core/base';
import { makePng } from '@kernmantle/test-support/files';
import { directive, openStage } from '@kernmantle/test-support/thread-project';
import { expect, test } from 'vitest';
import type { WebCaller } from '../src/server/context.ts';
import { createUploads } from '../src/server/routes/uploads.ts';
import { bearerOf, type Headers, type ServedStage, serveStage } from './support/serve.ts';

const PNG = makePng(5, 5);
const RAW = { 'content-type': 'application/octet-stream' };

async function upload(
  { url, headers }: ServedStage,
  body: Uint8Array,
  more: Headers = {},
  name = 'a.png',
) {
  const response = await fetch(`${url}/api/uploads?name=${name}`, {
    method: 'POST',
    headers: { ...headers, ...RAW, ...more },
    body: Buffer.from(body),
  });
  const answer = (await response.json()) as { output?: { upload: string } };
  return { status: response.status, id: answer.output?.upload ?? '' };
}

/** Sends a request whose headers no `fetch` would send. */
const raw = ({ url, headers }: ServedStage, more: Headers, body: string): Promise<number> =>
  new Promise((resolve, reject) => {
    const sent = request(
      `${url}/api/uploads`,
      { method: 'POST', headers: { ...headers, ...RAW, ...more } },
      (response) => {
        response.resume();
        resolve(response.statusCode ?? 0);
      },
    );
    sent.on('error', reject);
    sent.end(body);
  });

const serve = async () =>
  await serveStage(await openStage(directive('lead'), { lead: [{ text: 'seen' }] }));

test('a thread starts and goes on with uploads, each used once', async () => {
  const served = await serve();
  const first = await upload(served, PNG);
  expect(first.status).toBe(200);
  const start = { directive: 'lead', inputs: {}, attach: [{ upload: first.id, trusted: true }] };
  const started = await served.post('threads', start);
  expect(started.status).toBe(200);
  const { thread_id: id } = started.answer.output as { thread_id: string };
  const ended = async () => (await served.get(`threads/${id}`)).answer.output;
  await expect.poll(ended).toMatchObject({ thread: { status: 'completed' } });
  const second = await upload(served, Buffer.from('some words'), {}, 'paste');
  const words = { message: 'and this?', attach: [{ upload: second.id, paste: true }] };
  expect((await served.post(`threads/${id}/resume`, words)).status).toBe(200);
  await expect.poll(() => served.provider.count()).toBe(2);
  const body = JSON.stringify(served.provider.requests.at(-1)?.body);
  expect(body).toContain(PNG.toString('base64'));
  expect(body).toContain('some words');
  expect((await served.post('threads', start)).status).toBe(404);
  const rows = await served.threads.store.auditRows({ limit: 100 });
  const vouched = rows.ok ? rows.output.filter(({ operation }) => operation === 'vouch') : [];
  expect(vouched).toMatchObject([{ target: id, subject: 'person', decision: 'allowed' }]);
});

test('a bad upload is refused by its length, its size, its origin and its role', async () => {
  const served = await serve();
  expect(await raw(served, { 'transfer-encoding': 'chunked' }, 'abc')).toBe(411);
  expect(await raw(served, { 'content-length': String(17 * 1024 * 1024) }, '')).toBe(413);
  expect((await upload(served, PNG, { origin: 'http://evil.example' })).status).toBe(403);
  expect((await upload(served, PNG, bearerOf(served.fixture, 'view'))).status).toBe(403);
  expect((await upload(served, PNG, { 'content-type': 'text/plain' })).status).toBe(400);
  // A steering token can upload, and vouches for nothing.
  const steering = { ...served, headers: bearerOf(served.fixture, 'steer') };
  const { id } = await upload(steering, PNG);
  const attach = [{ upload: id, trusted: true }];
  const start = { directive: 'lead', inputs: {}, attach };
  expect((await served.post('threads', start, steering.headers)).status).toBe(403);
  expect((await served.post('threads', start)).status).toBe(404);
});

test('unused uploads are bounded for each person and gone after an hour', () => {
  let now = 0;
  const uploads = createUploads({ ...systemClock, monotonic: () => now });
  const who = (name: string): WebCaller => ({ id: 's', who: name, role: 'steer', expires: 0 });
  const put = (owner: string) => {
    const file = uploads.begin(owner, 'a', 16 * 1024 * 1024);
    if (file.ok) file.output.data = PNG;
    return file;
  };
  const [one] = Array.from({ length: 4 }, () => put('ann'));
  expect(put('ann')).toMatchObject({ ok: false, error: { code: 'quota_exceeded' } });
  expect(put('bob')).toMatchObject({ ok: true });
  const list = [{ upload: one?.ok ? one.output.id : '' }];
  expect(uploads.find(list, who('bob'))).toMatchObject({ ok: false, error: { code: 'not_found' } });
  expect(uploads.find(list, who('ann'))).toMatchObject({ ok: true });
  now = 60 * 60 * 1000 + 1;
  expect(uploads.find(list, who('ann'))).toMatchObject({ ok: false });
  expect(put('ann')).toMatchObject({ ok: true });
});
