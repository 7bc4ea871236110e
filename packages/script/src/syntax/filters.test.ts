import { readFileSync } from 'node:fs';
import { nearest } from '@kernmantle/core/base';
import { OPERATION_TYPES, OWN_LABELS } from '@kernmantle/core/flow';
import { misspelt } from '@kernmantle/test-support/misspelt';
import { play } from '@kernmantle/test-support/script-world';
import { runs } from '@kernmantle/test-support/soak';
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { diagnose, unboundIn } from '../execute-script.ts';
import { parseScript } from './parse.ts';

const treeOf = (text: string) =>
  parseScript(text, { mode: 'strict', file: 'a.mld' }).script ?? expect.fail('it does not parse');

const MODULE = 'exe net:w @send(x) = `@x`\nvar vip @ann = "Ann"\nexport { send, ann }\n';

const found = (text: string, module = MODULE): string[] =>
  diagnose(text, 'a.mld', 'strict', {
    module: (path) => (path === './m.mld' ? treeOf(module) : undefined),
    exists: (path) => path === './m.mld',
  }).map(({ severity, line, column, message, hint }) =>
    [`${severity} ${line}:${column}`, message, ...(hint === undefined ? [] : [hint])].join(' | '),
  );

const guard = (filter: string) => `guard @g before ${filter} = when [ * => deny "x" ]\nshow "a"`;

test.each([
  ['op:shwo', 'did you mean `show`'],
  ['op:tol:fs/write_file', 'did you mean `tool`'],
  ['op:rnu', 'did you mean `run`'],
  ['op:run:cdm', 'did you mean `cmd`'],
  ['op:modify:creat', 'did you mean `create`'],
])(
  'a filter on a kind of operation that does not exist refuses the script: %s',
  async (filter, hint) => {
    const { text, fault } = await play(guard(filter));
    expect([text, fault.split(':')[0]]).toEqual(['', 'invalid_item']);
    expect(found(guard(filter)).join()).toContain(`error 1:17`);
    expect(found(guard(filter)).join()).toContain(hint);
    const hook = `hook @h after ${filter} = [ log "x" ]\nshow "a"`;
    expect((await play(hook)).fault).toContain('invalid_item');
  },
);

test('nothing of a script runs when a guard further down, or in a module, has such a filter', async () => {
  const { text } = await play(`show "first"\n${guard('op:shwo')}`);
  expect(text).toBe('');
  const files = { 'm.mld': guard('op:shwo') };
  expect((await play('import { x } from "./m.mld"\nshow "a"', { files })).fault).toContain('shwo');
});

test.each([
  'op:show',
  'op:tool:fs/*',
  'op:cmd:git:push',
  'op:exfil',
  'op:*',
  'op:net:w',
  'op:net',
  'secret',
  'src:mcp',
  '@f',
])('a filter that can match is accepted: %s', (filter) => {
  expect(found(`exe net:w @f() = \`a\`\n${guard(filter)}`)).toEqual([]);
});

test('labels of imported functions and of policies are known to operations', () => {
  expect(found(`import { send } from "./m.mld"\n${guard('op:net:w')}`)).toEqual([]);
  expect(found(`policy @p = { operations: { paid: ["op:cmd"] } }\n${guard('op:paid')}`)).toEqual(
    [],
  );
  expect(found(`import { send } from "./m.mld"\n${guard('op:quux')}`).join()).toContain(
    'error 2:17',
  );
});

test('a label that nothing has is a warning with the nearest one, and the guard stays in force', async () => {
  expect(found(guard('secrt'))).toEqual([
    'warning 1:17 | no value or function here has the label `secrt` | did you mean `secret`?',
  ]);
  expect(found(`var vip @x = 1\n${guard('vpi')}`).join()).toContain('did you mean `vip`?');
  expect(found(`import { ann } from "./m.mld"\n${guard('vpi')}`).join()).toContain('`vip`');
  expect(found(guard('somethingelse'))).toEqual([]);
  expect((await play(`${guard('secrt')}\nvar secrt @x = 1`)).fault).toContain('permission_denied');
});

test.each(['shwo', 'cmd', 'exec', ''])('`@mx.op.type` is never `%s`', async (word) => {
  for (const condition of [`@mx.op.type == "${word}"`, `"${word}" != @ctx.operation.type`]) {
    const script = `guard @g before secret = when [ ${condition} => deny "x" ]\nshow "a"`;
    expect((await play(script)).fault).toContain('invalid_item');
    expect(found(script).join()).toContain('is never');
  }
});

/** Returns the rows of the table of types in the documentation: the words of the first two columns. */
function table(): Map<string, string[]> {
  const page = readFileSync(
    new URL('../../../../docs/policies-and-guards.md', import.meta.url),
    'utf8',
  );
  const [, rows = ''] =
    /\| `op\.type` \| `op\.subtype` \|[^\n]*\n[^\n]*\n((?:\|[^\n]*\n)+)/.exec(page) ?? [];
  const words = (cell = '') => Array.from(cell.matchAll(/`([^`]+)`/g), ([, word = '']) => word);
  return new Map(
    rows
      .trim()
      .split('\n')
      .flatMap((row) => {
        const [, types, subtypes] = row.split('|');
        return words(types).map((type): [string, string[]] => [type, words(subtypes)]);
      }),
  );
}

test('the documentation lists every type of operation, and no other', () => {
  expect([...table().keys()].toSorted()).toEqual([...OPERATION_TYPES].toSorted());
});

test('what a script performs stands in the table', async () => {
  const rows = table();
  const seen = new Set<string>();
  const script = `
var @x = "a"
exe @t(x) = \`@x\`
exe @c(x) = cmd {echo @x}
exe @s() = sh {echo a}
exe @j() = js {return 1}
exe @l() = llm "hi"
exe @b(x) = [ let @y = @x
 => @y ]
run @c(@x)
run {echo a}
run sh {echo a}
show @t(@x)
show @j()
show @b(@l())
log "x"
output "x" to "o.txt"
append "x" to "p.txt"
for @i in [1] => show @i
loop(1) [ show "r" ]
show @x | @t | log
var @y = @tool("fs/read_file", { path: "a" })
export { x }`;
  const { fault } = await play(script, {
    act: {
      record({ op }) {
        seen.add(JSON.stringify([op.type, op.subtype ?? null]));
      },
    },
  });
  expect(fault).toBe('');
  for (const entry of seen) {
    const [type, subtype] = JSON.parse(entry) as [string, string | null];
    const known = rows.get(type) ?? expect.fail(`${type} is not in the table`);
    const isOpen = type === 'pipeline-stage' || type === 'tool';
    if (subtype !== null && !isOpen) expect(known, type).toContain(subtype);
  }
  expect(seen.size).toBeGreaterThan(12);
});

test('what an import names must be there', () => {
  expect(found('import { x } from "./nope.mld"\nshow @x')).toEqual([
    expect.stringMatching(/^error 1:19 \| import `\.\/nope\.mld` not found/),
  ]);
  expect(found('import { send } from "./m.mld"\nshow @send("a")')).toEqual([]);
  expect(unboundIn(treeOf('import { x } from "./nope.mld"'))).toEqual([]);
});

test.each([
  ['show @upper("a", "b")', '`@upper` takes 1 argument, but gets 2 arguments'],
  ['show "a" | @upper("b")', '`@upper` takes 0 arguments besides the input, but gets 1 argument'],
  ['show @parse.loose("a", "b")', '`@parse` takes 1 argument, but gets 2 arguments'],
  ['var @x = @tool("a", {}, 1)', '`@tool` takes 2 arguments, but gets 3 arguments'],
])('arguments that a function of the language does not take: %s', (script, message) => {
  expect(found(script).join()).toContain(`| ${message}`);
});

test('texts are not added', () => {
  expect(found('show "a" + "b"').join()).toContain('error 1:6 | `+` adds numbers');
  expect(found("var @x = 'a' + `b`").join()).toContain('error');
  expect(found('exe @f() = [ => "a" + "b" ]\nshow @f()').join()).toContain('error');
  expect(found('var @x = 1 + 2\nshow @x')).toEqual([]);
});

test('a name that does not come in is an error, unless the script asks about it', async () => {
  const options = { stdin: () => '{"a": 1}' };
  const { fault } = await play('import { HOME } from @input\nshow @HOME', options);
  expect(fault).toBe('not_found: `@input` has no `HOME`');
  expect((await play('import { a } from @input\nshow @a', options)).text.trim()).toBe('1');
  const asked = 'import { HOME } from @input\nshow @HOME ?? "none"';
  expect((await play(asked, options)).text.trim()).toBe('none');
  expect(found('import { HOME } from @input\nshow @HOME').join()).toContain('warning 1:1');
  expect(found(asked)).toEqual([]);
  const inTool = diagnose('import { b } from @input\nshow @b', 'a.mld', 'strict', {
    inputs: ['a'],
  });
  expect(inTool).toMatchObject([{ severity: 'error', message: '`@input` has no `b`' }]);
});

test('a label that nothing has is a warning with the nearest one, and its guard holds when it appears', async () => {
  const own = ['customer', 'internal'];
  const all = [...OWN_LABELS, ...own];
  const given = 'var customer @c = "c"\nvar internal @i = "i"\n';
  const slip = misspelt(own).filter(
    (word) => /^[a-z]{3,}$/.test(word) && !all.includes(word) && nearest(word, all) !== undefined,
  );
  await fc.assert(
    fc.asyncProperty(slip, async (label) => {
      const rule = guard(label);
      const [warning, ...others] = found(`${given}${rule}`);
      expect(warning).toContain('warning 3:17');
      expect(warning).toContain(`did you mean \`${nearest(label, all)}\`?`);
      expect(others).toEqual([]);
      // The script runs, and the guard judges no other operation.
      expect(await play(`${given}${rule}`)).toMatchObject({ text: 'a\n', fault: '' });
      const appeared = `${given}var ${label} @x = "x"\n${rule}\nshow @x`;
      expect(found(appeared)).toEqual([]);
      expect((await play(appeared)).text).toBe('a\n');
      expect((await play(appeared)).fault).toContain('x');
    }),
    { numRuns: runs(15) },
  );
});
