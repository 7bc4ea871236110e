// A hook that asks a person suspends the run it serves: the question is for that run, survives the
// process, and the hook goes on from its own journal, so nothing that it did is done twice.
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { endLives, live } from '@kernmantle/test-support/crash-driver';
import { probeTools } from '@kernmantle/test-support/crash-project';
import { expectSame } from '@kernmantle/test-support/expect-same';
import { isLate } from '@kernmantle/test-support/late-store';
import { TRUSTING } from '@kernmantle/test-support/project';
import {
  call,
  directive,
  hook,
  openStage,
  type Parts,
  rows,
  run,
  type Stage,
} from '@kernmantle/test-support/thread-project';
import { afterEach, expect, test } from 'vitest';
import { type JsonObject, systemClock } from '../../src/base/index.ts';
import type { ScriptedReply } from '../../src/llm/index.ts';
import { endThread, type Runtime } from '../../src/runtime/index.ts';
import type { Decision } from '../../src/store/index.ts';

afterEach(endLives);

const DONE: ScriptedReply = { text: 'done' };
const PROBES = ['look', 'put', 'write']
  .map((name) => `<execute resource="tool" id="probe/${name}"/>`)
  .join('');
const TOOLS = probeTools((name, at) => {
  deeds.push(`${name} ${at}`);
  return { done: at };
});
/** What was done in this process. */
const deeds: string[] = [];
const linesIn = ({ fixture }: Stage, name = 'write'): string[] => {
  const file = join(fixture.root, `${name}.log`);
  return existsSync(file) ? readFileSync(file, 'utf8').trim().split('\n') : [];
};

/** A hook that is a script, with the tools of a crash project. */
const script = (name: string, text: string, permissions = PROBES): Record<string, string> => ({
  [`.ai/directives/${name}.md`]: `
<directive name="${name}" version="1.0.0">
  <metadata><description>x</description><category>hooks</category><limits/><permissions>${permissions}</permissions></metadata>
  <outputs><action type="string">x</action><context type="object"/><error type="string"/></outputs>
  <process><script>
${text}
</script></process>
</directive>`,
});

const INPUTS = '<input name="tag" type="string" required="false"/>';
const open = (parts: Parts, files: Record<string, string>, says: readonly ScriptedReply[]) => {
  deeds.length = 0;
  return openStage(
    { ...directive('lead', { permissions: PROBES, inputs: INPUTS, ...parts }), ...files },
    { lead: says },
    { tools: TOOLS },
  );
};
const probe = (name: string, at = 'a') => ({ tool_calls: [call(`probe/${name}`, { at })] });

const queue = async ({ threads }: Stage) => {
  const all = await threads.store.approvals({ state: 'pending' });
  return all.ok ? all.output : [];
};
async function decide(made: Stage, decision: Partial<Decision> = {}): Promise<void> {
  for (const { id } of await queue(made)) {
    const who = { who: 'ann', channel: 'cli' as const, why: '' };
    const done = await made.threads.store.decide(id, { decision: 'approved', ...who, ...decision });
    expect(done.ok).toBe(true);
  }
}
const NO = { decision: 'denied', why: 'not on a Monday' } as const;
async function resume({ threads }: Pick<Stage, 'threads'>, id: string) {
  const done = await threads.resume(id);
  if (!done.ok) throw new Error(`${done.error.code}: ${done.error.detail.message}`);
  return done.output;
}
const eventsOf = async ({ threads }: Stage, id: string, ...types: string[]) => {
  const events = await threads.store.read(id);
  return (events.ok ? events.output : []).filter(({ type }) => types.includes(type));
};
/** All threads of the registry, each from its journal. */
async function replays(made: Stage): Promise<void> {
  for (const { id } of await rows(made)) {
    const report = await made.threads.replay(id);
    expect(report.ok ? report.output.difference : report, id).toBeUndefined();
    expectSame(report);
  }
}
const sent = ({ provider }: Stage): string => JSON.stringify(provider.requests.at(-1)?.body);
async function late(made: Stage): Promise<{ runtime: Runtime; threads: Stage['threads'] }> {
  const clock = { ...systemClock, now: () => Date.now() + 8 * 86_400_000 };
  const runtime = await made.fixture.open({ clock, tools: TOOLS });
  const threads = await runtime.threads();
  if (!threads.ok) throw new Error(threads.error.detail.message);
  return { runtime, threads: threads.output };
}

const ASKS = `/var @said = @help("escalate", "may it?")
/when [
  @said.decision == "approved" => return { "action": "continue", "context": { "said": @said.answer } }
]
/return { "action": "fail", "error": @said.decision }`;

// Each of the checkpoints: what stands open there is neither lost nor done again.
const PLACES: Readonly<Record<string, { when: string; says: ScriptedReply; parts?: Parts }>> = {
  'before a call': {
    when: 'event.tool == "probe/write" and event.name == "before_step"',
    says: probe('write'),
  },
  'after a call': {
    when: 'event.tool == "probe/write" and event.name == "after_step"',
    says: probe('write'),
  },
  'before a turn': {
    when: 'event.name == "before_step" and event.kind == "turn"',
    says: probe('write'),
  },
  'after a turn': {
    when: 'event.name == "after_step" and event.kind == "turn" and cost.turns == 1',
    says: probe('write'),
  },
  'at a warning': {
    when: 'event.name == "warning"',
    says: probe('write'),
    parts: { limits: '<tool_calls>1</tool_calls>' },
  },
};
test.each(Object.entries(PLACES))(
  'a hook that asks %s suspends its run, and goes on with the answer',
  async (_name, { when, says, parts = {} }) => {
    const made = await open({ hooks: hook(when, 'asker'), ...parts }, script('asker', ASKS), [
      says,
      DONE,
    ]);
    const asked = await run(made, 'lead');
    expect(asked).toMatchObject({ status: 'waiting' });
    const [first] = await queue(made);
    expect(first).toMatchObject({
      thread: asked.thread_id,
      shown: { question: 'may it?', directive: 'lead', hook: 'asker' },
    });
    // Nobody has answered yet: it goes on waiting, and asks no second time.
    expect((await resume(made, asked.thread_id)).status).toBe('waiting');
    expect((await queue(made)).map(({ id }) => id)).toEqual([first?.id]);
    for (let round = 0; round < 3; round++) {
      await decide(made, { answer: 'go on' });
      const result = await resume(made, asked.thread_id);
      if (result.status === 'waiting') continue;
      expect(result).toMatchObject({ status: 'completed', cost: { tool_calls: 1 } });
      break;
    }
    expect(deeds).toEqual(['write a']);
    expect(sent(made)).toContain('go on');
    const kinds = (await rows(made)).map(({ kind, status }) => [kind, status]);
    expect(kinds.filter(([kind]) => kind === 'thread')).toEqual([['thread', 'completed']]);
    expect(kinds.every(([, status]) => status === 'completed')).toBe(true);
    await replays(made);
  },
);

const FAILS = 'event.name == "error" and event.code == "permission_denied"';
const asking = (capability: string, scope: JsonObject, verdict: string) =>
  `/var @said = @help("escalate", { "capability": "${capability}", "scope": ${JSON.stringify(scope)}, "reason": "to go on" })
/when [
  @said.decision == "approved" && @said.in_force => return { "action": "${verdict}" }
]
/return { "action": "continue", "context": { "decision": @said.decision, "why": @said.why, "message": @said.message } }`;
const READ_NOTES = '<execute resource="tool" id="fs/read_file"/>';
const file = (path: string) => ({ tool_calls: [call('fs/read_file', { path })] });
const BEYOND = { answer: { beyond: true } };

test('what a hook asked for is the right of the thread it serves, and retry runs with it', async () => {
  const made = await open(
    { permissions: READ_NOTES, hooks: hook(FAILS, 'asker') },
    script('asker', asking('fs.read', { path: 'notes/a.txt' }, 'retry'), ''),
    [file('notes/a.txt'), DONE],
  );
  const { thread_id, status } = await run(made, 'lead');
  expect(status).toBe('waiting');
  expect(await queue(made)).toMatchObject([
    { kind: 'capability', thread: thread_id, shown: { capability: 'fs.read', declared: 'no' } },
  ]);
  await decide(made, BEYOND);
  expect(await resume(made, thread_id)).toMatchObject({ status: 'completed' });
  expect(sent(made)).toContain('hello');
  const notes = (await eventsOf(made, thread_id, 'approval')).map(({ data }) => data.state);
  expect(notes).toEqual(['approved', 'used']);
  await replays(made);
});

test.each([
  ['denied', NO, 'not on a Monday'],
  ['approved without going beyond the directive', {}, 'must approve that the thread goes beyond'],
])('a hook is told when its wish is %s, and its verdict counts', async (_n, decision, told) => {
  const made = await open(
    { permissions: READ_NOTES, hooks: hook(FAILS, 'asker') },
    script('asker', asking('fs.read', { path: 'notes/a.txt' }, 'retry'), ''),
    [file('notes/a.txt'), DONE],
  );
  const { thread_id } = await run(made, 'lead');
  await decide(made, decision);
  expect(await resume(made, thread_id)).toMatchObject({ status: 'completed' });
  expect(sent(made)).toContain(told);
  expect(sent(made)).not.toContain('hello');
  await replays(made);
});

test.skipIf(isLate)('what nobody answers a hook in time is told to it', async () => {
  const made = await open(
    { permissions: READ_NOTES, hooks: hook(FAILS, 'asker') },
    script('asker', asking('fs.read', { path: 'notes/a.txt' }, 'retry'), ''),
    [file('notes/a.txt'), DONE],
  );
  const { thread_id } = await run(made, 'lead');
  const { runtime, threads } = await late(made);
  expect((await resume({ threads }, thread_id)).status).toBe('completed');
  await runtime.close();
  expect(sent(made)).toContain('the request expired');
});

test('a model of a hook asks like any other, and goes on where it stood', async () => {
  const asker = directive('asker', {
    outputs: '<action type="string" required="true">x</action>',
  });
  const made = await openStage(
    {
      ...directive('lead', { permissions: READ_NOTES, hooks: hook(FAILS, 'asker') }),
      ...asker,
    },
    {
      lead: [file('notes/a.txt'), DONE],
      asker: [
        {
          tool_calls: [
            {
              name: 'help',
              arguments: {
                action: 'escalate',
                capability: 'fs.read',
                scope: { path: 'notes/**' },
                reason: 'to read them',
              },
            },
          ],
        },
        { text: '{"action":"retry"}' },
      ],
    },
  );
  const { thread_id, status } = await run(made, 'lead');
  expect(status).toBe('waiting');
  await decide(made, BEYOND);
  const count = made.provider.count();
  expect(await resume(made, thread_id)).toMatchObject({ status: 'completed' });
  // One more of the hook, one more of the run.
  expect(made.provider.count() - count).toBe(2);
  expect(sent(made)).toContain('hello');
  await replays(made);
});

test('a guard that asks about a call of a hook asks for the run', async () => {
  const text = '/var @done = @tool("probe/write", { at: "h" })\n/return { "action": "continue" }';
  const made = await open(
    { hooks: hook('event.name == "before_step" and event.tool == "probe/look"', 'asker') },
    {
      ...script('asker', text),
      '../home/policy.yaml': `${TRUSTING}\napprove: [write]\n`,
    },
    [probe('look'), DONE],
  );
  const { thread_id, status } = await run(made, 'lead');
  expect(status).toBe('waiting');
  expect(await queue(made)).toMatchObject([{ kind: 'call', thread: thread_id }]);
  expect(deeds).toEqual([]);
  await decide(made);
  expect(await resume(made, thread_id)).toMatchObject({ status: 'completed' });
  expect(deeds).toEqual(['write h', 'look a']);
  await replays(made);
});

// The two of the bundle that ask.
const withInputs = (when: string, name: string, inputs: string) =>
  hook(when, name).replace('</hook>', `<inputs>${inputs}</inputs></hook>`);
const elevated = (inputs: string) =>
  open(
    {
      permissions:
        '<read resource="filesystem" path="src/**"/><execute resource="tool" id="fs/read_file"/>',
      hooks: withInputs(
        'event.code == "permission_denied"',
        'request_elevated_permissions',
        inputs,
      ),
    },
    {},
    [file('notes/a.txt'), DONE],
  );
const MISSING = '<missing_cap>${event.detail.missing}</missing_cap>';
const ORIGINAL = '<original_directive>${directive.name}</original_directive>';

test.each([MISSING, ORIGINAL, MISSING + ORIGINAL])(
  'request_elevated_permissions asks for what was refused, and the step is done with it',
  async (inputs) => {
    const made = await elevated(inputs);
    const { thread_id, status } = await run(made, 'lead');
    expect(status).toBe('waiting');
    expect(await queue(made)).toMatchObject([
      {
        kind: 'capability',
        thread: thread_id,
        shown: {
          capability: 'fs.read',
          scope: { path: 'notes/a.txt' },
          directive: 'lead',
          hook: 'request_elevated_permissions',
        },
      },
    ]);
    await decide(made, BEYOND);
    expect(await resume(made, thread_id)).toMatchObject({ status: 'completed' });
    expect(sent(made)).toContain('hello');
    await replays(made);
  },
);

// Killed with these events of the run or of its hook; nobody knows what a write came to that had begun.
test.skipIf(isLate).each([
  ['completed', ['asker tool_result 1', 'asker approval 1', 'lead hook 1']],
  ['failed', ['lead hook_start 1', 'asker tool_call 1']],
])(
  'a hook that wrote and asks is %s: killed at %s, it writes once and asks once',
  async (status, moments) => {
    const text = `/var @done = @tool("probe/write", { at: "hook" })
/var @said = @help("escalate", "may it?")
/return { "action": "continue", "context": { "done": @done, "said": @said.decision } }`;
    const when = 'event.tool == "probe/write" and event.name == "after_step"';
    const made = await open({ hooks: hook(when, 'asker') }, script('asker', text), [
      probe('write', 'own'),
      DONE,
    ]);
    const lead = async () => (await rows(made)).find(({ directive: name }) => name === 'lead');
    for (const moment of [...moments, '', '']) {
      const row = await lead();
      if (row?.ended !== undefined) break;
      await live(made, moment).over;
      await made.threads.store.sweep();
      await decide(made, { answer: 'yes' });
    }
    const { id = '', ...row } = (await lead()) ?? {};
    expect(row).toMatchObject({ status });
    const lines = linesIn(made).map((line) => line.split(' ')[0]);
    expect(lines.filter((line) => line === 'own')).toEqual(['own']);
    expect(lines.filter((line) => line === 'hook').length).toBeLessThan(2);
    const asked = await made.threads.store.approvals({});
    expect(asked.ok && asked.output).toHaveLength(status === 'completed' ? 1 : 0);
    const [told] = await eventsOf(made, id, 'hook');
    expect(told?.data.decision).toBe(status === 'completed' ? 'proceed' : 'fail');
    if (status === 'failed') {
      const end = await eventsOf(made, id, 'thread_end');
      expect(JSON.stringify(end)).toContain('it may or may not have taken effect');
    } else expect(lines).toContain('hook');
    expect((await rows(made)).map(({ kind }) => kind)).toEqual(['thread', 'hook']);
    await replays(made);
  },
);

test('what a hook wrote is not written again after its run was stopped and taken up', async () => {
  const text = `/var @done = @tool("probe/write", { at: "hook" })
/var @said = @help("escalate", "may it?")
/return { "action": "continue", "context": { "done": @done, "said": @said.decision } }`;
  const when = 'event.tool == "probe/look" and event.name == "after_step"';
  const made = await open({ hooks: hook(when, 'asker') }, script('asker', text), [
    probe('look', 'own'),
    DONE,
  ]);
  const { thread_id, status } = await run(made, 'lead');
  expect(status).toBe('waiting');
  const ann = { who: 'ann', channel: 'cli' } as const;
  const stopped = await endThread(made.threads.store, thread_id, 'terminate', ann);
  expect(stopped.ok).toBe(true);
  const taken = await resume(made, thread_id);
  expect(taken).toMatchObject({ status: 'failed', code: 'hook_failed' });
  expect(taken.reason).toContain('terminated');
  expect(deeds.filter((deed) => deed === 'write hook')).toHaveLength(1);
  await replays(made);
});

test('request_elevated_permissions denied: the model is told why, and goes on', async () => {
  const made = await elevated(MISSING);
  const { thread_id } = await run(made, 'lead');
  await decide(made, NO);
  expect(await resume(made, thread_id)).toMatchObject({ status: 'completed' });
  expect(sent(made)).toContain('not on a Monday');
  expect(sent(made)).not.toContain('hello');
  await replays(made);
});

test.skipIf(isLate)('request_elevated_permissions expired: that is said', async () => {
  const made = await elevated(MISSING);
  const { thread_id } = await run(made, 'lead');
  const { runtime, threads } = await late(made);
  expect((await resume({ threads }, thread_id)).status).toBe('completed');
  await runtime.close();
  expect(sent(made)).toContain('the request expired');
});

test('request_elevated_permissions asks nobody for what nobody can give', async () => {
  const made = await open(
    {
      permissions: READ_NOTES,
      hooks: withInputs(
        'event.code == "permission_denied"',
        'request_elevated_permissions',
        '<missing_cap>items.sign</missing_cap>',
      ),
    },
    {},
    [file('notes/a.txt'), DONE],
  );
  expect(await run(made, 'lead')).toMatchObject({ status: 'completed' });
  expect(sent(made)).toContain('cannot be approved');
  expect(await queue(made)).toEqual([]);
});

test('request_elevated_permissions at the start: the thread waits, then begins', async () => {
  const boss = await openStage(
    {
      ...directive('boss', { permissions: `${READ_NOTES}<orchestration enabled="true"/>` }),
      ...directive('lead', {
        permissions: `${READ_NOTES}<read resource="filesystem" path="notes/**"/>`,
        hooks: withInputs('event.code == "permission_denied"', 'request_elevated_permissions', ''),
      }),
    },
    {
      boss: [
        {
          tool_calls: [
            call('threads/thread_directive', { directive_name: 'lead', wait_ms: 2_000 }),
          ],
        },
        DONE,
      ],
      lead: [file('notes/a.txt'), DONE],
    },
  );
  const done = run(boss, 'boss');
  for (;;) {
    const [asked] = await queue(boss);
    if (asked) {
      expect(asked).toMatchObject({ kind: 'capability', shown: { capability: 'fs.read' } });
      await decide(boss);
      await resume(boss, asked.thread ?? '');
      break;
    }
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  expect((await done).status).toBe('completed');
  const lead = (await rows(boss)).find((row) => row.directive === 'lead');
  expect(lead?.status).toBe('completed');
  await replays(boss);
});

const more = (limits: string) =>
  open(
    {
      limits: '<turns>1</turns>',
      hooks: withInputs('event.name == "limit"', 'request_more_budget', `${ORIGINAL}${limits}`),
    },
    {},
    [probe('look'), DONE],
  );

test('request_more_budget asks, and the thread goes on with the raised limit', async () => {
  const made = await more('<limits><turns>2</turns></limits>');
  const { thread_id, status } = await run(made, 'lead');
  expect(status).toBe('waiting');
  expect(await queue(made)).toMatchObject([
    { kind: 'limit', thread: thread_id, shown: { limits: { turns: '2' }, directive: 'lead' } },
  ]);
  await decide(made);
  expect(await resume(made, thread_id)).toMatchObject({ status: 'completed', cost: { turns: 2 } });
  await replays(made);
});

test('request_more_budget without inputs asks for twice the limit that was reached', async () => {
  const made = await open(
    { limits: '<turns>1</turns>', hooks: hook('event.name == "limit"', 'request_more_budget') },
    {},
    [probe('look'), DONE],
  );
  const waiting = await run(made, 'lead');
  expect(waiting).toMatchObject({ status: 'waiting' });
  const [question] = await queue(made);
  expect(JSON.stringify(question)).toContain('lead has reached its limit of 1 (turns)');
  await decide(made);
  const ended = await made.threads.resume(waiting.thread_id);
  expect(ended).toMatchObject({ ok: true, output: { status: 'completed', text: 'done' } });
});

test('request_more_budget denied: the thread stops at its limit and says so', async () => {
  const made = await more('<limits><turns>2</turns></limits>');
  const { thread_id } = await run(made, 'lead');
  await decide(made, NO);
  const result = await resume(made, thread_id);
  expect(result).toMatchObject({ status: 'limit', cost: { turns: 1 } });
  expect(result.reason).toContain('not on a Monday');
  await replays(made);
});

test.skipIf(isLate)('request_more_budget expired: the thread stops and says so', async () => {
  const made = await more('<limits><turns>2</turns></limits>');
  const { thread_id } = await run(made, 'lead');
  const { runtime, threads } = await late(made);
  const result = await resume({ threads }, thread_id);
  await runtime.close();
  expect(result.status).toBe('limit');
  expect(result.reason).toContain('the request expired');
});
