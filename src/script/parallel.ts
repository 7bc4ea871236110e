// Side by side, at most so many at once, with a pause between starts; results in the order given.

export async function runInParallel<T, U>(
  items: readonly T[],
  cap: number,
  pauseMs: number,
  work: (item: T, index: number) => U | Promise<U>,
): Promise<U[]> {
  const results: U[] = [];
  let next = 0;
  let gate: Promise<void> = Promise.resolve();
  const turn = (index: number): Promise<void> => {
    if (pauseMs <= 0 || index === 0) return Promise.resolve();
    gate = gate.then(() => wait(pauseMs));
    return gate;
  };
  const worker = async (): Promise<void> => {
    while (next < items.length) {
      const index = next++;
      await turn(index);
      results[index] = await work(items[index] as T, index);
    }
  };
  await Promise.all(Array.from({ length: Math.min(cap, items.length) }, worker));
  return results;
}

const wait = (ms: number): Promise<void> =>
  new Promise((resolve) => {
    setTimeout(resolve, ms);
  });
