// A person at a client over HTTP: asked where the token's role lets them decide, and nowhere else.
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Fixture, makeFixture } from '@kernmantle/test-support/project';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { connect, type Era, type Served, serve } from '../../mcp/tests/support/http.ts';
import type { Answered } from '../../mcp/tests/support/threads.ts';
import { openTokens } from '../src/index.ts';

const POLICY = `unsigned: allow
approve: [write]
surfaces: { mcp: { effects: [read, idempotent, write], directives: all, open: [fs.write] } }
`;

let fixture: Fixture;
let served: Served;
beforeAll(async () => {
  fixture = makeFixture();
  fixture.write(`${fixture.home}/policy.yaml`, POLICY);
  served = await serve(fixture);
});
afterAll(async () => {
  await served.stop();
  fixture.remove();
});

/** A client that says yes to everything, and how often it was asked. */
async function agreeable(era: Era, role: string | undefined) {
  const tokens = openTokens({ home: fixture.home, project: fixture.root });
  const made = role === undefined ? undefined : tokens.add({ name: '', role, days: 1 });
  const headers: Record<string, string> = made?.ok
    ? { authorization: `Bearer ${made.output.token}` }
    : {};
  let asked = 0;
  const client = await connect(served.url, era, headers, { elicitation: {} }, (one) =>
    one.setRequestHandler('elicitation/create', () => {
      asked += 1;
      return { action: 'accept', content: { decision: 'approve' } };
    }),
  );
  onTestFinished(() => client.close());
  const write = async (path: string): Promise<Answered> => {
    const parameters = { path, content: 'yes' };
    const request = { item_type: 'tool', item_id: 'fs/write_file', parameters };
    const done = await client.callTool({ name: 'execute', arguments: request });
    return done.structuredContent as Answered;
  };
  return { write, asked: () => asked };
}

const ERAS: Era[] = ['modern', 'legacy'];

test.each(ERAS)('with the role to approve the call goes on (%s)', async (era) => {
  const { write, asked } = await agreeable(era, 'approve');
  const file = `${era}.txt`;
  expect(await write(file)).toMatchObject({ ok: true });
  expect(readFileSync(join(fixture.root, file), 'utf8')).toBe('yes');
  expect(asked()).toBe(1);
});

test.each(
  ERAS.flatMap((era) =>
    [undefined, 'steer', 'view'].map((role) => [role ?? 'no token', era, role] as const),
  ),
)('with %s nobody is asked, and nothing is done (%s)', async (_name, era, role) => {
  const { write, asked } = await agreeable(era, role);
  const code = role === 'steer' ? 'needs_input' : 'permission_denied';
  expect(await write('never.txt')).toMatchObject({ ok: false, error: { code } });
  expect(asked()).toBe(0);
  expect(existsSync(join(fixture.root, 'never.txt'))).toBe(false);
});
