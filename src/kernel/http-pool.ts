// Connections that may be used again. INVARIANT: a line is used only for an address that was checked
// for this very request: the pool is asked with the list, and gives a line whose other side is on it.
import { hostOf, portOf } from './http-address.ts';
import type { Line } from './http-line.ts';

export interface LinePool {
  /** A line to this place that is open and laid aside, if there is one. */
  take(url: URL, addresses: readonly string[]): Line | undefined;
  /** Lays a line aside. `keptMs`: how long the other side said that it keeps it. */
  give(url: URL, line: Line, keptMs?: number): void;
  /** Closes what is laid aside, and from now on whatever is given. */
  close(): void;
}

export interface PoolLimits {
  /** Without a word of the other side. */
  idleMs?: number;
  /** Whatever it says. */
  maxIdleMs?: number;
  /** All places together; the one that was not used for longest goes first. */
  maxLines?: number;
}

/** The other side may close a moment earlier than it said: a request would be lost on the way. */
const MARGIN_MS = 1000;

const placeOf = (url: URL): string => `${url.protocol}//${hostOf(url)}:${portOf(url)}`;

export function createLinePool({
  idleMs = 30_000,
  maxIdleMs = 120_000,
  maxLines = 256,
}: PoolLimits = {}): LinePool {
  /** In the order in which they were laid aside. */
  const idle = new Map<Line, string>();
  const places = new Map<string, Line[]>();
  let isClosed = false;

  const forget = (line: Line): void => {
    const place = idle.get(line);
    if (place === undefined) return;
    idle.delete(line);
    const others = (places.get(place) ?? []).filter((other) => other !== line);
    if (others.length > 0) places.set(place, others);
    else places.delete(place);
  };
  const drop = (line: Line): void => {
    forget(line);
    line.destroy();
  };

  return {
    take(url, addresses) {
      const lines = places.get(placeOf(url)) ?? [];
      // The last one is the least likely to be closed at the other end.
      for (const line of lines.toReversed()) {
        if (!addresses.includes(line.address())) continue;
        forget(line);
        if (line.isOpen()) return line;
        line.destroy();
      }
      return undefined;
    },
    give(url, line, keptMs) {
      const ms = Math.min(keptMs === undefined ? idleMs : keptMs - MARGIN_MS, maxIdleMs);
      if (isClosed || ms <= 0 || !line.isOpen()) return line.destroy();
      line.isReused = true;
      line.rest(ms, () => forget(line));
      const place = placeOf(url);
      idle.set(line, place);
      places.set(place, [...(places.get(place) ?? []), line]);
      const [oldest] = idle.keys();
      if (idle.size > maxLines && oldest !== undefined) drop(oldest);
    },
    close() {
      isClosed = true;
      for (const line of idle.keys()) drop(line);
    },
  };
}
