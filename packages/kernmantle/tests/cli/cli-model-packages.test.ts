// Tests packages with models of the AI SDK: installed by a stand-in of npm that copies them from this repository, asked
// over servers on loopback.
import { appendFileSync, chmodSync, existsSync, readFileSync, rmSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { crc32 } from 'node:zlib';
import { runCommand, runStreams } from '@kernmantle/test-support/command-line';
import { ableModel, startModelServer } from '@kernmantle/test-support/model-server';
import { type Fixture, makeFixture } from '@kernmantle/test-support/project';
import { AwsV4Signer } from 'aws4fetch';
import { afterEach, beforeEach, expect, test } from 'vitest';

const INSTALLER = fileURLToPath(
  new URL('../../../../tests/support/install-package.ts', import.meta.url),
);
const COMPATIBLE = '@ai-sdk/openai-compatible';
const BEDROCK = '@ai-sdk/amazon-bedrock';

/** `npm install … -- NAME@VERSION`: records its words, copies the package and writes a lock file. */
const NPM = `#!/bin/sh
echo "$@" >> "$NPM_WORDS"
for last; do :; done
case "$last" in *@0.0.0) echo 'npm error 404' >&2; exit 1;; esac
echo '{"lockfileVersion": 3}' > package-lock.json
exec "${process.execPath}" "${INSTALLER}" "\${last%@*}" zod
`;

let fixture: Fixture;
beforeEach(() => {
  fixture = makeFixture();
  chmodSync(fixture.write('../bin/npm', NPM), 0o755);
  Object.assign(fixture.env, {
    PATH: `${join(fixture.root, '..', 'bin')}:${process.env.PATH ?? ''}`,
    NPM_WORDS: join(fixture.root, '..', 'words.txt'),
  });
});
afterEach(() => fixture.remove());

const km = (...words: string[]) => runCommand(words, fixture.root, fixture.env);
const json = async (...words: string[]) => {
  const { code, out } = await runStreams([...words, '--json'], fixture.root, fixture.env);
  return { code, ...JSON.parse(out.trim().split('\n').at(-1) ?? '{}') };
};

const folder = (name: string): string => join(fixture.home, 'models', name);

function provide(fields: object, file = '../home/config/models.yaml'): void {
  const provider = { protocol: 'ai_sdk', ...fields };
  fixture.write(
    file,
    JSON.stringify({ providers: { own: provider }, models: { 'small-1': { provider: 'own' } } }),
  );
  fixture.write('../home/config/pricing.yaml', 'models: { small-1: { free: true } }\n');
}

const compatible = (url: string, more: object = {}) => ({
  package: COMPATIBLE,
  create: 'createOpenAICompatible',
  options: { name: 'own', baseURL: `${url}/v1`, includeUsage: true },
  hosts: [new URL(url).host],
  key: 'OWN_KEY',
  ...more,
});

test('an installed package is asked through our own fetch, and a changed file is refused', async () => {
  fixture.env.OWN_KEY = 'sesame';
  const server = await startModelServer({ '/v1/chat/completions': ableModel });
  provide(compatible(server.url));
  const missing = await json('models', 'test', 'small-1');
  expect(missing).toMatchObject({
    code: 6,
    error: { code: 'model_unavailable', detail: { reason: 'package_missing' } },
  });
  const installed = await km('models', 'install', `${COMPATIBLE}@3.0.92`);
  expect(installed).toMatchObject({ code: 0 });
  expect(installed.output).toContain('runs in the process of km with your rights');
  expect(readFileSync(fixture.env.NPM_WORDS ?? '', 'utf8')).toContain('--ignore-scripts');
  const listed = await json('models', 'ls');
  expect(listed.output).toContainEqual(
    expect.objectContaining({
      model: 'small-1',
      protocol: 'ai_sdk',
      package: COMPATIBLE,
      key_set: true,
    }),
  );
  const tested = await json('models', 'test', 'small-1');
  expect(tested).toMatchObject({ code: 0, output: { seal: false } });
  expect(tested.output.checks[0].usage).toMatchObject({ input_tokens: 10, output_tokens: 5 });
  expect(server.requests).toHaveLength(4);
  expect(server.requests.every(({ authorization }) => authorization === 'Bearer sesame')).toBe(
    true,
  );

  const entry = join(folder('openai-compatible'), 'node_modules', COMPATIBLE, 'package.json');
  appendFileSync(entry, '\n');
  const changed = await json('models', 'test', 'small-1');
  expect(changed).toMatchObject({ code: 3, error: { code: 'config_invalid' } });
  expect(changed.error.detail.message).toContain('not those that were installed');
  expect(server.requests).toHaveLength(4);
});

test.each([
  [{ hosts: undefined }, 'hosts'],
  [{ hosts: [] }, 'hosts'],
  [{ hosts: ['*'] }, 'hosts'],
  [{ hosts: ['*.example.com'] }, 'hosts'],
  [{ package: '../escape' }, 'package'],
  [{ create: 'a.b' }, 'create'],
])('a provider with %j is refused', async (fields, field) => {
  provide(compatible('http://127.0.0.1:9', fields));
  const refused = await json('models', 'test', 'small-1');
  expect(refused).toMatchObject({ code: 3, error: { code: 'config_invalid' } });
  expect(refused.error.detail.message).toContain(`\`${field}\``);
});

test('a request to another host is refused before it is sent', async () => {
  fixture.env.OWN_KEY = 'sesame';
  const server = await startModelServer({ '/v1/chat/completions': ableModel });
  await km('models', 'install', `${COMPATIBLE}@3.0.92`);
  provide(compatible(server.url, { hosts: ['models.example'] }));
  const refused = await json('models', 'test', 'small-1');
  expect(refused).toMatchObject({ code: 4, error: { code: 'permission_denied' } });
  expect(server.requests).toEqual([]);
  for (const create of ['noSuchFunction', 'VERSION']) {
    provide(compatible(server.url, { create }));
    expect(await json('models', 'test', 'small-1')).toMatchObject({
      code: 3,
      error: { code: 'config_invalid' },
    });
  }
});

test('a project cannot name a package: check says so, and nothing is loaded', async () => {
  await km('models', 'install', `${COMPATIBLE}@3.0.92`);
  const trap = join(folder('openai-compatible'), 'entry.mjs');
  appendFileSync(
    trap,
    `import { writeFileSync } from 'node:fs';\nwriteFileSync('${fixture.root}/loaded', '');\n`,
  );
  provide(compatible('http://127.0.0.1:9', { body: {} }), '.ai/config/models.yaml');
  const checked = await km('check');
  expect(checked.code).toBe(3);
  for (const field of ['package', 'create', 'options', 'hosts', 'body']) {
    expect(checked.output).toContain(`a project cannot set \`${field}\` of provider \`own\``);
  }
  const refused = await json('models', 'test', 'small-1');
  expect(refused).toMatchObject({ code: 3, error: { code: 'config_invalid' } });
  expect(refused.error.detail.message).toContain('must not be set by a project');
  // Nor does it change a provider of the bundle into a package.
  fixture.write(
    '.ai/config/models.yaml',
    JSON.stringify({
      providers: { anthropic: { ...compatible('http://127.0.0.1:9'), protocol: 'ai_sdk' } },
    }),
  );
  expect(await json('models', 'test', 'fast')).toMatchObject({
    code: 3,
    error: { code: 'config_invalid' },
  });
  expect(existsSync(join(fixture.root, 'loaded'))).toBe(false);
});

test.each(['ai', 'ai@latest', 'ai@^7.0.0', '../ai@1.0.0', '--global@1.0.0', 'file:x@1.0.0'])(
  'package %s is not installed',
  async (spec) => {
    const refused = await json('models', 'install', '--', spec);
    expect(refused).toMatchObject({ error: { code: 'usage' } });
    expect(existsSync(fixture.env.NPM_WORDS ?? '')).toBe(false);
  },
);

test('a failed installation keeps the package that was installed before', async () => {
  await km('models', 'install', `${COMPATIBLE}@3.0.92`);
  const lock = () => readFileSync(join(fixture.home, 'config', 'models.lock.yaml'), 'utf8');
  const before = lock();
  expect(await km('models', 'install', `${COMPATIBLE}@0.0.0`)).toMatchObject({ code: 1 });
  expect(lock()).toBe(before);
  expect(existsSync(join(folder('openai-compatible'), 'entry.mjs'))).toBe(true);
  rmSync(folder('openai-compatible'), { recursive: true });
});

/** Encodes a message of the AWS event stream. */
function awsFrame(type: string, payload: object): Buffer {
  const body = Buffer.from(JSON.stringify(payload));
  const text = (value: string) => {
    const bytes = Buffer.from(value);
    const length = Buffer.alloc(2);
    length.writeUInt16BE(bytes.length);
    return Buffer.concat([Buffer.from([7]), length, bytes]);
  };
  const pairs = {
    ':event-type': type,
    ':content-type': 'application/json',
    ':message-type': 'event',
  };
  const headers = Buffer.concat(
    Object.entries(pairs).flatMap(([name, value]) => [
      Buffer.from([name.length]),
      Buffer.from(name),
      text(value),
    ]),
  );
  const prelude = Buffer.alloc(12);
  prelude.writeUInt32BE(16 + headers.length + body.length, 0);
  prelude.writeUInt32BE(headers.length, 4);
  prelude.writeUInt32BE(crc32(prelude.subarray(0, 8)), 8);
  const message = Buffer.concat([prelude, headers, body]);
  const end = Buffer.alloc(4);
  end.writeUInt32BE(crc32(message));
  return Buffer.concat([message, end]);
}

const KEYS = { AWS_ACCESS_KEY_ID: 'AKIAEXAMPLE', AWS_SECRET_ACCESS_KEY: 'sesame-of-aws' };

/** Computes the signature again from the request as it arrived. */
async function signatureOf(
  { method, url, headers }: IncomingMessage,
  body: string,
): Promise<string> {
  const [, signed = ''] = /SignedHeaders=([^,]+)/.exec(headers.authorization ?? '') ?? [];
  const names = signed.split(';').filter((name) => name !== 'host');
  const signer = new AwsV4Signer({
    method: method ?? '',
    url: `http://${headers.host}${url}`,
    headers: Object.fromEntries(names.map((name) => [name, String(headers[name])])),
    body,
    accessKeyId: KEYS.AWS_ACCESS_KEY_ID,
    secretAccessKey: KEYS.AWS_SECRET_ACCESS_KEY,
    service: 'bedrock',
    region: 'eu-central-1',
    datetime: String(headers['x-amz-date']),
    allHeaders: true,
  });
  return await signer.signature();
}

test('the Bedrock package signs its requests, and its event stream is read', async () => {
  Object.assign(fixture.env, KEYS);
  const signatures: [string, string][] = [];
  const converse = async (request: IncomingMessage, response: ServerResponse, body: string) => {
    const [, sent = ''] = /Signature=([0-9a-f]+)/.exec(request.headers.authorization ?? '') ?? [];
    signatures.push([sent, await signatureOf(request, body)]);
    response.setHeader('content-type', 'application/vnd.amazon.eventstream');
    const answer = body.includes('JSON object') ? '{"degrees": 3}' : 'ready';
    response.write(awsFrame('messageStart', { role: 'assistant' }));
    response.write(
      awsFrame('contentBlockDelta', { contentBlockIndex: 0, delta: { text: answer } }),
    );
    response.write(awsFrame('contentBlockStop', { contentBlockIndex: 0 }));
    response.write(awsFrame('messageStop', { stopReason: 'end_turn' }));
    response.end(
      awsFrame('metadata', {
        usage: { inputTokens: 12, outputTokens: 3, totalTokens: 15 },
        metrics: { latencyMs: 1 },
      }),
    );
  };
  const server = await startModelServer({ '/model/small-1/converse-stream': converse });
  expect(await km('models', 'install', `${BEDROCK}@5.0.101`)).toMatchObject({ code: 0 });
  const options = { region: 'eu-central-1', baseURL: server.url };
  provide({
    package: BEDROCK,
    create: 'createAmazonBedrock',
    options,
    hosts: [new URL(server.url).host],
  });
  const tested = await json('models', 'test', 'small-1');
  // This server answers with text only.
  expect(tested).toMatchObject({
    code: 1,
    output: { checks: [{ passed: true }, { passed: false }, { passed: false }, { passed: true }] },
  });
  expect(tested.output.checks[0].usage).toMatchObject({ input_tokens: 12, output_tokens: 3 });
  expect(signatures).toHaveLength(4);
  for (const [sent, computed] of signatures) expect(sent).toBe(computed);
  expect(JSON.stringify([tested, server.requests])).not.toContain('sesame');
});
