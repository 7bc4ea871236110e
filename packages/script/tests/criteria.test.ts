// Promises of the language about operations, labels and guards, one for each test.
import { makeValue, type RecordEntry, type Value } from '@kernmantle/core/flow';
import { play } from '@kernmantle/test-support/script-world';
import { expect, test } from 'vitest';

const lines = (text: string): string[] => text.trimEnd().split('\n');

test('hooks and guards run once for each statement, in the fixed order', async () => {
  const { text, fault } = await play(`
hook @first before op:var = [ show "hook before" ]
guard @second before op:var = when [ @say("guard before") => allow  * => allow ]
guard @fourth after op:var = when [ @say("guard after") => allow  * => allow ]
hook @third after op:var = [ show "hook after" ]
exe @say(x) = [ show @x  => true ]
exe @make() = [ show "input"  => 1 ]
var @x = @make()
show "end"`);
  expect(fault).toBe('');
  expect(lines(text)).toEqual([
    'input',
    'hook before',
    'guard before',
    'hook after',
    'guard after',
    'end',
  ]);
});

test('every statement is one operation, recorded once', async () => {
  const seen: string[] = [];
  const record = ({ op }: RecordEntry) => void seen.push(`${op.type} ${op.name}`.trim());
  await play(
    `
exe @f(x) = \`f @x\`
var @a = @f("1")
show @a
output @a to "o.txt"
for @i in [1, 2] => show @i`,
    { act: { record } },
  );
  expect(seen).toEqual([
    'exe f',
    'var a',
    'show show',
    'output output',
    'show show',
    'show show',
    'for',
  ]);
});

test.each([
  ['for', 'var @y = for @x in @list => @x + 1'],
  ['parallel', 'var @y = for parallel @x in @list => @x + 1'],
  ['foreach', 'var @y = foreach @f(@list)'],
  ['loop', 'var @y = loop(100000) [ continue 1 ]'],
  ['while', 'exe @g(x) = when [ @x => continue @x ]\nvar @y = 1 | while(100000) @g'],
])('a loop lets others have their turn, and ends when it is told to: %s', async (_kind, work) => {
  const stop = new AbortController();
  setImmediate(() => stop.abort());
  const list = makeValue(Array.from({ length: 1000 }, (_, index) => index));
  const { fault } = await play(`exe @f(x) = \`@x\`\n${work}`, {
    inputs: new Map([['list', list]]),
    signal: stop.signal,
  });
  expect(fault).toMatch(/^cancelled: .*the script was cancelled$/);
});

test('calls may be deep inside of one another, as long as none is too deep in itself', async () => {
  const { text, fault } = await play(`
exe recursive @a(n) = [
  let @list = for @x in [1] => [
    let @y = when [ @n > 0 => @b(@n - 1)  * => "end" ]
    => "@y"
  ]
  => @list[0]
]
exe recursive @b(n) = [ => @c(@n) ]
exe recursive @c(n) = [ => @d(@n) ]
exe recursive @d(n) = [ => @a(@n) ]
show @a(60)`);
  expect(fault).toBe('');
  expect(text).toBe('end\n');
});

test('functions, interpolation, modules and written files pass labels on', async () => {
  const { text, world, fault } = await play(
    `
import { @key, @wrap } from "./lib.mld"
var pii @name = "Ann"
var @greeting = \`Hi @name\`
var @wrapped = @wrap(@greeting)
show \`@greeting.mx.labels @wrapped.mx.labels @key.mx.labels\`
output @wrap(@name) to "out.txt"
var @back = <out.txt>
show \`@back.mx.labels @back.mx.taint.includes("src:template")\``,
    {
      files: {
        'lib.mld':
          'var secret @key = "k"\nexe net:w @wrap(x) = `(@x) @key`\nexport { @key, @wrap }',
      },
    },
  );
  expect(fault).toBe('');
  expect(lines(text)).toEqual([
    '["pii"] ["pii","secret","net:w"] ["secret"]',
    '["pii","secret","net:w"] true',
  ]);
  expect(world.files.get('/project/out.txt')?.descriptor.labels).toEqual([
    'pii',
    'secret',
    'net:w',
  ]);
});

test('ctx is the same in a script, in a js block and in a guard', async () => {
  const { text, fault } = await play(`
exe @inScript(a) = \`@mx.op.type @mx.op.name @mx.args.a @mx.try @mx.denied @mx.stage\`
exe @inJs(a) = js { return [mx.op.type, mx.op.name, ctx.args.a, mx.try, mx.denied, mx.stage].join(" ") }
guard @g before @inScript = when [ * => allow ["@mx.op.type @mx.op.name @mx.args.a @mx.try @mx.denied @mx.stage"] ]
show @inScript("v") with { guards: false }
show @inJs("v")
exe @shown(a) = @a
guard @h before @shown = when [ * => allow \`@mx.op.type @mx.op.name @mx.args.a @mx.try @mx.denied @mx.stage\` ]
show @shown("v")`);
  expect(fault).toBe('');
  expect(lines(text)).toEqual([
    'exe inScript v 1 false 0',
    'exe inJs v 1 false 0',
    'exe shown v 1 false 0',
  ]);
});

test('ctx never leaks between parallel branches', async () => {
  const { text, fault } = await play(`
exe @slow(i) = js { await new Promise((go) => setTimeout(go, (4 - i) * 5)); return mx.for.index + ":" + mx.args.i }
exe @stage(x) = js { return mx.for.index + "/" + mx.input }
var @all = for parallel(4) @i in [0, 1, 2, 3] [
  let @a = @slow(@i)
  let @b = @i | @stage
  => \`@a @b @mx.for.index @mx.for.key\`
]
show @all
show \`@mx.for\``);
  expect(fault).toBe('');
  expect(JSON.parse(lines(text).slice(0, -1).join(''))).toEqual(
    [0, 1, 2, 3].map((i) => `${i}:${i} ${i}/${i} ${i} ${i}`),
  );
  expect(lines(text).at(-1)).toBe('null');
});

test('.ctx of a value mirrors what a guard sees of it', async () => {
  const { text, fault } = await play(`
var secret @key = "a key"
show \`@key.ctx.labels @key.ctx.taint @key.ctx.tokens @key.mx.length @key.mx.type\`
guard @g before secret = when [
  @mx.op.type == "log" => deny \`@mx.labels @mx.taint @input.ctx.tokens @input.mx.length @input.mx.type\`
  * => allow
]
log @key`);
  expect(fault).toContain('["secret"] ["secret"] 2 5 string');
  expect(text).toBe('["secret"] ["secret"] 2 5 string\n');
});

test('a guarded assignment evaluates its right-hand side once', async () => {
  const { text, fault } = await play(`
exe @make() = [ show "made"  => "v" ]
guard @g before op:var = when [ * => allow ]
var @x = @make() | show
show @x`);
  expect(fault).toBe('');
  expect(lines(text)).toEqual(['made', 'v', 'v']);
});

test('effects of a right-hand side stay out, in order, when the assignment is denied', async () => {
  const { text, fault, effects } = await play(`
exe @make() = [ show "one"  output "kept" to "kept.txt"  show "two"  => "v" ]
guard @g before op:var = when [ * => deny "no" ]
var @x = @make()
show "never"`);
  expect(fault).toContain('var x was denied by @g (op:var): no');
  expect(lines(text)).toEqual(['one', 'two']);
  expect(effects.map(({ kind }) => kind)).toEqual(['show', 'output', 'show']);
});

test('an assignment is tried three times, its right-hand side anew, its effects out', async () => {
  const { text, fault, detail } = await play(`
exe @make() = js { globalThis.n = (globalThis.n ?? 0) + 1; return globalThis.n }
guard @g before op:var = when [ @mx.guard.try <= @mx.guard.max => retry \`\${@mx.guard.try}\` ]
var @x = @make() | show`);
  expect(lines(text)).toEqual(['1', '2', '3']);
  expect(fault).toContain('not satisfied after 3 attempts');
  expect(detail['hints']).toHaveLength(1);
});

test('guards and stages share one budget', async () => {
  const { fault } = await play(`
exe @make() = js { globalThis.n = (globalThis.n ?? 0) + 1; return "v" + globalThis.n }
exe @stage(x) = when [ @mx.try < 4 => retry "stage"  * => @x ]
guard @g before op:pipeline-stage = when [ @mx.guard.try >= 4 => retry "guard" ]
var @x = @make() | @stage`);
  expect(fault).toContain('quota_exceeded');
  expect(fault).toContain('10 attempts');
});

test('descriptors are frozen, and equal ones are the same', async () => {
  const seen = new Map<string, Value>();
  const record = ({ op, outcome }: RecordEntry) => {
    if (op.type === 'var' && outcome.ok) seen.set(op.name, outcome.output);
  };
  await play('var secret @a = ["x"]\nvar secret @b = { "k": [1] }\nvar @c = [@a]', {
    act: { record },
  });
  const [a, b, c] = ['a', 'b', 'c'].map((name) => seen.get(name) as Value);
  expect(a?.meta.descriptor).toBe(b?.meta.descriptor);
  for (const value of [a, b, c]) {
    const { descriptor } = (value as Value).meta;
    expect(Object.isFrozen(value) && Object.isFrozen(descriptor)).toBe(true);
    expect(Object.isFrozen(descriptor.labels) && Object.isFrozen(descriptor.taint)).toBe(true);
  }
  expect(Object.isFrozen(a?.data)).toBe(true);
});

test('a guard judges a list and an object also after their way through JSON', async () => {
  const script = (value: string) => `
var secret @key = "k"
var @list = ["a", @key]
var @object = { "open": 1, "inner": { "key": @key } }
exe @roundTrip(x) = js { return JSON.parse(JSON.stringify(x)) }
guard @g before secret = when [ @mx.op.type == "show" => deny "no"  * => allow ]
show ${value}`;
  for (const value of [
    '@list',
    '@object',
    '@json(@list)',
    '`@object`',
    '@roundTrip(@list)',
    '@roundTrip(@object).open',
    '@parse(`@list`)',
    '@object.inner',
  ]) {
    expect((await play(script(value))).fault, value).toContain('denied by @g (secret)');
  }
  for (const value of ['@list[0]', '@object.open']) {
    expect((await play(script(value))).fault, value).toBe('');
  }
});

test('deny beats retry beats a value, and every reason is kept', async () => {
  const { fault, detail } = await play(`
guard @a before op:show = when [ * => allow "changed" ]
guard @b before op:show = when [ * => retry "again" ]
guard @c before op:show = when [ * => deny "first" ]
guard @d before op:show = when [ * => deny "second" ]
show "x"`);
  expect(fault).toContain('denied by @c');
  expect(detail['reasons']).toEqual(['first', 'second']);
  expect(detail['hints']).toEqual(['again']);
  const tried = await play(`
exe @f() = js { globalThis.n = (globalThis.n ?? 0) + 1; return globalThis.n }
guard @a after @f = when [ * => allow "changed" ]
guard @b after @f = when [ @mx.guard.try < 2 => retry "again"  * => allow ]
show \`@f() @mx.tools.calls\``);
  expect(tried.text).toBe('changed ["f","f"]\n');
});

test('an error inside a guard denies', async () => {
  const { fault, text } = await play(`
exe @broken() = js { throw new Error('broken') }
guard @g before op:show = when [ @broken() => allow ]
show "x"`);
  expect(text).toBe('');
  expect(fault).toContain('the guard could not be evaluated');
});

test('labels survive templates, methods, JSON, pipelines, groups, imports, files and commands', async () => {
  const { text, fault } = await play(
    `
import { @key } from "./lib.mld"
exe @id(x) = @x
exe @other(x) = "fixed"
var @template = \`a @key b\`
var @method = @key.split("").join("-")
var @parsed = @parse(\`["@key"]\`)
var @piped = @key | @id | @upper
var @group = @key | @id || @other
output @key to "k.txt"
var @file = <k.txt>
var @command = run {echo @key}
var @stdin = run {cat} with { stdin: @key }
var @sum = \`@template.mx.labels @method.mx.labels @parsed[0].mx.labels @piped.mx.labels @group[0].mx.labels\`
show \`@sum @file.mx.labels @command.mx.labels @stdin.mx.labels\``,
    { files: { 'lib.mld': 'var secret @key = "k"' } },
  );
  expect(fault).toBe('');
  expect(text.trim()).toBe(Array.from({ length: 8 }, () => '["secret"]').join(' '));
});

test('labels of elements are exact', async () => {
  const { text } = await play(`
var secret @key = "k"
var @o = { "a": @key, "b": 1, "c": [@key, 2] }
show \`@o.mx.labels @o.a.mx.labels @o.b.mx.labels @o.c[0].mx.labels @o.c[1].mx.labels\``);
  expect(text).toBe('["secret"] ["secret"] [] ["secret"] []\n');
});
