import { expect, test } from 'vitest';
import { readConnection } from './endpoint.ts';

test.each([
  [{ type: 'bearer', token: 't0ken' }, { authorization: 'Bearer t0ken' }],
  [{ type: 'api_key', key: 'k3y' }, { 'x-api-key': 'k3y' }],
  [{ type: 'api_key', key: 'k3y', header: 'X-Own' }, { 'x-own': 'k3y' }],
  [{ type: 'basic', username: 'u', password: 'p' }, { authorization: 'Basic dTpw' }],
])('%o becomes a header', (auth, headers) => {
  const made = readConnection({ mcp_url: 'https://a.example/mcp?x=1', auth }, 'a', []);
  expect(made).toMatchObject({
    output: { endpoint: { headers }, identity: { kind: 'http', url: 'https://a.example/mcp' } },
  });
});

test('what a pin is made of holds no secret', () => {
  const config = { command: 'server', args: ['--key', 'sup3rs3cret'], env: { KEY: 'sup3rs3cret' } };
  const made = readConnection(config, 'a', ['sup3rs3cret']);
  expect(JSON.stringify(made.ok && made.output.identity)).not.toContain('sup3rs3cret');
  const keyed = { type: 'api_key', key: 'sup3rs3cret', query: 'key' };
  const http = readConnection({ mcp_url: 'https://a.example/mcp', auth: keyed }, 'a', []);
  expect(http).toMatchObject({
    output: {
      endpoint: { url: 'https://a.example/mcp?key=sup3rs3cret' },
      identity: { url: 'https://a.example/mcp' },
    },
  });
});

test.each([
  [{}, 'no server is configured'],
  [{ command: 'a', mcp_url: 'https://a.example' }, 'not both'],
  [{ mcp_url: 'file:///etc/passwd' }, 'http or https'],
  [{ mcp_url: 'https://u:p@a.example' }, 'use `auth`'],
  [{ mcp_url: 'https://a.example', auth: { type: 'magic' } }, 'unsupported `auth.type`'],
  [{ mcp_url: 'https://a.example', headers: { 'a b': 'x' } }, 'not a valid header'],
  [{ mcp_url: 'https://a.example', headers: { a: 'x\r\nb: c' } }, 'not a valid header'],
])('%o is refused', (config, words) => {
  const made = readConnection(config, 'a', []);
  expect(made).toMatchObject({ ok: false, error: { code: 'config_invalid' } });
  expect(made.ok || made.error.detail.message).toContain(words);
});

test('who logs in is named by the server; a client that was registered by hand says its own', () => {
  const auth = { type: 'oauth', scope: 'read', client_id: 'me', client_secret: 's3cret' };
  expect(readConnection({ mcp_url: 'https://a.example/mcp', auth }, 'a', [])).toMatchObject({
    output: {
      endpoint: {
        oauth: { name: 'a', scope: 'read', client_id: 'me', client_secret: 's3cret' },
        headers: {},
      },
    },
  });
  const bare = readConnection({ mcp_url: 'https://a.example/', auth: { type: 'oauth' } }, 'a', []);
  expect(bare.ok && bare.output.endpoint).toMatchObject({ oauth: { name: 'a' } });
});
