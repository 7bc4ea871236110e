import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { signAsUser } from '@kernmantle/test-support/attacks';
import { defineTool } from '@kernmantle/test-support/define-tool';
import { type Fixture, makeFixture, TRUSTING } from '@kernmantle/test-support/project';
import { afterEach, expect, test } from 'vitest';
import { getOwn, type Json, type JsonObject } from '../../src/base/index.ts';
import { describe, makeValue, type Value } from '../../src/flow/index.ts';

const made: Fixture[] = [];
const project = (files: Record<string, string> = {}): Fixture => {
  const fixture = makeFixture(files);
  made.push(fixture);
  return fixture;
};
afterEach(() => {
  for (const fixture of made.splice(0)) fixture.remove();
});

const tool = (id: string, parameters: JsonObject = {}, more: JsonObject = {}): JsonObject => ({
  item_type: 'tool',
  item_id: id,
  parameters,
  ...more,
});

const LOWER = `
tool_id: lower
tool_type: http
version: "1.0.0"
description: the lower link
executor_id: http_client
requires: [net.http]
env: [API_KEY]
config:
  method: POST
  url: "https://api.example/{path}"
  headers: {a: lower, b: lower}
  auth: {type: bearer, token: "\${API_KEY}"}
  body: {list: [1, 2], text: "{text}", note: "{note}"}
parameters:
  - {name: path, type: string, required: true}
  - {name: text, type: string, default: hello}
  - {name: note, type: string}
`;
const UPPER = `
tool_id: upper
tool_type: http
version: "1.0.0"
description: the upper link
executor_id: lower
config:
  headers: {b: upper}
  body: {list: [3]}
parameters:
  - {name: text, type: string, default: overridden}
`;

test('a chain merges from the primitive up, and a dry run shows it with secrets masked', async () => {
  const fixture = project({ '.ai/tools/x/lower.yaml': LOWER, '.ai/tools/x/upper.yaml': UPPER });
  fixture.env.API_KEY = 'canary-secret';
  const dry = await fixture.call('execute', tool('upper', { path: 'v1' }, { dry_run: true }));
  expect(dry).toMatchObject({
    ok: true,
    output: {
      dry_run: true,
      chain: ['x/upper', 'x/lower', 'http_client'],
      config: {
        url: 'https://api.example/v1',
        headers: { a: 'lower', b: 'upper' },
        auth: { token: '<API_KEY>' },
        body: { list: [3], text: 'overridden' },
      },
      requires: ['tool.execute', 'net.http'],
    },
  });
  expect(JSON.stringify(dry)).not.toContain('canary-secret');
  expect(dry.ok && Object.keys((dry.output as { config: { body: object } }).config.body)).toEqual([
    'list',
    'text',
  ]);
});

test('a parameter that looks like a variable stays text', async () => {
  const fixture = project({ '.ai/tools/x/lower.yaml': LOWER });
  fixture.env.API_KEY = 'canary-secret';
  const dry = await fixture.call(
    'execute',
    tool('lower', { path: 'v1', text: '${API_KEY} {path}' }, { dry_run: true }),
  );
  expect(dry).toMatchObject({ output: { config: { body: { text: '${API_KEY} {path}' } } } });
});

test('what is wrong with parameters is said before anything runs, with the chain', async () => {
  const fixture = project();
  const result = await fixture.call('execute', tool('fs/read_file', { pth: 'x' }));
  expect(result).toMatchObject({
    ok: false,
    error: {
      code: 'invalid_input',
      detail: {
        chain: ['fs/read_file', 'function'],
        failed_at: {
          tool_id: 'fs/read_file',
          validation_errors: [{ field: 'pth' }, { field: 'path' }],
        },
      },
    },
  });
});

test('a failing link keeps its own code and gains the chain', async () => {
  const result = await project().call('execute', tool('read_file', { path: 'none.txt' }));
  expect(result).toMatchObject({
    ok: false,
    error: {
      code: 'not_found',
      detail: { chain: ['fs/read_file', 'function'], cause: { code: 'not_found' } },
    },
  });
});

test('an unset variable names itself and its tool does not run', async () => {
  const fixture = project({
    '.ai/tools/x/lower.yaml': LOWER,
    [join('..', 'home', 'policy.yaml')]: TRUSTING,
  });
  const result = await fixture.call('execute', tool('lower', { path: 'v1' }));
  expect(result).toMatchObject({ ok: false, error: { code: 'config_invalid' } });
  expect(!result.ok && result.error.detail.message).toContain('API_KEY');
});

test('items written by nobody known run without change, egress and processes', async () => {
  const fixture = project({ '.ai/tools/x/lower.yaml': LOWER });
  fixture.env.API_KEY = 'k';
  const result = await fixture.call('execute', tool('lower', { path: 'v1' }));
  expect(result).toMatchObject({
    ok: false,
    error: {
      code: 'permission_denied',
      detail: { missing: '', rule: 'unsigned', unsigned: 'x/lower', file: expect.any(String) },
    },
  });
  expect(!result.ok && result.error.detail.message).toMatch(/sign it, .*unsigned: allow/);
});

test('a project cannot allow its own unsigned items', async () => {
  const fixture = project({ '.ai/tools/x/lower.yaml': LOWER, '.ai/policy.yaml': TRUSTING });
  fixture.env.API_KEY = 'k';
  const result = await fixture.call('execute', tool('lower', { path: 'v1' }));
  expect(result).toMatchObject({ ok: false, error: { code: 'permission_denied' } });
});

test('the command line may write in the project, never below .ai; an MCP client may not write', async () => {
  const fixture = project();
  const write = (path: string) => tool('fs/write_file', { path, content: 'x' });
  expect(await fixture.call('execute', write('out/a.txt'))).toMatchObject({ ok: true });
  expect(readFileSync(join(fixture.root, 'out/a.txt'), 'utf8')).toBe('x');
  expect(await fixture.call('execute', write('.ai/tools/a.yaml'))).toMatchObject({
    ok: false,
    error: { code: 'permission_denied' },
  });
  expect(existsSync(join(fixture.root, '.ai/tools'))).toBe(false);
  expect(await fixture.call('execute', write('out/b.txt'), 'mcp')).toMatchObject({
    ok: false,
    error: { code: 'permission_denied' },
  });
  expect(
    await fixture.call('execute', tool('fs/read_file', { path: 'out/a.txt' }), 'mcp'),
  ).toMatchObject({
    ok: true,
    output: { content: 'x', chain: ['fs/read_file', 'function'] },
  });
});

test('every call and every refusal is one audit row', async () => {
  const fixture = project({ 'a.txt': 'a' });
  await fixture.call('execute', tool('fs/read_file', { path: 'a.txt' }));
  await fixture.call('execute', tool('fs/write_file', { path: 'a.txt', content: '' }), 'mcp');
  await fixture.call('execute', { item_type: 'toool', item_id: 'x' });
  const runtime = await fixture.open();
  const rows = await runtime.audit.read({ limit: 10 });
  await runtime.close();
  expect(
    rows.ok &&
      rows.output.map(({ surface, operation, decision }) => [surface, operation, decision]),
  ).toEqual([
    ['cli', 'tool:fs/read_file', 'allowed'],
    ['mcp', 'tool:fs/write_file', 'denied'],
    ['cli', 'execute:toool:x', 'failed'],
  ]);
});

const CONNECTOR = `tool_id: db_connector
tool_type: mcp_connector
version: "1.0.0"
description: Connects a database
config: { mcp_url: "https://mcp.example/mcp" }
requires: [mcp.connect]
`;
const GREET = `<directive name="greet" version="1.2.3">
  <metadata>
    <description>Greet somebody</description>
    <category>test</category>
  </metadata>
  <inputs>
    <input name="who" type="string" required="true">whom to greet</input>
    <input name="times" type="integer" default="2">how often</input>
  </inputs>
  <process><step name="go">Greet \${inputs.who} {times} times</step></process>
  <outputs><mood type="string">good|bad</mood><count type="number" required="true"/></outputs>
</directive>
`;
const greet = (parameters: JsonObject, action = 'run'): JsonObject => ({
  item_type: 'directive',
  item_id: 'greet',
  parameters,
  action,
});

test('a directive comes back ready, with its inputs filled in', async () => {
  const fixture = project({ '.ai/directives/greet.md': GREET });
  const ready = await fixture.call('execute', greet({ who: 'Ada', times: '3' }));
  expect(ready).toMatchObject({
    ok: true,
    output: {
      status: 'ready',
      can_spawn_thread: false,
      missing_for_thread: ['limits', 'permissions', 'model'],
      directive: { name: 'greet', version: '1.2.3', inputs: { who: 'Ada', times: 3 } },
    },
  });
  expect(JSON.stringify(ready)).toContain('Greet Ada 3 times');
});

test('inputs may stand inside `inputs`, unless that is an input itself', async () => {
  const own = GREET.replace('name="greet"', 'name="own"').replaceAll('"who"', '"inputs"');
  const fixture = project({
    '.ai/directives/greet.md': GREET,
    '.ai/directives/own.md': own
      .replaceAll('inputs.who', 'inputs.inputs')
      .replace('name="inputs" type="string"', 'name="inputs" type="object"'),
  });
  const ask = async (item_id: string, parameters: JsonObject) =>
    await fixture.call('execute', { item_type: 'directive', item_id, parameters });
  expect(await ask('greet', { inputs: { who: 'Ada', times: '3' } })).toMatchObject({
    ok: true,
    output: { directive: { inputs: { who: 'Ada', times: 3 } } },
  });
  expect(await ask('own', { inputs: { who: 'Ada' } })).toMatchObject({
    ok: true,
    output: { directive: { inputs: { inputs: { who: 'Ada' } } } },
  });
  expect(await ask('greet', { inputs: { who: 'Ada' }, times: 3 })).toMatchObject({
    error: { detail: { message: expect.stringContaining('not in both') } },
  });
  expect(await ask('greet', { inputs: { inputs: { who: 'Ada' } } })).toMatchObject({ ok: false });
  expect(await ask('greet', { inputs: 'Ada' })).toMatchObject({ ok: false });
});

test('marks of `inputs` are on every input inside', async () => {
  const fixture = project({ '.ai/directives/greet.md': GREET });
  const runtime = await fixture.open();
  const inputs = { who: 'Ada', times: 3 };
  const values = { inputs: makeValue(inputs, { descriptor: describe({ labels: ['untrusted'] }) }) };
  const ready = await runtime.kernel.execute(
    { item_type: 'directive', item_id: 'greet', parameters: { inputs }, values },
    runtime.caller({ surface: 'cli' }),
  );
  expect(ready).toMatchObject({ ok: true });
  expect(ready.ok && ready.output.meta.descriptor.labels).toContain('untrusted');
  await runtime.close();
});

test('the content of a new item may stand in `parameters`', async () => {
  const fixture = project();
  const create = { item_type: 'knowledge', item_id: 'a', action: 'create' };
  const made = await fixture.call(
    'execute',
    { ...create, parameters: { content: '# A\n' } },
    'cli',
  );
  expect(made).toMatchObject({ ok: true, output: { status: 'created' } });
  const twice = { ...create, item_id: 'b', content: '# A\n', parameters: { content: '# B\n' } };
  expect(await fixture.call('execute', twice, 'cli')).toMatchObject({
    error: { code: 'invalid_input', detail: { message: expect.stringContaining('once') } },
  });
});

test('a refusal does not say where on this machine the project lies', async () => {
  const fixture = project();
  const create = { item_id: 'a', action: 'create' };
  for (const request of [
    { ...create, item_type: 'directive', content: '<directive name="a"><metadata></directive>' },
    { ...create, item_type: 'tool', content: 'name: [\n' },
    { ...create, item_type: 'tool', content: 'tool_type: 3\nexecutor_id: nope\n' },
  ]) {
    const refused = await fixture.call('execute', request, 'cli');
    expect(refused).toMatchObject({ ok: false });
    expect(JSON.stringify(refused)).not.toContain(fixture.root);
  }
});

test('a number that is none is refused as a parameter, at any depth', async () => {
  const fixture = project();
  for (const odd of [Number.POSITIVE_INFINITY, Number.NaN, [{ a: Number.NEGATIVE_INFINITY }]]) {
    expect(
      await fixture.call('execute', tool('fs/read_file', { path: 'a.txt', limit: odd })),
    ).toMatchObject({ error: { code: 'invalid_input' } });
  }
});

test('a bare name of a catalog is judged by the id that it means, and `all` lists it', async () => {
  const fixture = project({ 'shared/.ai/tools/mcp/db_connector.yaml': CONNECTOR });
  const runtime = await fixture.open();
  const location = join(fixture.root, 'shared');
  signAsUser(fixture, 'shared/.ai/tools/mcp/db_connector.yaml');
  expect(await runtime.catalogs.add({ name: 'team', type: 'folder', location })).toMatchObject({
    ok: true,
  });
  const found = await runtime.call('search', { query: 'db_connector', source: 'all' });
  expect(JSON.stringify(found)).toContain('"catalog":"team"');
  const here = await runtime.call('search', { query: 'db_connector' });
  expect(JSON.stringify(here)).not.toContain('"catalog":"team"');
  // A full page of what is here leads on to what catalogs hold.
  const first = await runtime.call('search', {
    query: 'file db_connector',
    source: 'all',
    limit: 1,
  });
  const walk = async (page: typeof first, left = 50): Promise<boolean> => {
    if (JSON.stringify(page).includes('"catalog":"team"')) return true;
    const cursor = getOwn(page.ok ? page.output : null, 'next_cursor');
    if (typeof cursor !== 'string' || left === 0) return false;
    const query = { query: 'file db_connector', source: 'all', limit: 1, cursor };
    return await walk(await runtime.call('search', query), left - 1);
  };
  expect(await walk(first)).toBe(true);
  const load = { item_type: 'tool', item_id: 'db_connector', source: 'registry' };
  const wanted = { ...load, destination: 'project' };
  const deny = '{ capability: tool.modify, id: "mcp/*" }';
  fixture.write(`${fixture.home}/policy.yaml`, `capabilities: { deny: [${deny}] }\n`);
  expect(await fixture.call('load', wanted)).toMatchObject({
    error: { code: 'permission_denied' },
  });
  fixture.write(`${fixture.home}/policy.yaml`, '');
  expect(await fixture.call('load', wanted)).toMatchObject({
    ok: true,
    output: { item: { item_id: 'mcp/db_connector' } },
  });
  await runtime.close();
});

test('missing, unknown and ill-typed inputs are listed together', async () => {
  const fixture = project({ '.ai/directives/greet.md': GREET });
  const result = await fixture.call('execute', greet({ whom: 'x', times: 'many' }));
  expect(result).toMatchObject({
    ok: false,
    error: {
      code: 'invalid_input',
      detail: {
        missing_inputs: ['who'],
        validation_errors: [{ field: 'whom' }, { field: 'who' }, { field: 'times' }],
      },
    },
  });
});

test('returned outputs are checked; undeclared ones are kept apart', async () => {
  const fixture = project({ '.ai/directives/greet.md': GREET });
  expect(
    await fixture.call('execute', greet({ mood: 'good', count: 2, why: 'x' }, 'return')),
  ).toMatchObject({
    ok: true,
    output: { status: 'returned', outputs: { mood: 'good', count: 2, extra: { why: 'x' } } },
  });
  expect(await fixture.call('execute', greet({ mood: 'odd' }, 'return'))).toMatchObject({
    ok: false,
    error: { detail: { validation_errors: [{ field: 'mood' }, { field: 'count' }] } },
  });
});

test('items are created, updated and deleted whole, and only when they are right', async () => {
  const fixture = project();
  const change = (action: string, content?: string): JsonObject => ({
    item_type: 'directive',
    item_id: 'greet',
    action,
    ...(content === undefined ? {} : { content }),
  });
  const broken = GREET.replace('</process>', '');
  expect(await fixture.call('execute', change('create', broken))).toMatchObject({
    ok: false,
    error: { code: 'invalid_item' },
  });
  expect(existsSync(join(fixture.root, '.ai/directives'))).toBe(false);
  expect(await fixture.call('execute', change('create', GREET))).toMatchObject({
    ok: true,
    output: { status: 'created', signed: false },
  });
  expect(await fixture.call('execute', change('create', GREET))).toMatchObject({ ok: false });
  const newer = GREET.replace('1.2.3', '1.2.4');
  expect(await fixture.call('execute', change('update', newer))).toMatchObject({ ok: true });
  expect(readFileSync(join(fixture.root, '.ai/directives/greet.md'), 'utf8')).toBe(newer);
  expect(await fixture.call('execute', change('delete'), 'mcp')).toMatchObject({
    ok: false,
    error: { code: 'permission_denied' },
  });
  expect(await fixture.call('execute', change('delete'))).toMatchObject({ ok: true });
  expect(existsSync(join(fixture.root, '.ai/directives/greet.md'))).toBe(false);
});

test('load shows what an item is without running it', async () => {
  const loaded = await project().call('load', { item_type: 'tool', item_id: 'read_file' });
  expect(loaded).toMatchObject({
    ok: true,
    output: {
      item: {
        item_id: 'fs/read_file',
        source: 'bundle',
        chain: ['fs/read_file', 'function'],
        input_schema: { required: ['path'], additionalProperties: false },
      },
    },
  });
  expect(await project().call('load', { item_type: 'tool', item_id: 'raed_file' })).toMatchObject({
    ok: false,
    error: { code: 'not_found' },
  });
});

test('search finds by words, pages, and refuses odd requests with the right word', async () => {
  const fixture = project();
  const first = await fixture.call('search', { query: 'file', item_type: 'tool', limit: 2 });
  const { items, next_cursor, total } = (first.ok ? first.output : {}) as {
    items: JsonObject[];
    next_cursor: string;
    total: number;
  };
  expect(items).toHaveLength(2);
  expect(total).toBeGreaterThan(2);
  const second = await fixture.call('search', {
    query: 'file',
    item_type: 'tool',
    limit: 2,
    cursor: next_cursor,
  });
  const more = ((second.ok ? second.output : {}) as { items: JsonObject[] }).items;
  expect(more.map(({ item_id }) => item_id)).not.toContain(items[0]?.item_id);
  expect(await fixture.call('search', { query: 'x', item_type: 'tol' })).toMatchObject({
    error: { detail: { message: 'unknown item_type `tol`; did you mean `tool`' } },
  });
});

test('help gives guidance by topic and by words, and has nobody to signal outside a thread', async () => {
  const fixture = project();
  expect(await fixture.call('help', {})).toMatchObject({ ok: true, output: { topic: 'overview' } });
  expect(await fixture.call('help', { topic: 'limits' })).toMatchObject({
    output: { topic: 'limits' },
  });
  expect(await fixture.call('help', { topic: 'how do I spawn a thread' })).toMatchObject({
    ok: true,
  });
  expect(await fixture.call('help', { action: 'stuck', reason: 'x' })).toMatchObject({
    output: { delivered: false },
  });
  expect(await fixture.call('help', { action: 'stuk' })).toMatchObject({
    error: { code: 'invalid_input' },
  });
});

/** What a program would do with a result: take a part, keep its marks. */
const keyOf = (value: Value): Value => makeValue('k', { descriptor: value.meta.descriptor });

test('a file keeps the labels of what was written into it', async () => {
  const fixture = project({ 'private/key.txt': 'k' });
  const runtime = await fixture.open();
  const caller = runtime.caller({ surface: 'cli' });
  const run = (id: string, parameters: JsonObject, values = {}) =>
    runtime.kernel.execute({ item_type: 'tool', item_id: id, parameters, values }, caller);
  const read = await run('fs/read_file', { path: 'private/key.txt' });
  if (!read.ok) throw new Error(read.error.detail.message);
  expect(read.output.meta.descriptor.taint).toContain('dir:private');
  expect(read.output.meta.descriptor.sources).toContain('file:private/key.txt');
  await run('fs/write_file', { path: 'copy.txt', content: 'k' }, { content: keyOf(read.output) });
  const again = await run('fs/read_file', { path: 'copy.txt' });
  expect(again.ok && again.output.meta.descriptor.taint).toContain('dir:private');
  await runtime.close();
});

test('a policy on labels stops what came from a folder from leaving', async () => {
  const fixture = project({
    'private/key.txt': 'k',
    '.ai/policy.yaml': 'labels:\n  "dir:private":\n    deny: ["op:tool:fs/write_file"]\n',
  });
  const runtime = await fixture.open();
  const caller = runtime.caller({ surface: 'cli' });
  const read = await runtime.kernel.execute(
    tool('fs/read_file', { path: 'private/key.txt' }) as never,
    caller,
  );
  if (!read.ok) throw new Error(read.error.detail.message);
  const write = await runtime.kernel.execute(
    {
      item_type: 'tool',
      item_id: 'fs/write_file',
      parameters: { path: 'out.txt', content: 'k' },
      values: { content: keyOf(read.output) },
    },
    caller,
  );
  expect(write).toMatchObject({ ok: false, error: { code: 'permission_denied' } });
  expect(existsSync(join(fixture.root, 'out.txt'))).toBe(false);
  await runtime.close();
});

test('a tool of the program is found, checked and run like any other', async () => {
  const fixture = project();
  const add = defineTool({
    id: 'math/add',
    description: 'Adds two numbers',
    effect: 'read',
    parameters: { a: 'number', b: { type: 'number', default: 1 } },
    run: ({ a, b }) => Number(a) + Number(b),
  });
  const boom = defineTool({
    id: 'math/boom',
    description: 'Fails',
    run: () => {
      throw new Error('no');
    },
  });
  const runtime = await fixture.open({ tools: [add, boom] });
  const call = (id: string, parameters: JsonObject = {}, surface = 'library') =>
    runtime.call('execute', tool(id, parameters), { surface });
  expect(await call('add', { a: 2 })).toMatchObject({ ok: true, output: { result: 3 } });
  expect(await call('math/add', { a: 'x' })).toMatchObject({ error: { code: 'invalid_input' } });
  expect(await call('math/boom')).toMatchObject({ error: { code: 'tool_failed' } });
  expect(await call('math/boom', {}, 'mcp')).toMatchObject({
    error: { code: 'permission_denied' },
  });
  const found = await runtime.call('search', { query: 'adds numbers' });
  expect(found.ok && (found.output as { items: Json[] }).items).toMatchObject({
    0: { item_id: 'math/add' },
  });
  await runtime.close();
});

test('a changed file is seen by a running process', async () => {
  const fixture = project({ '.ai/directives/greet.md': GREET });
  const runtime = await fixture.open();
  const version = async () => {
    const ready = await runtime.call('execute', greet({ who: 'x' }));
    return ready.ok
      ? (ready.output as { directive: { version: string } }).directive.version
      : ready.error.code;
  };
  expect(await version()).toBe('1.2.3');
  fixture.write('.ai/directives/greet.md', GREET.replace('1.2.3', '2.0.0'));
  await expect.poll(version).toBe('2.0.0');
  await runtime.close();
});

test('a client that may only read cannot bring items in from a catalog', async () => {
  const fixture = project();
  for (const destination of [undefined, 'project', 'user']) {
    const loaded = await fixture.call(
      'load',
      {
        item_type: 'tool',
        item_id: 'x',
        source: 'catalog',
        ...(destination ? { destination } : {}),
      },
      'mcp',
    );
    expect(loaded).toMatchObject({
      ok: false,
      error: { code: destination ? 'permission_denied' : 'invalid_input' },
    });
  }
});

test('an answer that is not what its tool promises is refused, with what it is like', async () => {
  const script = (id: string, more: string) => `tool_id: ${id}
version: "1.0.0"
description: counts
executor_id: script
effect: read
config:
  script: |
    return { count: @input.what }
parameters: [{ name: what, type: any, required: true }]
${more}`;
  const schema =
    'output_schema: { type: object, properties: { count: { type: integer } }, required: [count] }\n';
  const fixture = project({
    '.ai/tools/x/count.yaml': script('count', schema),
    '.ai/tools/x/upper.yaml': script('upper', '').replace(
      'executor_id: script',
      'executor_id: x/count',
    ),
    '.ai/tools/x/odd.yaml': script(
      'odd',
      'output_schema: { type: object, properties: { count: { pattern: "^(a+)+$" } } }\n',
    ),
  });
  expect(await fixture.call('execute', tool('x/count', { what: 3 }))).toMatchObject({
    ok: true,
    output: { count: 3 },
  });
  for (const id of ['x/count', 'x/upper']) {
    expect(await fixture.call('execute', tool(id, { what: 'three' }))).toMatchObject({
      error: {
        code: 'output_invalid',
        detail: { validation_errors: [{ field: 'count' }], chain: expect.any(Array) },
      },
    });
  }
  // A pattern of somebody who has not signed it is not run.
  expect(await fixture.call('execute', tool('x/odd', { what: 'a' }))).toMatchObject({
    error: { code: 'permission_denied' },
  });
});

test('templates, examples and raw texts of a directive are handed over word for word', async () => {
  const text = GREET.replace(
    '</directive>',
    '<template># {title}\n  <body/></template><example>hello {who}</example></directive>',
  );
  const ready = await project({ '.ai/directives/greet.md': text }).call(
    'execute',
    greet({ who: 'x' }),
  );
  expect(ready).toMatchObject({
    output: {
      directive: {
        template: [expect.stringContaining('<body/>')],
        example: ['hello {who}'],
      },
    },
  });
});

test('only the object of the runtime skips the approval of a tier, and no copy of it', async () => {
  const fixture = project({ '../home/policy.yaml': `${TRUSTING}\napprove: [write]\n` });
  const other = project({ '../home/policy.yaml': `${TRUSTING}\napprove: [write]\n` });
  const [runtime, stranger] = [await fixture.open(), await other.open()];
  const { tierExemption } = runtime.rooms.open;
  const write = async (path: string, more: object): Promise<boolean> => {
    const parameters = { path, content: 'x' };
    const request = { item_type: 'tool', item_id: 'fs/write_file', parameters };
    const done = await runtime.kernel.execute(request, { ...runtime.caller(), ...more });
    expect(done.ok).toBe(existsSync(join(fixture.root, path)));
    return done.ok;
  };
  const copies = [
    {},
    { tierExemption: undefined },
    { tierExemption: {} },
    { tierExemption: Object.freeze({}) },
    { tierExemption: { ...tierExemption } },
    { tierExemption: structuredClone(tierExemption) },
    { tierExemption: Object.create(tierExemption) },
    { tierExemption: new Proxy(tierExemption, {}) },
    { tierExemption: stranger.rooms.open.tierExemption },
    { name: 'harness', surface: 'harness' },
  ];
  for (const [at, copy] of copies.entries()) expect(await write(`${at}.txt`, copy)).toBe(false);
  expect(await write('own.txt', { tierExemption })).toBe(true);
  const claimed = tool('fs/write_file', { path: 'said.txt', content: 'x', tierExemption: true });
  expect(await runtime.call('execute', { ...claimed, tierExemption: true })).toMatchObject({
    ok: false,
  });
  await Promise.all([runtime.close(), stranger.close()]);
});
