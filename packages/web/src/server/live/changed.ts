// Keeps recent changes: the last state per id, with the number of the hub. A client that reconnects
// gets the changes since its number. If its number is too old, it must read the snapshot again.

export type Changed<T> = ReturnType<typeof createChanged<T>>;

export function createChanged<T>(size: number, from: number) {
  /** Entries by id. The oldest change is first. */
  const all = new Map<string, { readonly number: number; readonly value: T }>();
  let dropped = from;
  return {
    note(id: string, value: T, number: number): void {
      all.delete(id);
      all.set(id, { number, value });
      if (all.size <= size) return;
      const [oldest] = all;
      if (!oldest) return;
      dropped = oldest[1].number;
      all.delete(oldest[0]);
    },
    /** Returns undefined if some changes were dropped. */
    since(number: number): T[] | undefined {
      if (number < dropped) return undefined;
      const later: T[] = [];
      for (const entry of all.values()) if (entry.number > number) later.push(entry.value);
      return later;
    },
  };
}

/** Splits a list into pieces of about this many characters, which bounds the frames. */
export function inPieces<T>(
  values: readonly T[],
  sizeOf: (value: T) => number,
  max: number,
): T[][] {
  const pieces: T[][] = [];
  let size = 0;
  for (const value of values) {
    const own = sizeOf(value);
    const last = pieces.at(-1);
    if (last && size + own <= max) {
      last.push(value);
      size += own;
    } else {
      pieces.push([value]);
      size = own;
    }
  }
  return pieces;
}
