// Guards, hooks and policies of scripts. Each row has one rule with the printed text or the fault.
import { play } from '@kernmantle/test-support/script-world';
import { describe, expect, test } from 'vitest';

type Row = readonly [rule: string, script: string, shown: string, fault?: string];

const check = (rows: readonly Row[]): void => {
  const named = rows.map(([rule, script, shown, fault = '']) => ({ rule, script, shown, fault }));
  test.each(named)('$rule', async ({ script, shown, fault }) => {
    const played = await play(script, {
      files: {
        'a.txt': 'A',
        'secret.txt': 'S',
        'docs/a.txt': 'D',
        'm.mld': 'guard @g before op:log = when [ * => deny "from the module" ]\nvar @x = 1',
      },
      stdin: () => 'typed',
      payload: { a: 'given' },
    });
    expect(played.text.trimEnd()).toBe(shown);
    if (fault === '') expect(played.fault).toBe('');
    else expect(played.fault).toContain(fault);
  });
};

const NO_SHOW =
  'guard @g before secret = when [ @mx.op.type == "show" => deny "no"  * => allow ]\n';
const KEY = 'var secret @k = "s"\n';

describe('decisions', () =>
  check([
    ['`for` alone is before', 'guard @g for op:show = when [ * => deny "f" ]\nshow "x"', '', 'f'],
    [
      'the timing may come first',
      'guard before @g for op:show = when [ * => deny "b" ]\nshow "x"',
      '',
      'b',
    ],
    [
      'no arm that matches allows',
      'guard @g before op:show = when [ false => deny "x" ]\nshow "x"',
      'x',
    ],
    [
      'reasons interpolate',
      'guard @g before op:show = when [ * => deny `no @mx.op.type` ]\nshow "x"',
      '',
      'no show',
    ],
    [
      'a label guard sees each input that carries the label',
      `${KEY}exe @f(a, b) = \`@a @b\`\nguard @g before secret = when [ @mx.op.type == "exe" => allow "*"  * => allow ]\nshow @f("open", @k)`,
      'open *',
    ],
    [
      'a list replaces inputs by position',
      'exe @f(a, b) = `@a @b`\nguard @g before @f = when [ * => allow ["x", "y"] ]\nshow @f("1", "2")',
      'x y',
    ],
    [
      'any other value replaces the first input',
      'exe @f(a, b) = `@a @b`\nguard @g before @f = when [ * => allow "x" ]\nshow @f("1", "2")',
      'x 2',
    ],
    [
      'questions about all inputs',
      'exe @f(a, b) = `f`\nguard @g before @f = when [ @input.any.text.includes("bad") && !@input.all.text.includes("bad") && @input.none.mx.labels.includes("x") => deny `bad of @input.length` ]\nshow @f("ok", "bad one")',
      '',
      'bad of 2',
    ],
    [
      'the same data is masked once',
      'exe @m(x) = `(@x)`\nguard @g before pii = when [ * => allow @m(@input) ]\nvar pii @n = "Ann"\nvar @g2 = `Hi @n`\nshow @g2',
      'Hi (Ann)',
    ],
    [
      'guards are off for what a guard does',
      'exe @c(x) = `c`\nguard @a before @c = when [ * => deny "no" ]\nguard @g before op:show = when [ * => allow @c(@input) ]\nshow "x"',
      'c',
    ],
    [
      'policies are not',
      'policy @p = { deny: ["cmd:git"] }\nexe @c() = cmd {git log}\nguard @g before op:show = when [ * => allow @c() ]\nshow "x"',
      '',
      '`cmd:git:log` is denied by `cmd:git`',
    ],
    [
      'a guard may be left out for one statement',
      'guard @g before op:show = when [ * => deny "no" ]\nshow "x" with { guards: false }\nshow "y" with { guards: { except: ["@g"] } }\nshow "z" with { guards: { only: ["@g"] } }',
      'x\ny',
      'no',
    ],
    [
      'a privileged one may not',
      'guard privileged @g before op:show = when [ * => deny "no" ]\nshow "x" with { guards: false }',
      '',
      'no',
    ],
    [
      'a denied arm knows why',
      `${KEY}exe @f(x) = when [ denied => \`@mx.guard.name @mx.guard.reason @mx.guard.try/@mx.guard.max @mx.guard.labels @mx.denied\`  * => "ok" ]\nguard @g before secret = when [ @mx.op.type == "exe" => deny \`no @mx.op.name\`  * => allow ]\nvar @r = @f(@k)\nshow \`@r @r.mx.labels\``,
      '@g no f 1/3 ["secret"] true ["secret"]',
    ],
    [
      'guards of a module are active',
      'import { @x } from "./m.mld"\nlog @x',
      '',
      'from the module',
    ],
    [
      'an ask that nobody can answer is no',
      'guard @g before op:show = when [ * => ask "may I?" ]\nshow "x"',
      '',
      'no person can answer here',
    ],
  ]));

describe('attempts', () =>
  check([
    [
      'a call is performed again',
      'exe @n() = js { globalThis.n = (globalThis.n ?? 0) + 1; return globalThis.n }\nguard @g after @n = when [ @output < 3 => retry "more"  * => allow ]\nshow @n()',
      '3',
    ],
    [
      'three times at most, and a denied arm may catch it',
      'exe @f() = when [ denied => `gave up after @mx.guard.try: @mx.guard.hintHistory`  * => "v" ]\nguard @g after @f = when [ * => retry `h@mx.guard.try` ]\nshow @f()',
      'gave up after 3: ["h1","h2"]',
    ],
    [
      'an effect cannot be tried again',
      'guard @g before op:show = when [ * => retry "x" ]\nshow "x"',
      '',
      'nothing here can be retried',
    ],
    [
      'in a pipeline the stage before runs again',
      'exe @s() = js { globalThis.n = (globalThis.n ?? 0) + 1; return "s" + globalThis.n }\nexe @t(x) = `@x try @mx.try`\nguard @g before op:pipeline-stage = when [ @mx.guard.try < 3 => retry "h"  * => allow ]\nshow @s() | @t',
      's3 try 3',
    ],
    [
      'running out of them there is a limit',
      'exe @t(x) = "t"\nguard @g before op:pipeline-stage = when [ * => retry "h" ]\nshow "s" | @t',
      '',
      'quota_exceeded',
    ],
    [
      '`retry` outside a pipeline is an error',
      'exe @f() = when [ * => retry "x" ]\nshow @f()',
      '',
      '`retry` cannot be used here',
    ],
  ]));

describe('effects under an after-guard', () => {
  const BODY = 'exe @f() = [ show "inside"  output "data" to "o.txt"  => "r" ]\n';
  check([
    [
      'are dropped with a denial',
      `${BODY}guard @g after @f = when [ * => deny "never" ]\nshow @f()`,
      '',
      'never',
    ],
    [
      'are let go with an allowance',
      `${BODY}guard @g after @f = when [ * => allow ]\nshow @f()\nshow <o.txt>`,
      'inside\nr\ndata',
    ],
    [
      'of attempts that do not count are dropped',
      'exe @n() = js { globalThis.n = (globalThis.n ?? 0) + 1; return globalThis.n }\nexe @f() = [ let @i = @n()  show `in @i`  => @i ]\nguard @g after @f = when [ @output < 2 => retry "x"  * => allow ]\nshow @f()',
      'in 2\n2',
    ],
    [
      'cannot be streamed',
      'exe @f() = run cmd {echo hi} with { stream: true }\nguard @g after @f = when [ * => allow ]\nshow @f()',
      '',
      'cannot stream',
    ],
    ...[
      'run cmd {echo hi} with { stream: true }',
      'run sh { echo hi } with { stream: true }',
      'run js { console.log("hi") } with { stream: true }',
      'run node { console.log("hi") } with { stream: true }',
      'run py { print("hi") } with { stream: true }',
      'exe @h() = js { console.log("hi") }\nvar @x = @h() with { stream: true }',
      'exe @h() = [ let @a = sh { echo hi } with { stream: true }\n => @a ]\nshow @h()',
      'exe @h() = llm "hi" with { stream: true }\nshow @h()',
      'exe @h() = llm "hi"\nshow @h() with { stream: true }',
    ].map(
      (script): Row => [
        `cannot be streamed in any form: ${script}`,
        `guard @r after op:run = when [ * => allow ]\nguard @e after op:exe = when [ * => allow ]\n${script}`,
        '',
        'cannot stream while a guard judges its result',
      ],
    ),
  ]);
});

describe('privileged guards', () => {
  const CLEAN = 'exe @clean(x) = `c @x`\nvar secret,pii @k = "x"\n';
  const after = (verdict: string, word = 'privileged ') =>
    `guard ${word}@p after @clean = when [ * => ${verdict} ]\n${CLEAN}var @c = @clean(@k)\nshow \`@c.mx.labels @c.mx.taint\``;
  check([
    ['remove a label', after('!secret @output'), '["pii"] ["pii","src:template"]'],
    [
      'remove all labels, never where data came from',
      after('clear! @output'),
      '[] ["src:template"]',
    ],
    [
      'add and remove',
      after('allow @output with { addLabels: ["ok"], removeLabels: ["pii", "src:template"] }'),
      '["secret","ok"] ["secret","ok","src:template"]',
    ],
    [
      'make untrusted data trusted',
      'guard privileged @p after @f = when [ * => trusted! @output ]\nexe @f(x) = @x\nvar untrusted @u = "u"\nvar @t = @f(@u)\nshow @t.mx.labels',
      '["trusted"]',
    ],
    [
      'others may not',
      after('!secret @output', ''),
      '',
      'only a privileged guard may remove labels',
    ],
  ]);
});

describe('hooks', () =>
  check([
    [
      'replace inputs and results',
      'hook before op:show = [ => `[@input[0]]` ]\nhook after op:exe = [ => `(@output)` ]\nexe @f(x) = `f @x`\nshow @f("a")',
      '[(f a)]',
    ],
    [
      'replace several inputs by position',
      'hook before @f = [ => ["1", "2"] ]\nexe @f(x, y) = `@x @y`\nshow @f("a", "b")',
      '1 2',
    ],
    [
      'see the operation they are called for',
      `${KEY}hook before secret = [ show \`saw @mx.op.type\` ]\nlog @k`,
      'saw log',
    ],
    [
      'keep labels',
      `hook before op:var = [ => "new" ]\n${KEY}show \`@k @k.mx.labels\``,
      'new ["secret"]',
    ],
    [
      'cannot stop anything',
      'hook @h before op:show = [ => @nope.x ]\nshow "a"\nvar @e = @mx.hooks.errors\nshow `@e[0].hook`',
      'a\nh',
    ],
    [
      'are judged by guards',
      'guard @g before op:log = when [ * => deny "no log" ]\nhook before op:show = [ log "x" ]\nshow "a"\nshow `@mx.hooks.errors.length`',
      'a\n1',
    ],
  ]));

describe('operations', () =>
  check([
    [
      'a run contains the call',
      'exe @f(x) = `f`\nguard @g before op:run = when [ * => deny "run" ]\nrun @f("x")',
      '',
      'run f was denied',
    ],
    [
      'a loop',
      'guard @g before op:loop = when [ * => deny "l" ]\nvar @r = loop(3) [ done 1 ]',
      '',
      'loop was denied',
    ],
    [
      'an export',
      `${KEY}guard @g before secret = when [ @mx.op.type == "export" => deny "x"  * => allow ]\nexport { @k }`,
      '',
      'export was denied',
    ],
    [
      'a value on stdin',
      `${KEY}guard @g before secret = when [ @mx.op.type == "run" => deny "stdin"  * => allow ]\nrun @k | {cat}`,
      '',
      'stdin',
    ],
    [
      'a variable of the environment',
      `${KEY}output @k to env:TOKEN\nvar @r = run {echo $TOKEN}\nshow \`has @r.mx.taint\``,
      'has ["secret","src:env:TOKEN","src:cmd"]',
    ],
    [
      'labels of a function hold inside it',
      'exe exfil @f(u) = [ let @r = run cmd {echo @u}  => @r ]\nguard @g before op:exfil = when [ @mx.op.type == "run" => deny "inside"  * => allow ]\nshow @f("x")',
      '',
      'inside',
    ],
    [
      'words of a command',
      'guard @g before op:cmd:git:push = when [ * => deny "push" ]\nrun {git status}\nrun {git push origin}',
      '',
      'push',
    ],
    [
      'a tool with each parameter',
      'guard @g before op:tool:http = when [ * => deny `@mx.op.name @input.length` ]\nshow @tool("http/get", { url: "x", b: 2 })',
      '',
      'http/get 2',
    ],
    ['conditions count', `${KEY}${NO_SHOW}if @k == "s" [ show "plain" ]`, '', 'denied by @g'],
    [
      'conditions that could have led out count',
      `${KEY}${NO_SHOW}exe @f(k) = [ if @k == "no" [ => 1 ]  show "after"  => 2 ]\nvar @r = @f(@k)`,
      '',
      'denied by @g',
    ],
  ]));

describe('labels and facts', () =>
  check([
    [
      '`=> label` adds one',
      'exe @f(x) = [ => pii @x ]\nvar @r = @f("a")\nshow @r.mx.labels',
      '["pii"]',
    ],
    [
      '`untrusted` ends trust',
      'var trusted @t = "t"\nvar untrusted @u = @t\nvar trusted @w = @u\nshow `@u.mx.labels @w.mx.labels`',
      '["untrusted"] ["untrusted","trusted"]',
    ],
    [
      'what comes from people',
      'show `@input.mx.taint @payload.a.mx.taint`',
      '["src:user"] ["src:user"]',
    ],
    [
      'functions that made it',
      'exe @a(x) = `a @x`\nexe @b(x) = `b @x`\nvar @r = "q" | @a | @b\nshow `@r.mx.tools @mx.tools.calls`',
      '[{"name":"a"},{"name":"b"}] ["a","b"]',
    ],
    [
      'where a variable was defined',
      'var @x = "abcde"\nshow `@x.mx.name @x.mx.type @x.mx.length @x.mx.tokest @x.mx.definedAt`',
      'x string 5 2 script.mld:1',
    ],
    [
      'while an assignment is judged, `pipe` is where its pipeline ended',
      'exe @a(x) = `a @x`\nexe @b(x) = when [ @mx.try < 3 => retry "h"  * => `b @x` ]\nguard @g before op:var = when [ * => deny `try @mx.pipe.try stage @mx.pipe.stage` ]\nvar @r = "s" | @a | @b',
      '',
      'try 3 stage 2',
    ],
  ]));

describe('policies', () =>
  check([
    [
      'deny as a prefix',
      'policy @p = { deny: ["cmd:git:push"] }\nrun {git status}\nrun {git push origin}',
      '',
      '`cmd:git:push:origin` is denied',
    ],
    [
      'allow in full',
      'policy @p = { allow: ["cmd:git:status"] }\nrun {git status}\nrun {git status x}',
      '',
      '`cmd:git:status:x` is not allowed',
    ],
    [
      'close files with any list',
      'policy @p = { allow: ["cmd:git:*"] }\nshow <a.txt>',
      '',
      '`fs:r:/project/a.txt` is not allowed',
    ],
    [
      'let intersect',
      'policy @p = { allow: ["cmd:git:*", "cmd:ls"] }\npolicy @q = { allow: ["cmd:ls"] }\nrun {ls}\nrun {git log}',
      '',
      '`cmd:git:log`',
    ],
    [
      'see a shell as `sh`',
      'policy @p = { deny: { sh: true } }\nrun {echo a | /bin/bash}',
      '',
      '`sh` is denied',
    ],
    [
      'see through carriers',
      'policy @p = { deny: ["sh", "cmd:git"] }\nrun {env A=1 nohup git log}',
      '',
      '`cmd:git:log`',
    ],
    [
      'see what the shell would run',
      'policy @p = { deny: ["sh"] }\nrun {echo $(git log)}',
      '',
      '`sh` is denied',
    ],
    [
      'know programs of the network',
      'policy @p = { deny: ["network"] }\nrun {curl x}',
      '',
      '`network` is denied',
    ],
    [
      'bite on reading',
      'policy @p = { deny: ["fs:r:**/secret.txt"] }\nshow <a.txt>\nshow `x <secret.txt>`',
      'A',
      '`fs:r:/project/secret.txt`',
    ],
    [
      'allow files from the project on',
      'policy @p = { allow: ["fs:r:docs/**", "fs:w:out/**"] }\nshow <docs/a.txt>\noutput "x" to "out/x.txt"\noutput "x" to "sub/out/x.txt"',
      'D',
      '`fs:w:/project/sub/out/x.txt`',
    ],
    [
      'speak of operations',
      'policy @p = { deny: ["op:log"] }\nshow "a"\nlog "b"',
      'a',
      'log was denied',
    ],
    [
      'the longer pattern wins',
      'policy @p = { labels: { secret: { deny: ["op:cmd"], allow: ["op:cmd:git"] } } }\nvar secret @k = "x"\nrun {git @k}\nrun {echo @k}',
      '',
      'may not reach `op:cmd`',
    ],
    [
      'give operations risks',
      'policy @p = { operations: { exfil: ["op:cmd:post"] } }\nvar secret @k = "x"\nrun {post @k}',
      '',
      'secrets do not leave',
    ],
    [
      'no entry lifts a rule',
      'policy @p = { labels: { secret: { allow: ["exfil"] } } }\nexe exfil @f(x) = "f"\nvar secret @k = "x"\nshow @f(@k)',
      '',
      'no-secret-exfil',
    ],
    [
      'label what carries no label',
      'policy @p = { defaults: { unlabeled: "untrusted" } }\nshow `<a.txt>.mx.labels @input.mx.labels`\nvar @x = "lit"\nshow `@x.mx.labels`',
      '["untrusted"] ["untrusted"]\n[]',
    ],
    [
      'know whom to send to',
      'policy @p = { defaults: { rules: ["no-send-to-unknown"] } }\nexe exfil:send @m(body, to) = `to @to`\nvar known @a = "ann"\nshow @m("x", @a)\nshow @m("x", "bob")',
      'to ann',
      'needs label `known`',
    ],
    [
      'know what is inside',
      'policy @p = { defaults: { rules: ["no-send-to-external"] } }\nexe exfil:send @m(body, to) = `to @to`\nvar known:internal @a = "ann"\nvar known @b = "bob"\nshow @m("x", @a)\nshow @m("x", @b)',
      'to ann',
      'needs label `known:internal`',
    ],
    [
      'know what is destroyed',
      'policy @p = { defaults: { rules: ["no-destroy-unknown"] } }\nexe destructive:targeted @rm(why, fileId) = `gone @fileId`\nvar known @a = "1"\nshow @rm("x", @a)\nshow @rm("x", "2")',
      'gone 1',
      'targets of destruction need label `known`',
    ],
    [
      'give no advice of what was influenced',
      'policy @p = { defaults: { rules: ["no-influenced-advice"] } }\nexe advice @say(x) = `do @x`\nvar influenced @i = "b"\nshow @say("a")\nshow @say(@i)',
      'do a',
      'must not give advice',
    ],
    [
      'mark what a model made of untrusted data',
      'policy @p = { defaults: { rules: ["untrusted-llms-get-influenced"] } }\nexe llm @ask(x) = `said @x`\nvar untrusted @u = "u"\nvar @r = @ask(@u)\nshow @r.mx.labels.includes("influenced")',
      'true',
    ],
    [
      'name rules that exist',
      'policy @p = { defaults: { rules: ["no-such"] } }',
      '',
      '`no-such` is not a rule',
    ],
    ['say nothing else', 'policy @p = { auth: {} }', '', '`auth` is not a key'],
    [
      'choose a profile',
      'policy @p = { deny: ["sh"] }\nprofiles { full: { requires: { sh, cmd: [git] } }, small: { requires: { cmd: [git] } }, none: {} }\nshow @mx.profile',
      'small',
    ],
    [
      'tell at once what is missing',
      'policy @p = { deny: ["sh"] }\nneeds { sh }\nshow "x"',
      '',
      'needs `sh`',
    ],
  ]));

const EXFIL = 'policy @rules = { operations: { exfil: ["op:cmd:curl"] } }\n';

describe('what a labelled function does', () =>
  check([
    [
      'a template with a captured secret',
      `${KEY}exe exfil @send() = \`send @k\`\nshow @send()`,
      '',
      'no-secret-exfil',
    ],
    [
      'a captured secret alone',
      `${KEY}exe exfil @send() = @k\nshow @send()`,
      '',
      'no-secret-exfil',
    ],
    [
      'an object with a captured secret',
      `${KEY}exe exfil @send() = { "a": @k }\nshow @send()`,
      '',
      'no-secret-exfil',
    ],
    [
      'a template file that inserts one',
      `${KEY}output "<@x>" to "t.att"\nexe exfil @send(x) = template "t.att"\nshow @send(@k)`,
      '',
      'no-secret-exfil',
    ],
    ['a template without one', `${KEY}exe exfil @send(x) = \`send @x\`\nshow @send("a")`, 'send a'],
    ['one without labels', `${KEY}exe @say() = \`say @k\`\nshow @say()`, 'say s'],
    [
      'a source that runs again because of a secret',
      `${KEY}exe exfil @send() = js { return "sent" }\nexe @again(x) = when [ @k == "s" && @mx.try < 2 => retry "more"  * => @x ]\nvar @r = @send() | @again\nshow @r`,
      '',
      'no-secret-exfil',
    ],
    [
      'a stage that runs again because of a secret',
      `${KEY}exe exfil @send(x) = js { return "sent" }\nexe @again(x) = when [ @k == "s" && @mx.try < 2 => retry  * => @x ]\nvar @r = "a" | @send | @again\nshow @r`,
      '',
      'no-secret-exfil',
    ],
    [
      'a source that runs again for no secret reason',
      `${KEY}exe exfil @send() = js { return "sent" }\nexe @again(x) = when [ @mx.try < 2 => retry "more"  * => @x ]\nvar @r = @send() | @again\nshow @r`,
      'sent',
    ],
  ]));

describe('a command is known by what it runs', () =>
  check(
    [
      'curl',
      '/usr/bin/curl',
      '"curl"',
      'env curl',
      'env -i A=1 curl',
      'env -u HOME curl',
      'env -S "curl -s"',
      'nohup nice -n 5 curl',
      'timeout -s KILL 5s curl',
      'timeout 5 env curl',
      'xargs -n 1 curl',
      'sudo -u root curl',
      'command curl',
      'stdbuf -o L curl',
      'sh -c "curl x"',
      'bash -ec "true; curl x"',
      'env bash -c "echo $(curl x)"',
      'echo a | xargs curl',
    ].map((command): Row => [command, `${EXFIL}${KEY}run {${command} @k}`, '', 'no-secret-exfil']),
  ));

describe('a condition that cannot be asked', () =>
  check([
    [
      'denies where a field of a text is called',
      `${KEY}guard @g before secret = when [ @input.foo.bar() => deny "x"  * => allow ]\nshow @k`,
      '',
      'has no field',
    ],
    [
      'is an error in `when`',
      'var @n = "x"\nshow when [ @n.foo.bar() => 1  * => 2 ]',
      '',
      'has no field',
    ],
    [
      'is an error of a number',
      'var @n = 1\nif @n.foo.includes("a") [ show "y" ]',
      '',
      'has no field',
    ],
    [
      'is none for marks of any input',
      `${KEY}guard @g before op:show = when [ @input.any.labels.includes("secret") => deny "marked"  * => allow ]\nshow "a"\nshow @k`,
      'a',
      'marked',
    ],
    [
      'asks for marks of every input',
      `guard @g before op:show = when [ @input.none.taint.includes("src:js") => allow  * => deny "js" ]\nexe @f() = js { return 1 }\nshow "a"\nshow @f()`,
      'a',
      'js',
    ],
    ['is none where `?` says so', 'var @n = "x"\nshow when [ @n.foo? => 1  * => 2 ]', '2'],
    ['is none for a plain field', 'var @n = "x"\nshow when [ @n.foo => 1  * => 2 ]', '2'],
    ['is none for a name that nobody knows', 'show when [ @none.includes("x") => 1  * => 2 ]', '2'],
  ]));
