// A colleague with too small a role, a token that is used without end, keys that are used for two things,
// and what the policy keeps from the page: refused, and told in the audit.
import { TRUSTING } from '@kernmantle/test-support/project';
import { directive, execute, READ, run } from '@kernmantle/test-support/thread-project';
import { expect, test } from 'vitest';
import type { ActionResult, ListedApproval } from '../src/model/api.ts';
import { ask, bearerOf, openServed, type ServedStage } from './support/serve.ts';

const DONE = { text: 'done' };
const LEAD = directive('lead', { permissions: READ });
const WRITES =
  '<write resource="filesystem" path="out/**"/><execute resource="tool" id="fs/write_file"/>';
const GUARD =
  '<guard name="look-first" on="op:tool:fs/write_file"><ask>may it write?</ask></guard>';

/** Rows of what was asked for in vain, as `km audit` tells them. */
async function refusals({ get }: ServedStage): Promise<string[]> {
  const { answer } = await get('audit?surface=web&limit=500');
  const rows = answer.output as Record<string, string>[];
  return rows
    .filter(({ decision }) => decision !== 'allowed')
    .map((row) => `${row.decision} ${row.caller} ${row.operation} ${row.target}`.trim());
}
const statusOf = async ({ threads }: ServedStage, id: string): Promise<string> => {
  const row = await threads.store.thread(id);
  return row.ok ? row.output.status : row.error.code;
};

test('a key that was used for one thing is not taken for another', async () => {
  const served = await openServed(LEAD, { lead: [DONE] });
  const headers = { ...served.headers, 'idempotency-key': 'k' };
  const first = await served.post('threads', { directive: 'lead' }, headers);
  expect(first.status).toBe(200);
  const { thread_id: id } = first.answer.output as ActionResult;
  const other = await served.post('threads', { directive: 'lead', message: 'else' }, headers);
  expect(other).toMatchObject({ status: 409, answer: { error: { code: 'conflict' } } });
  // In other words, the same.
  expect((await served.post('threads', { directive: 'lead' }, headers)).answer).toEqual(
    first.answer,
  );
  expect((await served.post(`threads/${id}/pause`, {}, headers)).status).toBeLessThan(500);
  // Somebody else's key is another one.
  const bea = { ...bearerOf(served.fixture, 'steer', 'bea'), 'idempotency-key': 'k' };
  const hers = await served.post('threads', { directive: 'lead' }, bea);
  expect((hers.answer.output as ActionResult).thread_id).not.toBe(id);
});

test('a script that is asked for twice under one key runs once', async () => {
  const served = await openServed({
    'note.mld': 'import { @name } from @payload\noutput @name to "out.txt"\nshow @name\n',
  });
  const headers = { ...served.headers, 'idempotency-key': 'k' };
  const go = (name: string) => served.post('scripts/note.mld/run', { payload: { name } }, headers);
  const [first, second] = await Promise.all([go('a'), go('a')]);
  expect(first.answer).toMatchObject({ ok: true, output: { run: { outcome: 'completed' } } });
  expect(second.answer).toEqual(first.answer);
  expect((await go('b')).status).toBe(409);
  const rows = await served.runtime.audit.read({ limit: 100, surface: 'web' });
  const runs = rows.ok ? rows.output.filter(({ operation }) => operation === 'script') : [];
  expect(runs.length).toBe(1);
});

test('what a role may not do, and what cannot begin, is told in the audit', async () => {
  const served = await openServed(LEAD, { lead: [DONE] });
  const vic = bearerOf(served.fixture, 'view', 'vic');
  const sam = bearerOf(served.fixture, 'steer', 'sam');
  expect((await served.post('threads', { directive: 'lead' }, vic)).status).toBe(403);
  expect((await served.post('approvals/ap_x/decision', {}, sam)).status).toBe(403);
  expect((await served.post('threads', { directive: 'none' }, sam)).status).toBe(404);
  const begun = await served.post('threads', { directive: 'lead' }, sam);
  const { thread_id: id } = begun.answer.output as ActionResult;
  await expect.poll(() => statusOf(served, id)).toBe('completed');
  expect((await served.post(`threads/${id}/resume`, {}, sam)).status).toBe(409);
  expect((await refusals(served)).toSorted()).toEqual([
    'denied sam POST /api/approvals/ap_x/decision',
    'denied vic POST /api/threads',
    `failed sam resume ${id}`,
    'failed sam run none',
  ]);
});

test('a decision about something else than what is there is told in the audit', async () => {
  const served = await openServed(
    directive('lead', { permissions: `${READ}${WRITES}`, guards: GUARD }),
    {
      lead: [{ tool_calls: [execute('fs/write_file', { path: 'out/a.txt', content: 'x' })] }, DONE],
    },
  );
  const begun = await served.post('threads', { directive: 'lead' });
  const { thread_id: thread } = begun.answer.output as ActionResult;
  const pending = async () =>
    ((await served.get('approvals')).answer.output as { approvals: ListedApproval[] }).approvals;
  await expect.poll(async () => (await pending()).length).toBe(1);
  const [one] = await pending();
  const path = `approvals/${one?.id}/decision`;
  await expect.poll(() => statusOf(served, thread)).toBe('waiting');
  const [now] = await pending();
  const wrong = await served.post(path, { decision: 'once', digest: '0'.repeat(64) });
  expect(wrong.status).toBe(409);
  const say = (decision: string) => served.post(path, { decision, digest: now?.digest });
  const both = await Promise.all([say('once'), say('deny')]);
  expect(both.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([200, 409]);
  expect((await refusals(served)).length).toBe(2);
  expect(await refusals(served)).toContain(`failed ann approve:${one?.id} ${thread}`);
});

test('what has ended is not begun again from where it may not be started', async () => {
  const served = await openServed(
    { ...LEAD, '../home/policy.yaml': TRUSTING },
    { lead: [DONE, DONE] },
  );
  const { thread_id: id } = await run(served, 'lead', { by: { who: 'ann', surface: 'cli' } });
  const again = await served.post(`threads/${id}/resume`, { message: 'and now this' });
  expect(again).toMatchObject({ status: 403, answer: { error: { code: 'permission_denied' } } });
  expect(await statusOf(served, id)).toBe('completed');
  expect(await refusals(served)).toEqual([`denied ann resume ${id}`]);
  const { store } = served.threads;
  const row = await store.thread(id);
  expect(row.ok && row.output.lease_until).toBeFalsy();
});

test('a token opens so many sessions, and then nobody is locked out', async () => {
  const served = await openServed();
  const { authorization = '' } = bearerOf(served.fixture, 'view');
  const token = authorization.replace('Bearer ', '');
  const open = async () => (await ask(served.url, 'session', {}, { token })).status;
  for (let count = 0; count < 100; count++) expect(await open()).toBe(200);
  expect(await open()).toBe(429);
  expect((await served.get('me', { authorization })).status).toBe(200);
  expect((await served.get('me')).status).toBe(200);
});

test('of two who resume it at once and want different things, one is told no', async () => {
  const served = await openServed(LEAD, { lead: [DONE] });
  const begun = await served.post('threads', { directive: 'lead' });
  const { thread_id: id } = begun.answer.output as ActionResult;
  await expect.poll(() => statusOf(served, id)).toBe('completed');
  const go = (message: string) => served.post(`threads/${id}/resume`, { message });
  const [one, other, same] = await Promise.all([go('this'), go('that'), go('this')]);
  expect([one.status, other.status, same.status]).toEqual([200, 409, 200]);
  await expect.poll(() => statusOf(served, id)).toBe('completed');
  const events = await served.threads.store.read(id);
  const texts = events.ok ? JSON.stringify(events.output) : '';
  expect([texts.split('"this"').length > 1, texts.includes('"that"')]).toEqual([true, false]);
});
