// The body of an answer as it comes over a line. The line is let go as soon as the body is whole,
// whatever its reader is still busy with.
import { createUnframer, type Framing } from './http-framing.ts';
import type { Line, LineUser } from './http-line.ts';
import type { ByteReader, ByteSource } from './http-source.ts';

const closedEarly = (): Error => Object.assign(new Error('closed early'), { code: 'ECONNRESET' });

export interface WireBody extends ByteSource, LineUser {}

/**
 * `rest` is what came behind the head in the same read. `done` is called once, when the line is no longer needed: true when the body was read to its end and
 * nothing came after it.
 */
export function createWireBody(
  line: Line,
  framing: Framing,
  rest: Buffer,
  done: (isClean: boolean) => void,
): WireBody {
  const unframer = createUnframer(framing);
  let reader: ByteReader | undefined;
  let [isFlowing, isStopped] = [false, false];
  let held: Buffer[] = [];
  let ended: { error?: Error } | undefined;
  let lost: { error?: Error } | undefined;

  const end = (isClean: boolean, error?: Error): void => {
    if (ended !== undefined) return;
    ended = error === undefined ? {} : { error };
    done(isClean);
  };
  const unframe = (bytes: Buffer): Buffer | undefined => {
    try {
      return unframer.take(bytes);
    } catch (error) {
      line.destroy();
      end(false, Object.assign(error as Error, { code: 'BAD_CHUNK' }));
      return undefined;
    }
  };
  const hand = (bytes: Buffer): void => {
    const taken = unframe(bytes);
    // The end is known before the connection closes, which it may not do for long.
    if (unframer.isDone()) end(!unframer.hasExtra());
    if (taken !== undefined && taken.length > 0) reader?.take(taken);
  };
  /** What is held back may hold the end, so it goes first. */
  const tellEnd = (): void => {
    if (!isFlowing || held.length > 0) return;
    if (lost !== undefined) end(false, lost.error);
    if (ended === undefined) return;
    const last = reader;
    reader = undefined;
    last?.end(ended.error);
  };
  const flow = (): void => {
    for (let bytes = held.shift(); bytes !== undefined; bytes = held.shift()) {
      hand(bytes);
      if (!isFlowing) return;
    }
    tellEnd();
    if (ended !== undefined || !isStopped) return;
    isStopped = false;
    line.resume();
  };
  const stop = (): void => {
    if (ended !== undefined || isStopped) return;
    isStopped = true;
    line.pause();
  };
  // An empty body with bytes behind it: nobody knows what the connection says next.
  if (unframer.isDone()) end(rest.length === 0);
  // A copy: the bytes are not ours for long.
  else if (rest.length > 0) held.push(Buffer.from(rest));

  return {
    bytes(bytes) {
      if (ended !== undefined) return;
      if (isFlowing) {
        hand(bytes);
        tellEnd();
        return;
      }
      // A copy: the bytes are not ours for long. Whoever is to read them begins in this very turn of
      // the event loop, or is slow: then nothing more is asked for.
      held.push(Buffer.from(bytes));
      if (held.length > 1) stop();
    },
    over(error) {
      const isWhole = error === undefined && framing.kind === 'close';
      lost = isWhole ? {} : { error: error ?? closedEarly() };
      tellEnd();
    },
    read(given) {
      reader = given;
      isFlowing = true;
      flow();
    },
    pause() {
      isFlowing = false;
      stop();
    },
    resume() {
      if (isFlowing) return;
      isFlowing = true;
      flow();
    },
    destroy() {
      reader = undefined;
      held = [];
      if (ended !== undefined) return;
      line.destroy();
      end(false);
    },
  };
}
