// Sends changes to subscribed clients. All clients share one reader of the store. It starts with
// the first client and stops after some time without one. If the project has no store yet, it
// starts when one appears. The hub defines the positions of clients: see `live/positions.ts`.
import { type Clock, fail, type Outcome, ok, systemRandom } from '@kernmantle/core/base';
import type { Store } from '@kernmantle/core/store';
import type { Topic, Totals } from '../../model/api.ts';
import type { Hub, Listener, Subscription } from '../context.ts';
import { listedApprovals } from '../listed-approvals.ts';
import { roundFrames } from './changes.ts';
import { createClient, type HubClient, threadTopic, topicThread } from './client.ts';
import { type HubPosition, readPosition, writePosition } from './positions.ts';
import { createReading, type HubReading } from './reading.ts';
import { NO_TOTALS } from './totals.ts';

interface HubPorts {
  /** Fails with `not_found` if no thread ever ran. */
  store(): Promise<Outcome<Store>>;
  readonly clock: Clock;
  /** True if this process runs the thread. */
  isHere(id: string): boolean;
  /** Project and items that a worker needs for this project. */
  served(): Outcome<{ project: string; items: string }>;
  onError(error: Error): void;
}

const MAX_CLIENTS = 200;
const MAX_TOPICS = 30;
/** The reader stops after this time without clients and requests. */
const LINGER_MS = 30_000;
const RETRY_MS = 1000;
const UNKNOWN: HubPosition = { number: undefined, seqs: new Map() };

/** Clients and their positions for the next start of the reader. */
type HubClients = Map<HubClient, HubPosition>;

/** Starts and stops the reader of the store. */
type ReadingLife = ReturnType<typeof createReadingLife>;

function createReadingLife(ports: HubPorts, clients: HubClients, onBegin: () => void) {
  const { clock } = ports;
  let reading: HubReading | undefined;
  let starting: Promise<void> | undefined;
  let retry: NodeJS.Timeout | undefined;
  let used = clock.monotonic();
  let number = 1;
  let isClosed = false;

  async function start(): Promise<void> {
    const opened = await ports.store();
    if (!opened.ok && opened.error.code !== 'not_found') {
      ports.onError(new Error(opened.error.detail.message));
    }
    if (!opened.ok || isClosed) return;
    const store = opened.output;
    const { isHere, served, onError } = ports;
    const listed = (approvals: Parameters<typeof listedApprovals>[1]) =>
      listedApprovals(store, approvals);
    const onEnd = (): void => void beginAgain();
    const next = createReading({ store, clock, isHere, served, listed, onError, onEnd }, number);
    const started = await next.begin();
    if (started.ok && !isClosed) {
      reading = next;
      onBegin();
    } else await next.stop();
  }

  /** Starts the reader if none is active. With clients it retries until a store exists. */
  function wake(): Promise<void> {
    used = clock.monotonic();
    if (reading || isClosed) return Promise.resolve();
    starting ??= start().finally(() => {
      starting = undefined;
      if (reading || isClosed || clients.size === 0) return;
      clearTimeout(retry);
      retry = setTimeout(() => void wake(), RETRY_MS).unref();
    });
    return starting;
  }

  /** Stops the reader. Earlier numbers become invalid, because changes are not read from now on. */
  async function stopReader(): Promise<void> {
    const now = reading;
    reading = undefined;
    if (!now) return;
    number = now.number() + 1;
    for (const client of clients.keys()) {
      clients.set(client, { number: undefined, seqs: new Map(client.cursors) });
    }
    await now.stop();
  }

  async function beginAgain(): Promise<void> {
    await stopReader();
    if (clients.size > 0) await wake();
  }

  const idle = setInterval(() => {
    if (clients.size === 0 && clock.monotonic() - used > LINGER_MS) void stopReader();
  }, LINGER_MS / 3).unref();

  return {
    wake,
    now: (): HubReading | undefined => reading,
    /** Returns an up-to-date reader; undefined if no thread ever ran. */
    async settled(): Promise<HubReading | undefined> {
      await wake();
      await reading?.settle();
      return reading;
    },
    isClosed: () => isClosed,
    async close(): Promise<void> {
      isClosed = true;
      clearInterval(idle);
      clearTimeout(retry);
      await starting;
      await stopReader();
    },
  };
}

/** Sends a client the changes during its absence, or a reset. */
function sendSince(
  { reader }: HubReading,
  client: HubClient,
  topics: readonly Topic[],
  since: number | undefined,
  totals: Totals | undefined,
): void {
  const from = since ?? -1;
  const rows = topics.includes('threads') ? reader.rowsSince(from) : [];
  const approvals = topics.includes('approvals') ? reader.approvalsSince(from) : [];
  if (rows === undefined) client.reset('threads');
  if (approvals === undefined) client.reset('approvals');
  const missed = { rows: rows ?? [], approvals: approvals ?? [], totals };
  for (const frame of roundFrames(missed, topics)) client.batch(frame, topics);
}

/** Starts topics of a client at its position, or now. Changes during the join wait for its end. */
async function join(
  life: ReadingLife,
  client: HubClient,
  topics: readonly Topic[],
  position: HubPosition | undefined,
): Promise<void> {
  const reading = life.now();
  if (!reading) {
    client.greet(undefined);
    return;
  }
  const ofAll = topics.filter((topic) => topicThread(topic) === undefined);
  if (ofAll.length > 0) {
    await reading.flush();
    const totals = await reading.reader.totals();
    if (client.isOver() || life.now() !== reading) return;
    const counted = totals.ok ? totals.output : undefined;
    // Sends changes up to the last round of rows. Newer ones follow with the next round.
    if (position) sendSince(reading, client, ofAll, position.number, counted);
    reading.listening.add(client);
    reading.soon();
  }
  const joins = topics.flatMap((topic) => {
    const thread = topicThread(topic);
    if (thread === undefined) return [];
    return [reading.watched.join(client, thread, position?.seqs.get(thread))];
  });
  client.greet(reading.number());
  if (joins.length === 0) return;
  await Promise.all(joins);
  if (life.now() === reading) client.greet(reading.number());
}

function leave(reading: HubReading | undefined, client: HubClient, topics: Iterable<Topic>): void {
  for (const topic of topics) {
    const thread = topicThread(topic);
    if (thread !== undefined) reading?.watched.leave(client, thread);
  }
  const isOfAll = [...client.topics].some((topic) => topicThread(topic) === undefined);
  if (!isOfAll || client.isOver()) reading?.listening.delete(client);
}

function subscriptionOf(
  life: ReadingLife,
  clients: HubClients,
  client: HubClient,
  mark: string,
): Subscription {
  return {
    ready: client.ready,
    change(topics, after) {
      const next = new Set(topics.slice(0, MAX_TOPICS));
      const removed = [...client.topics].filter((topic) => !next.has(topic));
      const added = [...next].filter((topic) => !client.topics.has(topic));
      for (const topic of removed) client.topics.delete(topic);
      leave(life.now(), client, removed);
      for (const topic of added) client.topics.add(topic);
      const position = after === undefined ? undefined : readPosition(after, mark);
      const seqs = new Map([...(clients.get(client)?.seqs ?? []), ...(position?.seqs ?? [])]);
      // INVARIANT: the position of a client never contains threads outside of its topics.
      for (const thread of seqs.keys()) if (!next.has(threadTopic(thread))) seqs.delete(thread);
      clients.set(client, { number: undefined, seqs });
      if (added.length > 0) void join(life, client, added, position);
    },
    end() {
      client.end();
      leave(life.now(), client, client.topics);
      clients.delete(client);
    },
  };
}

export function createHub(ports: HubPorts): Hub {
  const mark = Buffer.from(systemRandom(6)).toString('base64url');
  const clients: HubClients = new Map();
  const life = createReadingLife(ports, clients, () => {
    for (const [client, position] of clients) void join(life, client, [...client.topics], position);
  });

  return {
    subscribe(listener: Listener) {
      if (life.isClosed()) return fail('unavailable', 'the server is closing');
      if (clients.size >= MAX_CLIENTS) {
        const message = `${MAX_CLIENTS} streams are open, the maximum; close some of them`;
        return fail('unavailable', message);
      }
      const topics = listener.topics.slice(0, MAX_TOPICS);
      const client = createClient({ ...listener, topics }, mark);
      const { after } = listener;
      const position = after === undefined ? undefined : readPosition(after, mark);
      // No changes are read before the reader starts, so a waiting client must read its snapshot again.
      clients.set(client, position ?? UNKNOWN);
      void join(life, client, topics, position);
      void life.wake();
      return ok(subscriptionOf(life, clients, client, mark));
    },

    position(thread) {
      void life.wake();
      const seqs: [string, number][] = thread ? [[thread.id, thread.seq]] : [];
      return writePosition(mark, life.now()?.number(), seqs);
    },

    text: (thread, piece) => life.now()?.text(thread, piece),

    async rows(threads) {
      const reading = await life.settled();
      return reading ? await reading.reader.rows(threads) : ok([]);
    },

    async totals() {
      const reading = await life.settled();
      return reading ? await reading.reader.totals() : ok(NO_TOTALS);
    },

    async fleet() {
      await life.wake();
      const reading = life.now();
      return reading
        ? await reading.fleet.read()
        : fail('unavailable', 'the store does not answer; try again');
    },

    figures: () => ({
      clients: clients.size,
      sockets: [...clients.keys()].filter(({ isSocket }) => isSocket).length,
      lag_ms: Math.round(life.now()?.lag() ?? 0),
    }),

    async close() {
      for (const client of clients.keys()) client.end();
      clients.clear();
      await life.close();
    },
  };
}
