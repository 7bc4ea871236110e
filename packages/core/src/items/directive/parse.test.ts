import { expect, test } from 'vitest';
import type { Directive } from './directive.ts';
import { parseDirective } from './parse.ts';

const codes = (text: string, file = 'x.md') =>
  parseDirective(text, file).diagnostics.map(({ code }) => code);

/** A directive with the given metadata and other parts; lines are kept. */
const xml = (metadata: string, rest = '') =>
  `<directive name="x" version="1.0.0"><metadata>${metadata}</metadata>${rest}</directive>`;

/** The value two forms have in common. */
function value(text: string): unknown {
  const parsed = parseDirective(text, 'x.md');
  expect(parsed.diagnostics).toEqual([]);
  const plain = JSON.parse(JSON.stringify({ ...parsed.directive, places: null })) as Directive;
  const drop = (key: string, item: unknown) =>
    /^(line|column|around)$/.test(key) ? undefined : item;
  return JSON.parse(JSON.stringify(plain, drop));
}

test.each([
  [
    'description: d\ncategory: c\nauthor: a',
    '<description>d</description><category>c</category><author>a</author>',
  ],
  [
    'model: { tier: fast, fallback_id: gpt, context: why }',
    '<model tier="fast" fallback_id="gpt">why</model>',
  ],
  ['limits: {}', '<limits/>'],
  ['title: "About it"', '<title>About it</title>'],
  [
    'expect: [{ tool: a/b, succeeds: last }, { tool: c, succeeds: always }]',
    '<expect><call tool="a/b" succeeds="last"/><call tool="c" succeeds="always"/></expect>',
  ],
  [
    'limits: { turns: 3, spend: 5.00, spend_currency: USD }',
    '<limits><turns>3</turns><spend currency="USD">5.00</spend></limits>',
  ],
  [
    'limits: { context: { text: 9, warn: 0.5 } }',
    '<limits><context warn="0.5">9</context></limits>',
  ],
  ['limits: { context_warn: 0.5 }', '<limits><context warn="0.5"/></limits>'],
  ['permissions: []', '<permissions/>'],
  ['permissions:', '<permissions></permissions>'],
  [
    'permissions: { read: [{ resource: filesystem, path: a }, { resource: filesystem, path: b }] }',
    '<permissions><read resource="filesystem" path="a"/><read resource="filesystem" path="b"/></permissions>',
  ],
  [
    'permissions:\n  - write: { resource: filesystem, path: "a/**" }\n  - knowledge: { deny_categories: [s, t] }',
    '<permissions><write resource="filesystem" path="a/**"/><knowledge><deny_categories>s, t</deny_categories></knowledge></permissions>',
  ],
  ['permissions:\n  - untrusted: reference', '<permissions untrusted="reference"/>'],
  [
    'permissions: { untrusted: show, read: { resource: filesystem, path: a } }',
    '<permissions untrusted="show"><read resource="filesystem" path="a"/></permissions>',
  ],
  [
    'permissions: { orchestration: { enabled: false } }',
    '<permissions><orchestration enabled="false"/></permissions>',
  ],
  [
    'hooks: [{ when: cost.turns < 3, directive: h, inputs: { a: { b: 1, c: [x, y] } } }]',
    '<hooks><hook><when>cost.turns < 3</when><directive>h</directive><inputs><a><b>1</b><c>x</c><c>y</c></a></inputs></hook></hooks>',
  ],
  [
    'hooks: { hook: { when: "labels == []", directive: h } }',
    '<hooks><hook><when>labels == []</when><directive>h</directive></hook></hooks>',
  ],
  [
    'guards: [{ on: secret, timing: after, deny: no }]',
    '<guards><guard on="secret" timing="after"><deny>no</deny></guard></guards>',
  ],
  [
    'relationships: { requires: [a, b], extends: c }',
    '<relationships><requires>a</requires><requires>b</requires><extends>c</extends></relationships>',
  ],
  [
    'deviation_rules: { auto_fix: false, ask_first: true, text: careful }',
    '<deviation_rules auto_fix="false" ask_first="true">careful</deviation_rules>',
  ],
  ['expose: { mcp: prompt }', '<expose><mcp>prompt</mcp></expose>'],
])('the two forms of metadata are one value: %s', (yaml, tags) => {
  const front = `---\nname: x\nversion: 1.0.0\n${yaml}\n---\n`;
  expect(value(front)).toEqual(value(xml(tags)));
  const nested = `---\nname: x\nversion: 1.0.0\nmetadata:\n${yaml.replace(/^/gm, '  ')}\n---\n`;
  expect(value(nested)).toEqual(value(front));
});

test.each([
  [
    'inputs: [{ name: a, type: number, default: 3, description: d }]',
    '<inputs><input name="a" type="number" default="3">d</input></inputs>',
  ],
  [
    'inputs: { a: { type: array, default: [1, "x"], required: true }, b: text }',
    `<inputs><a type="array" default='[1,"x"]' required="true"/><b>text</b></inputs>`,
  ],
  ['process:\n  - { name: s, text: do it }', '<process><step name="s">do it</step></process>'],
  [
    'process:\n  mode: plan\n  step:\n    name: s\n    action: |\n      one\n        two',
    '<process mode="plan"><step name="s"><action>\n   one\n     two\n</action></step></process>',
  ],
  [
    'process:\n  script: |\n    /show "a"\n    /show <b>',
    '<process><script>\n    /show "a"\n    /show <b>\n</script></process>',
  ],
  [
    'outputs: { action: retry|fail, context: {}, n: { type: number, required: true, text: d } }',
    '<outputs><action>retry|fail</action><context/><n type="number" required="true">d</n></outputs>',
  ],
  [
    'outputs: { success: yes it did, failure: no }',
    '<outputs><success>yes it did</success><failure>no</failure></outputs>',
  ],
  ['context: { a: [x, y], b: { c: 1 } }', '<context><a>x</a><a>y</a><b><c>1</c></b></context>'],
  [
    'success_criteria: { rounds: 10, criteria: [{ text: a, holds: outputs.n > 1 }, b] }',
    '<success_criteria rounds="10"><criterion holds="outputs.n &gt; 1">a</criterion><criterion>b</criterion></success_criteria>',
  ],
  [
    'success_criteria: [a, b]',
    '<success_criteria><criterion>a</criterion><criterion>b</criterion></success_criteria>',
  ],
  ['template: "<a> & b"', '<template><a> & b</template>'],
])('the two forms of the rest are one value: %s', (yaml, tags) => {
  expect(value(`---\nname: x\nversion: 1.0.0\n${yaml}\n---\n`)).toEqual(value(xml('', tags)));
  const wrapped = `---\ndirective:\n  name: x\n  version: 1.0.0\n${yaml.replace(/^/gm, '  ')}\n---\n`;
  expect(value(wrapped)).toEqual(value(xml('', tags)));
});

test.each([
  ['```xml\n<directive name="x" version="1.0.0"/>\n```'],
  [
    '~~~~ XML linenums\n\n<?xml version="1.0"?>\n<!-- c -->\n<directive name="x" version="1.0.0"/>\n~~~~',
  ],
  ['<directive name="x" version="1.0.0"/>'],
  ['\uFEFF<!-- signed -->\r\n<directive name="x" version="1.0.0"></directive>\r\n'],
  ['---\r\nname: x\r\nversion: 1.0.0\r\n---\r\n'],
  ['#!/usr/bin/env km\n<!-- signature -->\n---\nname: x\nversion: 1.0.0\n...\ntext'],
  [
    '---\ntitle: other front matter\n---\n# T\n\n```xml\n<directive name="x" version="1.0.0"/>\n```',
  ],
  [
    '```json\n{"a": "<directive name=1>"}\n```\n```xml\n<other/>\n```\n```xml\n<directive name="x" version="1.0.0"/>\n```',
  ],
  ['<!--\n<directive name="old" version="0.0.1"/>\n-->\n<directive name="x" version="1.0.0"/>'],
  ['text <directive name="x" version="1.0.0"/>'],
])('the directive is found in %j', (text) => {
  expect(parseDirective(text, 'x.md')).toMatchObject({ directive: { name: 'x' }, diagnostics: [] });
});

test('text around the directive is kept without the fence', () => {
  const text =
    '# Title\n\nbefore\n\n````xml\n<directive name="x" version="1.0.0"/>\n````\n\nafter ```';
  expect(parseDirective(text, 'x.md').directive?.around).toBe(
    '# Title\n\nbefore\n\n\nafter ```'.replace('\n\n\n', '\n'),
  );
});

test.each([
  ['', ['directive_missing']],
  ['# Only text', ['directive_missing']],
  ['---\nname: x\n', ['front_matter_unclosed']],
  ['---\nheading: x\n---\n', ['tag_unknown']],
  ['---\n- a\n---\n', ['value_invalid', 'name_missing', 'version_missing']],
  ['---\nname: x\nversion: 1.0.0\nversion: 1.0.0\n---\n', ['yaml_syntax']],
  ['<directive version="1.0.0"/>', ['name_missing']],
  ['<directive name="x"/>', ['version_missing']],
  ['<directive name="x" version="1.0"/>', ['version_invalid']],
  ['<directive name="y" version="1.0.0"/>', ['name_mismatch']],
  ['<directive name="X-Y" version="1.0.0"/>', ['name_invalid']],
  [`<directive name="${'a'.repeat(60)}" version="1.0.0"/>`, ['name_invalid']],
  ['<directive name="x" version="1.0.0" author="me"/>', ['attribute_unknown']],
  ['<directive name="x" version="1.0.0">', ['tag_unclosed']],
  ['```xml\n<directive name="x" version="1.0.0">\n<metadata/>\n```\n', ['tag_unclosed']],
  ['<directive name="x" version="1.0.0">\n<metadata>\n<inputs/></directive>', ['tag_unclosed']],
  [
    '<directive name="x" version="1.0.0"/>\n<directive name="y" version="1.0.0"/>',
    ['directive_extra'],
  ],
  [
    '---\nname: x\nversion: 1.0.0\n---\n```xml\n<directive name="x" version="1.0.0"/>\n```',
    ['directive_extra'],
  ],
  ['<directive name="x" version="1.0.0">\0</directive>', ['nul_byte', 'text_unexpected']],
])('%j yields %j', (text, expected) => {
  expect(codes(text)).toEqual(expected);
});

test.each([
  ['<limit/>', ['tag_unknown']],
  ['<inputs/>', ['tag_unknown']],
  ['<limits turns="3"/>', ['attribute_unknown']],
  ['<limits><turns>1.5</turns></limits>', ['limit_invalid']],
  ['<limits><turns/></limits>', ['limit_invalid']],
  ['<limits><turns>1</turns><turns>2</turns></limits>', ['tag_duplicate']],
  ['<limits><spend>1e3</spend></limits>', ['limit_invalid']],
  ['<limits><spend currency="usd">1</spend></limits>', ['currency_invalid']],
  ['<limits><context warn="1.1">5</context></limits>', ['limit_invalid']],
  ['<limits/><limits/>', ['tag_duplicate']],
  ['<model>text</model>', ['model_missing']],
  ['<model tier="fast" parallel="true"/>', ['parallel_ignored']],
  ['<model tier="fast" fallback="x"/>', ['fallback_renamed']],
  ['<cost/>', ['cost_removed']],
  ['<permissions><read/></permissions>', ['permission_invalid']],
  ['<permissions><read resource="filesystem"/></permissions>', ['permission_invalid']],
  ['<permissions><execute resource="tool"/></permissions>', ['permission_invalid']],
  ['<permissions><read resource="filesystem" path="a/{b}"/></permissions>', ['glob_invalid']],
  ['<permissions><read resource="filesystem" path="../a"/></permissions>', ['glob_invalid']],
  ['<permissions><read resorce="filesystem" path="a"/></permissions>', ['attribute_unknown']],
  ['<permissions><orchestration/></permissions>', ['permission_invalid']],
  ['<permissions><orchestration enabled="yes"/></permissions>', ['value_invalid']],
  ['<permissions>read all</permissions>', ['text_unexpected']],
  ['<hooks><hook><when>a</when></hook></hooks>', ['hook_directive_missing', 'path_unknown']],
  ['<hooks><hook><directive>a</directive></hook></hooks>', ['hook_when_missing']],
  ['<hooks><hook><wehn>a</wehn><directive>a</directive></hook></hooks>', ['tag_unknown']],
  [
    '<hooks><hook><when>cost.turns &amp;&amp; 1</when><directive>a</directive></hook></hooks>',
    ['expression_error'],
  ],
  ['<guards><guard><deny/></guard></guards>', ['guard_invalid']],
  ['<guards><guard on="secret"/></guards>', ['guard_invalid']],
  ['<guards><guard on="secret"><deny/><ask/></guard></guards>', ['guard_invalid']],
  ['<guards><guard on="secret" timing="later"><deny/></guard></guards>', ['value_invalid']],
  ['<guards><guard on="secret"><when>a ==</when><deny/></guard></guards>', ['expression_error']],
  ['<deviation_rules auto_fix="maybe"/>', ['value_invalid']],
  ['<expose><mcp>promt</mcp></expose>', ['expose_invalid']],
  ['<expose><web>page</web></expose>', ['expose_invalid']],
  ['<expose mcp="tool" uri="a://b"/>', ['expose_invalid']],
  ['<expose mcp="tool" name="a b"/>', ['expose_invalid']],
  ['<expose mcp="resource"/>', ['expose_unsupported']],
])('metadata %s yields %j', (metadata, expected) => {
  expect(codes(xml(metadata))).toEqual(expected);
});

test.each([
  ['<inputs><a/><a/></inputs>', ['input_duplicate']],
  ['<inputs><a/><input name="a"/></inputs>', ['input_duplicate']],
  ['<inputs><a type="text"/></inputs>', ['type_unknown']],
  ['<inputs><input name="a b"/></inputs>', ['input_name_invalid']],
  ['<inputs><input/></inputs>', ['input_name_missing']],
  ['<inputs><a type="number" default="x"/></inputs>', ['input_default_invalid']],
  ['<inputs><a required="1"/></inputs>', ['value_invalid']],
  ['<outputs><a/><a/></outputs>', ['output_duplicate']],
  ['<outputs><a type="integer"/></outputs>', ['type_unknown']],
  ['<process>text</process>', ['text_unexpected']],
  ['<process><step/></process>', ['step_name_missing']],
  ['<process><step name="a"/><step name="a"/></process>', ['step_duplicate']],
  ['<process><step name="a"/><script>/show 1</script></process>', ['process_mixed']],
  ['<process><script/></process>', ['script_empty']],
  ['<process mode="x"/>', ['value_invalid']],
  [
    '<inputs><a/></inputs><process><step name="s">${inputs.b} ${inputs.a} ${other}</step></process>',
    ['input_unknown'],
  ],
  ['<process><step name="s">a <b>c</b></step></process>', ['tag_unknown']],
  ['<process><step name="s">List<T> x</step></process>', ['tag_unknown']],
  ['<limits/>', ['tag_unknown']],
])('%s yields %j', (rest, expected) => {
  expect(codes(xml('', rest))).toEqual(expected);
});

test('a condition that is wrong behind entities is pointed at in the file', () => {
  const text = xml(
    '\n<hooks><hook><when>\n  1 &lt; 2 and cost.trns</when><directive>h</directive></hook></hooks>',
  );
  expect(parseDirective(text, 'x.md').diagnostics).toMatchObject([
    {
      code: 'path_unknown',
      line: 3,
      column: 16,
      text: '  1 &lt; 2 and cost.trns</when><directive>h</directive></hook></hooks></metadata></directive>',
    },
  ]);
});

test('a placeholder in the inputs of a hook that nothing fills is text, or a mistake below a known name', () => {
  const inputs = '<a>x ${directive.nmae}</a><b>${event.detail.any} ${other}</b>';
  const hook = `<hook><when>labels</when><directive>h</directive><inputs>${inputs}</inputs></hook>`;
  expect(parseDirective(xml(`\n<hooks>${hook}</hooks>`), 'x.md').diagnostics).toMatchObject([
    {
      code: 'path_unknown',
      severity: 'error',
      column: 70,
      hint: 'did you mean `${directive.name}`',
    },
    { code: 'path_unknown', severity: 'warning' },
  ]);
  const yaml =
    '---\nname: x\nversion: 1.0.0\nhooks: [{ when: labels, directive: h, inputs: { a: "${non.sense}" } }]\n---\n';
  expect(codes(yaml)).toEqual(['path_unknown']);
});

const withHook = (when: string, inputs = '') =>
  codes(
    xml(
      `<hooks><hook><when>${when}</when><directive>h</directive><inputs>${inputs}</inputs></hook></hooks>`,
    ),
  );

test.each([
  ['event.name == "befor_step"', 'value_unknown'],
  ['"limits" == event.name', 'value_unknown'],
  ['event.kind == "tol"', 'value_unknown'],
  ['event.kind in ["turn", "tols"]', 'value_unknown'],
  ['not (event.limit == "turn")', 'value_unknown'],
  ['event.name == "error" and event.step == "fs/read_file"', 'path_unknown'],
  ['event.name == "limit" and event.kind == "tool"', 'path_unknown'],
  ['event.name in ["limit", "warning"] and event.detail.x == 1', 'path_unknown'],
  ['event.stp == "x"', 'path_unknown'],
])('a condition on what no event has is an error: %s', (when, code) => {
  expect(withHook(when)).toEqual([code]);
});

test.each([
  'event.name == "before_step" and event.kind == "tool" and event.tool == "any/tool"',
  'event.name in ["error", "limit"] and event.code == "of_a_tool"',
  'event.name == "error" or event.step == "turn 1"',
  'event.name == "limit" and event.limit != "turns"',
  'event.kind != "spawn"',
])('a condition on what an event can have is fine: %s', (when) => {
  expect(withHook(when)).toEqual([]);
});

test('an input of a hook that its event never has is an error', () => {
  const step = '<step>${event.step}</step>';
  expect(withHook('event.name == "error"', step)).toEqual(['path_unknown']);
  expect(withHook('event.code == "not_found"', step)).toEqual([]);
  expect(withHook('event.name == "after_step"', step)).toEqual([]);
});

test('a guard on a kind of operation that does not exist is an error', () => {
  const guard = (on: string, when = 'true') =>
    codes(xml(`<guards><guard on="${on}"><when>${when}</when><deny>no</deny></guard></guards>`));
  expect(guard('op:tol:fs/write_file')).toEqual(['guard_invalid']);
  expect(guard('op:modify:directiv:x')).toEqual(['guard_invalid']);
  expect(guard('op:tool:not/there')).toEqual([]);
  expect(guard('secret', 'op.type == "shwo"')).toEqual(['expression_error']);
});

test('a condition in YAML is pointed at in plain, quoted and block scalars', () => {
  const at = (when: string) => {
    const text = `---\nname: x\nversion: 1.0.0\nhooks:\n  - directive: h\n    when: ${when}\n---\n`;
    return parseDirective(text, 'x.md').diagnostics.map(({ line, column }) => `${line}:${column}`);
  };
  expect(at('1 < cost.trns')).toEqual(['6:15']);
  expect(at("'1 < cost.trns'")).toEqual(['6:16']);
  expect(at('|\n      1 < cost.trns')).toEqual(['7:11']);
});

test('an error says the line, an unclosed tag points at its opener', () => {
  const [found] = parseDirective(xml('\n  <description>never closed\n'), 'x.md').diagnostics;
  expect(found).toMatchObject({
    code: 'tag_unclosed',
    line: 2,
    column: 3,
    text: '  <description>never closed',
  });
});

test('what has errors is never handed out as a directive, but can be looked at', () => {
  const parsed = parseDirective(
    xml('<limits><turns>-1</turns></limits><category>c</category>'),
    'x.md',
  );
  expect(parsed.directive).toBeUndefined();
  expect(parsed.draft).toMatchObject({ category: 'c', limits: {} });
});

test('the list of diagnostics has an end, and says so', () => {
  const found = parseDirective(xml('<x/>'.repeat(500)), 'x.md').diagnostics;
  expect(found).toHaveLength(101);
  expect(found.at(-1)).toMatchObject({
    code: 'too_many',
    message: '400 more problems are not listed',
  });
});

test('numbers, flags and texts of every type are values of that type', () => {
  const { directive } = parseDirective(
    xml(
      '<limits><spend>007.50</spend></limits>',
      `<inputs><a type="boolean" default="false"/><b type="object" default='{"k":1}'/></inputs>`,
    ),
    'x.md',
  );
  expect(directive?.limits).toEqual({ spend: '7.5' });
  expect(directive?.inputs.map((input) => input.default)).toEqual([false, { k: 1 }]);
});

test('a file with two directives is none: which one was meant nobody can tell', () => {
  const two = '<directive name="x" version="1.0.0"/>\n<directive name="y" version="1.0.0"/>';
  expect(parseDirective(two, 'x.md')).toMatchObject({
    diagnostics: [{ code: 'directive_extra', severity: 'error', line: 2 }],
  });
  expect(parseDirective(two, 'x.md').directive).toBeUndefined();
});

const TOPIC = '<inputs><input name="topic" type="object">x</input></inputs>';

test.each([
  ['<title>On ${inputs.topic} and ${inputs.topic.place}</title>', []],
  ['<title>5 $ or {topic}</title>', []],
  ['<title>${topic}</title>', ['title_invalid']],
  ['<title>${inputs}</title>', ['title_invalid']],
  ['<title>${outputs.x} ${env.HOME}</title>', ['title_invalid', 'title_invalid']],
  ['<title>${inputs.topc}</title>', ['title_invalid']],
  ['<title>${inputs.topic</title>', ['title_invalid']],
  ['<title>${inputs.topic + 1}</title>', ['title_invalid']],
  ['<title>a</title><title>b</title>', ['tag_duplicate']],
  ['<expect><call tool="a" succeeds="last" often="2"/></expect>', ['attribute_unknown']],
  ['<expect><call tool="a" succeeds="first"/></expect>', ['value_invalid']],
  ['<expect><call tool="a"/></expect>', ['expect_incomplete']],
  ['<expect><call succeeds="last"/></expect>', ['expect_incomplete']],
  ['<expect><call tool=" " succeeds="last"/></expect>', ['expect_incomplete']],
  ['<expect><tool id="a"/></expect>', ['tag_unknown']],
  ['<expect>a</expect>', ['text_unexpected']],
])('titles and expected calls are checked when they are read: %s', (metadata, expected) => {
  expect(codes(xml(metadata, TOPIC))).toEqual(expected);
});

test('expected calls may stand beside the process, in both forms', () => {
  const call = '<expect><call tool="a/b" succeeds="last"/></expect>';
  expect(value(xml('', call))).toMatchObject({ expect: [{ tool: 'a/b', succeeds: 'last' }] });
  expect(value(xml(call, call))).toMatchObject({ expect: [{}, {}] });
  const yaml =
    '---\nname: x\nversion: 1.0.0\nmetadata: { expect: [{ tool: a/b, succeeds: last }] }\n---\n';
  expect(value(yaml)).toMatchObject({ expect: [{ tool: 'a/b', succeeds: 'last' }] });
});

const OUTPUTS = '<outputs><n type="number">n</n></outputs>';
const goal = (attributes: string, criterion: string): string =>
  `${OUTPUTS}<success_criteria${attributes}>${criterion}</success_criteria>`;
const MET = '<criterion holds="outputs.n &gt; 1">a</criterion>';

test.each([
  ['a condition', goal('', MET), []],
  ['every bound', goal(' rounds="1000"', MET), []],
  [
    'an incomplete condition',
    goal('', '<criterion holds="outputs.n &gt;">a</criterion>'),
    ['expression_error'],
  ],
  ['an empty condition', goal('', '<criterion holds="">a</criterion>'), ['expression_error']],
  ['an unknown output', goal('', '<criterion holds="outputs.m">a</criterion>'), ['path_unknown']],
  ['a name of hooks', goal('', '<criterion holds="event.name">a</criterion>'), ['path_unknown']],
  [
    'another attribute',
    goal('', '<criterion hold="outputs.n">a</criterion>'),
    ['attribute_unknown'],
  ],
  ['no round', goal(' rounds="0"', MET), ['value_invalid']],
  ['too many rounds', goal(' rounds="1001"', MET), ['value_invalid']],
  ['rounds in another notation', goal(' rounds="1e2"', MET), ['value_invalid']],
  ['empty rounds', goal(' rounds=""', MET), ['value_invalid']],
  ['rounds without effect', goal(' rounds="3"', '<criterion>a</criterion>'), ['value_invalid']],
])('success criteria with %s are checked', (_, rest, expected) => {
  expect(codes(xml('', rest))).toEqual(expected);
});

test.each([
  ['', 'compact="auto" at="0.5" keep="2"', []],
  ['120000', 'compact="results"', []],
  ['', 'compact="maybe"', ['value_invalid']],
  ['', 'at="2"', ['value_invalid']],
  ['', 'at="0.2"', ['value_invalid']],
  ['', 'keep="0"', ['value_invalid']],
  ['', 'keep="51"', ['value_invalid']],
  ['', 'keep="1.5"', ['value_invalid']],
])('the settings of compaction `%s` %s are checked', (size, attributes, expected) => {
  const text = xml(`<limits><context ${attributes}>${size}</context></limits>`);
  expect(codes(text)).toEqual(expected);
});
