// Where a body ends, for bytes that come straight from a socket: chunked, of a known length, or
// until the connection closes. Chunks are joined in place, so a read of the socket stays one piece
// however many chunks it holds.

const [CR, LF, SEMICOLON] = [13, 10, 59];
/** Ten million bytes in one chunk fit in six digits; nobody needs more than eight. */
const MAX_SIZE_DIGITS = 8;
const MAX_EXTRA = 16 * 1024;

export type Framing = { kind: 'chunked' } | { kind: 'length'; length: number } | { kind: 'close' };

type Step = 'size' | 'extension' | 'data' | 'after' | 'trailer' | 'done';

function hexDigit(byte: number): number {
  if (byte >= 48 && byte <= 57) return byte - 48;
  const letter = byte | 32;
  return letter >= 97 && letter <= 102 ? letter - 87 : -1;
}

/** Removes the chunk frames from `bytes`, in place; what is left is returned. Throws on bad frames. */
function createDechunker(): Unframer {
  let step: Step = 'size';
  let hasExtra = false;
  let [left, digits, extra, lineLength] = [0, 0, 0, 0];

  /** The line with a chunk's size ends. */
  const sizeEnds = (): void => {
    if (digits === 0) throw new Error('a chunk has no size');
    step = left === 0 ? 'trailer' : 'data';
    digits = 0;
    lineLength = 0;
  };
  const count = (): void => {
    if (++extra > MAX_EXTRA) throw new Error('the frames of the chunks are too long');
  };
  const frameByte = (byte: number): void => {
    if (step === 'size') {
      const digit = hexDigit(byte);
      if (digit >= 0) {
        if (++digits > MAX_SIZE_DIGITS) throw new Error('a chunk is too large');
        left = left * 16 + digit;
      } else if (byte === LF) sizeEnds();
      else if (byte === SEMICOLON || byte === CR || byte === 32) step = 'extension';
      else throw new Error('a chunk has no valid size');
    } else if (step === 'extension') {
      if (byte === LF) sizeEnds();
      else if (byte !== CR) count();
    } else if (step === 'after') {
      if (byte === LF) [step, left] = ['size', 0];
      else if (byte !== CR) throw new Error('a chunk is longer than its size');
    } else {
      // Trailers are read over; an empty line ends them.
      if (byte !== CR) count();
      if (byte === LF && lineLength === 0) step = 'done';
      else if (byte === LF) lineLength = 0;
      else if (byte !== CR) lineLength++;
    }
  };

  /** Takes `CR LF size CR LF` at once, which is what stands between chunks; else moves nowhere. */
  const usualFrame = (bytes: Buffer, from: number): number => {
    if (step !== 'after' || bytes[from] !== CR || bytes[from + 1] !== LF) return from;
    let [at, size] = [from + 2, 0];
    for (let digit = hexDigit(bytes[at] ?? 0); digit >= 0; digit = hexDigit(bytes[++at] ?? 0)) {
      size = size * 16 + digit;
    }
    const isUsual =
      size > 0 && at - from <= MAX_SIZE_DIGITS && bytes[at] === CR && bytes[at + 1] === LF;
    if (!isUsual) return from;
    [step, left] = ['data', size];
    return at + 2;
  };

  return {
    isDone: () => step === 'done',
    hasExtra: () => hasExtra,
    take(bytes: Buffer): Buffer {
      let [from, to] = [0, 0];
      while (from < bytes.length && step !== 'done') {
        if (step !== 'data') {
          const next = usualFrame(bytes, from);
          if (next === from) frameByte(bytes[from++] as number);
          else from = next;
          continue;
        }
        const size = Math.min(left, bytes.length - from);
        bytes.copyWithin(to, from, from + size);
        [from, to, left] = [from + size, to + size, left - size];
        if (left === 0) step = 'after';
      }
      hasExtra ||= from < bytes.length;
      return bytes.subarray(0, to);
    },
  };
}

/** The body's bytes alone, out of what a connection brings. */
export interface Unframer {
  /** Works in place: what is returned stands in the bytes that were given. Throws on bad frames. */
  take(bytes: Buffer): Buffer;
  /** Is the body whole? */
  isDone(): boolean;
  /** Did more arrive than belongs to the body? Then nobody knows what the connection says next. */
  hasExtra(): boolean;
}

export function createUnframer(framing: Framing): Unframer {
  const chunks = framing.kind === 'chunked' ? createDechunker() : undefined;
  if (chunks !== undefined) return chunks;
  let left = framing.kind === 'length' ? framing.length : Number.POSITIVE_INFINITY;
  let hasExtra = false;
  return {
    take(bytes) {
      const taken = bytes.length > left ? bytes.subarray(0, left) : bytes;
      left -= taken.length;
      hasExtra ||= taken.length < bytes.length;
      return taken;
    },
    isDone: () => left === 0,
    hasExtra: () => hasExtra,
  };
}
