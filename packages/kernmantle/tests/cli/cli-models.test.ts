// Tests `km models` with servers on loopback: their recorded answers, wrong answers, and the user's files.
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseYaml } from '@kernmantle/core/base';
import { runCommand, runStreams } from '@kernmantle/test-support/command-line';
import {
  ableModel,
  type Endpoints,
  sendChat,
  startModelServer,
} from '@kernmantle/test-support/model-server';
import { type Fixture, makeFixture } from '@kernmantle/test-support/project';
import { afterEach, beforeEach, expect, test } from 'vitest';

let fixture: Fixture;
beforeEach(() => {
  fixture = makeFixture();
});
afterEach(() => fixture.remove());

const km = (...words: string[]) => runCommand(words, fixture.root, fixture.env);
const json = async (...words: string[]) => {
  const { code, out } = await runStreams([...words, '--json'], fixture.root, fixture.env);
  return { code, ...JSON.parse(out.trim().split('\n').at(-1) ?? '{}') };
};
const own = (name: string): string => join(fixture.home, 'config', `${name}.yaml`);
const ownText = (name: string): string =>
  existsSync(own(name)) ? readFileSync(own(name), 'utf8') : '';
const ownValue = (name: string) => parseYaml(ownText(name)).value;

const listOf = (...ids: string[]) => ({
  object: 'list',
  data: ids.map((id) => ({ id, object: 'model' })),
});

/** Answers that the four servers gave, shortened. */
const RECORDED: Readonly<Record<string, { endpoints: Endpoints; id: string; window: number }>> = {
  vllm: {
    id: 'Qwen/Qwen3-8B',
    window: 40960,
    endpoints: {
      '/v1/models': {
        object: 'list',
        data: [
          {
            id: 'Qwen/Qwen3-8B',
            object: 'model',
            created: 1763300000,
            owned_by: 'vllm',
            root: 'Qwen/Qwen3-8B',
            parent: null,
            max_model_len: 40960,
          },
        ],
      },
    },
  },
  llamacpp: {
    id: 'gemma-3-4b-it-Q4_K_M.gguf',
    window: 16384,
    endpoints: {
      '/v1/models': {
        object: 'list',
        data: [
          {
            id: 'gemma-3-4b-it-Q4_K_M.gguf',
            object: 'model',
            owned_by: 'llamacpp',
            meta: { n_ctx_train: 131072, n_params: 3880099328 },
          },
        ],
      },
      '/props': {
        default_generation_settings: { id: 0, id_task: -1, n_ctx: 16384, speculative: false },
        total_slots: 1,
        model_path: 'models/gemma-3-4b-it-Q4_K_M.gguf',
      },
    },
  },
  lmstudio: {
    id: 'qwen2.5-7b-instruct',
    window: 6144,
    endpoints: {
      '/v1/models': listOf('qwen2.5-7b-instruct', 'text-embedding-nomic-embed-text-v1.5'),
      '/props': { error: 'Unexpected endpoint or method. (GET /props)' },
      '/api/v0/models': {
        object: 'list',
        data: [
          {
            id: 'qwen2.5-7b-instruct',
            object: 'model',
            type: 'llm',
            state: 'loaded',
            max_context_length: 32768,
            loaded_context_length: 6144,
          },
          {
            id: 'text-embedding-nomic-embed-text-v1.5',
            object: 'model',
            type: 'embeddings',
            state: 'not-loaded',
            max_context_length: 2048,
          },
        ],
      },
    },
  },
  ollama: {
    id: 'llama3.2:3b',
    window: 8000,
    endpoints: {
      '/v1/models': listOf('llama3.2:3b'),
      '/api/ps': {
        models: [{ name: 'llama3.2:3b', model: 'llama3.2:3b', size: 1, context_length: 8000 }],
      },
      '/api/show': {
        details: { family: 'llama' },
        model_info: { 'general.architecture': 'llama', 'llama.context_length': 131072 },
        capabilities: ['completion', 'tools'],
      },
    },
  },
};

test.each(Object.entries(RECORDED))(
  'the window of a model of %s',
  async (kind, { endpoints, id, window }) => {
    const server = await startModelServer(endpoints);
    const added = await json('models', 'add', server.url, '--no-test');
    expect(added).toMatchObject({
      code: 0,
      output: { provider: kind, models: [{ id, window }], warnings: [] },
    });
    expect(ownValue('pricing')).toEqual({ models: { [id]: { free: true, context: window } } });
    expect(ownValue('models')).toEqual({
      providers: {
        [kind]: {
          protocol: 'openai_chat',
          tool: 'llm/openai_chat',
          base_url: `${server.url}/v1`,
          max_tokens_parameter: 'max_tokens',
        },
      },
      models: { [id]: { provider: kind, input: ['text'] } },
    });
    const listed = await json('models', 'ls');
    expect(listed.output).toContainEqual(
      expect.objectContaining({
        model: id,
        provider: kind,
        level: 'user',
        free: true,
        window,
        age_days: 0,
      }),
    );
  },
);

test.each([
  ['that is not loaded', [], 4096],
  [
    'that is loaded with more than it can',
    [{ name: 'llama3.2:3b', context_length: 999_999 }],
    131_072,
  ],
])('the window of an Ollama model %s', async (_, models, window) => {
  const { endpoints } = RECORDED.ollama ?? { endpoints: {} };
  const server = await startModelServer({ ...endpoints, '/api/ps': { models } });
  const added = await json('models', 'add', `${server.url}/v1/`, '--no-test');
  expect(added.output.models).toEqual([{ id: 'llama3.2:3b', window }]);
});

test('an unknown window is 8,192 tokens, with a warning', async () => {
  const endpoints = { '/v1/models': listOf('small-1'), '/v1/chat/completions': ableModel };
  const server = await startModelServer(endpoints);
  const added = await km('models', 'add', server.url, '--name', 'bench');
  expect(added.code).toBe(0);
  expect(added.output).toContain('warning: the server does not tell the window of small-1');
  expect(added.output).toMatch(/\+ {2}small-1: ?\n?/);
  expect(added.output).toContain('small-1: 4 of 4 passed, no sealed thoughts, spent 0.00');
  expect(ownValue('pricing')).toEqual({ models: { 'small-1': { free: true, context: 8192 } } });
  const asked = server.requests.filter(({ path }) => path === '/v1/chat/completions');
  expect(asked).toHaveLength(4);
  expect(asked.map(({ body }) => JSON.parse(body).max_tokens)).toEqual([256, 256, 256, 256]);
});

test('a model that lacks a capability is added, and the exit code is 1', async () => {
  const server = await startModelServer({
    '/v1/models': listOf('small-1'),
    '/v1/chat/completions': (_: unknown, response: Parameters<typeof sendChat>[0]) =>
      sendChat(response, [{ content: 'ready \u001b[31m' }]),
  });
  const added = await json('models', 'add', server.url);
  expect(added).toMatchObject({ code: 1, output: { models: [{ id: 'small-1' }] } });
  const { checks } = added.output.test;
  expect(checks.map(({ passed }: { passed: boolean }) => passed)).toEqual([
    true,
    false,
    false,
    false,
  ]);
  expect(checks[1].problem).toBe('the reply has text and ended with `end`');
  const again = await km('models', 'test', 'small-1');
  expect(again.code).toBe(1);
  expect(again.output).not.toContain('\u001b');
});

test('comments and other entries of the user’s files stay, and a second time changes nothing', async () => {
  const server = await startModelServer({ '/v1/models': listOf('small-1') });
  const before = '# mine\nmodels:\n  own-7b: { provider: bench, input: [text] } # the old one\n';
  fixture.write('../home/config/models.yaml', before);
  const key = 'BENCH_KEY';
  fixture.env[key] = 'sesame-of-the-bench';
  const words = ['models', 'add', server.url, '--name', 'bench', '--key', key, '--no-test'];
  const added = await km(...words);
  expect(added.code).toBe(0);
  expect(added.output).not.toContain('sesame');
  const text = ownText('models');
  expect(text).toContain('# mine\n');
  expect(text).toContain('own-7b: { provider: bench, input: [ text ] } # the old one');
  expect(text).toContain(`key: ${key}`);
  expect(text).not.toContain('sesame');
  expect(
    server.requests.every(({ authorization }) => authorization === 'Bearer sesame-of-the-bench'),
  ).toBe(true);
  const again = await json(...words);
  expect(again).toMatchObject({ code: 0, output: { files: [] } });
  expect(ownText('models')).toBe(text);
});

const HTML = (_: unknown, response: Parameters<typeof sendChat>[0]) => {
  response.setHeader('content-type', 'text/html');
  response.end('<html>sesame</html>');
};
const REDIRECT = (_: unknown, response: Parameters<typeof sendChat>[0]) => {
  response.writeHead(302, { location: 'http://127.0.0.1:1/v1/models' });
  response.end();
};
const DENIED = (_: unknown, response: Parameters<typeof sendChat>[0]) => {
  response.statusCode = 401;
  response.end('{}');
};
const many = Array.from({ length: 51 }, (_, index) => `m-${index}`);

test.each<[string, Endpoints, string[], number, string, string]>([
  ['a 404', {}, [], 1, 'http_error', 'answered 404'],
  ['a redirect', { '/v1/models': REDIRECT }, [], 1, 'http_error', 'redirects to another address'],
  ['HTML', { '/v1/models': HTML }, [], 1, 'http_error', 'not JSON'],
  [
    'a server that needs a key',
    { '/v1/models': DENIED },
    [],
    6,
    'provider_error',
    'needs a valid key',
  ],
  ['an empty list', { '/v1/models': { data: [] } }, [], 1, 'not_found', 'lists no model'],
  [
    'a list of no ids',
    { '/v1/models': { data: [1, null, { id: 'a b' }] } },
    [],
    1,
    'not_found',
    'lists no model',
  ],
  ['51 models', { '/v1/models': listOf(...many) }, [], 2, 'usage', 'lists 51 models'],
  [
    'a model that is not listed',
    { '/v1/models': listOf('a') },
    ['--model', 'b'],
    1,
    'not_found',
    'does not list',
  ],
  ['a key that is not set', {}, ['--key', 'NO_SUCH_KEY'], 2, 'usage', 'is not set'],
  ['a key in place of its variable', {}, ['--key', 'sk-123'], 2, 'usage', 'not its value'],
  ['a wrong price', { '/v1/models': listOf('a') }, ['--price', '1'], 2, 'usage', 'two amounts'],
  [
    'a name of the bundle',
    { '/v1/models': listOf('a') },
    ['--name', 'openai'],
    1,
    'invalid_input',
    'another address',
  ],
  [
    'an id of another provider',
    { '/v1/models': listOf('gpt-5.5') },
    [],
    1,
    'invalid_input',
    'another provider',
  ],
])('%s is refused and changes nothing', async (_, endpoints, words, code, error, message) => {
  const server = await startModelServer(endpoints);
  const refused = await json('models', 'add', server.url, ...words);
  expect(refused).toMatchObject({ code, error: { code: error } });
  expect(refused.error.detail.message).toContain(message);
  expect(ownText('models') + ownText('pricing')).toBe('');
  expect(JSON.stringify(refused)).not.toContain('sesame');
});

test.each([
  ['ftp://127.0.0.1/v1', 'http or https'],
  ['http://user:word@127.0.0.1/v1', 'no password'],
  ['127.0.0.1:80', 'http or https'],
])('address %s is refused', async (url, message) => {
  const refused = await json('models', 'add', url);
  expect(refused).toMatchObject({ code: 2, error: { code: 'usage' } });
  expect(refused.error.detail.message).toContain(message);
});

test('one of 51 models is added, with a price', async () => {
  const server = await startModelServer({ '/v1/models': listOf(...many) });
  const words = ['--model', 'm-7', '--price', '0.15/0.60', '--no-test'];
  const added = await json('models', 'add', server.url, ...words);
  expect(added).toMatchObject({ code: 0, output: { models: [{ id: 'm-7', window: 8192 }] } });
  expect(ownValue('pricing')).toEqual({
    models: { 'm-7': { input_per_million: 0.15, output_per_million: 0.6, context: 8192 } },
  });
});

test('a broken file of the user is named, and neither file changes', async () => {
  const server = await startModelServer({ '/v1/models': listOf('a') });
  fixture.write('../home/config/models.yaml', 'models: [\n');
  const refused = await json('models', 'add', server.url);
  expect(refused).toMatchObject({ code: 3, error: { code: 'config_invalid' } });
  expect(refused.error.detail.message).toContain('models.yaml');
  expect(ownText('models')).toBe('models: [\n');
  expect(existsSync(own('pricing'))).toBe(false);
});

test('a test stops before a request that its amount does not cover', async () => {
  const endpoints = { '/v1/models': listOf('a'), '/v1/chat/completions': ableModel };
  const server = await startModelServer(endpoints);
  // The worst case of a request is below 0.1, and its real cost is 0.0055.
  await km('models', 'add', server.url, '--price', '100/900', '--no-test');
  const tested = await json('models', 'test', 'a', '--spend', '0.25');
  expect(tested).toMatchObject({ code: 5, error: { code: 'spend_exceeded' } });
  const sent = server.requests.filter(({ path }) => path === '/v1/chat/completions').length;
  expect(sent).toBeLessThan(4);
  expect(tested.error.detail.checks).toHaveLength(sent);
  const whole = await json('models', 'test', 'a', '--spend', '2');
  expect(whole).toMatchObject({ code: 0, output: { spend: '0.022' } });
});

test.each([
  ['no-such-model', [], 1, 'not_found'],
  ['fast', [], 6, 'model_unavailable'],
  ['fast', ['--spend', 'much'], 2, 'usage'],
])('a test of %s %j fails', async (model, words, code, error) => {
  const { ANTHROPIC_API_KEY: _, ...env } = fixture.env;
  Object.assign(fixture, { env });
  expect(await json('models', 'test', model, ...words)).toMatchObject({
    code,
    error: { code: error },
  });
});
