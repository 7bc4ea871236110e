// Watching the data of a store in memory: look, and look again when something was written.
import type { Head, StoredEvent } from '../../../packages/core/src/store/port.ts';
import type { LateWire } from './wire.ts';
import type { World } from './world.ts';

export async function* watchThread(
  world: World,
  wire: LateWire,
  { thread, seq }: { thread: string; seq: number },
  over: AbortSignal,
): AsyncGenerator<StoredEvent> {
  for (let after = seq; !over.aborted; ) {
    const version = world.version();
    const work = (): readonly StoredEvent[] =>
      structuredClone((world.events.get(thread) ?? []).slice(after));
    const page = await wire.call({ work });
    if (!page.ok) return;
    for (const event of page.output) {
      if (over.aborted) return;
      after = event.seq;
      yield event;
    }
    await world.changed(version, over);
  }
}

/** Begins at the call, not at the first question. */
export function watchChanges(
  world: World,
  { threads }: { threads?: readonly string[] },
  over: AbortSignal,
): AsyncIterable<Head> {
  const heads = (): Head[] =>
    world.threads
      .all()
      .filter(({ id }) => threads?.includes(id) ?? true)
      .map(({ id, seq, status }) => ({ thread: id, seq, status }));
  const told = new Map(heads().map(({ thread, seq }) => [thread, seq]));
  return {
    async *[Symbol.asyncIterator]() {
      while (!over.aborted) {
        const version = world.version();
        for (const head of heads()) {
          if (told.get(head.thread) === head.seq) continue;
          if (over.aborted) return;
          told.set(head.thread, head.seq);
          yield head;
        }
        await world.changed(version, over);
      }
    },
  };
}
