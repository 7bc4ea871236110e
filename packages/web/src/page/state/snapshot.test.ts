import { expect, test } from 'vitest';
import { createSnapshot } from './snapshot.ts';

interface Row {
  readonly id: string;
  readonly version: number;
}

function stage() {
  const rows = new Map<string, number>();
  const snapshot = createSnapshot<Row>(({ id, version }) => rows.set(id, version));
  const asked: {
    readonly signal: AbortSignal;
    answer(rows: readonly Row[], ok?: boolean): void;
  }[] = [];
  const read = (): Promise<void> =>
    snapshot.read(
      (signal) =>
        new Promise<{ ok: boolean; found: readonly Row[] }>((resolve) => {
          asked.push({ signal, answer: (found, ok = true) => resolve({ ok, found }) });
        }),
      ({ ok, found }) => {
        if (!ok) return;
        rows.clear();
        for (const { id, version } of found) rows.set(id, version);
      },
    );
  return { rows, snapshot, asked, read };
}

test('what comes while a snapshot is read is not lost when the snapshot is older', async () => {
  const { rows, snapshot, asked, read } = stage();
  const done = read();
  snapshot.take({ id: 'new', version: 1 });
  snapshot.take({ id: 'old', version: 2 });
  asked[0]?.answer([{ id: 'old', version: 1 }]);
  await done;
  expect(Object.fromEntries(rows)).toEqual({ new: 1, old: 2 });
  expect(snapshot.isReading()).toBe(false);
});

test('what came before a read is replaced by its answer', async () => {
  const { rows, snapshot, asked, read } = stage();
  snapshot.take({ id: 'gone', version: 1 });
  const done = read();
  asked[0]?.answer([]);
  await done;
  expect(rows.size).toBe(0);
});

test('the last read counts, and the one before it is given up', async () => {
  const { rows, asked, read } = stage();
  const both = [read(), read()];
  expect(asked.map(({ signal }) => signal.aborted)).toEqual([true, false]);
  asked[1]?.answer([{ id: 'b', version: 2 }]);
  asked[0]?.answer([{ id: 'a', version: 1 }]);
  await Promise.all(both);
  expect(Object.fromEntries(rows)).toEqual({ b: 2 });
});

test('a read that failed changes nothing', async () => {
  const { rows, snapshot, asked, read } = stage();
  snapshot.take({ id: 'a', version: 1 });
  const done = read();
  snapshot.take({ id: 'a', version: 2 });
  asked[0]?.answer([], false);
  await done;
  expect(Object.fromEntries(rows)).toEqual({ a: 2 });
});
