// The key of a call: the same when that very call is made again, another for every other one.
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type Fixture, makeFixture, TRUSTING } from '@kernmantle/test-support/project';
import { afterEach, expect, test } from 'vitest';

const ends: (() => unknown)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});

/** Answers the first requests with these statuses, the others with 200; notes the keys. */
async function serve(...statuses: number[]): Promise<{ url: string; keys: unknown[] }> {
  const keys: unknown[] = [];
  const server = createServer((request, response) => {
    keys.push(request.headers['idempotency-key']);
    response.writeHead(statuses.shift() ?? 200, { 'content-type': 'application/json' });
    response.end('{"done":true}');
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  ends.push(() => new Promise((resolve) => server.close(resolve)));
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`, keys };
}

const POST = (url: string, header: string) => `
tool_id: post
version: "1.0.0"
description: Puts something somewhere, once however often it is sent
executor_id: http_client
requires: [net.http]
effect: idempotent
config:
  method: POST
  url: "${url}"
  headers: { x-other: "1"${header} }
  body: { n: "{n}" }
retry: { max_attempts: 3, backoff_ms: [1, 1] }
parameters:
  - { name: n, type: integer, required: true }
`;
const DECLARED = ', Idempotency-Key: "{__idempotency_key}"';

function project(files: Record<string, string>): Fixture {
  const fixture = makeFixture({
    '../home/policy.yaml': TRUSTING,
    ...files,
  });
  ends.push(() => fixture.remove());
  return fixture;
}
const post = (n: number) => ({ item_type: 'tool', item_id: 'x/post', parameters: { n } });

test('a request that is sent again has the same key, another call another one', async () => {
  const { url, keys } = await serve(503);
  const fixture = project({ '.ai/tools/x/post.yaml': POST(url, DECLARED) });
  fixture.env.TEST_BASE_URL = url;
  expect(await fixture.call('execute', post(1))).toMatchObject({ ok: true });
  expect(await fixture.call('execute', post(1))).toMatchObject({ ok: true });
  expect(keys).toHaveLength(3);
  expect(keys[0]).toMatch(/^[\w-]{20,}$/);
  expect(keys[1]).toBe(keys[0]);
  expect(keys[2]).not.toBe(keys[0]);
});

test('a tool that does not ask for the key sends none, and no caller can give one', async () => {
  const { url, keys } = await serve();
  const fixture = project({ '.ai/tools/x/post.yaml': POST(url, '') });
  fixture.env.TEST_BASE_URL = url;
  expect(await fixture.call('execute', post(1))).toMatchObject({ ok: true });
  expect(keys).toEqual([undefined]);
  const given = { ...post(1), parameters: { n: 1, __idempotency_key: 'mine' } };
  expect(await fixture.call('execute', given)).toMatchObject({
    ok: false,
    error: { code: 'invalid_input' },
  });
});
