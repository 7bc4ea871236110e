// Reads watched threads. One cursor reads each thread for all of its clients. A client behind the cursor
// catches up with reads of its own.
import { setImmediate } from 'node:timers/promises';
import type { Outcome } from '@kernmantle/core/base';
import { type SlimEvent, slimEvent } from '@kernmantle/core/journal';
import type { Store, StoredEvent } from '@kernmantle/core/store';
import type { StreamFrame } from '../../model/api.ts';
import { inPieces } from './changed.ts';
import { type HubClient, threadTopic } from './client.ts';

/** Bound of events that are read for a client behind the cursor. Beyond it the client gets a reset. */
const MAX_BEHIND = 2000;
const PAGE = 250;
const MAX_FRAME = 64 * 1024;

interface Watched {
  readonly clients: Set<HubClient>;
  /** Last event that was read for all clients. Undefined until the first client has a position. */
  cursor: number | undefined;
}

interface WatchedPorts {
  readonly store: Store;
  /** Called with the events of each read. */
  onRead(thread: string, events: readonly StoredEvent[]): void;
  /** Called when a thread can have new events. */
  onBehind(thread: string): void;
}

const framesOf = (
  thread: string,
  events: readonly SlimEvent[],
): { frame: StreamFrame; last: number }[] =>
  inPieces(
    events,
    (event) => 160 + (event.text?.length ?? 0) + (event.preview?.length ?? 0),
    MAX_FRAME,
  ).map((piece) => ({
    frame: { kind: 'batch', events: [{ thread, events: piece }] },
    last: piece.at(-1)?.seq ?? 0,
  }));

const restOf = (frame: StreamFrame, thread: string, after: number): StreamFrame => {
  const events = frame.kind === 'batch' ? (frame.events?.[0]?.events ?? []) : [];
  return { kind: 'batch', events: [{ thread, events: events.filter(({ seq }) => seq > after) }] };
};

export function createWatchedThreads({ store, onRead, onBehind }: WatchedPorts) {
  const all = new Map<string, Watched>();

  /** Sends events to all clients whose position is at the start of a frame or inside it. */
  function fanOut(
    thread: string,
    clients: Iterable<HubClient>,
    events: readonly SlimEvent[],
  ): void {
    let from = (events[0]?.seq ?? 1) - 1;
    for (const { frame, last } of framesOf(thread, events)) {
      for (const client of clients) {
        const at = client.cursors.get(thread);
        if (at === undefined || at < from || at >= last) continue;
        client.events(at === from ? frame : restOf(frame, thread, at), thread, last);
      }
      from = last;
    }
  }

  async function readSlim(thread: string, after: number): Promise<Outcome<SlimEvent[]>> {
    const read = await store.read(thread, { after, limit: PAGE });
    if (!read.ok) return read;
    onRead(thread, read.output);
    return { ok: true, output: read.output.map(slimEvent) };
  }

  /** Reads up to the position of the other clients. Later events reach all of them together. */
  async function catchUp(client: HubClient, thread: string, watched: Watched): Promise<void> {
    for (;;) {
      const [at, cursor] = [client.cursors.get(thread), watched.cursor];
      if (at === undefined || cursor === undefined || at >= cursor || client.isOver()) return;
      if (client.isFull()) {
        client.reset(threadTopic(thread), at);
        client.cursors.set(thread, cursor);
        return;
      }
      const events = await readSlim(thread, at);
      if (!watched.clients.has(client)) return;
      if (!events.ok || events.output.length === 0) {
        client.reset(threadTopic(thread), at);
        client.cursors.set(thread, watched.cursor ?? at);
        return;
      }
      fanOut(thread, [client], events.output);
      // Gives the client time to send before the next events.
      await setImmediate();
    }
  }

  function leave(client: HubClient, thread: string): void {
    const watched = all.get(thread);
    watched?.clients.delete(client);
    client.cursors.delete(thread);
    if (watched?.clients.size === 0) all.delete(thread);
  }

  return {
    leave,
    clientsOf: (thread: string): Iterable<HubClient> => all.get(thread)?.clients ?? [],
    has: (thread: string): boolean => all.has(thread),
    isAny: (): boolean => all.size > 0,

    /** Starts after `after`, or now if absent. Events that cannot be read cause a reset. */
    async join(client: HubClient, thread: string, after: number | undefined): Promise<void> {
      const watched = all.get(thread) ?? { clients: new Set(), cursor: undefined };
      all.set(thread, watched);
      watched.clients.add(client);
      if (after !== undefined) client.cursors.set(thread, after);
      const row = await store.thread(thread);
      if (!watched.clients.has(client)) return;
      const head = row.ok ? row.output.seq : 0;
      const at = client.cursors.get(thread) ?? head;
      const isLost = at > head || head - at > MAX_BEHIND;
      if (isLost) client.reset(threadTopic(thread), at > head ? undefined : at);
      client.cursors.set(thread, isLost ? head : at);
      watched.cursor ??= isLost ? head : at;
      await catchUp(client, thread, watched);
      onBehind(thread);
    },

    /** Sends all new events of one thread to its clients. */
    async pump(thread: string): Promise<Outcome<null>> {
      const watched = all.get(thread);
      for (;;) {
        const cursor = watched?.cursor;
        if (!watched || cursor === undefined) return { ok: true, output: null };
        const events = await readSlim(thread, cursor);
        if (!events.ok) return events;
        const last = events.output.at(-1)?.seq;
        if (last === undefined) return { ok: true, output: null };
        watched.cursor = last;
        fanOut(thread, watched.clients, events.output);
        if (events.output.length < PAGE) return { ok: true, output: null };
        await setImmediate();
      }
    },
  };
}
