// Reads a snapshot during the stream. Frames that arrive before the snapshot can be newer, so they
// are applied again on top of it.

export function createSnapshot<News>(take: (news: News) => void) {
  let current: AbortController | undefined;
  let meanwhile: News[] = [];
  return {
    isReading: (): boolean => current !== undefined,
    take(news: News): void {
      if (current) meanwhile.push(news);
      take(news);
    },
    /** Calls `use` with the answer, unless a later read has started. */
    async read<Answer extends { readonly ok: boolean }>(
      ask: (signal: AbortSignal) => Promise<Answer>,
      use: (answer: Answer) => void,
    ): Promise<void> {
      current?.abort();
      const stop = new AbortController();
      current = stop;
      meanwhile = [];
      const answer = await ask(stop.signal);
      if (current !== stop) return;
      current = undefined;
      use(answer);
      if (answer.ok) for (const news of meanwhile) take(news);
      meanwhile = [];
    },
  };
}
