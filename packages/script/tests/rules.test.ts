// Policies with their exceptions, dangerous operations, and hooks of scripts, in real runs.
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type GuardSource, lintPolicy } from '@kernmantle/core/flow';
import { runCommand } from '@kernmantle/test-support/command-line';
import { makeFixture } from '@kernmantle/test-support/project';
import { alone, TEXT } from '@kernmantle/test-support/script-project';
import { type ScriptWorker, startWorker } from '@kernmantle/test-support/script-worker';
import { play } from '@kernmantle/test-support/script-world';
import { run as runThread } from '@kernmantle/test-support/thread-project';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { diagnose } from '../src/index.ts';

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
const PIN = 'guard privileged @pin before @drop = when [ @mx.args.id ~= ["tmp-1"] => allow ]\n';
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
      'as a stage, too, where it reads its input from stdin',
      `${policy()}${PIN}exe destructive @drop(id) = cmd {cat}\nvar untrusted @a = "tmp-1"\nshow @a | @drop`,
      'tmp-1\n',
    ],
    [
      'what a guard put in its place is what it reads',
      'guard before @f = when [ * => allow "masked" ]\nexe @f(x) = cmd {cat}\nvar secret @k = "key"\nshow @k | @f',
      'masked\n',
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
      '`locked` must be true or false',
      'policy @p = { locked: "yes" }',
      '',
      3,
      '`locked` must be true or false',
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
      'an arm of a guard must decide',
    ],
    [
      'shows and runs nothing',
      'guard @g before op:log = when [ * => [ show "x"\nallow ] ]',
      '',
      3,
      'an arm of a guard must decide',
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

const named = (rule: string) => `policy @rules = { defaults: { rules: ["${rule}"] } }\n`;
const LABELLED = 'exe @as(f) = [ => known @f ]\nexe @in(f) = [ => known:internal @f ]\n';

describe('rules about known things', () => {
  rows([
    [
      'what is not known is not destroyed',
      `${named('no-destroy-unknown')}exe destructive:targeted @rm(path) = when [
  denied => "refused"
  * => \`removed @path\`
]
exe @chosen(f) = [ => known @f ]
show @rm("a.txt")
show @rm(@chosen("a.txt"))`,
      'refused\nremoved a.txt\n',
    ],
    ...['id', 'ids', 'target', 'path', 'file', 'userId', 'userIds', 'user_id', 'user_ids'].map(
      (name): Row => [
        `the target is the parameter \`${name}\``,
        `${named('no-destroy-unknown')}${LABELLED}exe destructive:targeted @rm(why, ${name}) = when [ denied => "refused"  * => "removed" ]\nshow @rm("x", @as("a"))\nshow @rm(@as("x"), "a")`,
        'removed\nrefused\n',
      ],
    ),
    [
      'else the first; `Identity` ends in nothing of the kind',
      `${named('no-destroy-unknown')}${LABELLED}exe destructive:targeted @rm(what, idea) = when [ denied => "refused"  * => "removed" ]\nshow @rm(@as("a"), "x")\nshow @rm("a", @as("x"))`,
      'removed\nrefused\n',
    ],
    ...['recipient', 'recipients', 'to', 'cc', 'bcc', 'address', 'destination', 'url'].map(
      (name): Row => [
        `the destination is the parameter \`${name}\``,
        `${named('no-send-to-external')}${LABELLED}exe exfil:send @mail(text, ${name}) = when [ denied => "refused"  * => "sent" ]\nshow @mail("x", @in("a"))\nshow @mail("x", @as("a"))\nshow @mail(@in("x"), "a")`,
        'sent\nrefused\nrefused\n',
      ],
    ),
    [
      'every destination counts',
      `${named('no-send-to-unknown')}${LABELLED}exe exfil:send @mail(to, cc) = when [ denied => "refused"  * => "sent" ]\nshow @mail(@as("a"), @in("b"))\nshow @mail(@as("a"), "b")`,
      'sent\nrefused\n',
    ],
    [
      'what is known inside is known',
      `${named('no-send-to-unknown')}${LABELLED}exe exfil:send @mail(to) = when [ denied => "refused"  * => "sent" ]\nshow @mail(@in("a"))`,
      'sent\n',
    ],
    [
      'a kind of sending is sending, a kind of destroying destroying',
      `policy @p = { defaults: { rules: ["no-send-to-unknown", "no-destroy-unknown"] } }\nexe exfil:send:mail @mail(to) = when [ denied => "refused"  * => "sent" ]\nexe destructive:targeted:row @rm(id) = when [ denied => "refused"  * => "removed" ]\nshow @mail("a")\nshow @rm("a")`,
      'refused\nrefused\n',
    ],
    [
      'other kinds are not',
      `policy @p = { defaults: { rules: ["no-send-to-unknown", "no-destroy-unknown"] } }\nexe exfil @mail(to) = "sent"\nexe destructive @rm(id) = "removed"\nshow @mail("a")\nshow @rm("a")`,
      'sent\nremoved\n',
    ],
    [
      'what the function does is not asked for a destination again',
      `${named('no-send-to-unknown')}${LABELLED}exe exfil:send @mail(text, to) = cmd {echo "@text to @to"}\nexe exfil:send @more(text, to) = [ show "sending"\n => \`sent @text\` ]\nshow @mail("x", @as("a"))\nshow @more("y", @as("a"))`,
      'x to a\nsending\nsent y\n',
    ],
    [
      'unless the call had nothing to judge',
      `${named('no-send-to-unknown')}var @url = "x"\nexe exfil:send @mail() = cmd {echo "@url"}\nshow @mail()`,
      '',
      4,
      'the destination of a message needs label `known`',
    ],
    [
      'a sending function inside is judged by itself',
      `${named('no-send-to-unknown')}${LABELLED}exe exfil:send @inner(to) = \`sent @to\`\nexe exfil:send @outer(to) = @inner("other")\nshow @outer(@as("a"))`,
      '',
      4,
      'exe inner was denied',
    ],
    [
      'labels of operations count',
      `policy @p = { operations: { "exfil:send": ["op:cmd:echo"] }, defaults: { rules: ["no-send-to-unknown"] } }\n${LABELLED}run cmd {echo @as("x")}\nvar @y = "y"\nrun cmd {echo @y}`,
      'x\n',
      4,
      'no-send-to-unknown',
    ],
    [
      'a privileged guard may know better',
      `${named('no-destroy-unknown')}guard privileged before @rm = when [ @mx.args.path == "tmp" => allow ]\nexe destructive:targeted @rm(path) = when [ denied => "refused"  * => "removed" ]\nshow @rm("tmp")\nshow @rm("etc")`,
      'removed\nrefused\n',
    ],
    [
      'no `labels` entry lifts a rule',
      'policy @p = { labels: { secret: { allow: ["op:exe"] } }, defaults: { rules: ["no-secret-exfil"] } }\nexe exfil @f(x) = "out"\nvar secret @k = "s"\nshow @f(@k)',
      '',
      4,
      'secrets do not leave',
    ],
  ]);
});

describe('risk labels are hierarchical', () => {
  rows([
    [
      'a secret does not reach `exfil:send`',
      `${named('no-secret-exfil')}exe exfil:send @f(to) = when [ denied => \`no: @mx.guard.reason\`  * => "out" ]\nvar secret @k = "s"\nshow @f(@k)`,
      'no: secrets do not leave\n',
    ],
    [
      'nor what is untrusted a targeted destruction',
      `${named('no-untrusted-destructive')}exe destructive:targeted @f(id) = when [ denied => "no"  * => "out" ]\nvar untrusted @k = "s"\nshow @f(@k)`,
      'no\n',
    ],
    [
      'a pattern of `labels` covers what is below it',
      'policy @p = { labels: { pii: { deny: ["exfil"] } } }\nexe exfil:send @f(to) = when [ denied => "no"  * => "out" ]\nvar pii @k = "s"\nshow @f(@k)',
      'no\n',
    ],
    [
      'no influenced advice, of any kind',
      `${named('no-influenced-advice')}exe advice:health @f(x) = when [ denied => "no"  * => \`take @x\` ]\nvar influenced @k = "s"\nshow @f(@k)\nshow @f("tea")`,
      'no\ntake tea\n',
    ],
    [
      'also under a condition that was influenced',
      `${named('no-influenced-advice')}exe advice @f(x) = \`take @x\`\nvar influenced @k = "s"\nwhen @k == "s" => show @f("tea")`,
      '',
      4,
      'data labelled `influenced` must not give advice',
    ],
    [
      'what a kind of model makes of untrusted data is influenced',
      `${named('untrusted-llms-get-influenced')}exe llm:small @m(x) = \`said @x\`\nvar untrusted @u = "x"\nvar @r = @m(@u)\nshow @r.mx.labels.join(" ")`,
      'untrusted llm:small influenced\n',
    ],
  ]);
});

describe('one that is known vouches for no other', () => {
  const RULES = `policy @p = { defaults: { rules: ["no-destroy-unknown", "no-send-to-external"] } }
exe destructive:targeted @rm(ids) = when [ denied => "refused"  * => "removed" ]
exe exfil:send @mail(to) = when [ denied => "refused"  * => "sent" ]
exe @known(f) = [ => known:internal @f ]
var @k = @known("a")
`;
  rows([
    ['in a list', `${RULES}show @rm([@k, "b"])\nshow @mail(["b", @k])`, 'refused\nrefused\n'],
    ['further in', `${RULES}show @rm([{ "id": @k, "x": ["b"] }])`, 'refused\n'],
    ['all of them are', `${RULES}show @rm([@k, @k])\nshow @mail([[@k]])`, 'removed\nsent\n'],
    ['the list itself is', `${RULES}show @rm(@known(["a", "b"]))`, 'removed\n'],
  ]);
});

describe('what is dangerous', () => {
  const cmd = (line: string, more = '') =>
    `policy @p = { allow: ["cmd:*", "sh"]${more} }\nrun cmd {${line}}`;

  test('an `allow` list alone does not open it, with `danger` it does', async () => {
    const text = (more: string) =>
      `policy @rules = { allow: ["cmd:git:*", "fs:w:@root/**"]${more} }\noutput "x" to "notes.txt"\noutput "x" to ".cursor/rules.md"`;
    const closed = await run(text(''));
    expect(closed).toMatchObject({ code: 4, out: '' });
    expect(closed.err).toContain('add a pattern for it to `danger`');
    expect(closed.file('notes.txt')).toBe('x');
    expect(closed.file('.cursor/rules.md')).toBeUndefined();
    const open = await run(text(', danger: ["fs:w:@root/.cursor/**"]'));
    expect(open).toMatchObject({ code: 0, out: '', err: '' });
    expect(open.file('notes.txt')).toBe('x');
    expect(open.file('.cursor/rules.md')).toBe('x');
  });

  test.each([
    'rm -rf x',
    'rm -fr x',
    'rm x -r -f',
    'rm -vRf x',
    'rm --recursive x --force',
    'rm --rec -f x',
    '/bin/rm -rf x',
    'env A=1 rm -rf x',
    'echo x | xargs rm -rf',
    'timeout 5 sudo ls',
    'sudo ls',
    'chmod 777 a',
    'chown me a',
    'dd if=a of=b',
    'mkfs.ext4 a',
    'kill 1',
    'pkill a',
    'killall a',
    'scp a b',
    'rsync a b',
    'nc a 1',
    'git push --force',
    'git push origin main -f',
    'git -C there push origin +main',
    'git remote add a b',
    'curl -T a http://localhost',
    'curl http://localhost --upload-file=a',
    'claude --dangerously-skip-permissions',
    'anyone -x --yolo',
    'bash -c "rm -rf x"',
    'find . -name none -exec rm -rf {} +',
    'find . -name none -exec ls {} + -exec rm -rf {} +',
    'curl -fsSLT a http://localhost',
    'curl -s4Ta http://localhost',
    'env --chdir / sudo ls',
    "env -S'sudo ls'",
    'env --split-string="sudo ls"',
    'timeout --signal KILL 5 sudo ls',
    'builtin kill -0 1',
    'eval "sudo ls"',
    'codex --ask-for-approval=never',
  ])('`%s` is', async (line) => {
    const found = await run(cmd(line));
    expect(found).toMatchObject({ code: 4, out: '' });
    expect(found.err).toContain('is dangerous');
  });

  test.each([
    'echo rm -rf',
    'echo "sudo ls"',
    'rm -f none',
    'echo push --force',
    'echo -exec rm -rf',
    'curl -XPUT http://127.0.0.1:1',
    'curl -oTEST http://127.0.0.1:1',
  ])('`%s` is not', async (line) => {
    expect((await run(cmd(line))).err).not.toContain('is dangerous');
  });

  rows([
    ['a pattern that covers it opens it', cmd('rm -rf none', ', danger: ["cmd:rm:*"]'), ''],
    [
      'words behind `*` may stand anywhere',
      'policy @p = { allow: ["cmd:echo:*"], deny: ["cmd:echo:*:--force"] }\nrun cmd {echo a b}\nrun cmd {echo a --force b}',
      'a b\n',
      4,
      'is denied by `cmd:echo:*:--force`',
    ],
    [
      'also in what is allowed',
      'policy @p = { allow: ["cmd:echo:a:*:-n"] }\nrun cmd {echo a b -n}\nrun cmd {echo a b}',
      'a b -n\n',
      4,
      'is not allowed by the policy',
    ],
    [
      'several policies: each must',
      'policy @a = { allow: ["cmd:*"], danger: ["cmd:rm:*"] }\npolicy @b = { allow: ["cmd:*"] }\nrun cmd {rm -rf none}',
      '',
      4,
      'is dangerous',
    ],
    [
      'without an `allow` list nothing is closed',
      'policy @p = { deny: ["network"], danger: [] }\nrun cmd {rm -rf none}',
      '',
    ],
    [
      'what a value brings into a command counts',
      `policy @p = { allow: ["cmd:*"] }\nvar @flag = "-rf"\nexe @f(x) = cmd {rm @flag "@x"}\nshow @f("none")`,
      '',
      4,
      'is dangerous',
    ],
    [
      'in a shell it is found as far as it can be read',
      'policy @p = { allow: ["sh"] }\nrun sh { echo "sudo ls" }\nrun sh { if true; then sudo ls; fi }',
      'sudo ls\n',
      4,
      'is dangerous',
    ],
    [
      'a privileged guard does not open it',
      'policy @p = { allow: ["cmd:*"] }\nguard privileged before op:run = when [ 1 == 1 => allow ]\nrun cmd {rm -rf none}',
      '',
      4,
      'is dangerous',
    ],
    [
      'a pattern of no kind is an error',
      'policy @p = { danger: ["everything"] }',
      '',
      3,
      'policy pattern `everything`',
    ],
  ]);

  test.each(['.env', 'keys/a.pem', 'id_rsa', 'me_ed25519', '.anthropic/key', 'sub/.openai/key'])(
    'reading `%s` is',
    async (name) => {
      const files = { [name]: 'K', 'a.txt': 'A' };
      const read = (more = '') =>
        run(`policy @p = { allow: ["fs:r:**"]${more} }\nshow <a.txt>\nshow <${name}>`, files);
      expect(await read()).toMatchObject({ code: 4, out: 'A\n' });
      expect((await read(`, danger: ["fs:r:${name}"]`)).out).toBe('A\nK\n');
    },
  );

  test.each([
    '.claude/a',
    '.codex/a',
    '.continue/a',
    '.mlld/a',
    'sub/.CLAUDE/a',
    '.ai/policy.yaml',
  ])('writing `%s` is', async (name) => {
    const found = await run(`policy @p = { allow: ["fs:w:**"] }\noutput "x" to "${name}"`);
    expect(found).toMatchObject({ code: 4, out: '' });
    expect(found.err).toContain('is dangerous');
    expect(found.file(name)).toBeUndefined();
  });

  test.each([
    ['allow: ["fs:r:**"]', 'fs/write_file', '{ path: "out.txt", content: "x" }', 'not allowed'],
    ['allow: ["fs:w:**"]', 'fs/write_file', '{ path: ".cursor/a", content: "x" }', 'is dangerous'],
    ['deny: ["fs:r:a.txt"]', 'fs/read_file', '{ path: "a.txt" }', 'is denied by'],
    ['allow: ["fs:r:**"]', 'fs/read_file', '{ path: ".env" }', 'is dangerous'],
  ])('%s holds for the tool %s too', async (rule, tool, given, reason) => {
    const text = `policy @p = { ${rule} }\nshow @tool("${tool}", ${given})`;
    const found = await run(text, { 'a.txt': 'A', '.env': 'K' });
    expect(found).toMatchObject({ code: 4, out: '' });
    expect(found.err).toContain(reason);
    expect(found.file('out.txt') ?? found.file('.cursor/a')).toBeUndefined();
  });

  test.each(['fs:r:shut', 'fs:r:./a/shut', 'fs:rw:a/shut/', 'fs:r:@root/a'])(
    'a folder that is denied is denied with all that is in it: %s',
    async (pattern) => {
      const text = `policy @p = { deny: ["${pattern}"] }\nshow <open.txt>\nshow <a/shut/deep/x.txt>`;
      const found = await run(text, { 'open.txt': 'open', 'a/shut/deep/x.txt': 'KEY' });
      expect(found).toMatchObject({ code: 4, out: 'open\n' });
    },
  );

  describe('what a tool finds by itself is judged file by file', () => {
    const files = {
      'a/open.txt': 'word open',
      'a/b/shut.txt': 'word shut',
      'a/.env': 'word key',
      'c/open.txt': 'word other',
    };
    const seen = async (rule: string, tool: string, given: string) => {
      const text = `policy @p = { ${rule} }\nshow @tool("${tool}", ${given})`;
      const { out, code, err } = await run(text, files);
      return {
        code,
        err,
        found: ['open', 'shut', 'key', 'other'].filter((one) => out.includes(one)),
      };
    };

    test.each([
      ['deny: ["fs:r:a/b/**"]', '{ pattern: "word" }', ['open', 'key', 'other']],
      ['deny: ["fs:r:shut.txt"]', '{ pattern: "word", path: "a/b" }', []],
      ['deny: ["fs:r:**/b/*"]', '{ pattern: "word", path: "a" }', ['open', 'key']],
      ['allow: ["fs:r:**"]', '{ pattern: "word" }', ['open', 'shut', 'other']],
      [
        'allow: ["fs:r:**"], danger: ["fs:r:**"]',
        '{ pattern: "word", path: "a" }',
        ['open', 'shut', 'key'],
      ],
      ['allow: ["fs:r:*", "fs:r:a/*.txt"]', '{ pattern: "word", path: "a" }', ['open']],
    ])('%s: fs/grep %s', async (rule, given, found) => {
      expect(await seen(rule, 'fs/grep', given)).toMatchObject({ code: 0, found });
    });

    test('names, too', async () => {
      const rule = 'deny: ["fs:r:**/shut.txt"]';
      for (const [tool, given] of [
        ['fs/glob', '{ pattern: "**" }'],
        ['fs/list_dir', '{ path: "a/b" }'],
      ] as const) {
        const { found } = await seen(rule, tool, given);
        expect(found).not.toContain('shut');
      }
      expect((await seen(rule, 'fs/glob', '{ pattern: "**" }')).found).toContain('open');
    });

    test('a folder that is not allowed is refused as a whole', async () => {
      const { code, err } = await seen('allow: ["fs:r:c/**"]', 'fs/grep', '{ pattern: "word" }');
      expect({ code, err }).toMatchObject({ code: 4, err: expect.stringContaining('not allowed') });
    });

    test('under `with { policy }` as well, and in a function called there', async () => {
      const text = `policy @none = {}
exe @find() = @tool("fs/grep", { pattern: "word" })
show @find() with { policy: { deny: ["fs:r:a/b/**"] } }`;
      const { out, code } = await run(text, files);
      expect(code).toBe(0);
      expect(out).toContain('word open');
      expect(out).not.toContain('shut');
    });
  });

  describe('what a process would touch, too, whoever starts it', () => {
    const DENY = 'policy @p = { deny: ["fs:r:shut/**", "fs:w:open.txt"] }\n';
    const files = { 'shut/a.txt': 'KEY', 'open.txt': 'open' };

    test.each([
      'run sh {cat shut/a.txt open.txt; true}',
      'run sh {cp -r . /tmp/copy; cat /tmp/copy/shut/a.txt /tmp/copy/open.txt; true}',
      'run cmd {sh -c "cat shut/* open.txt || true"}',
      'exe @f() = cmd {grep -rh . shut open.txt}\nshow @f()',
      'run py { import os; print([open(os.path.join(d, f)).read() for d, _, fs in os.walk(".") for f in fs if f[-1] == "t"]) }',
      'run node { const fs = require("fs"); console.log(fs.readFileSync("open.txt", "utf8"), fs.existsSync("shut/a.txt") ? fs.readFileSync("shut/a.txt", "utf8") : "") }',
      'show @tool("shell/bash", { command: "cat shut/a.txt open.txt; true" })',
      'for parallel(2) @n in [1, 2] => cmd {sh -c "cat shut/a.txt open.txt || true"}',
    ])('does not read: %s', async (statement) => {
      const found = await run(`${DENY}${statement}`, files);
      expect(found.code).toBe(0);
      expect(found.out).toContain('open');
      expect(found.out + found.err).not.toContain('KEY');
      const free = await run(statement, files);
      expect(free.out).toContain('KEY');
    });

    test.each([
      'run sh {echo new > open.txt || true; echo new > made.txt}',
      'run py { \ntry:\n  open("open.txt", "w").write("new")\nexcept OSError:\n  pass\nopen("made.txt", "w").write("new") }',
      'run sh {rm -f open.txt || true; mv open.txt x || true; echo new > made.txt}',
    ])('does not write: %s', async (statement) => {
      const found = await run(`${DENY}${statement}`, files);
      expect(found.file('open.txt')).toBe('open');
      expect(found.file('made.txt')?.trim()).toBe('new');
    });

    test.each([
      ['fs:r:shut/**', 'open'],
      ['fs:r:./shut/*', 'open'],
      ['fs:r:@root/shut/**', 'open'],
      ['fs:r:a.txt', 'open'],
      ['fs:r:*.txt', ''],
      ['fs:r:**/a.txt', 'open'],
      ['fs:r:/**/shut/a.txt', 'open'],
      ['fs:rw:shut', 'open'],
      ['fs:r:@root/shut', 'open'],
      ['fs:w:shut/**', 'KEYopen'],
      ['fs:r:/etc/**', 'KEYopen'],
      ['fs:r:~/shut/**', 'KEYopen'],
      ['fs:r:open/a.txt', 'KEYopen'],
    ])('%s leaves %j', async (pattern, out) => {
      const text = `policy @p = { deny: ["${pattern}"] }\nrun sh {cat shut/a.txt open.txt 2>/dev/null; true}`;
      expect((await run(text, files)).out.trim()).toBe(out);
    });

    test('what it makes where nothing may be written does not stay', async () => {
      const text = `policy @p = { deny: ["fs:w:made.txt"] }
run sh {echo x > made.txt; mkdir sub; echo x > sub/made.txt; echo x > x.txt; mv x.txt sub/y.txt}`;
      const found = await run(text, files);
      expect(found.file('made.txt') ?? found.file('sub/made.txt')).toBeUndefined();
      expect(found.file('sub/y.txt')).toBe('x\n');
    });

    test('an `allow` list is one of commands then: what it closes is not taken from them', async () => {
      const found = await run(
        'policy @p = { allow: ["cmd:cat:*"] }\nrun cmd {cat open.txt}',
        files,
      );
      expect(found).toMatchObject({ code: 0, out: 'open\n' });
    });
  });

  test('a tool may do what is allowed', async () => {
    const text =
      'policy @p = { allow: ["fs:r:a.txt"] }\nvar @r = @tool("fs/read_file", { path: "a.txt" })\nshow @r.content';
    expect((await run(text, { 'a.txt': 'A' })).out).toBe('A\n');
  });

  test.each([
    'su -c "rm -rf none"',
    'su root --command="sudo ls"',
    'parallel -j 2 sudo ls',
    'script -qc "sudo ls" /dev/null',
    'runuser -u nobody -- sudo ls',
  ])('a command’s `%s` is', async (line) => {
    const found = await run(`policy @p = { allow: ["cmd:*"] }\nrun cmd {${line}}`);
    expect(found).toMatchObject({ code: 4, out: '' });
    expect(found.err).toContain('is dangerous');
  });

  test.each([
    '$(echo sudo) ls',
    '`echo sudo` ls',
    "$'sudo' ls",
    '/usr/bin/sud? ls',
    'env $(echo sudo) ls',
  ])('a program that is not known before it runs may be: %s', async (line) => {
    const found = await run(`policy @p = { allow: ["cmd:*"] }\nrun cmd {${line}}`);
    expect(found).toMatchObject({ code: 4, out: '' });
    expect(found.err).toContain('is computed when it runs');
  });

  test('what a variable holds is known, and words behind the program may be anything', async () => {
    const text = `policy @p = { allow: ["cmd:*"] }
exe @f(prog) = cmd {$prog "*" $(echo two)}
show @f("echo")`;
    expect(await run(text)).toMatchObject({ code: 0, out: '* two\n' });
    const opened = 'policy @p = { allow: ["cmd:*"], danger: ["cmd:*"] }\nrun cmd {$(echo echo) x}';
    expect(await run(opened)).toMatchObject({ code: 0, out: 'x\n' });
  });

  test.each(['rm \\\n -rf none', '>x sudo ls', 'coproc sudo ls', 'eval "sudo ls"'])(
    'a shell’s `%s` is',
    async (line) => {
      const found = await run(`policy @p = { allow: ["sh"] }\nrun sh {\n${line}\n}`);
      expect(found).toMatchObject({ code: 4, out: '' });
      expect(found.err).toContain('is dangerous');
    },
  );

  test('a template file is read as any other, and a template is the script’s own', async () => {
    const files = { 'a.att': 'T', id_rsa: 'K' };
    const text = (policy: string, name: string) =>
      `policy @p = { ${policy} }\nexe @t() = template "./${name}"\nshow @t()`;
    const denied = await run(text('deny: ["fs:r:**/*.att"]', 'a.att'), files);
    expect(denied).toMatchObject({ code: 4, out: '' });
    expect(await run(text('allow: ["fs:r:**"]', 'id_rsa'), files)).toMatchObject({ code: 4 });
    const own = await run(text('allow: ["cmd:git:*"]', 'a.att'), files);
    expect(own).toMatchObject({ code: 0, out: 'T\n' });
  });

  test('by another name, too', async () => {
    const text = `run sh { mkdir .cursor; ln -s .cursor c; echo K > .env; ln -s .env e.txt }
policy @p = { allow: ["fs:w:**", "fs:r:**"] }
output "x" to "c/rules.md"`;
    expect(await run(text)).toMatchObject({ code: 4, out: '' });
    const read = text.replace(/\noutput.*$/, '\nshow <e.txt>');
    expect(await run(read)).toMatchObject({ code: 4, out: '' });
  });

  test('the person’s own keys are, whoever may read anywhere', async () => {
    const { fixture } = worker;
    const home = fixture.env.HOME ?? '';
    fixture.write(`${home}/.netrc`, 'K');
    const read = (more: string) =>
      run(`policy @p = { allow: ["fs:r:/**"]${more} }\nshow <${home}/.netrc>`);
    expect(await read('')).toMatchObject({ code: 4, out: '' });
    expect((await read(', danger: ["fs:r:~/.netrc"]')).out).toBe('K\n');
  });
});

const TOUCH = 'policy @p = { deny: ["cmd:touch"] }\n';
const ECHO = 'policy @p = { allow: ["cmd:echo:*"] }\nvar @w = "sudo"\n';

describe('what the variables of a command hold is read, too', () => {
  rows([
    ['as its program', `${TOUCH}exe @f(pr) = cmd {$pr hi}\nshow @f("touch")`, '', 4, '`cmd:touch`'],
    [
      'in braces and quotes',
      `${TOUCH}exe @f(pr) = cmd {"\${pr}" hi}\nshow @f("touch")`,
      '',
      4,
      '`cmd:touch`',
    ],
    ['several words', `${TOUCH}exe @f(pr) = cmd {$pr}\nshow @f("touch hi")`, '', 4, '`cmd:touch`'],
    [
      'a flag',
      'policy @p = { allow: ["cmd:*"] }\nexe @f(fl) = cmd {rm $fl none}\nshow @f("-rf")',
      '',
      4,
      'is dangerous',
    ],
    ['names before the braces', `${ECHO}run cmd (@w) {$w ls}`, '', 4, 'not allowed'],
    ['as a word of what is open', `${ECHO}run cmd (@w) {echo $w ls}`, 'sudo ls\n'],
    [
      'a part of a word begins no command',
      `${TOUCH}exe @f(t) = cmd {echo "$t" '$t'}\nshow @f("a | touch b")`,
      'a | touch b $t\n',
    ],
    [
      'what a guard puts in',
      `guard before op:run = when [ * => allow ["touch"] ]\n${TOUCH}var @q = "echo"\nrun cmd (@q) {$q hi}`,
      '',
      4,
      '`cmd:touch`',
    ],
    [
      'by the filters of guards',
      'guard before op:cmd:git:push = when [ * => deny "no push" ]\nexe @f(a) = cmd {git $a}\nshow @f("push")',
      '',
      4,
      'no push',
    ],
  ]);
});

const SECRET = `guard before secret = when [ @mx.op.type == "show" => deny "stays here"   * => allow ]
var secret @s = "k"
`;

describe('what is printed without `show` is judged as shown', () => {
  rows(
    [
      '@s | @upper',
      '@upper(@s)',
      'run @upper(@s)',
      '@s.toUpperCase()',
      'run @s.trim()',
      'when [ true => `x @s` ]',
      'when true => "x @s"',
      'for @x in [1] => @upper(@s)',
      'for @x in [@s] => @x => | @upper',
      '=> @s',
    ].map((line): Row => [line, `${SECRET}${line}`, '', 4, 'stays here']),
  );
  rows([
    ['what has no label is printed', `${SECRET}"a" | @upper\n@upper("b")\n=> "c"`, 'A\nB\nc\n'],
    [
      'a replacement is printed once',
      'guard before secret = when [ @mx.op.type == "show" => allow "***"   * => allow ]\nvar secret @s = "k"\n@s | @upper\n=> @s',
      '***\n***\n',
    ],
  ]);
});

const REFUSED = 'guard before @f = when [ @mx.args.x < 3 => deny "no" ]\nexe @f(x) = `@x`\n';

describe('branches of which some are refused', () => {
  rows([
    [
      'all of them: the loop is refused',
      `${REFUSED}var @r = for parallel @x in [1, 2] => @f(@x)\nshow "never"`,
      '',
      4,
      'every item of the loop failed',
    ],
    [
      'one of them: its record stands for it',
      `${REFUSED}var @r = for parallel @x in [1, 3] => @f(@x)\nshow \`@mx.errors.length @r[1]\``,
      '1 3\n',
    ],
    [
      'one refused, one failed: the loop failed',
      `${REFUSED}exe @g(x) = when [ @x == 1 => @f(@x)   * => @nobody.at ]\nvar @r = for parallel @x in [1, 2] => @g(@x)`,
      '',
      1,
      'every item of the loop failed',
    ],
  ]);
});

describe('what would have no effect is refused', () => {
  rows([
    [
      'a guard on rounds',
      'guard before op:for:iteration = when [ * => deny "no" ]\nfor @x in [1] => show @x',
      '',
      3,
      'rounds are not operations',
    ],
    ['`separator` without `foreach`', 'show "a" with { separator: "," }', '', 1, '`foreach` only'],
    [
      '`format` of `foreach`',
      'show foreach @upper(["a"]) with { format: "csv" }',
      '',
      1,
      'not an option of `foreach`',
    ],
  ]);
});

const READ = 'exe @read(f) = `r @f`\n';

describe('filters of hooks', () => {
  rows([
    [
      'a function whose first argument begins so',
      `${READ}hook @h before @read("src/") = [ show \`reading @input[0]\` ]\nshow @read("src/a")\nshow @read("doc/b")`,
      'reading src/a\nr src/a\nr doc/b\n',
    ],
    [
      'without a name, after, in a pipeline, in other quotes',
      `${READ}hook after @read('src/') = [ => \`(@output)\` ]\nshow "src/a" | @read\nshow "doc/b" | @read`,
      '(r src/a)\nr doc/b\n',
    ],
    [
      'a call without arguments begins with nothing',
      'exe @f(x) = "f"\nhook before @f("") = [ show "seen" ]\nshow @f()\nshow @f("")',
      'f\nseen\nf\n',
    ],
    [
      'what begins so is told by the text of a value',
      `exe @f(x) = "f"\nhook before @f("{") = [ show "data" ]\nshow @f({ "a": 1 })\nshow @f(12)`,
      'data\nf\nf\n',
    ],
    [
      'a guard takes no such filter',
      'guard before @f("x") = when [ * => allow ]',
      '',
      3,
      'a guard judges every call of a function',
    ],
    ['only a text stands there', 'hook before @f(3) = [ show "x" ]', '', 3, '`@f("src/")`'],
    [
      '`@input` is the list of inputs',
      'exe @f(a, b) = "f"\nhook before @f = [ show `@input.length @input[1] @input.any.text.includes("y")` ]\nvar @r = @f("x", "y")',
      '2 y true\n',
    ],
    [
      'of a label it is the value',
      'hook before secret = [ show `@input.length` ]\nvar secret @k = "abc"\nlog @k',
      '3\n3\n',
    ],
    [
      'a list replaces by position, another value the first',
      'exe @f(a, b) = `@a @b`\nhook before @f("1") = [ => ["x", "y"] ]\nhook before @f("2") = [ => "z" ]\nshow @f("1", "b")\nshow @f("2", "b")',
      'x y\nz b\n',
    ],
    [
      'what is replaced keeps its labels, and gains those of what it is made of',
      `${READ}var untrusted @u = "u"\nvar secret @k = "src/k"\nhook before @read("src/") = [ => @u ]\nhook after @read = [ => "plain" ]\nvar @r = @read(@k)\nshow \`@r @r.mx.labels.includes("secret") @r.mx.labels.includes("untrusted")\``,
      'plain true true\n',
    ],
  ]);

  rows([
    [
      'a `when` as body: what an arm gives is given back, an effect is not',
      'hook before op:show = when [\n  @input[0] == "a" => "b"\n  @input[0] == "c" => log "saw c"\n  @input[0] == "d" => [ let @x = "e"\n    => @x ]\n]\nshow "a"\nshow "c"\nshow "d"\nshow "x"',
      'b\nc\ne\nx\n',
      0,
      'saw c',
    ],
    [
      'errors go to @mx.hooks.errors',
      'hook @h before op:for:iteration = when [ * => @nobody.x.y ]\nfor @x in [1] => show @x\nshow `@mx.hooks.errors[0].hook`',
      '1\nh\n',
    ],
    ['and nothing is decided', 'hook before op:show = when [ * => deny "no" ]\nshow "x"', '', 3],
  ]);

  rows([
    [
      'each round of `for`',
      'hook before op:for:iteration = [ show `before @mx.for.index of @mx.for.total: @input[0] @mx.op.type @mx.op.subtype`\n  when @input[0] == "b" => "B" ]\nhook after op:for:iteration = [ => `<-@output` ]\nvar @r = for @x in ["a", "b"] => `[@x]`\nshow @r.join(" ")',
      'before 0 of 2: a for iteration\nbefore 1 of 2: b for iteration\n<-[a] <-[B]\n',
    ],
    [
      'of those that the filter leaves, and not of the loop itself',
      'hook before op:for = [ show "loop" ]\nhook before op:for:iteration = [ show "round" ]\nfor @x in [1, 2] when @x > 1 => show @x\nfor @x in [] => show @x',
      'loop\nround\n2\nloop\n',
    ],
    [
      'a round that is skipped stays skipped, a block gives what it gave',
      'hook after op:for:iteration = [ => "new" ]\nvar @r = for @x in [1, 2, 3] [ if @x == 2 [ continue ]\n => @x ]\nshow @r.join(" ")\nvar @s = for @x in [1, 2] => when [ @x == 1 => skip\n * => @x ]\nshow @s.join(" ")',
      'new new new\nnew\n',
    ],
    [
      'each window of a parallel loop',
      'hook before op:for:batch = [ show `window @mx.for.batchIndex: @mx.for.batchSize of @mx.for.total`\n  => for @v in @input => @v * 10 ]\nhook after op:for:batch = [ show `gave @output` ]\nvar @r = for parallel(2) @x in [1, 2, 3] => @x + 1\nshow @r.join(" ")',
      'window 0: 2 of 3\ngave [11,21]\nwindow 1: 1 of 3\ngave [31]\n11 21 31\n',
    ],
    [
      'whose results may be replaced',
      'hook after op:for:batch = [ => for @v in @output => @v * 2 ]\nvar @r = for parallel(2) @x in [1, 2, 3] => @x\nshow @r.join(" ")',
      '2 4 6\n',
    ],
    [
      'a loop in order has no windows',
      'hook before op:for:batch = [ show "window" ]\nfor @x in [1] => show @x',
      '1\n',
    ],
    [
      'an item that fails is listed by its own place',
      'hook before op:for:batch = [ show "window" ]\nexe @f(x) = js { if (x === 2) throw new Error("no"); return x }\nvar @r = for parallel(1) @x in [1, 2] => @f(@x)\nshow `@mx.errors[0].index @mx.errors[0].key`',
      'window\nwindow\n1 1\n',
    ],
    [
      'each round of `loop`, and not the loop',
      'hook before op:loop = [ show `round @mx.loop.iteration: @input[0]` ]\nhook after op:loop = [ show `gave @output` ]\nshow loop(5) [ when @input >= 1 => done "end"\n continue (@input ?? 0) + 1 ]',
      'round 1: null\ngave 1\nround 2: 1\ngave end\nend\n',
    ],
    [
      'whose input and result may be replaced',
      'hook before op:loop = when [ @mx.loop.iteration == 1 => 5 ]\nhook after op:loop = when [ @output == 6 => 9 ]\nshow loop(3) until @input == 9 [ continue @input + 1 ]',
      '9\n',
    ],
    [
      'labels go through a round',
      'hook before op:for:iteration = [ => "x" ]\nhook after op:for:iteration = [ => "y" ]\nvar secret @k = "k"\nvar untrusted @u = "u"\nvar @r = for @v in [@k, @u] => @v\nshow `@r[0] @r[0].mx.labels @r[1] @r[1].mx.labels`',
      'y ["secret","untrusted"] y ["untrusted","secret"]\n',
    ],
    [
      'through a window',
      'hook before op:for:batch = [ => ["x", "x"] ]\nhook after op:for:batch = [ => ["y", "y"] ]\nvar secret @k = "k"\nvar @r = for parallel(2) @v in [@k, "u"] => @v\nshow `@r[0] @r[0].mx.labels`',
      'y ["secret"]\n',
    ],
    [
      'and through a round of `loop`',
      'hook after op:loop = [ => "y" ]\nvar secret @k = "k"\nvar @r = loop(1) [ done @k ]\nshow `@r @r.mx.labels`',
      'y ["secret"]\n',
    ],
    [
      'guards judge what a hook does, and denials are errors of the hook',
      'guard before op:log = when [ * => deny "no log" ]\nhook before op:for:iteration = [ log "x" ]\nfor @x in [1] => show @x\nshow `@mx.hooks.errors.length`',
      '1\n1\n',
    ],
    [
      'hooks are off inside hooks',
      'hook before op:for:iteration = [ for @y in [1, 2] => show `inner @y` ]\nfor @x in ["a"] => show @x',
      'inner 1\ninner 2\na\n',
    ],
  ]);

  test('hooks of a module look on, too', async () => {
    const files = {
      'm.mld': 'hook before op:for:iteration = [ show `m @input[0]` ]\nvar @x = 1\n',
    };
    const text = 'import { @x } from "./m.mld"\nfor @v in ["a"] => show @v';
    expect((await run(text, files)).out).toBe('m a\na\n');
  });
});

describe('with { policy }', () => {
  rows([
    [
      'holds for everything inside a call, and only for it',
      'exe @f(x) = [ run cmd {echo @x}\n => "done" ]\nshow @f("a")\nvar @r = @f("b") with { policy: { deny: ["cmd:echo"] } }',
      'a\ndone\n',
      4,
      'is denied by `cmd:echo`',
    ],
    [
      'judges the statement itself',
      'var @no = { labels: { secret: { deny: ["op:show"] } } }\nvar secret @k = "s"\nshow @k\nshow @k with { policy: @no }',
      's\n',
      4,
      'data labelled `secret` may not reach `op:show`',
    ],
    [
      'only narrows',
      'policy @p = { deny: ["cmd:echo"] }\nrun cmd {echo hi} with { policy: { allow: ["cmd:*"], deny: [] } }',
      '',
      4,
      'is denied by `cmd:echo`',
    ],
    [
      'what data says sets no rules',
      'exe @plan() = js { return { deny: [] } }\nrun cmd {echo hi} with { policy: @plan() }',
      '',
      4,
      'from data (`src:js`)',
    ],
    [
      'a policy counts with all that it is made of',
      'policy @p = union({ labels: { secret: { deny: ["op:log"] } } }, { labels: { pii: { deny: ["op:log"] } } })\nvar secret @k = "s"\nlog @k with { policy: @p }',
      '',
      4,
      'data labelled `secret`',
    ],
    [
      'what is no policy is an error',
      'show "x" with { policy: 3 }',
      '',
      3,
      'a policy must be an object',
    ],
  ]);

  test('a policy of a module may be used', async () => {
    const files = { 'm.mld': 'policy @strict = { labels: { pii: { deny: ["op:show"] } } }\n' };
    const text = `import { @strict } from "./m.mld"\nvar pii @n = "Ann"\nshow "x" with { policy: @strict }\nshow @n with { policy: @strict }`;
    expect(await run(text, files)).toMatchObject({ code: 4, out: 'x\n' });
  });
});

test('an exception leaves a row in the audit, with the guard and what it lifted', async () => {
  const own = makeFixture({ 'x.mld': `${policy()}${PIN}${DROP}show @drop(@a)` });
  const done = await runCommand(['script', 'x.mld'], own.root, own.env);
  expect(done).toEqual({ code: 0, output: 'dropped tmp-1\n' });
  const runtime = await own.open();
  const rows = await runtime.audit.read({ limit: 100 });
  await runtime.close();
  own.remove();
  expect(rows.ok && rows.output).toContainEqual(
    expect.objectContaining({
      operation: 'exe:drop',
      decision: 'allowed',
      reason: expect.stringContaining('pin lifted policy:no-untrusted-destructive'),
    }),
  );
});

test('a signed directive’s script has privileged guards, and none that lifts', async () => {
  const script = `policy @rules = { defaults: { rules: ["no-untrusted-destructive"] } }
guard privileged before op:destructive = when [ 1 == 1 => allow ]
exe destructive @drop(id) = when [ denied => "kept"  * => "dropped" ]
var untrusted @a = "x"
return { text: @drop(@a) }`;
  const made = await alone(script, { outputs: TEXT });
  const { root, env } = made.fixture;
  const signed = await runCommand(['sign', '.ai/directives/job.md'], root, env);
  expect(signed).toMatchObject({ code: 0 });
  expect(await runThread(made, 'job', {})).toMatchObject({ outputs: { text: 'kept' } });
});

test('files that a script closes are closed in its thread, to tools and to processes', async () => {
  const script = `policy @p = { deny: ["fs:r:notes/shut/**"] }
var @found = @tool("fs/grep", { pattern: "word" })
var @said = sh {cat notes/shut/a.txt notes/open.txt; true}
return { text: \`@found @said\` }`;
  const permissions =
    '<execute resource="tool" id="fs/grep"/><read resource="filesystem" path="**"/><execute resource="process" action="spawn"/>';
  const made = await alone(script, { outputs: TEXT, permissions });
  for (const [name, text] of [
    ['notes/shut/a.txt', 'word KEY'],
    ['notes/open.txt', 'word open'],
  ] as const) {
    mkdirSync(join(made.fixture.root, name, '..'), { recursive: true });
    writeFileSync(join(made.fixture.root, name), text);
  }
  const ran = JSON.stringify(await runThread(made, 'job', {}));
  expect(ran.match(/word open/g)).toHaveLength(2);
  expect(ran).not.toContain('KEY');
});

describe('`check` warns of an exception that is none', () => {
  const warned = (guard: string) =>
    diagnose(`exe @f(x) = "f"\n${guard}\nshow @f(1)`, 'x.mld', 'strict').map(({ code }) => code);

  test.each([
    'guard privileged before @f = when [ * => allow ]',
    'guard privileged for op:exe = when [ false => deny "x"\n* => allow ]',
    'guard before @f = when [ * => [ log "x"\nallow ] ] with { privileged: true }',
    'guard privileged before @f = when [ * => allow "new" ]',
  ])('%s', (guard) => {
    expect(warned(guard)).toEqual(['script_exception_wide']);
  });

  test.each([
    'guard before @f = when [ * => allow ]',
    'guard privileged after @f = when [ * => allow ]',
    'guard privileged before secret = when [ * => allow ]',
    'guard privileged before @f = when [ * => deny "no" ]',
    'guard privileged before @f = when [ @mx.args.x == 1 => allow ]',
  ])('not of %s', (guard) => {
    expect(warned(guard)).toEqual([]);
  });

  test('also in a policy file', () => {
    const guard = (more: Partial<GuardSource>): GuardSource => ({
      on: 'op:tool:a',
      timing: 'before',
      privileged: true,
      verdict: { kind: 'allow' },
      ...more,
    });
    const guards = [
      guard({}),
      guard({ when: 'true == false' }),
      guard({ timing: 'after' }),
      guard({ verdict: { kind: 'deny', text: 'no' } }),
    ];
    const tools = [{ id: 'a', risk: [], parameters: [] }];
    const found = lintPolicy({ level: 'user', guards }, { tools, labels: [] });
    expect(found.map(({ code }) => code)).toEqual(['exception_wide']);
  });
});
