import { createFixture, type Fixture, toolText } from '@kernmantle/test-support/library';
import { afterEach, expect, test } from 'vitest';
import { checkPath, projectOf } from './check-file.ts';

let fixture: Fixture;
afterEach(() => fixture.end());

const CAPABILITIES = `capabilities:
  fs.read: { meaning: read, tier: read, scope: [path] }
  tool.execute: { meaning: call, tier: read, scope: [id] }
  process.spawn: { meaning: start, tier: elevated }
  registry.write: { meaning: registry, tier: system }
`;

async function open(files: Record<string, string>) {
  fixture = createFixture({ 'bundle/config/capabilities.yaml': CAPABILITIES, ...files });
  await fixture.library.refresh();
  return fixture.library;
}

const directive = (name: string, metadata: string, rest = '') => `
\`\`\`xml
<directive name="${name}" version="1.0.0">
  <metadata><description>d</description><category>c</category>${metadata}</metadata>
  <process><step name="a">Do.</step></process>${rest}
</directive>
\`\`\`
`;

const found = (list: readonly { code: string; file: string }[]) =>
  list.map(({ code, file }) => `${file.replace(`${fixture.base}/`, '')} ${code}`);

test('a project without mistakes has nothing to say', async () => {
  const library = await open({
    'project/.ai/tools/run.yaml': toolText('run', 'executor_id: subprocess\nrequires: [fs.read]\n'),
    'project/.ai/knowledge/a.md': '# A\n',
    'project/.ai/policy.yaml': 'unsigned: restrict\n',
  });
  expect(library.check()).toEqual([]);
});

test.each([
  ['url: "https://api.example.com/items/{id}"', ' host="api.example.com" method="GET"'],
  ['url: "https://API.example.com:8443/", method: post', ' host="api.example.com" method="POST"'],
  ['url: "https://api.example.com/", method: "{how}"', ' host="api.example.com"'],
  ['url: "https://{id}.example.com/"', ''],
  ['url: "{id}"', ''],
])('a tool with `%s` needs `net.http`%s', async (config, scope) => {
  const library = await open({
    'bundle/config/capabilities.yaml': `${CAPABILITIES}  net.http: { meaning: http, tier: elevated, scope: [host, method] }\n`,
    'project/.ai/tools/above.yaml': toolText('above', 'executor_id: below\n'),
    'project/.ai/tools/below.yaml': toolText(
      'below',
      `executor_id: http_client\nconfig: { ${config} }\nrequires: [net.http]\nparameters: [{ name: id }, { name: how }]\n`,
    ),
    'project/.ai/directives/a.md': directive(
      'a',
      '<permissions><execute resource="tool" id="above"/></permissions>',
    ),
  });
  expect(library.check()).toMatchObject([
    {
      code: 'tool_requires_missing',
      hint: `add to \`<permissions>\`:\n<execute resource="net" action="http"${scope}/>`,
    },
  ]);
});

test('tools are checked among the others, each mistake at its place', async () => {
  const library = await open({
    'project/.ai/tools/broken.yaml': toolText('broken', 'executor_id: htpt_client\n'),
    'project/.ai/tools/needs.yaml': toolText(
      'needs',
      'executor_id: subprocess\nrequires: [fs.red]\n',
    ),
    'project/.ai/tools/late.yaml': toolText('late', 'executor_id: subprocess\nbackground: true\n'),
    'project/.ai/tools/blind.yaml': toolText('blind', 'executor_id: http_client\nsees: ["a/**"]\n'),
    'project/.ai/tools/module.yaml': toolText(
      'module',
      'executor_id: subprocess\nconfig: { module: ./none.ts }\n',
    ),
    'project/.ai/tools/hole.yaml': toolText(
      'hole',
      'executor_id: http_client\nconfig:\n  body: { a: "{a}", b: "{b}" }\nparameters: [{ name: a }]\n',
    ),
    'project/.ai/tools/twice.yaml': toolText('twice'),
    'project/.ai/tools/twice.yml': toolText('twice'),
  });
  expect(found(library.check())).toEqual([
    'project/.ai/tools/blind.yaml sees_unsupported',
    'project/.ai/tools/broken.yaml chain_broken',
    'project/.ai/tools/hole.yaml undeclared_placeholder',
    'project/.ai/tools/late.yaml background_unsupported',
    'project/.ai/tools/module.yaml module_missing',
    'project/.ai/tools/needs.yaml unknown_capability',
    'project/.ai/tools/twice.yml duplicate_id',
  ]);
  expect(library.check()[1]).toMatchObject({
    line: 4,
    column: 14,
    text: 'executor_id: htpt_client',
  });
  expect(library.check()[5]).toMatchObject({ line: 5, column: 12, hint: 'did you mean `fs.read`' });
});

test.each([
  ['sinks.mine', true, 'write `module: ./mine.py`'],
  ['mine', true, 'write `module: ./mine.py`'],
  ['sinks.other', true, 'put it beside that file and write `module: ./other.py`'],
  ['./mine', false, ''],
])(
  'a module that is named as Python imports it is told as a path: %s',
  async (module, isTold, hint) => {
    const library = await open({
      'project/.ai/tools/sinks/mine.yaml': toolText(
        'mine',
        `executor_id: python\nconfig: { module: "${module}" }\n`,
      ),
      'project/.ai/tools/sinks/mine.py': 'class Mine:\n    def write(self, event): pass\n',
    });
    const missing = library.check().find(({ code }) => code === 'module_missing');
    expect(missing).toBeDefined();
    if (isTold) expect(missing?.hint).toContain(hint);
    else expect(missing?.hint).toBeUndefined();
  },
);

test('an error in a tool that the bundle has names that tool; a tool with a module of its own keeps its hints', async () => {
  const python = (config: string) => `executor_id: python\nrequires: [fs.raed]\n${config}\n`;
  const library = await open({
    'project/.ai/tools/a/write_file.yaml': toolText('write_file', python('config: {}')),
    'project/.ai/tools/b/write_file.yaml': toolText(
      'write_file',
      python('config: { module: ./mine.py }'),
    ),
    'project/.ai/tools/b/mine.py': 'def run(**given): pass\n',
    'project/.ai/tools/c/my_file.yaml': toolText('my_file', python('config: {}')),
  });
  const hints = library.check().filter(({ code }) => code === 'unknown_capability');
  expect(hints.map(({ hint }) => hint)).toEqual([
    'this is the tool `fs/write_file` of the bundle: remove the file and call that',
    'did you mean `fs.read`',
    'did you mean `fs.read`',
  ]);
});

test('directives are checked among the others', async () => {
  const library = await open({
    'project/.ai/tools/run.yaml': toolText(
      'run',
      'executor_id: subprocess\nrequires: [process.spawn]\n',
    ),
    'project/.ai/directives/a.md': directive(
      'a',
      '<permissions><execute resource="tool" id="run"/></permissions>',
    ),
    'project/.ai/directives/b.md': directive(
      'b',
      '<permissions><execute resource="registry" action="write"/></permissions>',
    ),
    'project/.ai/directives/c.md': directive(
      'c',
      '<hooks><hook><when>true</when><directive>nobody</directive></hook></hooks>',
    ),
  });
  const list = found(library.check());
  expect(list).toContain('project/.ai/directives/a.md tool_requires_missing');
  expect(list).toContain('project/.ai/directives/b.md system_only');
  expect(list).toContain('project/.ai/directives/c.md hook_directive_unknown');
});

test('data files, policies and what was left out are part of the answer, by source', async () => {
  const library = await open({
    'project/.ai/config/limits.yaml': 'defaults: { turns: -1 }\n',
    'project/.ai/policy.yaml': 'unsinged: allow\n',
    'user/.ai/config/limits.yaml': 'defaults: { turns: no }\n',
    'project/.ai/tools/a\u0007b.yaml': 'x',
  });
  const files = (list: readonly { file: string }[]) =>
    new Set(list.map(({ file }) => file.replace(`${fixture.base}/`, '')));
  expect(files(library.check({ sources: ['project'] }))).toEqual(
    new Set(['project/.ai/tools', 'project/.ai/config/limits.yaml', 'project/.ai/policy.yaml']),
  );
  expect(files(library.check({ sources: ['user'] }))).toEqual(
    new Set(['user/.ai/config/limits.yaml']),
  );
});

test('what a policy names is looked for in the project', async () => {
  const library = await open({
    'project/.ai/tools/get.yaml': toolText('get', 'executor_id: http_client\nlabels: [fetched]\n'),
    'project/.ai/policy.yaml':
      'labels:\n  fetchd: { deny: ["op:tool:gte"] }\n  fetched: { deny: ["op:tool:get"] }\n',
  });
  const found = library.check({ sources: ['project'] });
  expect(found.filter(({ file }) => file.endsWith('policy.yaml'))).toMatchObject([
    { line: 2, code: 'unknown_tool', severity: 'warning', hint: 'did you mean `get`' },
    { line: 2, code: 'unknown_label', severity: 'warning', hint: 'did you mean `fetched`' },
  ]);
});

const GUARDS = `
  <guards>
    <guard on="op:tool:gte" timing="before"><deny>no</deny></guard>
    <guard on="fetchd" timing="before"><deny>no</deny></guard>
    <guard on="reviewed" timing="before"><deny>no</deny></guard>
    <guard on="op:tool:get" timing="before"><when>input.args.ulr.text == "x"</when><deny>no</deny></guard>
  </guards>`;

test('what the guards of a directive name is looked for, wherever the directive lies', async () => {
  const text = directive('a', GUARDS);
  const library = await open({
    'project/.ai/tools/get.yaml': toolText(
      'get',
      'executor_id: http_client\nlabels: [fetched]\nparameters: [{ name: url }]\n',
    ),
    'user/.ai/policy.yaml':
      'guards:\n  - { on: "op:tool:get", privileged: true, allow: { add_labels: [reviewed] } }\n',
    'project/.ai/directives/a.md': text,
    'project/elsewhere/a.md': text,
  });
  const expected = [
    { line: 6, code: 'unknown_tool', hint: 'did you mean `get`' },
    { line: 7, code: 'unknown_label', hint: 'did you mean `fetched`' },
    { line: 9, code: 'unknown_parameter', hint: 'did you mean `url`' },
  ];
  expect(library.check({ sources: ['project'] })).toMatchObject(expected);
  const elsewhere = checkPath(fixture.path('project/elsewhere/a.md'), library);
  expect(elsewhere.filter(({ code }) => code.startsWith('unknown'))).toMatchObject(expected);
});

test('a policy is compared with the project wherever it lies', async () => {
  const text = 'labels:\n  fetchd: { deny: ["op:tool:gte"] }\n';
  const library = await open({
    'project/.ai/tools/get.yaml': toolText('get', 'executor_id: http_client\nlabels: [fetched]\n'),
    'project/.ai/policy.yaml': text,
    'project/company/policy.yaml': text,
  });
  for (const file of ['project/.ai/policy.yaml', 'project/company/policy.yaml']) {
    const codes = checkPath(fixture.path(file), library).map(({ code }) => code);
    expect(codes).toEqual(['unknown_tool', 'unknown_label']);
  }
});

test('one file or folder can be checked, also outside the places for items', async () => {
  const library = await open({
    'project/.ai/tools/run.yaml': toolText('run', 'executor_id: nowhere\n'),
    'project/drafts/new.yaml': toolText('new', 'executor_id: nowhere\n'),
    'project/drafts/go.md': directive('stop', ''),
    'project/drafts/readme.md': '# Nothing\n',
    'project/drafts/data.yaml': 'a: 1\n',
  });
  const { path } = fixture;
  expect(found(checkPath(path('project/.ai/tools/run.yaml'), library))).toEqual([
    'project/.ai/tools/run.yaml chain_broken',
  ]);
  expect(found(checkPath(path('project/drafts/new.yaml'), library))).toEqual([
    'project/drafts/new.yaml chain_broken',
  ]);
  const folder = found(checkPath(path('project/drafts'), library));
  expect(folder).toContain('project/drafts/new.yaml chain_broken');
  expect(folder.some((line) => line.startsWith('project/drafts/go.md'))).toBe(true);
  expect(folder.some((line) => /readme|data/.test(line))).toBe(false);
  expect(found(checkPath(path('project/none'), library))).toEqual(['project/none not_found']);
  expect(found(checkPath(path('project/drafts/data.yaml'), library))).toEqual([
    'project/drafts/data.yaml not_an_item',
  ]);
  expect(projectOf(path('project/drafts'))).toBe(path('project'));
});

test('what is exposed to MCP clients can be served as it says', async () => {
  const tool = (id: string, more: string) => toolText(id, `executor_id: subprocess\n${more}`);
  const library = await open({
    'project/.ai/tools/good.yaml': tool(
      'good',
      'effect: read\nparameters: [{name: id, type: string, required: true}]\nexpose: {mcp: resource, uri: "x://{id}"}\n',
    ),
    'project/.ai/tools/writes.yaml': tool('writes', 'expose: {mcp: resource, uri: "x://y"}\n'),
    'project/.ai/tools/open.yaml': tool(
      'open',
      'effect: read\nparameters: [{name: id, required: true}]\nexpose: {mcp: resource, uri: "x://a/{other}"}\n',
    ),
    'project/.ai/tools/asks.yaml': tool(
      'asks',
      'parameters: [{name: input_responses, type: object, required: true}]\nexpose: {mcp: tool}\n',
    ),
    'project/.ai/tools/says.yaml': tool(
      'says',
      'parameters: [{name: n, type: integer, required: true}]\nexpose: {mcp: prompt}\n',
    ),
    'project/.ai/directives/go.md': directive('go', '<expose mcp="tool"/>'),
    'project/.ai/tools/a/same.yaml': tool('same', 'expose: {mcp: tool}\n'),
    'project/.ai/tools/b/same.yaml': tool('same', 'expose: {mcp: tool}\n'),
    'project/.ai/tools/c/same.yaml': tool('same', 'expose: {mcp: tool, name: other}\n'),
    'project/.ai/knowledge/k.md': '---\nexpose: { mcp: resource }\n---\n# K\n',
    'project/.ai/knowledge/odd.md': '---\nexpose: { mcp: tool }\n---\n# Odd\n',
  });
  expect(found(library.check())).toEqual([
    'project/.ai/directives/go.md expose_invalid',
    'project/.ai/knowledge/odd.md expose_unsupported',
    'project/.ai/tools/a/same.yaml expose_collision',
    'project/.ai/tools/asks.yaml expose_invalid',
    'project/.ai/tools/b/same.yaml expose_collision',
    'project/.ai/tools/open.yaml expose_invalid',
    'project/.ai/tools/open.yaml expose_invalid',
    'project/.ai/tools/says.yaml expose_invalid',
    'project/.ai/tools/writes.yaml expose_invalid',
  ]);
  const [knowledge] = library.all('knowledge');
  expect(knowledge?.expose).toEqual({ mcp: 'resource' });
});

test('a folder of an older layout that nothing reads is one warning with the form to use', async () => {
  const library = await open({
    'project/.ai/tools/capabilities/fs.py': 'CAPABILITIES = ["shop.buy"]\n',
    'project/.ai/tools/capabilities/net.py': 'CAPABILITIES = []\n',
    'project/.ai/tools/capabilities/shop.yaml': 'capabilities: [shop.read]\n',
    'project/.ai/parsers/markdown_xml.py': 'x = 1\n',
    'project/.ai/extractors/directive/markdown_xml.py': 'x = 1\n',
    'project/.ai/primitives/http_client.py': 'x = 1\n',
    // The module of a tool is read.
    'project/.ai/tools/parsers/csv.yaml': toolText('csv', 'executor_id: subprocess\n'),
    'project/.ai/tools/parsers/csv.py': 'x = 1\n',
    'user/.ai/parsers/own.py': 'x = 1\n',
  });
  const all = library.check();
  const warned = all.filter(({ code }) => code === 'not_read');
  expect(found(warned).sort()).toEqual([
    'project/.ai/extractors/directive not_read',
    'project/.ai/parsers/markdown_xml.py not_read',
    'project/.ai/primitives/http_client.py not_read',
    'project/.ai/tools/capabilities/fs.py not_read',
    'user/.ai/parsers/own.py not_read',
  ]);
  expect(warned.every(({ severity, hint }) => severity === 'warning' && hint)).toBe(true);
  const capabilities = warned.find(({ file }) => file.endsWith('fs.py'));
  expect(capabilities?.message).toContain('and 1 more');
  expect(capabilities?.hint).toContain('capabilities: [shop.read, shop.buy]');
  expect(library.check({ sources: ['user'] }).map(({ code }) => code)).toEqual(['not_read']);
});

test('the form that is named for capabilities is read', async () => {
  const library = await open({
    'project/.ai/tools/capabilities/shop.yaml': 'capabilities: [shop.read, shop.buy]\n',
  });
  expect(library.check()).toEqual([]);
  expect(library.capabilities().catalog.get('shop.buy')).toBeDefined();
});

test('a hook that names an ambiguous directive is told so, with both ids', async () => {
  const answers = '<outputs><action type="string">continue|fail</action></outputs>';
  const hooks =
    '<hooks><hook><when>event.name == "error"</when><directive>judge</directive></hook></hooks>';
  const files = {
    'project/.ai/directives/x/judge.md': directive('judge', '', answers),
    'bundle/directives/hooks/judge.md': directive('judge', '', answers),
  };
  const library = await open({ ...files, 'project/.ai/directives/a.md': directive('a', hooks) });
  const about = library.check().filter(({ file }) => file.endsWith('/a.md'));
  expect(about).toMatchObject([
    {
      code: 'hook_directive_ambiguous',
      severity: 'error',
      message: '`judge` is ambiguous: 2 directive items have this name: hooks/judge, x/judge',
    },
  ]);
  for (const id of ['x/judge', 'hooks/judge']) {
    const named = directive('a', hooks.replace('>judge<', `>${id}<`));
    fixture.put('project/.ai/directives/a.md', named);
    await library.refresh();
    expect(library.check().filter(({ file }) => file.endsWith('/a.md'))).toEqual([]);
  }
});
