// Cuts the output of a process into lines of bounded length. An oversized line is reduced to its two
// ends, because they can contain the id of the answer.

const NEWLINE = 0x0a;
/** Length of each end, enough to find the id. */
const EDGE = 512;
/** A line this many times too long is treated as endless. */
const ENDLESS = 16;

/** Finds the id of an answer in its two ends. Servers write the id first or last. */
export function idOfAnswer(head: string, tail: string): string | number | undefined {
  const match =
    /"id"\s*:\s*("[^"\\]{1,64}"|\d{1,15})\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$/.exec(
      tail.slice(-EDGE),
    ) ??
    /^\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*("[^"\\]{1,64}"|\d{1,15})\s*,/.exec(
      head.slice(0, EDGE),
    );
  return match?.[1] === undefined ? undefined : (JSON.parse(match[1]) as string | number);
}

interface LineTaker {
  line(text: string): void;
  /** Called for an oversized line. `isOver` is true if the line is endless and not yet complete. */
  long(head: string, tail: string, isOver: boolean): void;
}

/** Returns a function that cuts chunks of input into lines and passes them to the receiver. */
export function createLineReader(maxBytes: number, { line, long }: LineTaker) {
  let parts: Buffer[] = [];
  let [size, head, tail] = [0, '', Buffer.alloc(0)];

  function add(bytes: Buffer): void {
    size += bytes.length;
    if (size <= maxBytes) {
      parts.push(bytes);
      return;
    }
    if (head === '') {
      const whole = Buffer.concat(parts);
      const edge = Buffer.concat([whole.subarray(0, EDGE), bytes.subarray(0, EDGE)]);
      [head, tail] = [edge.toString('latin1', 0, EDGE), whole.subarray(-EDGE)];
      parts = [];
    }
    tail = Buffer.concat([tail, bytes.subarray(-EDGE)]).subarray(-EDGE);
    if (size > maxBytes * ENDLESS) long(head, tail.toString('latin1'), true);
  }

  function end(): void {
    if (size > maxBytes) long(head, tail.toString('latin1'), false);
    else if (size > 0) line(Buffer.concat(parts).toString('utf8'));
    parts = [];
    [size, head, tail] = [0, '', Buffer.alloc(0)];
  }

  return (chunk: Buffer): void => {
    let from = 0;
    for (let at = chunk.indexOf(NEWLINE); at !== -1; at = chunk.indexOf(NEWLINE, from)) {
      add(chunk.subarray(from, at));
      end();
      from = at + 1;
    }
    if (from < chunk.length) add(chunk.subarray(from));
  };
}
