// Tests calls and scripts outside of threads that need approval: they exit with 7 and leave a
// request in the queue. The same call passes after the answer and uses it up.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { getOwn, type JsonObject, plainText, systemClock } from '@kernmantle/core/base';
import { runCommand } from '@kernmantle/test-support/command-line';
import { type Fixture, makeFixture, TRUSTING } from '@kernmantle/test-support/project';
import { timeoutMs } from '@kernmantle/test-support/soak';
import { call, directiveText } from '@kernmantle/test-support/thread-project';
import { expect, onTestFinished, test } from 'vitest';
import { runScriptIn } from '../../../script/src/runtime/run-script.ts';

const ASK = 'guards: [{ on: "op:tool:fs/write_file", ask: "write it?" }]';
function project(policy = ASK, files: Record<string, string> = {}): Fixture {
  const fixture = makeFixture({ '../home/policy.yaml': `${TRUSTING}\n${policy}\n`, ...files });
  onTestFinished(() => fixture.remove());
  return fixture;
}
const km = ({ root, env }: Fixture, ...words: string[]) => runCommand(words, root, env);
const WRITE = ['exec', 'tool', 'fs/write_file', 'path=a.txt', 'content=x'];
const isThere = ({ root }: Fixture, path = 'a.txt') => existsSync(join(root, path));

/** The pending requests as JSON. */
async function queue(fixture: Fixture, ...more: string[]): Promise<JsonObject[]> {
  const { output } = await km(fixture, 'approvals', 'ls', '--json', ...more);
  return getOwn(JSON.parse(output), 'output') as JsonObject[];
}
async function decide(fixture: Fixture, word: 'approve' | 'deny', ...more: string[]) {
  const [first] = await queue(fixture);
  const done = await km(fixture, 'approvals', word, plainText(first?.id), ...more);
  expect(done.code).toBe(0);
}

test('a call waits in the queue, and the same call passes once after yes', async () => {
  const fixture = project();
  const asked = await km(fixture, ...WRITE);
  expect(asked.code).toBe(7);
  const waiting = await queue(fixture);
  expect(waiting).toMatchObject([
    {
      kind: 'call',
      shown: {
        operation: 'tool fs/write_file',
        arguments: { path: 'a.txt', content: 'x' },
        surface: 'cli',
      },
    },
  ]);
  expect(waiting[0]).not.toHaveProperty('thread');
  expect(asked.output).toContain(`km approvals approve|deny ${plainText(waiting[0]?.id)}`);
  // A repeated call before the answer uses the same request.
  expect((await km(fixture, ...WRITE)).code).toBe(7);
  expect(await queue(fixture)).toHaveLength(1);
  await decide(fixture, 'approve');
  // The approval is not valid for another call.
  expect((await km(fixture, ...WRITE.slice(0, -1), 'content=y')).code).toBe(7);
  expect(isThere(fixture)).toBe(false);
  expect((await km(fixture, ...WRITE)).code).toBe(0);
  expect(readFileSync(join(fixture.root, 'a.txt'), 'utf8')).toBe('x');
  expect((await km(fixture, ...WRITE)).code).toBe(7);
});

test('no is an answer with a reason', async () => {
  const fixture = project();
  await km(fixture, ...WRITE);
  await decide(fixture, 'deny', '--why', 'not on a Monday');
  const refused = await km(fixture, ...WRITE);
  expect(refused.code).toBe(4);
  expect(refused.output).toContain('a person denied it (not on a Monday)');
  expect(isThere(fixture)).toBe(false);
});

test('a question that nobody answered in time is asked anew', async () => {
  const fixture = project(`${ASK}\napprovals: { days: 2 }`);
  const call = (later: number) => async () => {
    const clock = { ...systemClock, now: () => Date.now() + later * 86_400_000 };
    const runtime = await fixture.open({ clock });
    const parameters = { path: 'a.txt', content: 'x' };
    const request = { item_type: 'tool', item_id: 'fs/write_file', parameters };
    const done = await runtime.call('execute', request);
    await runtime.close();
    return done.ok ? done.output : done.error.detail.approval;
  };
  const first = await call(0)();
  expect(await call(1)()).toBe(first);
  expect(await call(3)()).not.toBe(first);
});

test('a list has two lines for each question, and all of it with -v', async () => {
  const fixture = project(ASK, { 'a.txt': 'old\n' });
  await km(fixture, ...WRITE);
  await km(fixture, ...WRITE.slice(0, 3), 'path=b.txt', 'content=\u001b[2J');
  const [first, second] = await queue(fixture);
  expect(first).toMatchObject({ question: 'Overwrite a.txt (1 line added, 1 removed)?' });
  const { output } = await km(fixture, 'approvals', 'ls');
  const lines = output.trimEnd().split('\n');
  expect(lines).toHaveLength(5);
  expect(lines[0]).toMatch(/^ap_\S+ \d+ s ago Overwrite a\.txt \(1 line added, 1 removed\)\?$/);
  expect(lines[1]).toMatch(/^ {2}cli, /);
  expect(lines[2]).toContain('Create b.txt (1 line)?');
  expect(output).not.toContain('\u001b[2J');
  const all = await km(fixture, 'approvals', 'ls', '-v');
  const one = await km(fixture, 'approvals', 'show', plainText(second?.id));
  expect(all.output).toContain('operation tool fs/write_file');
  // The question, the reason, the call and the change are printed in this order.
  expect(one.output).toMatch(/question Create b\.txt.*because write it\?.*asked by.*arguments/s);
  expect(one.output).not.toMatch(/asked_by|asked by \[|roles|action/);
  const shown = await km(fixture, 'approvals', 'show', plainText(first?.id));
  expect(shown.output).toMatch(/@@ -1,1 \+1,1 @@\n {2}-old\n {2}\+x/);
});

test('a file that changed after the question is not written over, and is asked about again', async () => {
  const fixture = project(ASK, { 'a.txt': 'old\n' });
  await km(fixture, ...WRITE);
  fixture.write('a.txt', 'theirs\n');
  const [first] = await queue(fixture);
  const late = await km(fixture, 'approvals', 'approve', plainText(first?.id));
  expect([late.code, late.output]).toEqual([1, expect.stringContaining('`a.txt` changed')]);
  expect((await km(fixture, ...WRITE)).code).toBe(7);
  expect((await km(fixture, 'approvals', 'approve', plainText(first?.id))).code).toBe(0);
  fixture.write('a.txt', 'again\n');
  const refused = await km(fixture, ...WRITE);
  expect(refused.output).toContain('[conflict]');
  expect(readFileSync(join(fixture.root, 'a.txt'), 'utf8')).toBe('again\n');
});

const SCRIPT = { 's.mld': '/var @r = @tool("fs/write_file", { path: "a.txt", content: "x" })' };
test('a script ends with 7, and the same script passes after the answer', async () => {
  const fixture = project(ASK, SCRIPT);
  expect((await km(fixture, 'script', 's.mld')).code).toBe(7);
  expect(await queue(fixture)).toHaveLength(1);
  await decide(fixture, 'approve');
  expect((await km(fixture, 'script', 's.mld')).code).toBe(0);
  expect(isThere(fixture)).toBe(true);
  expect((await km(fixture, 'script', 's.mld')).code).toBe(7);
});

test('a program is told the same', async () => {
  const fixture = project(ASK, SCRIPT);
  const runtime = await fixture.open();
  onTestFinished(() => runtime.close());
  const asked = await runScriptIn(runtime, { file: 's.mld' });
  expect(asked).toMatchObject({
    ok: false,
    error: { code: 'needs_input', detail: { answer: 'pending' } },
  });
  const threads = await runtime.threads();
  if (!threads.ok) throw new Error('no registry');
  const approval = plainText(asked.ok ? null : asked.error.detail.approval);
  const yes = { decision: 'approved', who: 'ann', channel: 'web', why: '' } as const;
  await threads.output.store.decide(approval, yes);
  expect((await runScriptIn(runtime, { file: 's.mld' })).ok).toBe(true);
});

test('what a person approved of a tool holds for all that the tool does', async () => {
  const fixture = project(
    'guards: [{ on: "op:tool:own", ask: "run it?" }, { on: "op:output", ask: "and this?" }]',
    {
      '.ai/tools/own/save.yaml': `
tool_id: save
description: writes
parameters: []
requires: [fs.write]
effect: write
executor_id: script
config: { script: '/output "x" to "a.txt"' }
`,
    },
  );
  expect((await km(fixture, 'exec', 'tool', 'own/save')).code).toBe(7);
  await decide(fixture, 'approve');
  expect((await km(fixture, 'exec', 'tool', 'own/save')).code).toBe(0);
  expect(isThere(fixture)).toBe(true);
});

test('where somebody is at hand they are asked too, and the first answer counts', async () => {
  const fixture = project();
  const runtime = await fixture.open();
  onTestFinished(() => runtime.close());
  const threads = await runtime.threads();
  if (!threads.ok) throw new Error('no registry');
  const { store } = threads.output;
  const request = (content: string) => ({
    item_type: 'tool',
    item_id: 'fs/write_file',
    parameters: { path: 'a.txt', content },
  });
  const heard: string[] = [];
  const here = (yes: boolean) => async (question: string) => {
    heard.push(question);
    return yes;
  };
  expect((await runtime.call('execute', request('1'), { person: here(true) })).ok).toBe(true);
  expect(heard).toEqual([expect.stringContaining('write it?')]);
  expect(await runtime.call('execute', request('2'), { person: here(false) })).toMatchObject({
    error: { code: 'permission_denied', detail: { answer: 'denied' } },
  });
  // The answer comes from elsewhere, not from this terminal.
  const silent = (_question: string, signal: AbortSignal) =>
    new Promise<undefined>((resolve) => signal.addEventListener('abort', () => resolve(undefined)));
  const call = runtime.call('execute', request('3'), { person: silent });
  for (let open = [] as { id: string }[]; ; await sleep(20)) {
    const found = await store.approvals({ state: 'pending' });
    open = found.ok ? found.output : [];
    if (!open[0]) continue;
    await store.decide(open[0].id, { decision: 'approved', who: 'ann', channel: 'web', why: '' });
    break;
  }
  expect((await call).ok).toBe(true);
  const all = await store.approvals({});
  const who = (all.ok ? all.output : []).map(({ channel }) => channel);
  expect(who).toEqual(['cli', 'cli', 'web']);
});

const NET = `
tool_id: ask_net
description: asks the network
parameters: []
requires: [net.http]
effect: EFFECT
executor_id: script
config: { script: '/return { "a": 1 }' }
`;
const LOOK = { item_type: 'directive', item_id: 'look', content: 'x' };
const TIERS: readonly (readonly [string, string, readonly string[], boolean])[] = [
  ['writing a file', 'write', WRITE, true],
  ['writing a file', 'elevated', WRITE, false],
  ['reading a file', 'read', ['exec', 'tool', 'fs/read_file', 'path=b.txt'], true],
  ['reading a file', 'write', ['exec', 'tool', 'fs/read_file', 'path=b.txt'], false],
  ['a shell', 'elevated', ['exec', 'tool', 'shell/bash', 'command=echo hi'], true],
  ['a request that reads', 'write', ['exec', 'tool', 'own/ask_read'], false],
  ['a request that writes', 'write', ['exec', 'tool', 'own/ask_write'], true],
  [
    'an item',
    'elevated',
    ['exec', LOOK.item_type, LOOK.item_id, '--action', 'create', '--content', 'b.txt'],
    true,
  ],
  ['a directive that is executed', 'read', ['exec', 'directive', 'own'], true],
  ['a directive that is executed', 'write', ['exec', 'directive', 'own'], false],
  ['a statement that writes', 'write', ['script', '-e', '/output "x" to "a.txt"'], true],
  ['a statement that adds', 'write', ['script', '-e', '/append "x" to "a.txt"'], true],
  ['a statement that shows', 'write', ['script', '-e', '/show "x"'], false],
  ['a statement that reads', 'read', ['script', '-e', '/show <b.txt>'], true],
  ['a command', 'elevated', ['script', '-e', '/run {true}'], true],
  ['a block of code', 'elevated', ['script', '-e', '/run node { 1 }'], true],
  ['a block that computes', 'elevated', ['script', '-e', '/run js { return 1 }'], false],
  [
    'a tool of a script',
    'write',
    ['script', '-e', '/var @r = @tool("fs/write_file", { path: "a.txt", content: "x" })'],
    true,
  ],
];
test.each(TIERS)(
  'with approval of its tier, %s (%s) waits: %s %s',
  async (_name, tier, words, waits) => {
    const fixture = project(`approve: [${tier}]`, {
      'b.txt': 'b',
      '.ai/directives/own.md': directiveText('own'),
      '.ai/tools/own/ask_read.yaml': NET.replace('EFFECT', 'read').replace('ask_net', 'ask_read'),
      '.ai/tools/own/ask_write.yaml': NET.replace('EFFECT', 'write').replace(
        'ask_net',
        'ask_write',
      ),
    });
    const { code, output } = await km(fixture, ...words);
    expect([code === 7, output]).toEqual([waits, expect.any(String)]);
    expect(await queue(fixture)).toHaveLength(waits ? 1 : 0);
    if (waits) expect(isThere(fixture)).toBe(false);
  },
);

test.each([
  ['harness', 'harness'],
  ['thread', 'harness'],
  ['cli', 'harness'],
  ['harness', 'km'],
])('nobody gets out of being asked by a name: as %s, called %s', async (surface, user) => {
  const fixture = project('approve: [write]\nsurfaces: { harness: { effects: [write] } }', {});
  fixture.env.USER = user;
  const call = ['exec', '--as', surface, 'tool', 'fs/write_file', 'path=a.txt', 'content=x'];
  const { code } = await km(fixture, ...call);
  expect([code === 0, isThere(fixture)]).toEqual([false, false]);
});

const KM = join(import.meta.dirname, '../../../../bin/km.js');
const HAS_SCRIPT = existsSync('/usr/bin/script') && process.platform === 'linux';

const ASKS = '[w]hy [?] ';

/** Inputs of the person, each after a text has appeared, once and in this order. */
type Typing = readonly (readonly [after: string, typed: string | (() => Promise<void>)])[];

interface AtTerminal {
  term?: string;
  /** Text typed as soon as the process exists. */
  early?: string;
  /** True if the person waits before the answer. */
  looks?: boolean;
}

/** Runs the command on its own terminal. */
async function atTerminal(
  { root, env }: Fixture,
  words: readonly string[],
  typing: Typing,
  { term = 'dumb', early = '', looks = true }: AtTerminal = {},
) {
  const command = [process.execPath, KM, ...words].map((word) => `'${word}'`).join(' ');
  const child = spawn('/usr/bin/script', ['-qec', command, '/dev/null'], {
    cwd: root,
    env: { ...env, KERNMANTLE_SRC: '1', TERM: term, NO_COLOR: '1' },
  });
  let output = '';
  /** Bytes that arrived between the question and the answer. */
  const between: string[] = [];
  child.stdin.write(early);
  child.stdout.on('data', (piece) => void (output += piece));
  const ended = once(child, 'exit');
  const isOver = () => child.exitCode !== null;
  for (const [after, typed] of typing) {
    const from = output.length;
    while (!isOver() && !output.slice(from).endsWith(after)) await sleep(20);
    const [asked, until] = [output.length, Date.now() + (looks ? 400 : 0)];
    // The pause is long enough for several redraws of a live view.
    while (!isOver() && Date.now() < until) await sleep(50);
    between.push(output.slice(asked));
    if (typeof typed === 'string') child.stdin.write(typed);
    else await typed();
  }
  const [code] = await ended;
  return { code, output, between };
}

test.skipIf(!HAS_SCRIPT).each([
  ['o', 0],
  ['v', 0],
  ['d\r', 4],
])('at a terminal the question is put there: %j', async (typed, code) => {
  const fixture = project();
  const done = await atTerminal(fixture, WRITE, [[ASKS, typed]]);
  expect([done.code, done.output]).toEqual([code, expect.stringContaining('write it?')]);
  // No thread exists that could use a scope.
  expect(done.output).toContain('[o]nce [v]alue [d]eny [w]hy [?] ');
  expect(isThere(fixture)).toBe(code === 0);
  expect(await queue(fixture)).toEqual([]);
});

test.skipIf(!HAS_SCRIPT)(
  'what is no answer decides nothing, a refusal takes a reason, and Ctrl-C leaves it open',
  async () => {
    const fixture = project();
    const denied = await atTerminal(fixture, WRITE, [
      [ASKS, '?'],
      [ASKS, 'w'],
      [ASKS, 'd'],
      ['reason (Enter for none): ', 'not nov\u007fw\r'],
    ]);
    expect([denied.code, denied.output]).toEqual([4, expect.stringContaining('(not now)')]);
    expect(denied.output).toContain('o  approve this call once');
    expect(denied.output).toMatch(/asked by: .*approval: ap_/s);
    const left = await atTerminal(
      fixture,
      [...WRITE.slice(0, -1), 'content=y'],
      [[ASKS, '\u0003']],
    );
    expect(left.code).toBe(7);
    expect(await queue(fixture)).toHaveLength(1);
    expect(isThere(fixture)).toBe(false);
  },
);

const APPENDS = (name: string, process: string) =>
  directiveText(name, {
    permissions: '<write resource="filesystem" path="out/**"/>',
    guards: '<guard on="op:append"><ask>add it?</ask></guard>',
  })
    .replace(/<process>.*<\/process>/s, `<process><script>${process}</script></process>`)
    .replace(/<model .*<\/model>/, '');

test.skipIf(!HAS_SCRIPT).each(['dumb', 'xterm'])(
  'a thread that is run at a terminal goes on with what is typed there (%s)',
  async (term) => {
    const fixture = project('', {
      'out/.keep': '',
      '.ai/directives/job.md': APPENDS('job', '/append "x" to "out/a.md"'),
    });
    // Input before the complete question is not an answer, with or without Enter.
    const early = 'o\ro\ro';
    const typing: Typing = [[ASKS, 'o\r']];
    const done = await atTerminal(fixture, ['run', 'job'], typing, { term, early });
    expect([done.code, done.output]).toEqual([0, expect.stringContaining('add it?')]);
    expect(isThere(fixture, 'out/a.md')).toBe(true);
    // Nothing is drawn over the question, or written after it, until the answer.
    expect(done.between).toEqual(['']);
    // The view does not ask again after the answer.
    expect(done.output.split('? approval')).toHaveLength(2);
    expect(done.output).toContain('✓ approval');
  },
);

test.skipIf(!HAS_SCRIPT)(
  'several questions come one after the other, and a resumed thread asks in the same way',
  async () => {
    const fixture = project('', {
      'out/.keep': '',
      '.ai/directives/job.md': APPENDS(
        'job',
        '/append "x" to "out/a.md"\n/append "y" to "out/b.md"\n/append "z" to "out/c.md"',
      ),
    });
    const first = await atTerminal(
      fixture,
      ['run', 'job'],
      [
        [ASKS, 'o\r'],
        [ASKS, '\u0003'],
      ],
      {
        term: 'xterm',
      },
    );
    expect([first.code, first.between]).toEqual([7, ['', '']]);
    expect([isThere(fixture, 'out/a.md'), isThere(fixture, 'out/b.md')]).toEqual([true, false]);
    const resume = ['threads', 'resume', 'last'];
    const done = await atTerminal(
      fixture,
      resume,
      [
        [ASKS, 'o\r'],
        [ASKS, 'd not this\r'],
      ],
      {
        term: 'xterm',
      },
    );
    expect(done.between).toEqual(['', '']);
    expect(isThere(fixture, 'out/b.md')).toBe(true);
    expect(isThere(fixture, 'out/c.md')).toBe(false);
    expect(done.output).toMatch(/✗ approval \S+ denied by .*: not this/);
  },
  timeoutMs(90_000),
);

/** A directive that starts a thread which asks. */
const BOSS = {
  'out/.keep': '',
  '.ai/directives/job.md': APPENDS('job', '/append "x" to "out/a.md"'),
  '.ai/directives/boss.md': directiveText('boss', {
    limits: '<spawns>2</spawns>',
    permissions:
      '<write resource="filesystem" path="out/**"/><execute resource="spawn" action="thread"/><execute resource="tool" id="threads/thread_directive"/>',
  }),
  'replies.json': JSON.stringify([
    { tool_calls: [call('threads/thread_directive', { directive_name: 'job' })] },
    { text: 'done' },
  ]),
};
const RUN_BOSS = ['run', 'boss', '--replies', 'replies.json'];

test.skipIf(!HAS_SCRIPT)(
  'a thread below the one that runs is asked about at the same terminal, and goes on',
  async () => {
    const fixture = project('', BOSS);
    const done = await atTerminal(fixture, RUN_BOSS, [[ASKS, 'o\r']], { term: 'xterm' });
    expect(done, done.output).toMatchObject({ code: 0, between: [''] });
    expect(isThere(fixture, 'out/a.md')).toBe(true);
  },
);

test.skipIf(!HAS_SCRIPT).each(['dumb', 'xterm'])(
  'a run that is stopped while the question of a thread below it is open ends by itself (%s)',
  async (term) => {
    const fixture = project('', BOSS);
    const stop = async (): Promise<void> => {
      const { output } = await km(fixture, 'threads', 'ls', '--json');
      const { rows } = getOwn(JSON.parse(output), 'output') as { rows: JsonObject[] };
      const boss = rows.find(({ directive }) => directive === 'boss');
      const stopped = await km(fixture, 'threads', 'stop', plainText(boss?.id));
      expect(stopped.code, stopped.output).toBe(0);
    };
    const done = await atTerminal(fixture, RUN_BOSS, [[ASKS, stop]], { term, looks: false });
    expect([done.code, done.output]).toEqual([1, expect.stringContaining('terminated')]);
    expect(isThere(fixture, 'out/a.md')).toBe(false);
  },
);

test.skipIf(!HAS_SCRIPT)(
  'branches of a script that ask at once are asked one after the other',
  async () => {
    const fixture = project('guards: [{ on: "op:tool:fs/read_file", ask: "read it?" }]', {
      'a.txt': 'a',
      'b.txt': 'b',
      's.mld':
        '/exe @look(n) = @tool("fs/read_file", { path: @n })\n/var @r = for parallel @n in ["a.txt", "b.txt"] => @look(@n)\n/show @r.length\n',
    });
    const done = await atTerminal(
      fixture,
      ['script', 's.mld'],
      [
        [ASKS, 'o\r'],
        [ASKS, 'o\r'],
      ],
    );
    expect(done.output.split('read it?').length - 1, done.output).toBe(2);
    expect([done.code, done.between]).toEqual([0, ['', '']]);
  },
);
