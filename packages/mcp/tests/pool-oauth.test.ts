// Tests logins: once with a person, later without, and never for another address.
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { Outcome } from '@kernmantle/core/base';
import type { Authorizer } from '@kernmantle/core/runtime';
import { makeProject, type TestProject } from '@kernmantle/test-support/processes';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { openLoopbackLogin } from '../src/client/loopback.ts';
import type { HttpEndpoint, ServerAnswer } from '../src/client/pool.ts';
import { startGuardedServer } from './support/guarded-server.ts';
import { callWith, poolOf } from './support/pool.ts';

let project: TestProject;
const closing: (() => unknown)[] = [];
beforeEach(() => {
  project = makeProject();
});
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
  project.remove();
});

async function guarded() {
  const { stop, ...server } = await startGuardedServer();
  closing.push(stop);
  return server;
}

/** Follows the login page to its redirect. */
const browser = async (page: string): Promise<void> => {
  await fetch(page);
};

function caller(url: string, authorize?: Authorizer) {
  const { pool } = poolOf(project, { authorize });
  closing.push(() => pool.close());
  const endpoint: HttpEndpoint = { kind: 'http', url, headers: {}, oauth: { name: 'demo' } };
  return () => pool.call(endpoint, { name: 'act', arguments: {} }, callWith());
}

async function person(): Promise<Authorizer> {
  const login = await openLoopbackLogin((page) => void browser(page));
  closing.push(() => login.close());
  return login;
}

const words = (answer: Outcome<ServerAnswer>): string =>
  answer.ok ? JSON.stringify(answer.output.result) : JSON.stringify(answer.error);
const folder = () => join(project.home, '.ai', 'mcp-auth');

test('without a person nobody is asked, nothing is registered, and the command is named', async () => {
  const { url, state } = await guarded();
  const refused = await caller(url)();
  expect(refused).toMatchObject({
    ok: false,
    error: {
      code: 'mcp_connection_failed',
      detail: {
        retryable: false,
        remediation: expect.stringContaining('run a sync of connector `demo`'),
        login: 'demo',
      },
    },
  });
  expect(state).toMatchObject({ clients: 0, pages: 0 });
  expect(existsSync(folder())).toBe(false);
});

test('a person logs in once; from then on it works unattended, and is refreshed', async () => {
  const { url, state } = await guarded();
  expect(words(await caller(url, await person())())).toContain('in');
  expect(state).toMatchObject({ clients: 1, pages: 1 });
  const file = join(folder(), 'demo.json');
  expect(statSync(file).mode & 0o777).toBe(0o600);
  expect(readdirSync(folder())).toEqual(['demo.json']);

  const unattended = caller(url);
  expect(words(await unattended())).toContain('in');
  expect(state).toMatchObject({ clients: 1, pages: 1, refreshes: 0 });

  state.valid.clear();
  const answers = await Promise.all(Array.from({ length: 5 }, unattended));
  expect(answers.map(words).every((text) => text.includes('"in"'))).toBe(true);
  expect(state).toMatchObject({ clients: 1, pages: 1, refused: 0 });
  expect(state.refreshes).toBeGreaterThan(0);
  expect(readFileSync(file, 'utf8')).not.toContain('access-1"');

  state.valid.clear();
  state.refresh.clear();
  expect(await unattended()).toMatchObject({
    ok: false,
    error: { code: 'mcp_connection_failed', detail: { retryable: false } },
  });
});

test('what was given for one address is not shown to another under the same name', async () => {
  const [mine, other] = [await guarded(), await guarded()];
  expect(words(await caller(mine.url, await person())())).toContain('in');
  expect((await caller(other.url)()).ok).toBe(false);
  expect(other.state.seen.every((token) => token === '')).toBe(true);
});

test('somebody else’s way back is not taken for the person’s', async () => {
  const { url } = await guarded();
  const strangers: number[] = [];
  const login = await openLoopbackLogin((page) => {
    void fetch(`${login.redirectUrl}?code=theirs&state=guessed`).then(({ status }) => {
      strangers.push(status);
      return browser(page);
    });
  });
  closing.push(() => login.close());
  expect(words(await caller(url, login)())).toContain('in');
  expect(strangers).toEqual([404]);
});

test('an answer that belongs to another login is none', async () => {
  const { url, state } = await guarded();
  const wrong: Authorizer = {
    redirectUrl: 'http://127.0.0.1:1/callback',
    authorize: async () => ({
      ok: true,
      output: 'http://127.0.0.1:1/callback?code=the-code&state=x',
    }),
  };
  const refused = await caller(url, wrong)();
  expect(refused).toMatchObject({ ok: false, error: { code: 'mcp_connection_failed' } });
  expect(state.valid.size).toBe(0);
});
