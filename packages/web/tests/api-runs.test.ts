// Threads that the server runs: whoever starts one hears of it at once or why not; what waited goes on
// after the answer, wherever it was given; what is interrupted is left to people.
import { systemClock } from '@kernmantle/core/base';
import type { ScriptedReply } from '@kernmantle/core/llm';
import { decideApproval, resumeInProcess } from '@kernmantle/core/runtime';
import { TRUSTING } from '@kernmantle/test-support/project';
import {
  directive,
  openStage,
  type Play,
  READ,
  read,
  rows,
  run,
  type Stage,
  spawn,
} from '@kernmantle/test-support/thread-project';
import { expect, onTestFinished, test } from 'vitest';
import type { WebCaller } from '../src/server/context.ts';
import { createUploads } from '../src/server/routes/uploads.ts';
import { createRuns } from '../src/server/runs.ts';

const until = (holds: () => Promise<boolean>) => expect.poll(holds, { interval: 20 }).toBe(true);

const ANN: WebCaller = { id: 's1', who: 'ann', role: 'approve', expires: 0 };
const DONE: ScriptedReply = { text: 'done' };
const ASK = '<guard on="op:tool:fs/read_file"><ask>may it?</ask></guard>';
const SPAWNS = '<execute resource="spawn" action="thread"/>';

function runsOf({ runtime, threads }: Stage) {
  const texts: string[] = [];
  const errors: string[] = [];
  const runs = createRuns({
    runtime,
    store: async () => ({ ok: true, output: threads.store }),
    uploads: createUploads(systemClock),
    hub: { text: (_thread, piece) => void texts.push(piece) },
    clock: systemClock,
    onError: (error) => void errors.push(error.message),
  });
  onTestFinished(() => runs.close());
  return { runs, texts, errors };
}

const statusOf = async ({ threads }: Stage, id: string): Promise<string> => {
  const row = await threads.store.thread(id);
  return row.ok ? row.output.status : row.error.code;
};
const pending = async ({ threads }: Stage) => {
  const open = await threads.store.approvals({ state: 'pending' });
  return open.ok ? open.output : [];
};
const approveAll = async (made: Stage) => {
  for (const { id } of await pending(made)) {
    const by = { who: 'bob', channel: 'cli' } as const;
    await decideApproval(made.threads.store, id, { decision: 'approved', why: '', by });
  }
};
const asking = (says: Play['lead'] = [read('notes/a.txt'), DONE]) =>
  openStage(directive('lead', { permissions: READ, guards: ASK }), { lead: says });

async function started(runs: ReturnType<typeof runsOf>['runs'], name = 'lead'): Promise<string> {
  const begun = await runs.start({ directive: name, inputs: {} }, ANN);
  if (!begun.ok) throw new Error(begun.error.detail.message);
  return begun.output.thread_id;
}

test('a thread is answered when it is there, and its text comes live', async () => {
  const gate = Promise.withResolvers<ScriptedReply>();
  const made = await openStage(directive('lead'), { lead: [() => gate.promise] });
  const { runs, texts } = runsOf(made);
  const begun = await runs.start({ directive: 'lead', inputs: {}, message: 'go' }, ANN);
  expect(begun).toMatchObject({ ok: true, output: { kind: 'start', status: 'running' } });
  const id = begun.ok ? begun.output.thread_id : '';
  expect(runs.isHere(id)).toBe(true);
  expect(runs.count()).toBe(1);
  expect(await runs.resume(id, {}, ANN)).toMatchObject({ ok: false, error: { code: 'conflict' } });
  gate.resolve({ text: 'all is well' });
  await until(async () => (await statusOf(made, id)) === 'completed');
  expect(texts.join('')).toBe('all is well');
  await until(async () => !runs.isHere(id));
  const audit = await made.threads.store.auditRows({ limit: 100 });
  expect(audit.ok && audit.output).toContainEqual(
    expect.objectContaining({ surface: 'web', caller: 'ann', operation: 'run', target: id }),
  );
});

test('what cannot begin is answered with the reason, and leaves no thread', async () => {
  const made = await openStage(
    directive('lead', {
      inputs: '<input name="n" type="integer" required="true"/>',
      limits: '<turns>3</turns>',
    }),
    { lead: [DONE] },
  );
  const { runs } = runsOf(made);
  const start = (more: object) => runs.start({ directive: 'lead', inputs: { n: 1 }, ...more }, ANN);
  expect(await start({ inputs: {} })).toMatchObject({
    ok: false,
    error: { code: 'invalid_input', detail: { missing_inputs: ['n'] } },
  });
  expect(await start({ directive: 'none' })).toMatchObject({
    ok: false,
    error: { code: 'not_found' },
  });
  expect(await start({ model: 'no-such-model' })).toMatchObject({ ok: false });
  expect(await start({ limits: { turns: 9 } })).toMatchObject({
    ok: false,
    error: { code: 'invalid_input', detail: { field: 'limits.turns', max: 3 } },
  });
  expect(await rows(made)).toEqual([]);
  expect(await start({ limits: { turns: 2 } })).toMatchObject({ ok: true });
});

test('a missing key names its variable and the start that reads it', async () => {
  const made = await openStage(directive('lead'), { lead: [DONE] });
  const { runs } = runsOf(made);
  const wish = { directive: 'lead', inputs: {}, model: 'gpt-5-mini' };
  const refused = await runs.start(wish, ANN);
  expect(refused).toMatchObject({
    ok: false,
    error: { code: 'model_unavailable', detail: { variable: 'OPENAI_API_KEY' } },
  });
  const remedy = 'start `km web` again with `OPENAI_API_KEY` in its environment';
  expect(!refused.ok && refused.error.detail.message).toContain(remedy);
  // The same for a thread that goes on with another model.
  const id = await started(runs);
  await until(async () => (await statusOf(made, id)) === 'completed' && !runs.isHere(id));
  const resumed = await runs.resume(id, { message: 'more', model: 'gpt-5-mini' }, ANN);
  expect(!resumed.ok && resumed.error.detail.message).toContain(remedy);
});

test('what waited goes on after an answer from elsewhere', async () => {
  const made = await asking();
  const { runs } = runsOf(made);
  const id = await started(runs);
  await until(async () => (await statusOf(made, id)) === 'waiting');
  await approveAll(made);
  await until(async () => (await statusOf(made, id)) === 'completed');
});

test('what another process began goes on here, also when it was answered before the server came', async () => {
  const made = await asking();
  const first = await made.threads.run({ directive: 'lead' });
  const id = first.ok ? first.output.thread_id : '';
  expect(await statusOf(made, id)).toBe('waiting');
  await approveAll(made);
  runsOf(made);
  await until(async () => (await statusOf(made, id)) === 'completed');
});

test('a server of MCP clients goes on with it, too', async () => {
  const made = await asking();
  const first = await made.threads.run({ directive: 'lead' });
  const id = first.ok ? first.output.thread_id : '';
  const goingOn = resumeInProcess(made.runtime, new AbortController().signal, () => {});
  onTestFinished(() => goingOn.close());
  await approveAll(made);
  await until(async () => (await statusOf(made, id)) === 'completed');
});

test('a child that waits and its parent go on together', async () => {
  const made = await openStage(
    {
      ...directive('lead', { permissions: `${READ}${SPAWNS}` }),
      ...directive('child', { permissions: READ, guards: ASK }),
    },
    {
      lead: [{ tool_calls: [spawn('child')] }, DONE],
      child: [read('notes/a.txt'), DONE],
    },
  );
  const { runs, errors } = runsOf(made);
  const id = await started(runs);
  await until(async () => (await pending(made)).length === 1);
  expect(await statusOf(made, id)).toBe('running');
  await approveAll(made);
  await until(async () => (await statusOf(made, id)) === 'completed');
  expect((await rows(made)).map(({ status }) => status)).toEqual(['completed', 'completed']);
  expect(errors).toEqual([]);
});

test('closing interrupts what runs; it is not resumed by itself, and a person resumes it', async () => {
  const gate = Promise.withResolvers<ScriptedReply>();
  let asked = 0;
  const made = await openStage(directive('lead'), {
    lead: [() => (asked++ === 0 ? gate.promise : DONE)],
  });
  const { runs } = runsOf(made);
  const id = await started(runs);
  await until(async () => asked === 1);
  await runs.close();
  gate.resolve(DONE);
  expect(await statusOf(made, id)).toBe('interrupted');
  expect(await runs.start({ directive: 'lead', inputs: {} }, ANN)).toMatchObject({
    ok: false,
    error: { code: 'unavailable' },
  });
  const again = runsOf(made).runs;
  again.decided(id);
  expect(await statusOf(made, id)).toBe('interrupted');
  expect(await again.resume(id, {}, ANN)).toMatchObject({ ok: true, output: { kind: 'resume' } });
  await until(async () => (await statusOf(made, id)) === 'completed');
  // Ended is not lost: more words, higher limits.
  expect(await again.resume(id, {}, ANN)).toMatchObject({ error: { code: 'thread_ended' } });
  const more = await again.resume(id, { message: 'and now?', limits: { turns: 40 } }, ANN);
  expect(more).toMatchObject({ ok: true });
  await until(async () => (await statusOf(made, id)) === 'completed');
});

test('an unsigned directive is not started from the page unless the policy says so', async () => {
  const files = { ...directive('lead'), '../home/policy.yaml': TRUSTING };
  const made = await openStage(files, { lead: [DONE] });
  const { runs } = runsOf(made);
  const refused = { ok: false, error: { code: 'permission_denied' } };
  expect(await runs.start({ directive: 'lead', inputs: {} }, ANN)).toMatchObject(refused);
  const all = await made.threads.store.query();
  expect(all.ok && all.output.rows).toEqual([]);
  // The command line may, by the policy that is shipped.
  expect(await run(made, 'lead', { by: { who: 'ann', surface: 'cli' } })).toMatchObject({
    status: 'completed',
  });
});
