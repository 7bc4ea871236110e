// Reads lines from a program that writes to this process. A line is bounded, so that no input fills the memory.

/** Yields the input. A signal closes it, which ends the conversation like the end of the input. */
async function* untilClosed(input: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  try {
    yield* input;
  } catch {
    // Nothing is left to read.
  }
}

/** Yields the lines of the input, and undefined for a line of more than `max` bytes. */
export async function* linesOf(
  input: AsyncIterable<Buffer>,
  max: number,
): AsyncGenerator<string | undefined> {
  let [pieces, length]: [Buffer[], number] = [[], 0];
  for await (const chunk of untilClosed(input)) {
    let from = 0;
    for (let at = chunk.indexOf(10); at >= 0; at = chunk.indexOf(10, from)) {
      pieces.push(chunk.subarray(from, at));
      yield length + at - from > max ? undefined : Buffer.concat(pieces).toString('utf8');
      [pieces, length, from] = [[], 0, at + 1];
    }
    length += chunk.length - from;
    if (length > max) pieces = [];
    else pieces.push(chunk.subarray(from));
  }
  if (length > 0) yield length > max ? undefined : Buffer.concat(pieces).toString('utf8');
}
