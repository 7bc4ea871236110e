// Secrets that a child prints are replaced before anyone can read them, also when a secret is cut
// in two by a chunk boundary: what could still become one is held back until it is clear.

const SHOWN = '***';
/** Shorter values would blacken ordinary text without hiding anything. */
const MIN_LENGTH = 6;

export interface Mask {
  push(chunk: Uint8Array): Buffer;
  end(): Buffer;
}

/** Bytes as text with one character per byte: nothing is decoded or lost on the way. */
const latin1 = (bytes: Uint8Array): string =>
  Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('latin1');

/** Where the end of `text`, from `from` on, may be the beginning of a secret. */
function openEnd(text: string, from: number, secrets: readonly string[]): number {
  const longest = secrets[0]?.length ?? 0;
  for (let at = Math.max(from, text.length - longest + 1); at < text.length; at++) {
    const end = text.slice(at);
    if (secrets.some((secret) => secret.length > end.length && secret.startsWith(end))) return at;
  }
  return text.length;
}

const literal = (text: string): string => text.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&');

// INVARIANT: however the bytes were cut into chunks, the output is the same: leftmost match first,
// the longest secret that fits there.
export function createMask(values: readonly string[]): Mask {
  const secrets = [...new Set(values)]
    .filter((value) => value.length >= MIN_LENGTH)
    .map((value) => Buffer.from(value).toString('latin1'))
    .sort((a, b) => b.length - a.length);
  if (secrets.length === 0) {
    return { push: (chunk) => Buffer.from(chunk), end: () => Buffer.alloc(0) };
  }
  const any = new RegExp(secrets.map(literal).join('|'), 'g');
  let held = '';
  return {
    push(chunk) {
      const text = held + latin1(chunk);
      const shown: string[] = [];
      let done = 0;
      for (;;) {
        any.lastIndex = done;
        const match = any.exec(text);
        const open = openEnd(text, done, secrets);
        if (!match || open <= match.index) {
          shown.push(text.slice(done, open));
          held = text.slice(open);
          return Buffer.from(shown.join(''), 'latin1');
        }
        shown.push(text.slice(done, match.index), SHOWN);
        done = match.index + match[0].length;
      }
    },
    end() {
      const rest = held.replace(any, SHOWN);
      held = '';
      return Buffer.from(rest, 'latin1');
    },
  };
}
