import { testWorld } from '@kernmantle/test-support/directives';
import { expect, test } from 'vitest';
import { ok } from '../../base/index.ts';
import { checkDirective } from './check.ts';
import type { Directive, DirectiveWorld } from './directive.ts';
import { parseDirective } from './parse.ts';

function check(metadata: string, world: Partial<DirectiveWorld> = {}) {
  const text = `<directive name="x" version="1.0.0"><metadata>${metadata}</metadata></directive>`;
  return checkDirective(parseDirective(text, 'x.md'), testWorld(world));
}

const permissions = (...lines: string[]) => `<permissions>\n${lines.join('\n')}\n</permissions>`;
const codes = (...args: Parameters<typeof check>) => check(...args).map(({ code }) => code);

test.each([
  ['<model tier="balancd"/>', ['tier_unknown']],
  ['<model tier="fast" fallback_id="any-model"/>', []],
  ['<limits><spend currency="EUR">1</spend></limits>', []],
  ['<limits><spend currency="CHF">1</spend></limits>', ['currency_unknown']],
  [
    '<hooks><hook><when>labels</when><directive>handle_timeot</directive></hook></hooks>',
    ['hook_directive_unknown'],
  ],
  [
    '<hooks><hook><when>labels</when><directive>create_directive</directive></hook></hooks>',
    ['hook_action_missing'],
  ],
  [
    '<relationships><requires>handle_timeout, shell/bash, nothing</requires></relationships>',
    ['requires_unknown'],
  ],
  ['<relationships><suggests>nothing</suggests><related>nothing</related></relationships>', []],
  ['<relationships><extends>nothing</extends></relationships>', ['extends_unknown']],
  ['<relationships><extends>x</extends></relationships>', ['extends_cycle']],
  ['<expect><call tool="shell/bash" succeeds="last"/></expect>', []],
  ['<expect><call tool="shell/bsh" succeeds="always"/></expect>', ['tool_unknown']],
  [
    '<title>${inputs.no}</title><relationships><extends>create_directive</extends></relationships>',
    ['title_invalid'],
  ],
])('%s: %j', (metadata, expected) => {
  expect(codes(metadata)).toEqual(expected);
});

test('an expected tool that is not there is a warning with the nearest name', () => {
  const [found] = check('<expect><call tool="shell/bsh" succeeds="last"/></expect>');
  expect(found).toMatchObject({
    severity: 'warning',
    message: 'tool `shell/bsh` not found, so every run ends `failed` now',
    hint: 'did you mean `shell/bash`',
  });
});

test('a tool whose needs are not granted is reported with the lines to add', () => {
  const [found] = check(permissions('<execute resource="tool" id="push"/>'));
  expect(found).toMatchObject({
    code: 'tool_requires_missing',
    line: 2,
    column: 1,
    message:
      'tool `git/push` needs `git.push` and `process.spawn`, which this directive does not grant: such calls will be denied',
    severity: 'warning',
    hint: 'add to `<permissions>`:\n<execute resource="git" action="push"/>\n<execute resource="shell"/>',
  });
});

test('adding the lines that are asked for makes the report go away', () => {
  for (const tool of testWorld().toolIds()) {
    const line = `<execute resource="tool" id="${tool}"/>`;
    const hint = check(permissions(line))[0]?.hint ?? '';
    const added = hint.split('\n').slice(1);
    const after = codes(permissions(line, ...added));
    // No line of a project's directive can grant what is for signed core items only.
    const isSystem = tool === 'threads/safety_harness';
    expect(after).toEqual(isSystem ? ['tool_requires_missing'] : []);
    if (isSystem) expect(hint).toBe('remove the tool: `registry.write` cannot be granted here');
  }
});

test('the line to add opens the one host that a tool asks, and a line for another is not enough', () => {
  const endpoint = { host: 'api.example.com', method: 'POST' };
  const tool = () => ok({ id: 'own/post', requires: ['net.http'], endpoint });
  const named = '<execute resource="tool" id="own/post"/>';
  const line = '<execute resource="net" action="http" host="api.example.com" method="POST"/>';
  expect(check(permissions(named), { tool })).toMatchObject([
    { code: 'tool_requires_missing', hint: `add to \`<permissions>\`:\n${line}` },
  ]);
  const other = line.replace('api.', 'other.');
  expect(check(permissions(named, other), { tool })).toMatchObject([
    { code: 'tool_requires_missing', message: expect.stringContaining('`api.example.com` (POST)') },
  ]);
  const wide = '<execute resource="net" action="http" host="*.example.com"/>';
  for (const enough of [line, wide, '<execute resource="net" action="http"/>']) {
    expect(codes(permissions(named, enough), { tool })).toEqual([]);
  }
});

test('the lines to add are written in the form of the file', () => {
  const text =
    '---\nname: x\nversion: 1.0.0\npermissions:\n  - execute: { resource: tool, id: write_file }\n---\n';
  const [found] = checkDirective(parseDirective(text, 'x.md'), testWorld());
  expect(found).toMatchObject({
    line: 5,
    hint: 'add to `permissions`:\n- write: { resource: filesystem, path: "**" }',
  });
  const fixed = text.replace('\n---\n', '\n  - write: { resource: filesystem, path: "**" }\n---\n');
  expect(checkDirective(parseDirective(fixed, 'x.md'), testWorld())).toEqual([]);
});

test('whoever may write may read, and a pattern of tools counts each of them', () => {
  const write = '<write resource="filesystem" path="a/**"/>';
  expect(codes(permissions(write, '<execute resource="tool" id="read_file"/>'))).toEqual([]);
  expect(check(permissions('<execute resource="tool" id="supabase_*"/>'))).toMatchObject([
    {
      message:
        'tool `db/supabase_query` and `db/supabase_migrate` needs `mcp.supabase.call`, which this directive does not grant: such calls will be denied',
    },
  ]);
});

test.each([
  ['<read resource="filesystem" path="/etc/**"/>'],
  ['<read resource="filesystem" path="~/x"/>'],
  ['<read resource="filesystem" path="C:/x"/>'],
  ['<execute resource="registry" action="write"/>'],
])('%s is for signed core items only', (line) => {
  expect(codes(permissions(line))).toEqual(['system_only']);
  expect(codes(permissions(line), { source: 'user' })).toEqual(['system_only']);
  expect(codes(permissions(line), { source: 'bundle', signedCore: true })).not.toContain(
    'system_only',
  );
});

test.each([
  ['<execute resource="tool" id="nothing"/>', ['tool_unknown']],
  ['<execute resource="tool" id="fs/reed_file"/>', ['tool_unknown']],
  ['<execute resource="kiwi-mcp" action="search"/>', ['permission_unneeded']],
  ['<execute resource="kiwi-mcp" action="load"/>', []],
  ['<execute resource="registry" action="raed"/>', ['capability_unknown']],
  ['<execute resource="shell" path="a"/>', ['permission_invalid']],
  ['<execute resource="net" action="http" host="api.example.com"/>', []],
])('%s: %j', (line, expected) => {
  expect(codes(permissions(line))).toEqual(expected);
});

test('a misspelt id of a tool is a warning with what was probably meant', () => {
  expect(check(permissions('<execute resource="tool" id="fs/reed_file"/>'))).toMatchObject([
    { code: 'tool_unknown', severity: 'warning', hint: 'did you mean `fs/read_file`' },
  ]);
});

test('an entry that was reported when it was read is not reported again', () => {
  expect(
    codes(
      permissions('<write resource="filesystem"/>', '<execute resource="tool" id="write_file"/>'),
    ),
  ).toEqual([]);
});

test('mistakes of its own do not hide mistakes among the others', () => {
  const text =
    '<directive name="x" version="1"><metadata><model tier="non"/></metadata></directive>';
  const parsed = parseDirective(text, 'x.md');
  expect(parsed.directive).toBeUndefined();
  expect(checkDirective(parsed, testWorld()).map(({ code }) => code)).toEqual(['tier_unknown']);
});

test('a directive that leads back to itself by extending is reported', () => {
  const other = parseDirective(
    '<directive name="y" version="1.0.0"><metadata><relationships><extends>x</extends></relationships></metadata></directive>',
    'y.md',
  ).directive as Directive;
  const world = { directive: (name: string) => (name === 'y' ? other : undefined) };
  expect(codes('<relationships><extends>y</extends></relationships>', world)).toEqual([
    'extends_cycle',
  ]);
});

test('a text without a directive has nothing to check', () => {
  expect(checkDirective(parseDirective('', 'x.md'), testWorld())).toEqual([]);
});

const hookOn = (when: string): string =>
  `<limits><turns>10</turns></limits><hooks><hook><when>${when}</when><directive>handle_timeout</directive></hook></hooks>`;

test.each([
  ['cost.turns > limits.turns', 'never'],
  ['limits.turns < cost.turns', 'never'],
  ['event.name == "warning" and cost.tool_calls > limits.tool_calls', 'never'],
  ['cost.turns > 10', 'never'],
  ['cost.turns >= 11', 'never'],
  ['30 < cost.turns', 'never'],
  ['cost.turns <= limits.turns', 'always'],
  ['not (cost.turns < 20)', 'always'],
])('a condition that comes out in one way only is told: %s is %s true', (when, verdict) => {
  expect(check(hookOn(when))).toMatchObject([
    { code: 'condition_settled', severity: 'warning', message: expect.stringContaining(verdict) },
  ]);
});

test.each([
  'cost.turns >= limits.turns',
  'cost.turns > limits.turns * 0.9',
  'cost.turns > 9',
  'cost.turns >= 10',
  'cost.spend > limits.spend',
  'cost.tokens > limits.tokens',
  'cost.spawns > 100',
])('a condition that may come out either way is not: %s', (when) => {
  expect(codes(hookOn(when))).toEqual([]);
});

test('a pattern that fits no tool is told', () => {
  expect(codes(permissions('<execute resource="tool" id="fsx/*"/>'))).toEqual(['tool_unknown']);
  expect(codes(permissions('<execute resource="tool" id="reed_*"/>'))).toEqual(['tool_unknown']);
});
