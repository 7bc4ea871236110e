// People are told over a real webhook and a real command, and learn of what was said the title alone.
import { existsSync, readFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { directiveText, READ, read, run, stage } from '@kernmantle/test-support/thread-project';
import { afterEach, beforeEach, expect, test } from 'vitest';

let server: Server;
let url = '';
const received: string[] = [];
beforeEach(async () => {
  received.length = 0;
  server = createServer((request, response) => {
    let body = '';
    request.on('data', (chunk: Buffer) => {
      body += chunk.toString();
    });
    request.on('end', () => {
      received.push(`${request.method} ${body}`);
      response.end('ok');
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/told`;
});
afterEach(async () => {
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
});

const limited = {
  '.ai/directives/look.md': directiveText('look', {
    permissions: READ,
    limits: '<turns>1</turns>',
  }),
};

test('a limit is told to a webhook before the run answers', async () => {
  const policy = `unsigned: allow\nhosts: ["127.0.0.1"]\nnotify: { webhook: "${url}" }\n`;
  const made = await stage({ ...limited, '../home/policy.yaml': policy }, [read('notes/a.txt')]);
  const result = await run(made, 'look', { message: 'my topic\nmy canary' });
  expect(received).toHaveLength(1);
  expect(received[0]).toMatch(/^POST /);
  const body = JSON.parse(received[0]?.slice(5) ?? '') as object;
  expect(body).toMatchObject({
    event: 'limit',
    thread_id: result.thread_id,
    directive: 'look',
    title: 'my topic',
  });
  expect(received[0]).not.toContain('canary');
  expect(received[0]).not.toContain('hello');
});

test('a command gets the same on its standard input', async () => {
  const policy = 'unsigned: allow\nnotify: { command: "cat > told.json" }\n';
  const made = await stage({ ...limited, '../home/policy.yaml': policy }, [read('notes/a.txt')]);
  await run(made, 'look');
  const told = JSON.parse(readFileSync(join(made.fixture.root, 'told.json'), 'utf8')) as object;
  expect(told).toMatchObject({ event: 'limit', status: 'limit' });
});

test('a project that nobody vouched for names no command', async () => {
  const policy = 'notify: { command: "touch told.json" }\n';
  const made = await stage({ ...limited, '.ai/policy.yaml': policy }, [read('notes/a.txt')]);
  await run(made, 'look');
  expect(existsSync(join(made.fixture.root, 'told.json'))).toBe(false);
});

test('nobody there: the run ends as it would, and the audit says so', async () => {
  const policy = 'unsigned: allow\nnotify: { webhook: "http://127.0.0.1:9/", command: "exit 3" }\n';
  const made = await stage({ ...limited, '../home/policy.yaml': policy }, [read('notes/a.txt')]);
  expect(await run(made, 'look')).toMatchObject({ status: 'limit' });
  const rows = await made.runtime.audit.read({ limit: 50, decision: 'failed' });
  const reasons = rows.ok ? rows.output.map(({ reason }) => reason) : [];
  expect(reasons.filter((reason) => reason.startsWith('a notice was not'))).toHaveLength(2);
});
