// Translates errors of a server into fault codes. `sent` is true if the server may have received
// the request, so that a retry could execute it twice.
import {
  createRedactor,
  type Failure,
  fail,
  isDeeperThan,
  type Json,
  type JsonObject,
  messageOf,
  onOneLine,
} from '@kernmantle/core/base';
import {
  ProtocolError,
  SdkError,
  SdkErrorCode,
  SdkHttpError,
  UnauthorizedError,
} from '@modelcontextprotocol/client';
import type { Endpoint } from './pool.ts';
import { whyMissing } from './transport-gate.ts';

const MAX_WORDS = 600;
const MAX_DATA = 8 * 1024;
/** Shorter values are likely ordinary words and are not masked. */
const MIN_SECRET = 6;

/** Display name of an endpoint, without arguments and query, which can contain secrets. */
export function nameOf(endpoint: Endpoint): string {
  if (endpoint.kind === 'stdio') return endpoint.command;
  const url = URL.parse(endpoint.url);
  return url === null ? 'an invalid URL' : `${url.origin}${url.pathname}`;
}

const valuesOf = (endpoint: Endpoint): string[] =>
  endpoint.kind === 'stdio'
    ? Object.values(endpoint.env)
    : [...Object.values(endpoint.headers), endpoint.oauth?.client_secret ?? ''];

/** Values of the endpoint that are always masked. */
export const secretsOf = (endpoint: Endpoint): string[] =>
  valuesOf(endpoint).filter((value) => value.length >= MIN_SECRET);

const shortened = (words: string): string => {
  const line = onOneLine(words);
  return line.length > MAX_WORDS ? `${line.slice(0, MAX_WORDS)}…` : line;
};

interface ConnectionFault {
  readonly cause: string;
  readonly retryable: boolean;
  readonly remediation: string;
  readonly more?: JsonObject;
}

export function connectionFailed(
  endpoint: Endpoint,
  { cause, retryable, remediation, more = {} }: ConnectionFault,
): Failure {
  const name = nameOf(endpoint);
  const words = shortened(cause);
  return fail('mcp_connection_failed', `MCP server \`${name}\`: ${words}; ${remediation}`, {
    endpoint: name,
    cause: words,
    retryable,
    remediation,
    ...more,
  });
}

const AGAIN = 'try again';
/** Hint for a program that does not start as a server. */
const lookHint = (endpoint: Endpoint): string =>
  endpoint.kind === 'stdio' && endpoint.isDirect
    ? 'check its command, and that the caller may read the files it needs; it has no network'
    : 'check its command, and that `grants` of its connector include the files it needs';

/** Returns the failure with all occurrences of the secrets masked. */
export function redacted({ error }: Failure, secrets: readonly string[]): Failure {
  const { json } = createRedactor(secrets);
  return { ok: false, error: { code: error.code, detail: json(error.detail) } };
}

/** Translates a refusal by the server itself. */
function refusalOf(error: ProtocolError): Failure {
  const words = `the server refused: ${shortened(error.message)}`;
  const data = asData(error.data);
  return fail('tool_failed', words, {
    rpc_code: error.code,
    ...(data !== undefined && { data }),
  });
}

function asData(data: unknown): Json | undefined {
  const text = data === undefined ? undefined : JSON.stringify(data);
  if (text === undefined || text.length > MAX_DATA) return undefined;
  const value = JSON.parse(text) as Json;
  return isDeeperThan(value, 16) ? undefined : value;
}

const faultIn = (error: unknown): Failure | undefined => {
  for (let one: unknown = error, depth = 0; one instanceof Error && depth < 5; depth++) {
    if ('failure' in one) return one.failure as Failure;
    one = one.cause;
  }
  return undefined;
};

function ofHttp(endpoint: Endpoint, error: SdkHttpError, isSent: boolean): Failure {
  const { status } = error;
  const isAuth = status === 401 || status === 403;
  return connectionFailed(endpoint, {
    cause: `it answered with status ${status}${isAuth ? `, so ${authProblem(endpoint)}` : ''}`,
    retryable: (status >= 500 || status === 429) && !isSent,
    remediation: isAuth ? loginHint(endpoint) : 'check the address',
    more: {
      status,
      sent: isSent && !isAuth && status !== 404 && status !== 429,
      ...(isAuth && loginOf(endpoint)),
    },
  });
}

/** Detail field with the name of the connector that needs a login. Empty if none does. */
const loginOf = (endpoint: Endpoint): JsonObject =>
  endpoint.kind === 'http' && endpoint.oauth ? { login: endpoint.oauth.name } : {};

function loginHint(endpoint: Endpoint): string {
  if (endpoint.kind === 'http' && endpoint.oauth) {
    return `a person must log in; run a sync of connector \`${endpoint.oauth.name}\``;
  }
  return hasSecret(endpoint)
    ? 'check the secret in `auth` or `headers` of its connector, and its access rights'
    : 'add an `auth` to its connector: a secret, or `oauth` for a login';
}

const hasSecret = (endpoint: Endpoint): boolean =>
  endpoint.kind === 'http' && !endpoint.oauth && secretsOf(endpoint).length > 0;

const authProblem = (endpoint: Endpoint): string =>
  hasSecret(endpoint) ? 'it refused the credentials' : 'it requires a login';

interface FailedRequest {
  readonly endpoint: Endpoint;
  readonly error: unknown;
  readonly signal: AbortSignal;
  readonly timeoutMs: number;
  /** True if the request may have been sent. */
  readonly isSent: boolean;
  /** Exit status and last lines of the process. Absent while it runs. */
  readonly ended?: string | undefined;
  /** Failure of the last call of `fetch`, if any. */
  readonly fault?: Failure | undefined;
}

/** Translates an error of the SDK into a failure. */
export function failureOf(request: FailedRequest): Failure {
  const { endpoint, error, signal, timeoutMs, isSent, ended } = request;
  if (signal.aborted) return fail('cancelled', 'the call was cancelled', { sent: isSent });
  const why = whyMissing(error);
  if (why === 'too_large' || why === 'unreadable') {
    const code = why === 'too_large' ? 'response_too_large' : 'tool_failed';
    return fail(code, shortened(messageOf(error)), { sent: true });
  }
  if (error instanceof ProtocolError && why === undefined) return refusalOf(error);
  const own = faultIn(error) ?? (error instanceof SdkHttpError ? undefined : request.fault);
  if (own) return ofFetch(endpoint, own);
  if (error instanceof UnauthorizedError) {
    const cause = 'it requires a login, and no person is present';
    return connectionFailed(endpoint, {
      cause,
      retryable: false,
      remediation: loginHint(endpoint),
      more: { sent: false, ...loginOf(endpoint) },
    });
  }
  if (error instanceof SdkHttpError) return ofHttp(endpoint, error, isSent);
  if (error instanceof SdkError && error.code === SdkErrorCode.RequestTimeout) {
    return fail('timeout', `no answer within ${Math.round(timeoutMs)} ms`, {
      timeout_ms: Math.round(timeoutMs),
      sent: isSent,
    });
  }
  if (ended !== undefined) {
    return connectionFailed(endpoint, {
      cause: `the process ${ended}`,
      retryable: !isSent,
      remediation: isSent ? 'the request may have been executed' : lookHint(endpoint),
      more: { sent: isSent },
    });
  }
  if (error instanceof SdkError && error.code === SdkErrorCode.CapabilityNotSupported) {
    return fail(
      'tool_failed',
      `the server requires a capability that this client lacks: ${shortened(error.message)}`,
    );
  }
  return connectionFailed(endpoint, {
    cause: messageOf(error),
    retryable: !isSent,
    remediation: isSent ? 'the request may have been executed' : AGAIN,
    more: { sent: isSent },
  });
}

/**
 * Translates a failure during the connect. Each such failure means that no connection exists.
 */
export function asConnectionFault(endpoint: Endpoint, failure: Failure): Failure {
  const { code, detail } = failure.error;
  if (code !== 'timeout' && code !== 'tool_failed') return failure;
  return connectionFailed(endpoint, {
    cause: detail.message,
    retryable: true,
    remediation:
      endpoint.kind === 'stdio' ? lookHint(endpoint) : 'check that an MCP server runs there',
    more: { sent: false },
  });
}

/** A refusal before sending keeps its code. A network error becomes a connection failure. */
function ofFetch(endpoint: Endpoint, failure: Failure): Failure {
  const { code, detail } = failure.error;
  if (code === 'permission_denied' || code === 'response_too_large' || code === 'invalid_input') {
    return failure;
  }
  const isSent = detail.sent !== false;
  return connectionFailed(endpoint, {
    cause: detail.message,
    retryable: !isSent,
    remediation: isSent
      ? 'the request may have been executed'
      : 'check the address and that the server runs',
    more: { sent: isSent },
  });
}
