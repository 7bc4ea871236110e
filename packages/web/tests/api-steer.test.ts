// What is done to threads over `/api`: every act by whoever has the role, once under its key, with who did it in
// the audit; bodies that are wrong, too large or garbage are refused; a server that dies loses nothing.
import type { ScriptedReply } from '@kernmantle/core/llm';
import { expectSame } from '@kernmantle/test-support/expect-same';
import { directive, READ, read } from '@kernmantle/test-support/thread-project';
import { expect, test } from 'vitest';
import type { ActionResult, ReplayView } from '../src/model/api.ts';
import { bearerOf, openServed, type ServedStage } from './support/serve.ts';

const DONE: ScriptedReply = { text: 'done' };
const LEAD = directive('lead', {
  permissions: READ,
  limits: '<turns>4</turns>',
  inputs: '<input name="who" type="string" required="false"/>',
});

async function act(
  served: ServedStage,
  path: string,
  body: unknown = {},
  more = {},
): Promise<ActionResult> {
  const { answer, status } = await served.post(path, body, { ...served.headers, ...more });
  if (!answer.ok) throw new Error(`${status} ${JSON.stringify(answer.error)}`);
  return answer.output as ActionResult;
}
const codeOf = async (
  served: ServedStage,
  path: string,
  body: unknown,
  headers = served.headers,
) => {
  const { answer, status } = await served.post(path, body, headers);
  return `${status} ${answer.error?.code ?? 'ok'}`;
};
const statusOf = async ({ threads }: ServedStage, id: string): Promise<string> => {
  const row = await threads.store.thread(id);
  return row.ok ? row.output.status : row.error.code;
};
const reaches = (served: ServedStage, id: string, status: string) =>
  expect.poll(() => statusOf(served, id)).toBe(status);
const signals = async ({ threads }: ServedStage, id: string): Promise<string[]> => {
  const all = await threads.store.signals(id);
  return all.ok ? all.output.map(({ kind }) => kind) : [];
};
const audit = async ({ threads }: ServedStage) => {
  const rows = await threads.store.auditRows({ limit: 500 });
  return rows.ok ? rows.output.filter(({ surface }) => surface === 'web') : [];
};
/** A model that answers when it is told to. */
function slow() {
  const gates: ((reply: ScriptedReply) => void)[] = [];
  const say = () => new Promise<ScriptedReply>((resolve) => void gates.push(resolve));
  return { say, asked: () => gates.length, answer: (reply = DONE) => gates.at(-1)?.(reply) };
}

test('started, told something, paused, resumed, interrupted and stopped from the page', async () => {
  const model = slow();
  const served = await openServed(LEAD, { lead: [model.say] });
  const begun = await act(served, 'threads', {
    directive: 'lead',
    inputs: { who: 'x' },
    message: 'hi',
  });
  expect(begun).toMatchObject({ kind: 'start', status: 'running' });
  const id = begun.thread_id;
  await expect.poll(model.asked).toBe(1);
  expect(await act(served, `threads/${id}/inject`, { text: 'and this' })).toMatchObject({
    kind: 'message',
  });
  expect(await act(served, `threads/${id}/pause`, { reason: 'lunch' })).toMatchObject({
    kind: 'pause',
  });
  model.answer(read('notes/a.txt'));
  await reaches(served, id, 'paused');
  expect(await act(served, `threads/${id}/resume`)).toMatchObject({
    kind: 'resume',
    thread_id: id,
  });
  await expect.poll(model.asked).toBe(2);
  expect(await act(served, `threads/${id}/interrupt`, { text: 'no, this' })).toMatchObject({
    kind: 'interrupt',
  });
  await expect.poll(model.asked).toBe(3);
  expect(await act(served, `threads/${id}/stop`, { reason: 'enough' })).toMatchObject({
    kind: 'terminate',
  });
  model.answer();
  await reaches(served, id, 'terminated');
  expect(await codeOf(served, `threads/${id}/pause`, {})).toBe('409 thread_ended');
  const rows = await audit(served);
  for (const operation of ['run', 'inject', 'pause', 'resume', 'interrupt', 'stop']) {
    expect(rows).toContainEqual(expect.objectContaining({ operation, caller: 'ann', target: id }));
  }
  expect(rows).toContainEqual(expect.objectContaining({ operation: 'stop', reason: 'enough' }));
});

test('killed when it does not answer; what is final stays so', async () => {
  const model = slow();
  const served = await openServed(LEAD, { lead: [model.say] });
  const { thread_id: id } = await act(served, 'threads', { directive: 'lead' });
  await expect.poll(model.asked).toBe(1);
  expect(await act(served, `threads/${id}/kill`)).toMatchObject({ status: 'killed' });
  expect(await codeOf(served, `threads/${id}/resume`, { message: 'go on' })).toBe(
    '409 thread_ended',
  );
  model.answer();
});

test('the same key again is the same act: one thread, one signal, one answer', async () => {
  const model = slow();
  const served = await openServed(LEAD, { lead: [model.say] });
  const key = (text: string) => ({ 'idempotency-key': text });
  const start = () => act(served, 'threads', { directive: 'lead' }, key('k1'));
  const [first, second] = await Promise.all([start(), start()]);
  expect(second).toEqual(first);
  expect(await start()).toEqual(first);
  const id = first.thread_id;
  await expect.poll(model.asked).toBe(1);
  const say = () => act(served, `threads/${id}/inject`, { text: 'once' }, key('k2'));
  await Promise.all([say(), say(), say()]);
  expect(await signals(served, id)).toEqual(['message']);
  await act(served, `threads/${id}/inject`, { text: 'once' }, key('k3'));
  expect(await signals(served, id)).toEqual(['message', 'message']);
  // Another server over the same registry: the registry knows the signal by its key.
  await act(served, `threads/${id}/pause`, {}, key('k4'));
  expect(
    await codeOf(served, `threads/${id}/pause`, {}, { ...served.headers, ...key('a b') }),
  ).toBe('400 invalid_input');
  model.answer();
  await reaches(served, id, 'paused');
});

test('a limit is raised, a message follows, a replay is the same', async () => {
  const served = await openServed(
    { ...LEAD, '.ai/policy.yaml': 'limits: { turns: 9 }\n' },
    { lead: [read('notes/a.txt')] },
  );
  const { thread_id: id } = await act(served, 'threads', {
    directive: 'lead',
    limits: { turns: 2 },
  });
  await reaches(served, id, 'limit');
  const refused = await served.post(`threads/${id}/resume`, { limits: { turns: 10 } });
  expect(refused).toMatchObject({
    status: 400,
    answer: {
      error: { code: 'invalid_input', detail: { limit: 'turns', max: '9', from: 'policy' } },
    },
  });
  const again = await act(served, `threads/${id}/resume`, {
    limits: { turns: 3, duration_seconds: 900 },
    message: 'a little more',
    why: 'it was nearly there',
  });
  expect(again).toMatchObject({ kind: 'resume' });
  await reaches(served, id, 'limit');
  expect(await audit(served)).toContainEqual(
    expect.objectContaining({ operation: 'raise', caller: 'ann', target: id }),
  );
  const same = await served.post(`threads/${id}/replay`, {});
  expectSame(same.answer.output as ReplayView);
});

test('what cannot begin is refused at its field, and what is above the directive is', async () => {
  const served = await openServed(
    {
      ...directive('lead', {
        inputs: '<input name="n" type="integer" required="true"/>',
        limits: '<turns>3</turns>',
      }),
    },
    { lead: [DONE] },
  );
  const start = async (body: unknown) => (await served.post('threads', body)).answer.error;
  expect(await start({ directive: 'lead', inputs: {} })).toMatchObject({ code: 'invalid_input' });
  expect(await start({ directive: 'lead', inputs: { n: 1 }, limits: { turns: 9 } })).toMatchObject({
    detail: { field: 'limits.turns', max: 3 },
  });
  expect(await start({ directive: 'lead', inputs: { n: 1 }, limits: { trns: 2 } })).toMatchObject({
    detail: { field: 'limits.trns' },
  });
  expect(await start({ directive: 'nobody' })).toMatchObject({ code: 'not_found' });
});

test('bodies that are wrong, too large or garbage are refused, and nothing is done', async () => {
  const served = await openServed(LEAD, { lead: [DONE] });
  const wrong: [string, unknown][] = [
    ['threads', { directive: 'lead', inputs: {}, extra: 1 }],
    ['threads', {}],
    ['threads', []],
    ['threads', 'x'],
    ['threads', { directive: 7 }],
    ['threads', { directive: 'lead', inputs: [] }],
    ['threads', { directive: 'lead', limits: { turns: -1 } }],
    ['threads', { directive: 'lead', limits: { turns: 'many' } }],
    ['threads', { directive: 'lead', limits: { spend: '1e9' } }],
    ['threads', { directive: 'lead', message: 'x'.repeat(100_001) }],
    ['threads', { directive: 'x'.repeat(201) }],
  ];
  for (const [path, body] of wrong) {
    expect([body, await codeOf(served, path, body)]).toEqual([body, '400 invalid_input']);
  }
  const raw = async (body: NonNullable<RequestInit['body']>, type = 'application/json') => {
    const headers = { ...served.headers, 'content-type': type };
    const init = { method: 'POST', body, headers, duplex: 'half' } as RequestInit;
    const response = await fetch(`${served.url}/api/threads`, init).catch(() => undefined);
    const text = (await response?.text().catch(() => '')) ?? '';
    expect(text).not.toMatch(/\.ts:|node_modules|at Object/);
    return response?.status ?? 'cut off';
  };
  expect(await raw('{"directive":')).toBe(400);
  expect(await raw('\u0000\u0001')).toBe(400);
  expect(await raw('['.repeat(5000))).toBe(400);
  expect(await raw('directive=lead', 'application/x-www-form-urlencoded')).toBe(400);
  expect(await raw(new Uint8Array([0xff, 0xfe, 0x7b]))).toBe(400);
  const huge = Buffer.alloc(100 * 1024 * 1024, 'x');
  expect([400, 'cut off']).toContain(await raw(huge));
  const endless = new ReadableStream({
    pull: (control) => control.enqueue(new Uint8Array(1024 * 1024)),
  });
  expect([400, 'cut off']).toContain(await raw(endless));
  const all = await served.threads.store.query({});
  expect(all.ok && all.output.rows).toEqual([]);
});

test('a role may do what it says and nothing more', async () => {
  const served = await openServed(LEAD, { lead: [DONE] });
  const view = bearerOf(served.fixture, 'view');
  const steer = bearerOf(served.fixture, 'steer');
  expect(await codeOf(served, 'threads', { directive: 'lead' }, view)).toBe(
    '403 permission_denied',
  );
  const begun = await served.post('threads', { directive: 'lead' }, steer);
  expect(begun.answer.ok).toBe(true);
  const id = (begun.answer.output as ActionResult).thread_id;
  await reaches(served, id, 'completed');
  for (const name of 'pause resume inject interrupt stop kill replay fork'.split(' ')) {
    expect(await codeOf(served, `threads/${id}/${name}`, {}, view)).toBe('403 permission_denied');
  }
  const digest = '0'.repeat(64);
  expect(await codeOf(served, 'approvals/ap_x/decision', { decision: 'deny', digest }, steer)).toBe(
    '403 permission_denied',
  );
  expect((await served.get(`threads/${id}`, view)).status).toBe(200);
});
