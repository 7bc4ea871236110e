import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { parseTool } from './parse.ts';

const FILE = '/p/.ai/tools/image/resize.yaml';
const parse = (text: string) => parseTool(text, FILE);
const codes = (text: string) => parse(text).diagnostics.map(({ code }) => code);
const head = 'tool_id: resize\nversion: "1.2.0"\ndescription: Resizes an image\n';

test('a tool file gives every field with its defaults', () => {
  const { tool, diagnostics } = parse(`${head}executor_id: node\n`);
  expect(diagnostics).toEqual([]);
  expect(tool).toEqual({
    tool_id: 'resize',
    tool_type: '',
    version: '1.2.0',
    description: 'Resizes an image',
    category: '',
    executor_id: 'node',
    config: {},
    parameters: [],
    requires: [],
    env: [],
    dependencies: [],
    actions: [],
    background: false,
    effect: 'write',
    risk: [],
    labels: [],
    sandbox: 'workspace',
  });
});

test('every declared field is read', () => {
  const { tool, diagnostics } = parse(`${head}
tool_type: image
category: media
executor_id: runtime/node
config: { module: ./resize.ts, function: run, key: "\${API_KEY:-none}" }
env: [API_KEY]
parameters:
  - { name: path, type: string, required: true, description: which file, role: path }
  - { name: sizes, type: array, items: integer, default: [100], volatile: true }
  - { name: mode, enum: [fit, fill], default: fit }
input_schema: { type: object }
output_schema: { type: object }
requires: [fs.read, kiwi-mcp.execute, mcp.supabase]
retry: { max_attempts: 3, backoff_ms: [250, 1000], retryable_errors: [TIMEOUT, 503_SERVICE_UNAVAILABLE] }
timeout: 30
dependencies: [sharp, "pillow==10.1", "@scope/pkg@^1.0.0", "httpx[http2]>=0.27,<1"]
actions:
  - { name: shrink, description: makes it small, parameters: [{ name: by, type: number }], requires: [fs.write], effect: idempotent }
  - { name: show }
background: true
effect: read
risk: [exfil, destructive]
labels: [untrusted]
result: { free_text: [caption] }
sees: ["docs/**", "*.md"]
sandbox: strict
`);
  expect(diagnostics).toEqual([]);
  expect(tool).toMatchObject({
    parameters: [
      { name: 'path', type: 'string', required: true, description: 'which file', role: 'path' },
      { name: 'sizes', items: { type: 'integer' }, default: [100], volatile: true },
      { name: 'mode', enum: ['fit', 'fill'], default: 'fit', required: false },
    ],
    retry: { max_attempts: 3, backoff_ms: [250, 1000] },
    timeout: 30,
    actions: [
      {
        name: 'shrink',
        requires: ['fs.write'],
        effect: 'idempotent',
        parameters: [{ name: 'by' }],
      },
      { name: 'show', description: '', parameters: [] },
    ],
    result: { free_text: ['caption'] },
    sees: ['docs/**', '*.md'],
  });
  expect(tool?.actions[1]).not.toHaveProperty('requires');
});

test.each(['/etc/**', '~/x', 'C:/x', '../x', '{a,b}', '!x', 'a/**b', ''])(
  'a tool cannot look at `%s`, which is no place in the project',
  (glob) => {
    expect(codes(`${head}executor_id: node\nsees: ["${glob}"]\n`)).toEqual(['invalid_field']);
  },
);

test('an unknown field is an error at its key, with the word that was meant', () => {
  const { tool, diagnostics } = parse(`${head}executer_id: node\n`);
  expect(tool).toBeUndefined();
  expect(diagnostics).toMatchObject([
    {
      code: 'unknown_field',
      line: 4,
      column: 1,
      hint: 'did you mean `executor_id`',
      text: 'executer_id: node',
    },
  ]);
});

test('the id must be the name of the file', () => {
  const { diagnostics } = parseTool(head, '/p/.ai/tools/image/shrink.yml');
  expect(diagnostics).toMatchObject([{ code: 'tool_id_mismatch', line: 1, column: 10 }]);
});

test('six mistakes are six diagnostics, in the order of the file', () => {
  const { diagnostics } = parse(`tool_id: resize
version: 1.0
description: [x]
effect: reads
parameters:
  - { type: int }
timeout: 0
colour: red
`);
  expect(diagnostics.map(({ code, line }) => `${line} ${code}`)).toEqual([
    '2 invalid_field',
    '3 invalid_field',
    '4 invalid_field',
    '6 missing_field',
    '6 invalid_field',
    '7 invalid_field',
    '8 unknown_field',
  ]);
});

test('a missing version or description is a warning, the tool works', () => {
  const { tool, diagnostics } = parse('tool_id: resize\n');
  expect(tool?.version).toBe('0.0.0');
  expect(diagnostics.map(({ code, severity }) => [code, severity])).toEqual([
    ['version_missing', 'warning'],
    ['description_missing', 'warning'],
  ]);
});

test('an empty value counts as absent', () => {
  const { tool, diagnostics } = parse(`${head}executor_id:\ninput_schema:\n  # to be copied\n`);
  expect(diagnostics).toEqual([]);
  expect(tool).not.toHaveProperty('executor_id');
  expect(tool).not.toHaveProperty('input_schema');
});

test('a config may use only the variables it declares', () => {
  const text = `${head}config:\n  auth:\n    token: "Bearer \${API_KEY}"\n`;
  expect(parse(text).diagnostics).toMatchObject([
    { code: 'env_undeclared', line: 6, column: 12, hint: 'add `env: [API_KEY]`' },
  ]);
  expect(codes(`${text}env: [API_KEY]\n`)).toEqual([]);
});

test.each([
  ['a default of another type', 'parameters: [{ name: a, type: integer, default: "1" }]'],
  ['a default outside its enum', 'parameters: [{ name: a, enum: [x, y], default: z }]'],
  ['a parameter that belongs to the runtime', 'parameters: [{ name: __auth }]'],
  ['a parameter declared twice', 'parameters: [{ name: a }, { name: a }]'],
  ['an action declared twice', 'actions: [{ name: a }, { name: a }]'],
  ['a dependency that is an option', 'dependencies: ["--index-url=http://evil"]'],
  ['a dependency that is an address', 'dependencies: ["git+https://evil/x.git"]'],
  ['a label of the runtime', 'labels: ["src:user"]'],
  ['a module outside the folder', 'config: { module: ../../evil.ts }'],
  ['an absolute module', 'config: { module: /tmp/evil.ts }'],
  ['a schema of something that is no object', 'input_schema: { type: array }'],
  ['a list where text is expected', 'executor_id: [a]'],
  ['text where a list is expected', 'requires: fs.read'],
  ['a variable with a strange name', 'env: ["A B"]'],
  ['an endless retry', 'retry: { max_attempts: 1000 }'],
])('%s is refused', (_, line) => {
  const { tool, diagnostics } = parse(`${head}${line}\n`);
  expect(tool).toBeUndefined();
  expect(diagnostics.length).toBeGreaterThan(0);
});

test('codes that nobody reports are warnings with a suggestion, a status is a code', () => {
  const { tool, diagnostics } = parse(
    `${head}retry: { max_attempts: 2, retryable_errors: [TIMEOUTT, STREAM_INCOMPLETE, connection_reset, 429] }\n`,
  );
  expect(tool?.retry?.retryable_errors).toContain('429');
  expect(diagnostics).toMatchObject([
    { code: 'unknown_error_code', severity: 'warning', hint: 'did you mean `timeout`' },
    { code: 'retry_ineffective', severity: 'note' },
  ]);
});

test('prototype keys are ordinary unknown fields', () => {
  const { diagnostics } = parse(`${head}__proto__: { polluted: true }\nconstructor: 1\n`);
  expect(diagnostics.map(({ code }) => code)).toEqual(['unknown_field', 'unknown_field']);
  expect(({} as Record<string, unknown>)['polluted']).toBeUndefined();
});

test('a file with a mistake on every line reports the first hundred, soon', () => {
  const lines = Array.from({ length: 20_000 }, (_, index) => `field_${index}: 1`).join('\n');
  expect(parse(`${head}${lines}`).diagnostics).toHaveLength(100);
});

test('no text makes the reader throw', () => {
  const line = fc.oneof(
    fc.constantFrom('tool_id: resize', 'config:', 'parameters:', '  - name: a', 'retry: {', '- x'),
    fc.string(),
  );
  fc.assert(
    fc.property(fc.array(line), (lines) => {
      const { tool, diagnostics } = parse(lines.join('\n'));
      for (const diagnostic of diagnostics) expect(diagnostic.line).toBeGreaterThan(0);
      if (!tool) expect(diagnostics.length).toBeGreaterThan(0);
    }),
  );
});

test.each([
  ['{ mcp: tool }', []],
  ['{ mcp: tool, name: my-tool.v2 }', []],
  ['{ mcp: prompt }', []],
  ['{ mcp: resource, uri: "notes://{id}/text", mime_type: text/plain }', []],
  ['{ mcp: resource }', ['expose_invalid']],
  ['{ mcp: resource, uri: "no address" }', ['expose_invalid']],
  ['{ mcp: resource, uri: "notes://{id/text" }', ['expose_invalid']],
  ['{ mcp: resource, uri: "notes://{id}/{id}" }', ['expose_invalid']],
  ['{ mcp: resource, uri: "https://EXAMPLE.com" }', ['expose_invalid']],
  ['{ mcp: resource, uri: "thread://{id}/status" }', ['expose_invalid']],
  ['{ mcp: resource, uri: "a://b", mime_type: text }', ['expose_invalid']],
  ['{ mcp: tool, uri: "a://b" }', ['expose_invalid']],
  ['{ mcp: tool, name: "a b" }', ['expose_invalid']],
  ['{ mcp: toll }', ['expose_invalid']],
  ['{ web: tool }', ['expose_invalid']],
  ['tool', ['expose_invalid']],
])('`expose: %s` yields %j', (expose, expected) => {
  expect(codes(`${head}executor_id: node\nexpose: ${expose}\n`)).toEqual(expected);
});

test('the seeds’ connector runs on ours, with the variables it uses and a right of its own', () => {
  const { tool, diagnostics } = parseTool(
    `tool_id: supabase_connector
tool_type: mcp_connector
executor_id: python
version: "1.0.0"
description: Connects
config:
  mcp_url: "https://mcp.supabase.com/mcp"
  auth: { type: bearer, token: "\${SUPABASE_SERVICE_KEY}" }
  output_dir: ".ai/tools/mcp/"
  tool_prefix: "supabase_"
requires: [mcp.connect]
retry: { max_attempts: 3, backoff_ms: [250, 1000, 3000] }
`,
    'supabase_connector.yaml',
  );
  expect(diagnostics).toEqual([]);
  expect(tool).toMatchObject({
    executor_id: 'mcp/connector',
    env: ['SUPABASE_SERVICE_KEY'],
    requires: ['mcp.connect'],
    handsOn: [],
  });
  const own = parseTool(
    'tool_id: x\ntool_type: mcp_connector\nexecutor_id: python\nconfig: { module: ./x.py }\n',
    'x.yaml',
  );
  expect(own.tool).toMatchObject({ executor_id: 'python', requires: ['mcp.connect'] });
});

test('what a tool says of its results is read, and what contradicts itself is refused', () => {
  const { tool, diagnostics } = parse(`${head}executor_id: node
directory: true
parameters: [{ name: to, role: destination, kind: account }]
result: { free_text: [body, "*"], identifiers: [user], kinds: { user: person, __proto__: x }, untrusted: true }
`);
  expect(diagnostics).toEqual([]);
  expect(tool).toMatchObject({
    directory: true,
    parameters: [{ name: 'to', kind: 'account' }],
    result: { free_text: ['body', '*'], identifiers: ['user'], untrusted: true },
  });
  expect(Object.entries(tool?.result?.kinds ?? {})).toEqual([
    ['user', 'person'],
    ['__proto__', 'x'],
  ]);
});

test.each([
  ['result: { free_text: [a], identifiers: [b, a] }', 'invalid_field'],
  ['result: { free_text: [a], kinds: { a: x } }', 'invalid_field'],
  ['result: { kinds: { a: "no kind" } }', 'invalid_field'],
  ['result: { freetext: [a] }', 'unknown_field'],
  ['result: { identifiers: a }', 'invalid_field'],
  ['parameters: [{ name: a, kind: "" }]', 'invalid_field'],
  ['directory: 1', 'invalid_field'],
])('`%s` is refused', (yaml, code) => {
  expect(codes(`${head}executor_id: node\n${yaml}\n`)).toEqual([code]);
});
