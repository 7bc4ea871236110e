// The heads of HTTP/1.1: ours as text, theirs as fields, and what theirs say about the body and the
// connection. Only what a stream needs is understood, and what is odd is refused.
import type { Framing } from './http-framing.ts';
import type { WireRequest } from './http-request.ts';

const STATUS_LINE = /^HTTP\/1\.([01]) ([1-5][0-9]{2})(?: ([\t\x20-\x7e\x80-\xff]*))?$/;
const NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
const CONTROL = /[^\t\x20-\x7e\x80-\xff]/;

export interface Head {
  status: number;
  statusText: string;
  /** Names in lower case, several values joined with a comma. */
  headers: Record<string, string>;
  /** The minor version of HTTP/1. */
  minor: number;
}

const isBlank = (code: number): boolean => code === 32 || code === 9;

/** From `start` on, without blanks around it. Others than these two belong to the value. */
function trimBlanks(line: string, start: number): string {
  let [from, to] = [start, line.length];
  while (from < to && isBlank(line.charCodeAt(from))) from++;
  while (to > from && isBlank(line.charCodeAt(to - 1))) to--;
  return line.slice(from, to);
}

/** The head of an answer; a text says what is wrong with it. */
export function parseHead(text: string): Head | string {
  const [first = '', ...lines] = text.split('\r\n');
  const status = STATUS_LINE.exec(first);
  if (status === null) return 'the status line is not valid';
  const headers: Record<string, string> = Object.create(null) as Record<string, string>;
  for (const line of lines) {
    const colon = line.indexOf(':');
    const name = line.slice(0, Math.max(colon, 0));
    if (!NAME.test(name) || CONTROL.test(line)) return 'a header is not valid';
    const [key, value] = [name.toLowerCase(), trimBlanks(line, colon + 1)];
    const before = headers[key];
    if (before !== undefined && key === 'content-length' && before !== value) {
      return 'two lengths are given';
    }
    headers[key] = before === undefined || key === 'content-length' ? value : `${before}, ${value}`;
  }
  const [, minor, code, statusText = ''] = status;
  return { status: Number(code), statusText, headers, minor: Number(minor) };
}

/** How the body is delimited; a text says why that cannot be known. */
export function framingOf(
  { status, headers }: Pick<Head, 'status' | 'headers'>,
  method: string,
): Framing | string {
  if (method === 'HEAD' || status === 204 || status === 304) return { kind: 'length', length: 0 };
  const encoding = headers['transfer-encoding']?.toLowerCase();
  const length = headers['content-length'];
  if (encoding !== undefined) {
    if (encoding !== 'chunked') return `transfer encoding \`${encoding}\` is not supported`;
    return length === undefined ? { kind: 'chunked' } : 'both a length and chunks are announced';
  }
  if (length === undefined) return { kind: 'close' };
  return /^[0-9]{1,15}$/.test(length)
    ? { kind: 'length', length: Number(length) }
    : 'the length is not a number';
}

/** May another request follow on the same connection, as far as the answer says? */
export function isPersistent({ headers, minor, status }: Head, framing: Framing): boolean {
  if (minor !== 1 || status === 101 || framing.kind === 'close') return false;
  return !/(?:^|[, \t])close(?:$|[, \t])/i.test(headers['connection'] ?? '');
}

/** How long the other side says it keeps an idle connection, in milliseconds. */
export function keptFor({ headers }: Pick<Head, 'headers'>): number | undefined {
  const seconds = /(?:^|[, \t])timeout=(\d{1,6})/i.exec(headers['keep-alive'] ?? '')?.[1];
  return seconds === undefined ? undefined : Number(seconds) * 1000;
}

/** The request's head. Names and values were checked when the request was built. */
export function headText({ method, url, headers, body }: WireRequest): string {
  let text = `${method} ${url.pathname}${url.search} HTTP/1.1\r\nhost: ${url.host}\r\n`;
  for (const name of Object.keys(headers)) text += `${name}: ${headers[name]}\r\n`;
  if (body !== undefined) text += `content-length: ${body.length}\r\n`;
  return `${text}connection: keep-alive\r\n\r\n`;
}
