// Maps a provider's error, from a status or a stream, to a fault. Hooks, retries and fallbacks use its
// code. Its detail contains the text of the provider.
import {
  type Failure,
  type Fault,
  fail,
  getOwn,
  isObject,
  type Json,
  type JsonObject,
  parseJson,
  textAt,
  withDetail,
} from '../base/index.ts';

interface Meaning {
  code: string;
  /** True if the same request may succeed later. */
  transient: boolean;
  reason: string;
}

const RATE: Meaning = { code: 'rate_limit', transient: true, reason: 'rate_limit' };
const OVERLOADED: Meaning = { code: 'model_unavailable', transient: true, reason: 'overloaded' };
const MISSING: Meaning = { code: 'model_unavailable', transient: false, reason: 'unknown_model' };
const QUOTA: Meaning = { code: 'quota_exceeded', transient: false, reason: 'quota' };
const KEY: Meaning = { code: 'provider_error', transient: false, reason: 'authentication' };
const REFUSED: Meaning = { code: 'provider_error', transient: false, reason: 'permission' };
const INVALID: Meaning = { code: 'provider_error', transient: false, reason: 'invalid_request' };
const CONTEXT: Meaning = { code: 'provider_error', transient: false, reason: 'context_exceeded' };
const SEAL: Meaning = { code: 'provider_error', transient: false, reason: 'seal_rejected' };
const SERVER: Meaning = { code: 'provider_error', transient: true, reason: 'server_error' };
const LATE: Meaning = { code: 'timeout', transient: true, reason: 'provider_timeout' };

/** Meanings by the `type` or `code` of a provider's error. */
const BY_NAME: Readonly<Record<string, Meaning>> = {
  rate_limit_error: RATE,
  rate_limit_exceeded: RATE,
  overloaded_error: OVERLOADED,
  server_is_overloaded: OVERLOADED,
  service_unavailable_error: OVERLOADED,
  slow_down: RATE,
  billing_error: QUOTA,
  insufficient_quota: QUOTA,
  billing_hard_limit_reached: QUOTA,
  not_found_error: MISSING,
  model_not_found: MISSING,
  authentication_error: KEY,
  invalid_api_key: KEY,
  permission_error: REFUSED,
  context_length_exceeded: CONTEXT,
  invalid_encrypted_content: SEAL,
  request_too_large: CONTEXT,
  timeout_error: LATE,
  api_error: SERVER,
  server_error: SERVER,
  invalid_request_error: INVALID,
  invalid_prompt: INVALID,
};

const BY_STATUS: Readonly<Record<number, Meaning>> = {
  400: INVALID,
  401: KEY,
  402: QUOTA,
  403: REFUSED,
  404: MISSING,
  408: LATE,
  413: CONTEXT,
  429: RATE,
  503: OVERLOADED,
  504: LATE,
  529: OVERLOADED,
};
/** Statuses of a gateway timeout: the provider may have charged for an answer that was lost. */
const MAYBE_CHARGED: ReadonlySet<number> = new Set([408, 502, 504]);

/** Texts for error codes of the operating system. */
const WORDS: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'connection refused',
  ECONNRESET: 'connection reset',
  EHOSTUNREACH: 'host unreachable',
  ENETUNREACH: 'network unreachable',
  ETIMEDOUT: 'no answer in time',
  UND_ERR_CONNECT_TIMEOUT: 'no answer in time',
};

const MAX_MESSAGE = 500;
const wordAt = (value: Json | undefined, key: string): string =>
  textAt(value, key).slice(0, MAX_MESSAGE);

/** Matches a message about a too long conversation, from providers that send no code for it. */
const TOO_LONG = /prompt is too long|context (?:length|window)|maximum context|too many tokens/i;

/** Matches a message about a seal, from providers that send no code for it. */
const BAD_SEAL = /thought[_ -]?signature|signature`? in `?thinking/i;

function meaningOf(error: Json | undefined, status: number | undefined): Meaning {
  const names = [wordAt(error, 'code'), wordAt(error, 'type')];
  const namedMeaning = names.flatMap((name) =>
    Object.hasOwn(BY_NAME, name) ? [BY_NAME[name]] : [],
  )[0];
  const byStatus = status === undefined ? undefined : BY_STATUS[status];
  // The names "invalid" and "server error" are less precise than the status. A status that asks for a retry
  // wins over every name except an empty account, which providers report as 429 too.
  const isVague = namedMeaning === INVALID || namedMeaning === SERVER;
  const isRetry =
    byStatus?.transient === true && namedMeaning?.transient === false && namedMeaning !== QUOTA;
  const meaning =
    (isVague || isRetry ? (byStatus ?? namedMeaning) : (namedMeaning ?? byStatus)) ?? SERVER;
  if (meaning === INVALID && BAD_SEAL.test(wordAt(error, 'message'))) return SEAL;
  if (meaning === INVALID && TOO_LONG.test(wordAt(error, 'message'))) return CONTEXT;
  return meaning === SERVER && status !== undefined && status < 500 ? INVALID : meaning;
}

/** Returns the fault of an error object of either protocol. Absent `status`: the error was in a stream. */
export function errorFault(error: Json | undefined, status?: number): Failure {
  const { code, transient, reason } = meaningOf(error, status);
  const text =
    wordAt(error, 'message') || (typeof error === 'string' ? error.slice(0, MAX_MESSAGE) : '');
  const message = text === '' ? 'the provider reported an error' : `the provider reported: ${text}`;
  const type = wordAt(error, 'type') || wordAt(error, 'code');
  return fail(code, message.replace(/\s+/g, ' ').replace(/\.$/, ''), {
    reason,
    transient,
    ...(type !== '' && { provider_code: type }),
    ...(status !== undefined && { status }),
  });
}

/** Returns the value of `error`, `detail` or `message` of a body. */
function errorIn(body: Json | undefined): Json | undefined {
  const error = getOwn(body, 'error') ?? getOwn(body, 'detail') ?? getOwn(body, 'message');
  if (typeof error === 'string') return { message: error, ...(isObject(body) ? body : {}) };
  return error;
}

const HINTS: Readonly<Record<string, string>> = {
  authentication: 'check the key of the provider in its environment variable',
  quota: 'add credit to the account of this key, or raise the limit of the account',
  unknown_model: 'check the model id in models.yaml or in the directive',
  context_exceeded: 'shorten the conversation, or use a model with a larger context window',
};

/** Returns the message of a network fault with the provider's name. A fault without a port keeps its message. */
function connectionText(provider: string, detail: Fault['detail']): string {
  const { host, port, sent, message } = detail;
  if (typeof host !== 'string' || typeof port !== 'number') return message;
  const reason = textAt(detail, 'reason');
  const text = Object.hasOwn(WORDS, reason) ? WORDS[reason] : reason;
  const server = `provider \`${provider}\` at ${host.includes(':') ? `[${host}]` : host}:${port}`;
  return sent === false
    ? `cannot connect to ${server}: ${text}; check that the server runs`
    : `the connection to ${server} was lost: ${text}`;
}

/**
 * Maps a failure of the provider's tool chain to a fault of a model request. A failure without a
 * provider's answer (no connection, a denied permission, a broken stream) keeps its code. `charged: false`
 * is added unless the status is one of `MAYBE_CHARGED`.
 */
export function providerFault(failure: Failure, provider?: string): Failure {
  const { code, detail } = failure.error;
  if (code === 'network_error' && provider !== undefined) {
    const message = connectionText(provider, detail);
    return { ok: false, error: { code, detail: { ...detail, provider, message } } };
  }
  const { status, body_excerpt } = detail;
  if (typeof status !== 'number' || status < 400) return failure;
  if (code !== 'http_error' && code !== 'rate_limit' && code !== 'timeout') return failure;
  const body = typeof body_excerpt === 'string' ? parseJson(body_excerpt) : undefined;
  const fault = errorFault(body?.ok ? errorIn(body.output) : undefined, status);
  const { message, reason, transient, provider_code } = fault.error.detail;
  const hint = typeof reason === 'string' && Object.hasOwn(HINTS, reason) && HINTS[reason];
  const added: JsonObject = {
    reason: reason ?? '',
    transient: transient ?? false,
    ...(provider_code !== undefined && { provider_code }),
    ...(hint && { hint }),
    ...(!MAYBE_CHARGED.has(status) && { charged: false }),
  };
  const named: Failure = {
    ok: false,
    error: {
      code: fault.error.code,
      detail: { ...detail, message: `${detail.message}; ${message}` },
    },
  };
  return withDetail(named, added);
}
