// Maps the many errors of undici to a fault of a request that got no answer or only a part of it.
import { type Failure, fail } from '../../base/index.ts';
import { hostOf, portOf } from './address.ts';

/** Returns the problem of the server's HTTP. Undefined if the connection failed. */
export function malformation({ name, code, message }: NodeJS.ErrnoException): string | undefined {
  if (code === 'UND_ERR_HEADERS_OVERFLOW') return 'the head is too long';
  if (code === 'ERR_ASSERTION' || (code === 'UND_ERR_SOCKET' && message.startsWith('bad '))) {
    return 'the request does not allow an answer of this kind';
  }
  if (name !== 'HTTPParserError') return undefined;
  const words = /\((.*)\)$/.exec(message)?.[1] ?? message;
  return words.charAt(0).toLowerCase() + words.slice(1);
}

export function reasonOf(error: NodeJS.ErrnoException): string {
  const { code, message } = error;
  // undici reports a closed connection in several ways.
  if (/^UND_ERR_(?:SOCKET|RES_CONTENT_LENGTH_MISMATCH)$/.test(code ?? '')) return 'ECONNRESET';
  return malformation(error) ?? code ?? message;
}

/** Returns the fault of a request without an answer. `sent`: the server may have received the request. */
export function networkFault(error: NodeJS.ErrnoException, url: URL, sent: boolean): Failure {
  const host = hostOf(url);
  // Before the body has begun, this error can only mean that the announced length is invalid.
  const isLength = error.code === 'UND_ERR_RES_CONTENT_LENGTH_MISMATCH';
  const wrong = isLength ? 'the length is not valid' : malformation(error);
  if (wrong !== undefined) return malformed(url, wrong);
  const reason = reasonOf(error);
  const port = portOf(url);
  const place = `${host.includes(':') ? `[${host}]` : host}:${port}`;
  const words = sent
    ? `the connection to \`${place}\` was lost: ${reason}`
    : `cannot connect to \`${place}\`: ${reason}`;
  return fail('network_error', words, { host, port, reason, sent });
}

export function malformed(url: URL, reason: string): Failure {
  const host = hostOf(url);
  const words = `the answer of \`${host}\` is not valid HTTP: ${reason}`;
  return fail('network_error', words, { host, reason, sent: true });
}
