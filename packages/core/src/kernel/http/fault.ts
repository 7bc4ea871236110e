// What it means that there is no answer, or only a part of one. undici has many words for it.
import { type Failure, fail } from '../../base/index.ts';
import { hostOf, portOf } from './address.ts';

/** What is wrong with the other side's HTTP; undefined when it is the connection that failed. */
export function malformation({ name, code, message }: NodeJS.ErrnoException): string | undefined {
  if (code === 'UND_ERR_HEADERS_OVERFLOW') return 'the head is too long';
  if (code === 'ERR_ASSERTION' || (code === 'UND_ERR_SOCKET' && message.startsWith('bad '))) {
    return 'an answer of this kind was not asked for';
  }
  if (name !== 'HTTPParserError') return undefined;
  const words = /\((.*)\)$/.exec(message)?.[1] ?? message;
  return words.charAt(0).toLowerCase() + words.slice(1);
}

export function reasonOf(error: NodeJS.ErrnoException): string {
  const { code, message } = error;
  // However undici noticed that the other side closed.
  if (/^UND_ERR_(?:SOCKET|RES_CONTENT_LENGTH_MISMATCH)$/.test(code ?? '')) return 'ECONNRESET';
  return malformation(error) ?? code ?? message;
}

/** There is no answer. `sent`: the other side may have seen the request. */
export function networkFault(error: NodeJS.ErrnoException, url: URL, sent: boolean): Failure {
  const host = hostOf(url);
  // Before there is a body its length can only be wrong in itself.
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
