// Real MCP peers over real pipes: the official client, in both protocol revisions, and the official
// Inspector's command line.
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { signAsUser } from '@kernmantle/test-support/attacks';
import { type Fixture, makeFixture } from '@kernmantle/test-support/project';
import { timeoutMs } from '@kernmantle/test-support/soak';
import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { afterAll, beforeAll, expect, test } from 'vitest';

const launcher = fileURLToPath(new URL('../../../bin/km.js', import.meta.url));
let fixture: Fixture;
/** Connected to one server for all tests that only ask it. */
let client: Client;
beforeAll(async () => {
  fixture = makeFixture({ 'hello.txt': 'hello there\n' });
  client = await connect(fixture);
});
afterAll(async () => {
  await client.close();
  fixture.remove();
});

/** Looks around as a process does. */
const PEEK = `tool_id: peek
version: "1.0.0"
category: test
description: Says what it can read
executor_id: subprocess
config:
  command: grep
  args: [-rs, --exclude-dir=tools, sesame, .]
requires: [process.spawn]
effect: read
`;

const command = ({ root, env } = fixture) => ({
  command: process.execPath,
  args: [launcher, 'mcp', 'serve', '--project', root],
  env: { ...(env as Record<string, string>), KERNMANTLE_SRC: '1' },
});

async function connect(at: Fixture): Promise<Client> {
  const connected = new Client({ name: 'test', version: '1.0.0' });
  await connected.connect(new StdioClientTransport({ ...command(at), stderr: 'ignore' }));
  return connected;
}

/** With a server of its own. */
async function withClient<T>(work: (client: Client) => Promise<T>, at = fixture): Promise<T> {
  const connected = await connect(at);
  try {
    return await work(connected);
  } finally {
    await connected.close();
  }
}

const MAX_LIST = 4500;

test('the whole list of tools is under 4.5 KB, in a fixed order, and never changes', async () => {
  const { tools } = await client.listTools();
  await client.callTool({ name: 'search', arguments: { query: 'read' } });
  expect(client.getServerCapabilities()?.tools).toEqual({ listChanged: false });
  const after = await client.listTools();
  const bytes = Buffer.byteLength(JSON.stringify(tools));
  console.info(`tools/list: ${bytes} bytes of at most ${MAX_LIST}`);
  expect(bytes).toBeLessThan(MAX_LIST);
  expect(after.tools).toEqual(tools);
  expect(tools.map(({ name }) => name)).toEqual(['search', 'load', 'execute', 'help']);
  for (const { name, inputSchema, outputSchema, annotations, description } of tools) {
    expect(outputSchema, name).toMatchObject({ type: 'object', required: ['ok'] });
    expect(annotations?.readOnlyHint, name).toBeTypeOf('boolean');
    expect(description, name).not.toBe('');
    const properties = Object.entries(inputSchema.properties ?? {});
    for (const [parameter, schema] of properties) {
      expect(schema, `${name} ${parameter}`).toHaveProperty('description');
    }
  }
  const execute = tools[2]?.inputSchema.properties as Record<string, { enum?: string[] }>;
  expect(execute.action?.enum).toContain('inject');
});

test('a client is told what this server is, not that it is a thread', () => {
  const told = client.getInstructions() ?? '';
  expect(told).toMatch(/^This server gives you one project/);
  expect(told).toContain('threads/thread_directive');
  expect(told).not.toContain('You are running inside');
});

test('arguments that do not fit come back in the envelope, with the names that do', async () => {
  const call = async (name: string, args: Record<string, unknown>) => {
    const result = await client.callTool({ name, arguments: args });
    const [block] = result.content as { text: string }[];
    expect(JSON.parse(block?.text ?? '')).toEqual(result.structuredContent);
    expect(result.isError).toBe(true);
    return result.structuredContent as { error: { code: string; detail: { message: string } } };
  };
  const answers = [
    await call('search', { query: 'x', __auth: 'token' }),
    await call('search', { quer: 'x' }),
    await call('search', { query: 7 }),
    await call('execute', { item_type: 'tool' }),
    await call('execute', { item_type: 'tool', item_id: 'x', action: 'sign' }),
    await call('execute', { item_type: 'tool', item_id: 'x', __thread_id: 'a' }),
    await call('execute', { item_type: 'tool', item_id: 'x', values: {} }),
  ];
  for (const { error } of answers) expect(error.code).toBe('invalid_input');
  expect(answers[1]?.error.detail.message).toContain('did you mean `query`');
});

test('a client searches, loads and executes; the text twin says the same', async () => {
  const call = async (name: string, args: Record<string, unknown>) => {
    const result = await client.callTool({ name, arguments: args });
    const [text] = result.content as { type: string; text: string }[];
    expect(JSON.parse(text?.text ?? '')).toEqual(result.structuredContent);
    return result.structuredContent as Record<string, never>;
  };
  expect(await call('search', { query: 'read file' })).toMatchObject({ ok: true });
  // Understood, though it is not in the list of sources.
  const catalogs = await call('search', { query: 'read file', source: 'registry' });
  expect(catalogs).toMatchObject({ ok: true });
  const { tools } = await client.listTools();
  expect(JSON.stringify(tools)).not.toContain('registry');
  expect(await call('load', { item_type: 'tool', item_id: 'fs/read_file' })).toMatchObject({
    output: { item: { item_id: 'fs/read_file' } },
  });
  expect(
    await call('execute', {
      item_type: 'tool',
      item_id: 'fs/read_file',
      parameters: { path: 'hello.txt' },
    }),
  ).toMatchObject({ ok: true, output: { content: 'hello there\n' } });
  expect(await call('help', { topic: 'limits' })).toMatchObject({ ok: true });
});

test('a write is refused to an MCP client, as an error result with its reason', async () => {
  const result = await client.callTool({
    name: 'execute',
    arguments: {
      item_type: 'tool',
      item_id: 'fs/write_file',
      parameters: { path: 'x.txt', content: 'x' },
    },
  });
  expect(result.isError).toBe(true);
  expect(result.structuredContent).toMatchObject({
    ok: false,
    error: { code: 'permission_denied' },
  });
});

test('what usually holds secrets is not there for a client: not read, not found, not listed', async () => {
  const secrets = {
    '.env': 'KEY=sesame\n',
    'deep/.env.local': 'KEY=sesame\n',
    'deep/server.pem': 'sesame\n',
    id_rsa: 'sesame\n',
    'app/.npmrc': 'sesame\n',
    '.ai/audit.jsonl': 'sesame\n',
    // Folders of such names, and what other tools call theirs.
    'deep/.env.d/one': 'KEY=sesame\n',
    'certs.pem/one': 'KEY=sesame\n',
    '.ENV.Prod': 'KEY=sesame\n',
    '.envrc': 'KEY=sesame\n',
    'deep/prod.env': 'KEY=sesame\n',
    'terraform.tfstate.backup': 'KEY=sesame\n',
    // A project within the project has records too.
    'inner/.ai/audit.jsonl': 'KEY=sesame\n',
    'inner/.ai/threads/a/one.txt': 'KEY=sesame\n',
  };
  const place = makeFixture({ ...secrets, 'open.txt': 'sesame street\n' });
  const git = (...args: string[]) =>
    spawnSync('git', ['-c', 'user.name=a', '-c', 'user.email=a@b', ...args], { cwd: place.root });
  git('init', '-q');
  git('add', '-A', '-f');
  git('commit', '-qm', 'first');
  place.write('.git/config', `${readFileSync(join(place.root, '.git/config'), 'utf8')}# sesame\n`);
  for (const name of Object.keys(secrets)) place.write(name, 'KEY=sesame 2\n');
  place.write('open.txt', 'sesame street 2\n');
  place.write('.ai/tools/peek.yaml', PEEK);
  signAsUser(place, '.ai/tools/peek.yaml');
  try {
    await withClient(async (own) => {
      const tool = async (id: string, parameters: Record<string, unknown>) => {
        const args = { item_type: 'tool', item_id: id, parameters };
        const { structuredContent } = await own.callTool({ name: 'execute', arguments: args });
        return structuredContent as {
          ok: boolean;
          output: Record<string, unknown>;
          error: unknown;
        };
      };
      for (const path of [...Object.keys(secrets), '.git/config', '.git/HEAD', './deep/../.env']) {
        expect(await tool('fs/read_file', { path }), path).toMatchObject({ ok: false });
      }
      const found = await tool('fs/grep', { pattern: 'sesame' });
      expect(found).toMatchObject({ ok: true });
      expect(JSON.stringify(found.output)).toContain('open.txt');
      const listed = [
        found,
        await tool('fs/glob', { pattern: '**/*' }),
        await tool('fs/glob', { pattern: '**/.*' }),
        await tool('fs/list_dir', { path: '.' }),
        await tool('fs/list_dir', { path: 'deep' }),
        await tool('git/status', {}),
        await tool('git/diff', {}),
        await tool('git/diff', { paths: ['deep', 'inner', '.env'] }),
        await tool('git/log', { stat: true }),
        await tool('peek', {}),
      ];
      for (const answer of listed) {
        expect(answer.ok, JSON.stringify(answer)).toBe(true);
        expect(JSON.stringify(answer)).not.toMatch(
          /\.env|\.pem|id_rsa|npmrc|tfstate|\.git\/|audit\.jsonl|threads\/a|KEY=/i,
        );
      }
      expect(JSON.stringify(listed.at(-1))).toContain('open.txt');
    }, place);
  } finally {
    place.remove();
  }
});

test('the server ends with its input', async () => {
  const { command: node, args, env } = command();
  const done = spawnSync(node, args, {
    input: '',
    env,
    encoding: 'utf8',
    timeout: timeoutMs(20_000),
  });
  expect(done.status).toBe(0);
  expect(done.stdout).toBe('');
});

test.each([
  ['sends a message without an end', 'too long'],
  ['stops to read', 'deaf'],
])('the server ends with a client that %s, whose input stays open', async (_, kind) => {
  const { command: node, args, env } = command();
  const child = spawn(node, args, { env, stdio: ['pipe', 'pipe', 'ignore'] });
  // Killed when it does not end by itself.
  const patience = setTimeout(() => child.kill('SIGKILL'), timeoutMs(20_000));
  child.stdin.on('error', () => {});
  const ping = '{"jsonrpc":"2.0","id":1,"method":"ping"}\n';
  child.stdin.write(ping);
  await once(child.stdout, 'data');
  if (kind === 'deaf') child.stdout.destroy();
  child.stdin.write(kind === 'deaf' ? ping : 'x'.repeat(11 * 1024 * 1024));
  expect(await once(child, 'exit')).toEqual([0, null]);
  clearTimeout(patience);
});

test('the official Inspector lists and calls the tools', async () => {
  const require = createRequire(import.meta.url);
  const home = dirname(require.resolve('@modelcontextprotocol/inspector/package.json'));
  const { bin } = require('@modelcontextprotocol/inspector/package.json') as {
    bin: Record<string, string>;
  };
  const entry = join(home, Object.values(bin)[0] ?? '');
  const { command: node, args, env } = command();
  const inspect = (...method: string[]) => {
    const done = spawnSync(node, [entry, '--cli', node, ...args, ...method], {
      env: { ...process.env, ...env },
      encoding: 'utf8',
      timeout: timeoutMs(60_000),
    });
    expect(done.status, done.stderr).toBe(0);
    return JSON.parse(done.stdout) as Record<string, unknown>;
  };
  const listed = inspect('--method', 'tools/list') as { tools: { name: string }[] };
  expect(listed.tools.map(({ name }) => name)).toEqual(['search', 'load', 'execute', 'help']);
  const called = inspect(
    '--method',
    'tools/call',
    '--tool-name',
    'search',
    '--tool-arg',
    'query=read',
  );
  expect(called).toMatchObject({ structuredContent: { ok: true } });
});

test('a directive that says so is a prompt, with its inputs, and under the same policy', async () => {
  const text = (name: string, expose: string) => `<directive name="${name}" version="1.0.0">
  <metadata><description>Greets</description><category>t</category>${expose}</metadata>
  <inputs><who type="string" required="true">whom</who></inputs>
  <process><step name="go">Say hello to \${inputs.who}</step></process>
</directive>
`;
  fixture.write('.ai/directives/greet.md', text('greet', '<expose mcp="prompt"/>'));
  fixture.write('.ai/directives/quiet.md', text('quiet', ''));
  const open = `${fixture.home}/policy.yaml`;
  const got = await withClient(async (own) => {
    const { prompts } = await own.listPrompts();
    const refused = await own
      .getPrompt({ name: 'greet', arguments: { who: 'ann' } })
      .catch((error: unknown) => String(error));
    return { prompts, refused };
  });
  expect(got.prompts).toMatchObject([
    { name: 'greet', description: 'Greets', arguments: [{ name: 'who', required: true }] },
  ]);
  // The surface hands out what a person has signed.
  expect(got.refused).toContain('permission_denied');
  fixture.write(open, 'surfaces: { mcp: { directives: all } }\n');
  const said = await withClient((own) =>
    own.getPrompt({ name: 'greet', arguments: { who: 'ann' } }),
  );
  expect(JSON.stringify(said.messages)).toContain('Say hello to ann');
});

test('bad messages over stdio are told in a line each, and not for ever', async () => {
  const { command: node, args, env } = command();
  const child = spawn(node, args, { env, stdio: ['pipe', 'pipe', 'pipe'] });
  let [said, answered] = ['', ''];
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    said += text;
  });
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    answered += text;
  });
  const bad = ['{bad', '{"jsonrpc":"2.0","id":{},"method":5}', '[]', '{"jsonrpc":"2.0","id":1}'];
  for (let n = 0; n < 100; n += 1) child.stdin.write(`${bad[n % bad.length]}\n`);
  const params = {
    protocolVersion: '2025-11-25',
    capabilities: {},
    clientInfo: { name: 'a', version: '1' },
  };
  child.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', id: 7, method: 'initialize', params })}\n`);
  const parameters = '{"path":"hello.txt","limit":1e999}';
  const call = `{"name":"execute","arguments":{"item_type":"tool","item_id":"fs/read_file","parameters":${parameters}}}`;
  child.stdin.write(`{"jsonrpc":"2.0","id":8,"method":"tools/call","params":${call}}\n`);
  await expect.poll(() => answered).toContain('"id":8');
  child.stdin.end();
  await once(child, 'close');
  const lines = said.trim().split('\n');
  expect(lines.length).toBeLessThan(30);
  expect(
    lines.every((line) => /^(kernmantle|mcp: )/.test(line)),
    said,
  ).toBe(true);
  expect(answered).toContain('too large');
  expect(answered).toContain('invalid_input');
});
