// Policies, exceptions to them, what is dangerous, and hooks of scripts: real runs.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type ScriptWorker, startWorker } from '../support/script-worker.ts';
import { play } from '../support/script-world.ts';

let worker: ScriptWorker;
beforeAll(() => {
  worker = startWorker();
});
afterAll(() => worker.end());

const run = (text: string, files?: Readonly<Record<string, string>>) => worker.run(text, files);

type Row = readonly [rule: string, script: string, out: string, code?: number, err?: string];

const rows = (list: readonly Row[]): void => {
  const named = list.map(([rule, script, out, code = 0, err = '']) => ({
    rule,
    script,
    out,
    code,
    err,
  }));
  test.each(named)('$rule', async ({ script, out, code, err }) => {
    const found = await run(script);
    expect({ out: found.out, code: found.code }).toEqual({ out, code });
    expect(found.err).toContain(err);
  });
};

const RULE = '["no-untrusted-destructive"]';
const policy = (more = '') => `policy @rules = { ${more}defaults: { rules: ${RULE} } }\n`;
const PIN = 'guard privileged @pin before @drop = when [ @mx.args.id == "tmp-1" => allow ]\n';
const DROP = `exe destructive @drop(id) = when [
  denied => \`kept @id\`
  * => \`dropped @id\`
]
var untrusted @a = "tmp-1"
var untrusted @b = "main"
`;
const BOTH = `${PIN}${DROP}show @drop(@a)\nshow @drop(@b)\n`;

describe('exceptions to policy', () => {
  rows([
    ['a privileged guard lifts a rule', `${policy()}${BOTH}`, 'dropped tmp-1\nkept main\n'],
    ['not of a locked policy', `${policy('locked: true, ')}${BOTH}`, 'kept tmp-1\nkept main\n'],
    [
      'nor where one of two is locked',
      `policy @one = { locked: true, defaults: { rules: ${RULE} } }\npolicy @two = union(@one, { locked: false, defaults: { rules: ${RULE} } })\n${BOTH}`,
      'kept tmp-1\nkept main\n',
    ],
    [
      'built-in rules ask without a policy, and are lifted',
      `${PIN}${DROP}show @drop(@a)`,
      'dropped tmp-1\n',
    ],
    [
      'and ask for the others',
      BOTH,
      'dropped tmp-1\n',
      7,
      'untrusted data does not decide what is destroyed',
    ],
    [
      'in a pipeline',
      `${policy()}${PIN}${DROP}show @a | @drop\nshow @b | @drop`,
      'dropped tmp-1\nkept main\n',
    ],
    [
      'an operation filter lifts too',
      `${policy()}guard privileged before op:destructive = when [ @input.any.text.startsWith("tmp") => allow ]\n${DROP}show @drop(@a)\nshow @drop(@b)`,
      'dropped tmp-1\nkept main\n',
    ],
    [
      'no match lifts nothing',
      `${policy()}guard privileged before @drop = when [ false => deny "x" ]\n${DROP}show @drop(@a)`,
      'kept tmp-1\n',
    ],
    [
      'an arm that denies lifts nothing',
      `${policy()}guard privileged before @drop = when [ * => deny "x" ]\n${DROP}show @drop(@a)`,
      'kept tmp-1\n',
    ],
    [
      'a guard without privilege lifts nothing',
      `${policy()}${PIN.replace('privileged ', '')}${DROP}show @drop(@a)`,
      'kept tmp-1\n',
    ],
    [
      'a label filter lifts nothing',
      `${policy()}guard privileged before untrusted = when [ * => allow ]\n${DROP}show @drop(@a)`,
      'kept tmp-1\n',
    ],
    [
      'neither does a guard after',
      `${policy()}guard privileged after @drop = when [ * => allow ]\n${DROP}show @drop(@a)`,
      'kept tmp-1\n',
    ],
    [
      'another guard’s deny stays',
      `${policy()}${PIN}guard before @drop = when [ * => deny "mine" ]\n${DROP}show @drop(@a)`,
      'kept tmp-1\n',
    ],
    [
      'a capability stays',
      'policy @p = { deny: ["cmd:echo"] }\nguard privileged before op:run = when [ * => allow ]\nrun cmd {echo hi}',
      '',
      4,
      'is denied by `cmd:echo`',
    ],
    [
      '`labels` of a policy are lifted, for that operation only',
      'policy @p = { labels: { pii: { deny: ["op:show"] } } }\nguard privileged before op:show = when [ @input.any.text.includes("Ann") => allow ]\nvar pii @n = "Ann"\nvar pii @m = "Bo"\nshow @n\nshow @m',
      'Ann\n',
      4,
      'data labelled `pii` may not reach',
    ],
    [
      'what is done inside a function is judged by itself',
      `${policy()}guard privileged before @drop = when [ * => allow ]\nexe destructive @drop(id) = [ run cmd {echo @id}\n => "done" ]\nvar untrusted @a = "x"\nshow @drop(@a)`,
      '',
      4,
      'run was denied by policy:no-untrusted-destructive',
    ],
    [
      'a command that is the whole body is part of the call',
      `${policy()}${PIN}exe destructive @drop(id) = cmd {echo "x/@id"}\nvar untrusted @a = "tmp-1"\nshow @drop(@a)`,
      'x/tmp-1\n',
    ],
    [
      'so is code, and a template',
      `${policy()}guard privileged before op:destructive = when [ * => allow ]\nexe destructive @one(id) = js { return "js " + id }\nexe destructive @two(id) = \`text @id\`\nvar untrusted @a = "x"\nshow @one(@a)\nshow @two(@a)`,
      'js x\ntext x\n',
    ],
    [
      'but what a body captured no guard has seen',
      `${policy()}${PIN}var untrusted @b = "main"\nexe destructive @drop(id) = cmd {echo "@id @b"}\nvar untrusted @a = "tmp-1"\nshow @drop(@a)`,
      '',
      4,
      'run was denied by policy:no-untrusted-destructive',
    ],
    [
      'the result keeps its labels',
      `${policy()}${PIN}${DROP}var secret,untrusted @s = "tmp-1"\nvar @r = @drop(@s)\nshow @r.mx.labels.join(" ")`,
      'secret untrusted destructive\n',
    ],
    [
      'a later guard that puts something else there ends it',
      `${policy()}${PIN}guard before @drop = when [ * => allow "main" ]\n${DROP}show @drop(@a)`,
      'kept tmp-1\n',
    ],
  ]);

  test('a rule of the project’s policy file stays', async () => {
    const files = { '.ai/policy.yaml': 'rules: { no-untrusted-destructive: true }\n' };
    expect((await run(BOTH, files)).out).toBe('kept tmp-1\nkept main\n');
  });

  test('where a file asks, a person is still asked', async () => {
    const files = { '.ai/policy.yaml': 'rules: { no-untrusted-destructive: ask }\n' };
    expect(await run(`${policy()}${BOTH}`, files)).toMatchObject({ code: 7, out: '' });
  });

  test('`labels` of a policy file stay', async () => {
    const files = { '.ai/policy.yaml': 'labels: { pii: { deny: [op:show] } }\n' };
    const text =
      'guard privileged before op:show = when [ 1 == 1 => allow ]\nvar pii @n = "Ann"\nshow @n';
    expect(await run(text, files)).toMatchObject({ code: 4, out: '' });
  });

  test('a module of the project makes exceptions for whoever imports it', async () => {
    const files = { 'm.mld': `${PIN}var @x = 1\n` };
    const text = `import { @x } from "./m.mld"\n${policy()}${DROP}show @drop(@a)\nshow @drop(@b)`;
    expect((await run(text, files)).out).toBe('dropped tmp-1\nkept main\n');
  });

  test('in markdown mode', async () => {
    const text = `/policy @rules = { defaults: { rules: ${RULE} } }
/guard privileged @pin before @drop = when [ @mx.args.id == "tmp-1" => allow ]
/exe destructive @drop(id) = when [ denied => "kept"  * => "dropped" ]
/var untrusted @a = "tmp-1"
/show @drop(@a)
`;
    expect((await run(text)).out).toBe('dropped\n');
  });

  test('a denied arm sees in the trace who lifted what', async () => {
    const text = `policy @p = { labels: { pii: { deny: ["op:exe"] } } }
guard privileged @pin before @f = when [ * => allow ]
guard @no before @f = when [ * => deny "no" ]
exe @f(x) = when [ denied => \`@mx.guard.trace\`  * => "done" ]
var pii @n = "Ann"
var @t = @f(@n) | @parse
for @e in @t when @e.decision == "lift" => show \`@e.guardName: @e.reason\``;
    expect((await run(text)).out).toBe(
      'pin: policy:project (pii): data labelled `pii` may not reach `op:exe`\n',
    );
  });

  test('in a thread a script’s guards lift nothing', async () => {
    const text = `${policy()}${BOTH}`;
    expect((await play(text)).text).toBe('dropped tmp-1\nkept main\n');
    expect((await play(text, { mayLift: false })).text).toBe('kept tmp-1\nkept main\n');
  });

  rows([
    [
      '`locked` is true or false',
      'policy @p = { locked: "yes" }',
      '',
      3,
      '`locked` is true or false',
    ],
  ]);
});

describe('a guard', () => {
  rows([
    [
      'is privileged by `with` too, and decides at the end of a block',
      'guard before op:run = when [\n  * => [ log `stopped: @mx.op.command`\n    deny "no commands" ]\n] with { privileged: true }\nrun cmd {echo hi} with { guards: false }',
      '',
      4,
      'stopped: echo hi',
    ],
    [
      'may say that it is not',
      'guard @g before op:show = when [ * => deny "no" ] with { privileged: false }\nshow "x" with { guards: false }',
      'x\n',
    ],
    [
      'takes no other option',
      'guard @g before op:show = when [ * => allow ] with { stdin: "x" }',
      '',
      3,
      'with { privileged: true }',
    ],
    [
      'counts, binds and appends in a block',
      'guard @g before op:show = when [\n  * => [\n    let @n = @input.length\n    append `@n` to "log.txt"\n    when @n > 0 => allow\n  ]\n]\nshow "x"\nshow <log.txt>',
      'x\n1\n\n',
    ],
    [
      'says it behind an arrow as well',
      'guard @g before op:show = when [ * => [ let @r = "why"\n=> deny `@r` ] ]\nshow "x"',
      '',
      4,
      'why',
    ],
    [
      'whose block decides nothing is none',
      'guard @g before op:show = when [ * => [ log "x" ] ]',
      '',
      3,
      'an arm of a guard decides',
    ],
    [
      'shows and runs nothing',
      'guard @g before op:log = when [ * => [ show "x"\nallow ] ]',
      '',
      3,
      'an arm of a guard decides',
    ],
    [
      'sees the operation it judges in what it logs',
      'guard @g before secret = when [ @mx.op.type == "show" => [ log `@mx.op.type`\n deny "no" ]\n * => allow ]\nvar secret @k = "s"\nshow @k',
      '',
      4,
      'show\n',
    ],
  ]);
});
