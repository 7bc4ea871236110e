// What waits for a person, over `/api`: the review shows exactly what would be done, a decision is about what
// was shown and counts once, and the thread goes on with it in the server, whoever died meanwhile.
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { ScriptedReply } from '@kernmantle/core/llm';
import { decideApproval } from '@kernmantle/core/runtime';
import { movedClock } from '@kernmantle/test-support/clock';
import {
  directive,
  execute,
  hook,
  openStage,
  type Parts,
  READ,
} from '@kernmantle/test-support/thread-project';
import { expect, test } from 'vitest';
import type {
  ActionResult,
  ApprovalList,
  ApprovalReview,
  ListedApproval,
  LongText,
  ThreadView,
} from '../src/model/api.ts';
import { ask, login, openServed, type ServedStage, serveStage, spawnWeb } from './support/serve.ts';

const DONE: ScriptedReply = { text: 'done' };
const WRITES =
  '<write resource="filesystem" path="out/**"/><execute resource="tool" id="fs/write_file"/>';
const GUARD =
  '<guard name="look-first" on="op:tool:fs/write_file"><ask>may it write?</ask></guard>';
const write = (content = 'x'): ScriptedReply => ({
  text: 'I write the report so that the team can read it',
  tool_calls: [execute('fs/write_file', { path: 'out/a.txt', content })],
});
const LEAD = (more: Parts = {}) =>
  directive('lead', { permissions: `${READ}${WRITES}`, guards: GUARD, ...more });
const escalate = (more: object): ScriptedReply => ({
  tool_calls: [
    { id: 'h1', name: 'help', arguments: { action: 'escalate', reason: 'I need it', ...more } },
  ],
});

async function output<T>(served: ServedStage, path: string, body?: unknown): Promise<T> {
  const { answer, status } = await (body === undefined
    ? served.get(path)
    : served.post(path, body));
  if (!answer.ok) throw new Error(`${status} ${JSON.stringify(answer.error)}`);
  return answer.output as T;
}
const waits = async (served: ServedStage, query = ''): Promise<readonly ListedApproval[]> =>
  (await output<ApprovalList>(served, `approvals${query}`)).approvals;
async function asked(
  served: ServedStage,
): Promise<{ id: string; thread: string; review: ApprovalReview }> {
  const { thread_id } = await output<ActionResult>(served, 'threads', { directive: 'lead' });
  await expect.poll(async () => (await waits(served)).length).toBe(1);
  const [first] = await waits(served);
  const id = first?.id ?? '';
  await expect.poll(() => statusOf(served, thread_id)).toBe('waiting');
  return { id, thread: thread_id, review: await output<ApprovalReview>(served, `approvals/${id}`) };
}
const statusOf = async ({ threads }: ServedStage, id: string): Promise<string> => {
  const row = await threads.store.thread(id);
  return row.ok ? row.output.status : row.error.code;
};
const reaches = (served: ServedStage, id: string, status: string) =>
  expect.poll(() => statusOf(served, id)).toBe(status);
const decide = (
  served: ServedStage,
  { id, review }: { id: string; review: ApprovalReview },
  body: object,
  headers = {},
) =>
  served.post(
    `approvals/${id}/decision`,
    { digest: review.approval.digest, ...body },
    { ...served.headers, ...headers },
  );

test('the review of a call: exactly what would be done, who asks, what the model says apart', async () => {
  const served = await openServed(LEAD(), { lead: [write(), DONE] });
  const one = await asked(served);
  const { review } = one;
  expect(review.approval).toMatchObject({
    kind: 'call',
    state: 'pending',
    thread: one.thread,
    directive: 'lead',
    title: 'fs/write_file out/a.txt',
    rule: '@look-first',
  });
  expect(review.approval.mark).toBe(
    review.approval.digest
      .slice(0, 8)
      .toUpperCase()
      .replace(/^(.{4})/, '$1-'),
  );
  expect(review).toMatchObject({
    tool: 'fs/write_file',
    effect: 'idempotent',
    tier: 'write',
    because: 'may it write?',
    says: 'I write the report so that the team can read it',
    turn: 1,
    choices: ['once', 'value', 'scope', 'deny'],
    named: ['path'],
  });
  expect(review.arguments).toMatchObject([
    { name: 'path', text: 'out/a.txt', is_cut: false, role: 'path' },
    { name: 'content', text: 'x', bytes: 1, origin: 'from the model' },
    { name: 'overwrite', text: 'true', origin: 'from the tool’s default' },
  ]);
  expect(review.gates.map(({ state }) => state)).toEqual([
    'passed',
    'passed',
    'asks',
    'not reached',
  ]);
  expect(review.gates[2]?.by).toBe('@look-first');
  expect(review.provenance?.nodes.length).toBeGreaterThan(0);
  expect(review.meters.map(({ name }) => name)).toContain('turns');
  const view = await output<ThreadView>(served, `threads/${one.thread}`);
  expect(view.due.map(({ id }) => id)).toEqual([one.id]);
  expect(view.rights.find(({ name }) => name === 'fs.write out/**')?.state).toBe('asks');
  const done = await decide(served, one, { decision: 'once', why: 'read it' });
  expect(done.answer.output).toMatchObject({ state: 'approved', channel: 'web', why: 'read it' });
  await reaches(served, one.thread, 'completed');
  const rows = await served.threads.store.auditRows({ limit: 500 });
  const reason = `read it; shown ${review.approval.digest}`;
  const row = { surface: 'web', caller: 'ann', operation: `approve:${one.id}`, reason };
  expect(rows.ok && rows.output).toContainEqual(expect.objectContaining(row));
  expect(await waits(served)).toEqual([]);
  expect((await waits(served, '?state=decided')).map(({ id }) => id)).toEqual([one.id]);
  expect((await waits(served, `?state=all&thread=${one.thread}`)).length).toBe(1);
});

test('a long argument is cut in the review and comes whole in pieces', async () => {
  const long = 'äö'.repeat(50_000);
  const served = await openServed(LEAD(), { lead: [write(long), DONE] });
  const one = await asked(served);
  const content = one.review.arguments.find(({ name }) => name === 'content');
  expect(content).toMatchObject({ is_cut: true, bytes: Buffer.byteLength(long) });
  let [whole, offset]: [string, number | undefined] = ['', 0];
  while (offset !== undefined) {
    const path = `approvals/${one.id}/argument?name=content&offset=${offset}`;
    const piece: LongText = await output(served, path);
    whole += piece.text;
    offset = piece.next;
  }
  expect(createHash('sha256').update(whole).digest('hex')).toBe(
    createHash('sha256').update(long).digest('hex'),
  );
  expect((await served.get(`approvals/${one.id}/argument?name=nothing`)).status).toBe(404);
  expect((await decide(served, one, { decision: 'deny' })).answer.ok).toBe(true);
  await reaches(served, one.thread, 'completed');
});

test('what differs, was decided elsewhere or is decided twice is a conflict with its state', async () => {
  const served = await openServed(LEAD(), { lead: [write(), DONE] });
  const one = await asked(served);
  const other = await served.post(`approvals/${one.id}/decision`, {
    decision: 'once',
    digest: '0'.repeat(64),
  });
  expect(other).toMatchObject({
    status: 409,
    answer: { error: { code: 'conflict', detail: { state: 'pending' } } },
  });
  // Somebody takes the thread up meanwhile: it is another one than what was shown.
  const resumed = await served.threads.resume(one.thread);
  expect(resumed.ok && resumed.output.status).toBe('waiting');
  expect(await decide(served, one, { decision: 'once' })).toMatchObject({ status: 409 });
  const again = { ...one, review: await output<ApprovalReview>(served, `approvals/${one.id}`) };
  const by = { who: 'bob', channel: 'cli' } as const;
  await decideApproval(served.threads.store, one.id, { decision: 'denied', why: 'no', by });
  expect(await decide(served, again, { decision: 'once' })).toMatchObject({
    status: 409,
    answer: { error: { code: 'conflict', detail: { state: 'denied' } } },
  });
  await reaches(served, one.thread, 'completed');
});

test('the same decision sent twice under one key is one; what expires under the review is over', async () => {
  const clock = movedClock();
  const served = await serveStage(await openStage(LEAD(), { lead: [write(), DONE] }, { clock }));
  const one = await asked(served);
  const key = { 'idempotency-key': 'd1' };
  const [first, second] = await Promise.all([
    decide(served, one, { decision: 'once' }, key),
    decide(served, one, { decision: 'once' }, key),
  ]);
  expect(first.answer).toEqual(second.answer);
  expect(first.answer.ok).toBe(true);
  await reaches(served, one.thread, 'completed');

  // Outside of threads, with an end that comes while somebody looks.
  const { store } = served.threads;
  const binding = { operation: 'tool fs/write_file', arguments: 'h' };
  const shown = {
    action: 'ask',
    operation: 'tool fs/write_file',
    question: 'q',
    arguments: { path: 'a' },
  };
  const expires = clock.now() + 600_000;
  await store.ask({ id: 'ap_short', kind: 'call', binding, shown, expires });
  const review = await output<ApprovalReview>(served, 'approvals/ap_short');
  expect(review).toMatchObject({ choices: ['once', 'deny'], rights: [], approval: { expires } });
  clock.pass(600_001);
  expect(await decide(served, { id: 'ap_short', review }, { decision: 'once' })).toMatchObject({
    status: 409,
    answer: { error: { detail: { state: 'expired' } } },
  });
});

test('a right: the grant and its line, for so many uses and a time, beyond only when said', async () => {
  const served = await openServed(
    { ...directive('lead', { permissions: READ }), 'data/x.txt': 'x' },
    {
      lead: [escalate({ capability: 'process.spawn' }), DONE],
    },
  );
  const one = await asked(served);
  expect(one.review).toMatchObject({
    approval: { kind: 'capability', title: 'process.spawn' },
    grant: { name: 'process.spawn', line: '<execute resource="shell"/>', beyond: true },
    because: 'I need it',
    choices: ['once', 'scope', 'deny'],
    gates: [{ stage: 'right', state: 'asks' }],
  });
  expect(await decide(served, one, { decision: 'scope' })).toMatchObject({ status: 400 });
  expect(await decide(served, one, { decision: 'value' })).toMatchObject({ status: 400 });
  const body = { decision: 'scope', uses: 3, for_seconds: 900, beyond: true };
  const given = await decide(served, one, body);
  expect(given.answer.output).toMatchObject({ state: 'approved', uses: 3 });
  await reaches(served, one.thread, 'completed');
  const view = await output<ThreadView>(served, `threads/${one.thread}`);
  expect(view.rights.at(-1)).toMatchObject({ name: 'process.spawn', state: 'approved', left: 3 });
});

test('a question is answered in words, a limit shows what it is and may be', async () => {
  const served = await openServed(
    {
      ...directive('lead', {
        limits: '<turns>1</turns>',
        permissions: READ,
        hooks: hook('event.name == "limit"', 'more'),
      }),
      '.ai/policy.yaml': 'limits: { turns: 7 }\n',
      '.ai/directives/more.md': `
<directive name="more" version="1.0.0">
  <metadata><description>x</description><category>hooks</category><limits/><permissions/></metadata>
  <outputs><action type="string">x</action><context type="object"/></outputs>
  <process><script>
/var @said = @help("escalate", { "limits": { "turns": "2" }, "reason": "a little more" })
/return { "action": "continue", "context": { "limits": { "turns": 2 } } }
</script></process>
</directive>`,
    },
    { lead: [escalate({ reason: 'which one?' }), DONE] },
  );
  const one = await asked(served);
  expect(one.review).toMatchObject({
    approval: { kind: 'question', title: 'which one?' },
    question: 'which one?',
    choices: ['answer', 'deny'],
  });
  expect(await decide(served, one, { decision: 'once' })).toMatchObject({ status: 400 });
  expect(await decide(served, one, { decision: 'answer' })).toMatchObject({ status: 400 });
  const said = await decide(served, one, { decision: 'answer', answer: 'the second' });
  expect(said.answer.ok).toBe(true);
  await expect.poll(async () => (await waits(served))[0]?.kind).toBe('limit');
  const [limit] = await waits(served);
  const id = limit?.id ?? '';
  await reaches(served, one.thread, 'waiting');
  const review = await output<ApprovalReview>(served, `approvals/${id}`);
  expect(review).toMatchObject({
    limit: { name: 'turns', now: 1, asked: 2, ceiling: 7, from: 'policy' },
    choices: ['once', 'deny'],
  });
  expect((await decide(served, { id, review }, { decision: 'once' })).answer.ok).toBe(true);
  await reaches(served, one.thread, 'completed');
});

const WRONG: readonly object[] = [
  { decision: 'maybe' },
  { decision: 'once', extra: 1 },
  { decision: 'once', digest: 'short' },
  { decision: 'once', uses: 2 },
  { decision: 'once', answer: 'x' },
  { decision: 'once', beyond: true },
  { decision: 'scope', uses: 0 },
  { decision: 'once', why: 'x'.repeat(2001) },
  { decision: 7 },
];

test('a decision that makes no sense is refused, and nothing is decided', async () => {
  const served = await openServed(LEAD(), { lead: [DONE] });
  const binding = { operation: 'tool fs/write_file', arguments: 'h' };
  await served.threads.store.ask({ id: 'ap_one', kind: 'call', binding, shown: { action: 'ask' } });
  const review = await output<ApprovalReview>(served, 'approvals/ap_one');
  for (const body of WRONG) {
    const done = await decide(served, { id: 'ap_one', review }, body);
    expect(done).toMatchObject({ status: 400, answer: { error: { code: 'invalid_input' } } });
  }
  expect((await waits(served)).length).toBe(1);
});

test('the server is killed while something waits; the next one goes on after the answer', async () => {
  const made = await openStage(LEAD(), { lead: [write(), DONE] });
  const first = await spawnWeb(made.fixture, '--port', '0');
  const headers = await login(first.url, first.link);
  const begun = await ask(first.url, 'threads', headers, { directive: 'lead' });
  const thread = (begun.answer.output as ActionResult).thread_id;
  const status = async () => {
    const row = await made.threads.store.thread(thread);
    return row.ok && row.output.status;
  };
  const list = async (url: string, own: Readonly<Record<string, string>>) =>
    ((await ask(url, 'approvals', own)).answer.output as ApprovalList).approvals;
  await expect.poll(() => list(first.url, headers)).toHaveLength(1);
  // It has asked; before it rests, its end is that of a thread that was at work.
  await expect.poll(status).toBe('waiting');
  await first.stop('SIGKILL');
  const second = await spawnWeb(made.fixture, '--port', '0');
  const own = await login(second.url, second.link);
  const [waiting] = await list(second.url, own);
  const path = `approvals/${waiting?.id}/decision`;
  const done = await ask(second.url, path, own, { decision: 'once', digest: waiting?.digest });
  expect(done.answer.ok).toBe(true);
  await expect.poll(status).toBe('completed');
  expect(await second.stop()).toBe(0);
});

test('a call is approved for a scope: what the page sends is held to what was shown', async () => {
  const served = await openServed(LEAD(), { lead: [write(), DONE] });
  const { id, thread, review } = await asked(served);
  expect(review.before).toEqual([]);
  const { digest } = review.approval;
  const send = (wish: object) => served.post(`approvals/${id}/decision`, { digest, ...wish });
  for (const wish of [
    { decision: 'scope' },
    { decision: 'once', glob: 'out/*' },
    { decision: 'scope', glob: '**' },
    { decision: 'scope', glob: 'other/**' },
  ]) {
    expect((await send(wish)).answer).toMatchObject({
      ok: false,
      error: { code: 'invalid_input' },
    });
  }
  const given = await send({ decision: 'scope', glob: 'out/*', uses: 3, for_seconds: 600 });
  expect(given.answer).toMatchObject({ ok: true, output: { state: 'approved' } });
  await expect.poll(() => statusOf(served, thread)).toBe('completed');
  const rows = await served.threads.store.approvals({ id });
  expect(rows.ok && rows.output[0]).toMatchObject({
    answer: { scope: { path: 'out/*' }, counted: true },
    uses: 2,
  });
});

test('a file that changed under the question: the thread goes on by itself and asks again', async () => {
  const served = await openServed(LEAD(), { lead: [write('one\n'), DONE] });
  const folder = join(served.fixture.root, 'out');
  const file = join(folder, 'a.txt');
  mkdirSync(folder, { recursive: true });
  writeFileSync(file, 'before\n');
  const one = await asked(served);
  expect(one.review.diff).toContain('-before');
  writeFileSync(file, 'meanwhile\n');
  const refused = await decide(served, one, { decision: 'once' });
  expect(refused).toMatchObject({ status: 409 });
  const again = async () => await output<ApprovalReview>(served, `approvals/${one.id}`);
  await expect.poll(async () => (await again()).diff).toContain('-meanwhile');
  await reaches(served, one.thread, 'waiting');
  const [listed] = await waits(served);
  expect(listed?.digest).not.toBe(one.review.approval.digest);
  const review = await again();
  expect(await decide(served, { id: one.id, review }, { decision: 'once' })).toMatchObject({
    status: 200,
  });
  await reaches(served, one.thread, 'completed');
  expect(readFileSync(file, 'utf8')).toBe('one\n');
});
