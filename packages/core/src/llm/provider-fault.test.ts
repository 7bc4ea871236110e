import { expect, test } from 'vitest';
import { fail, type Json, type JsonObject } from '../base/index.ts';
import { errorFault, providerFault } from './provider-fault.ts';

const answered = (status: number, body: Json | string, code = 'http_error') =>
  fail(code, `\`host\` answered ${status}`, {
    status,
    sent: true,
    retry_after_ms: 2000,
    body_excerpt: typeof body === 'string' ? body : JSON.stringify(body),
  });
const anthropic = (type: string, message = 'x'): Json => ({
  type: 'error',
  error: { type, message },
});
const openai = (code: string | null, type = 'invalid_request_error', message = 'x'): Json => ({
  error: { message, type, code, param: null },
});

test.each([
  [429, anthropic('rate_limit_error'), 'rate_limit', true],
  [529, anthropic('overloaded_error'), 'model_unavailable', true],
  [503, '<html>busy</html>', 'model_unavailable', true],
  [404, anthropic('not_found_error'), 'model_unavailable', false],
  [404, openai('model_not_found'), 'model_unavailable', false],
  [429, openai('insufficient_quota', 'insufficient_quota'), 'quota_exceeded', false],
  [429, anthropic('api_error'), 'rate_limit', true],
  [429, openai('server_error', 'server_error'), 'rate_limit', true],
  [429, anthropic('invalid_request_error'), 'rate_limit', true],
  [429, anthropic('not_found_error'), 'rate_limit', true],
  [408, anthropic('api_error'), 'timeout', true],
  [503, openai('server_error', 'server_error'), 'model_unavailable', true],
  [529, anthropic('api_error'), 'model_unavailable', true],
  [400, openai('invalid_encrypted_content'), 'provider_error', false],
  [400, anthropic('api_error'), 'provider_error', false],
  [500, anthropic('rate_limit_error'), 'rate_limit', true],
  [402, {}, 'quota_exceeded', false],
  [401, openai('invalid_api_key'), 'provider_error', false],
  [400, anthropic('invalid_request_error'), 'provider_error', false],
  [500, anthropic('api_error'), 'provider_error', true],
  [502, 'bad gateway', 'provider_error', true],
  [504, '', 'timeout', true],
  [418, 'teapot', 'provider_error', false],
])('%s %j means %s', (status, body, code, transient) => {
  const fault = providerFault(answered(status, body, status === 429 ? 'rate_limit' : 'http_error'));
  expect(fault.error.code).toBe(code);
  expect(fault.error.detail).toMatchObject({ transient, status, retry_after_ms: 2000 });
});

test('a window that is too small is told from other invalid requests', () => {
  for (const body of [
    anthropic('invalid_request_error', 'prompt is too long: 213462 tokens > 200000 maximum'),
    openai('context_length_exceeded'),
    openai(null, 'invalid_request_error', 'This model’s maximum context length is 8192 tokens'),
  ]) {
    expect(providerFault(answered(400, body)).error.detail.reason).toBe('context_exceeded');
  }
});

test('an answer that is an error was not charged, unless a gateway gave up waiting', () => {
  expect(providerFault(answered(429, '', 'rate_limit')).error.detail.charged).toBe(false);
  expect(providerFault(answered(500, '')).error.detail.charged).toBe(false);
  expect(providerFault(answered(504, '')).error.detail).not.toHaveProperty('charged');
});

test('what the provider said and what to do stand in the detail', () => {
  const { detail } = providerFault(
    answered(401, openai('invalid_api_key', 'x', 'Incorrect key.')),
  ).error;
  expect(detail.message).toBe('`host` answered 401; the provider reported: Incorrect key');
  expect(detail.hint).toContain('environment variable');
  expect(errorFault('a plain text').error.detail.message).toContain('a plain text');
});

test('what is no answer of a provider keeps its code', () => {
  const failures = [
    fail('network_error', 'no connection', { sent: false }),
    fail('permission_denied', 'no', { missing: 'net.http' }),
    fail('timeout', 'no answer within 5 s', { phase: 'first_byte' }),
    fail('stream_incomplete', 'broke off', { status: 200 }),
  ];
  for (const failure of failures) expect(providerFault(failure)).toBe(failure);
});

test('a body of any kind is no reason to throw', () => {
  for (const body of [
    '',
    '{',
    '[]',
    'null',
    '{"error":7}',
    '{"error":{"type":"constructor"}}',
    '"x"',
  ]) {
    expect(providerFault(answered(500, body)).error.code).toBe('provider_error');
  }
});

test('a provider that cannot be reached is named, with its place', () => {
  const messageOf = (message: string, detail: JsonObject): string =>
    providerFault(fail('network_error', message, detail), 'local').error.detail.message;
  const refused = { host: '127.0.0.1', port: 11434, reason: 'ECONNREFUSED', sent: false };
  expect(messageOf('any text', refused)).toBe(
    'cannot connect to provider `local` at 127.0.0.1:11434: connection refused; check that the server runs',
  );
  const lost = { host: '::1', port: 80, reason: 'unexpected end', sent: true };
  expect(messageOf('any text', lost)).toBe(
    'the connection to provider `local` at [::1]:80 was lost: unexpected end',
  );
  const unresolved = { host: 'local.test', reason: 'ENOTFOUND', sent: false };
  expect(messageOf('cannot resolve host `local.test`: ENOTFOUND', unresolved)).toBe(
    'cannot resolve host `local.test`: ENOTFOUND',
  );
});

test.each([
  openai('invalid_encrypted_content'),
  anthropic(
    'invalid_request_error',
    'messages.1.content.0: Invalid `signature` in `thinking` block',
  ),
  {
    error: {
      code: 400,
      message: 'Function call is missing a thought_signature in functionCall parts.',
    },
  },
])('a rejected seal has a reason of its own: %j', (body) => {
  expect(providerFault(answered(400, body)).error).toMatchObject({
    code: 'provider_error',
    detail: { reason: 'seal_rejected', transient: false, charged: false },
  });
});
