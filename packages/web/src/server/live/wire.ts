// Frames in their form on the wire. The hub sends one object to many clients; it is serialized once.
import type { ListedRun, StreamFrame } from '../../model/api.ts';

/** Bounds per client. A client that exceeds them gets a reset. */
const MAX_PENDING_BYTES = 256 * 1024;
const MAX_PENDING_EVENTS = 2000;
/** A client that takes nothing for this long is dropped. */
const MAX_STUCK_MS = 60_000;
export const ALIVE_MS = 15_000;

const rows = new WeakMap<ListedRun, string>();
const texts = new WeakMap<StreamFrame, string>();
const blocks = new WeakMap<StreamFrame, Buffer>();

/** Caches the JSON of a row, because a client that reconnects gets the same row in another frame. */
function rowText(row: ListedRun): string {
  const cached = rows.get(row);
  if (cached !== undefined) return cached;
  const text = JSON.stringify(row);
  rows.set(row, text);
  return text;
}

function wordsOf(frame: StreamFrame): string {
  if (frame.kind !== 'batch' || !frame.threads) return JSON.stringify(frame);
  const { threads, ...others } = frame;
  return `${JSON.stringify(others).slice(0, -1)},"threads":[${threads.map(rowText).join()}]}`;
}

export function frameText(frame: StreamFrame): string {
  const cached = texts.get(frame);
  if (cached !== undefined) return cached;
  const text = wordsOf(frame);
  texts.set(frame, text);
  return text;
}

/** Returns a block of an event stream, without its id. JSON has no line breaks. */
export function frameBlock(frame: StreamFrame): Buffer {
  const cached = blocks.get(frame);
  if (cached !== undefined) return cached;
  const block = Buffer.from(`data: ${wordsOf(frame)}\n\n`);
  blocks.set(frame, block);
  return block;
}

const eventsIn = (frame: StreamFrame): number =>
  frame.kind === 'batch'
    ? (frame.events ?? []).reduce((sum, { events }) => sum + events.length, 0)
    : 0;

/** Tracks the bytes that a client has not taken, and decides whether one more frame fits. */
export function createBacklog(bytes: () => number) {
  let events = 0;
  let stuckSince: number | undefined;
  return {
    /** A frame that exceeds the bounds is sent alone. */
    hasRoom(size: number, frame: StreamFrame): boolean {
      const waiting = bytes();
      const fits =
        waiting === 0 ||
        (waiting + size <= MAX_PENDING_BYTES && events + eventsIn(frame) <= MAX_PENDING_EVENTS);
      if (!fits) stuckSince ??= performance.now();
      return fits;
    },
    isFull: () => stuckSince !== undefined,
    isStuck: () => stuckSince !== undefined && performance.now() - stuckSince > MAX_STUCK_MS,
    add(frame: StreamFrame): void {
      events += eventsIn(frame);
    },
    /** True if the client accepts frames again after it was full. */
    taken(frame: StreamFrame): boolean {
      events -= eventsIn(frame);
      if (stuckSince === undefined || bytes() > MAX_PENDING_BYTES / 4) return false;
      stuckSince = undefined;
      return true;
    },
  };
}
