// The one reader of a store, active while there are clients. Heads of changed threads are collected
// and read in rounds: at most one every 100 ms, and fewer if a round takes long, so that clients
// take little time from the process that runs the threads.
import { setImmediate } from 'node:timers/promises';
import type { Clock, Failure, Outcome } from '@kernmantle/core/base';
import type { Approval, StoredEvent, ThreadStatus } from '@kernmantle/core/store';
import type { StreamFrame, Topic } from '../../model/api.ts';
import { createChangeReader, type ReaderPorts, type Round, roundFrames } from './changes.ts';
import type { HubClient } from './client.ts';
import { createFleetWatch } from './fleet-watch.ts';
import { createWatchedThreads } from './watched-threads.ts';

const ROUND_MS = 100;
/** A slow operation runs less often, so that it never takes more than its share of the time. */
const EVENTS = { longest: 1000, share: 1 / 25 };
const ROWS = { longest: 3000, share: 1 / 60 };
/** Estimated time to send a round to one client, and each of its rows. */
const SENDING_MS = 0.03;
const ROW_MS = 0.003;
/** Events that are committed together are sent together. */
const GATHER_MS = 20;
/** Time in which heads are read, followed by a pause of `REST_MS`. */
const TAKING_MS = 3;
const REST_MS = 50;
/** Approval requests are decided and expire without a change of a thread. */
const POLL_MS = 1000;
/** A dead process sends no event, so expired leases are polled. */
const SWEEP_MS = 5000;
const TROUBLE_MS = 60_000;
const MAX_TEXT = 64 * 1024;

interface ReadingPorts extends ReaderPorts {
  /** Project and items that a worker needs for this project. */
  served(): Outcome<{ project: string; items: string }>;
  onError(error: Error): void;
  /** Called when the changes of the store end. */
  onEnd(): void;
}

const isOfAll = (topic: Topic): boolean => topic === 'threads' || topic === 'approvals';

/** Collects pieces of replies that run in this process, until the next round. */
function createTexts() {
  const texts = new Map<string, string>();
  let size = 0;
  return {
    /** Adds a piece. Returns true if the pieces must be sent now. */
    add(thread: string, piece: string): boolean {
      texts.set(thread, ((texts.get(thread) ?? '') + piece).slice(-MAX_TEXT));
      size += piece.length;
      return size > MAX_TEXT;
    },
    /** A reply in the journal needs no pieces. */
    noteEvents(thread: string, events: readonly StoredEvent[]): void {
      if (events.some(({ type }) => type === 'assistant_message')) texts.delete(thread);
    },
    isEmpty: () => texts.size === 0,
    take(): Extract<StreamFrame, { kind: 'text' }>[] {
      const all = Array.from(texts, ([thread, text]) => ({ kind: 'text' as const, thread, text }));
      texts.clear();
      size = 0;
      return all;
    },
  };
}

const nextAfter = (start: number, took: number, { longest, share }: typeof ROWS): number =>
  start + Math.min(longest, Math.max(ROUND_MS, took / share));

/** Schedules rounds: never two at once, and none before its time. */
function createPace(
  clock: Clock,
  round: (isForced: boolean) => Promise<number>,
  hasMore: () => boolean,
) {
  let timer: NodeJS.Timeout | undefined;
  let work: Promise<void> = Promise.resolve();
  /** A round that has not started yet serves all its callers. */
  let forced: Promise<void> | undefined;
  let [isBusy, isOver] = [false, false];
  let [dueAt, lag] = [0, 0];
  let since: number | undefined;

  function schedule(isUrgent = false): void {
    if (isOver || isBusy) return;
    since ??= clock.monotonic();
    if (timer !== undefined && !isUrgent) return;
    clearTimeout(timer);
    const wait = isUrgent ? 0 : Math.max(GATHER_MS, dueAt - clock.monotonic());
    timer = setTimeout(() => void run(false), wait).unref();
  }

  async function once(isForced: boolean): Promise<void> {
    if (isOver) return;
    isBusy = true;
    const start = clock.monotonic();
    const apart = await round(isForced);
    const end = clock.monotonic();
    isBusy = false;
    if (since !== undefined) lag = end - since;
    since = undefined;
    dueAt = nextAfter(start, end - start - apart, EVENTS);
    if (hasMore()) schedule();
  }

  function run(isForced: boolean): Promise<void> {
    clearTimeout(timer);
    timer = undefined;
    if (forced) return forced;
    work = work.then(() => {
      forced = undefined;
      return once(isForced);
    });
    if (isForced) forced = work;
    return work;
  }

  return {
    schedule,
    run,
    lag: () => lag,
    async stop(): Promise<void> {
      isOver = true;
      clearTimeout(timer);
      await work;
    },
  };
}

/** Pauses between heads. The store keeps only the newest head of each thread and gets fewer queries. */
function createRest(clock: Clock) {
  let wokeAt = Number.NEGATIVE_INFINITY;
  let wake: (() => void) | undefined;
  let ending: Promise<unknown> | undefined;
  return {
    /** Waits between heads. All heads that arrive during a pause are read at its end. */
    async between(): Promise<void> {
      if (ending || clock.monotonic() - wokeAt < TAKING_MS) return;
      await new Promise<void>((resolve) => {
        wake = resolve;
        setTimeout(resolve, REST_MS).unref();
      });
      wake = undefined;
      wokeAt = clock.monotonic();
    },
    /** Ends a pause. Resolves when all waiting heads are read. */
    async end(): Promise<void> {
      if (wake) {
        ending ??= setImmediate().finally(() => {
          ending = undefined;
        });
        wake();
      }
      await ending;
    },
  };
}

/** Sends the rows and approvals of a round to every client of these topics. */
function sendRound(news: Round, listening: Iterable<HubClient>, number: number): void {
  const framesByTopics = new Map<string, StreamFrame[]>();
  for (const client of listening) {
    const about = [...client.topics].filter(isOfAll);
    const key = about.toSorted().join();
    const frames = framesByTopics.get(key) ?? roundFrames(news, about);
    framesByTopics.set(key, frames);
    for (const [index, frame] of frames.entries()) {
      const isLast = index === frames.length - 1;
      client.batch(frame, about, isLast ? number : undefined);
    }
  }
}

/** Reads rows and approvals in rounds for all clients of these topics. */
function createRounds(ports: ReadingPorts, from: number, trouble: (problem: Failure) => void) {
  const { clock } = ports;
  const reader = createChangeReader(ports, from);
  const listening = new Set<HubClient>();
  let moved = new Map<string, ThreadStatus>();
  let decided: Approval[] = [];
  let number = from;
  let dueAt = 0;

  async function read(now: ReadonlyMap<string, ThreadStatus>): Promise<Outcome<Round | undefined>> {
    const changed = await reader.lookAround();
    if (!changed.ok) return changed;
    decided.push(...changed.output);
    if (now.size === 0 && decided.length === 0) return { ok: true, output: undefined };
    const round = await reader.round(now, decided, number + 1);
    if (!round.ok) return round;
    decided = [];
    number += 1;
    return round;
  }

  return {
    reader,
    listening,
    number: () => number,
    isWanted: () => listening.size > 0,
    isDue: () => listening.size > 0 && clock.monotonic() >= dueAt,
    hasMoved: () => moved.size > 0,
    move(thread: string, status: ThreadStatus): void {
      moved.set(thread, status);
      reader.move(thread, status);
    },
    /** Runs one round. Returns the time that it took. */
    async run(): Promise<number> {
      const start = clock.monotonic();
      const now = moved;
      moved = new Map();
      const news = await read(now);
      if (news.ok && news.output) sendRound(news.output, listening, number);
      if (!news.ok) {
        moved = new Map([...now, ...moved]);
        trouble(news);
      }
      const took = clock.monotonic() - start;
      const rows = news.ok ? (news.output?.rows.length ?? 0) : 0;
      const sending = (SENDING_MS + ROW_MS * rows) * listening.size;
      dueAt = nextAfter(start, took + sending, ROWS);
      return took;
    },
  };
}

/** Sends one read of the fleet to all its clients when it is due. */
async function sendFleet(
  fleet: ReturnType<typeof createFleetWatch>,
  listening: ReadonlySet<HubClient>,
  trouble: (problem: Failure) => void,
): Promise<void> {
  const wanting = (): HubClient[] => [...listening].filter(({ topics }) => topics.has('fleet'));
  if (!fleet.isDue() || wanting().length === 0) return;
  const state = await fleet.read();
  if (!state.ok) trouble(state);
  if (!state.ok || state.output === null) return;
  const frame: StreamFrame = { kind: 'batch', fleet: state.output };
  for (const client of wanting()) client.batch(frame, ['fleet']);
}

export type HubReading = ReturnType<typeof createReading>;

export function createReading(ports: ReadingPorts, from: number) {
  const { store, clock } = ports;
  const stop = new AbortController();
  // Subscribes before the first read, so that changes during the read are in the first round.
  const heads = store.changes({}, stop.signal);
  const texts = createTexts();
  const behind = new Set<string>();
  let troubledAt = Number.NEGATIVE_INFINITY;
  const rounds = createRounds(ports, from, trouble);
  const { reader, isWanted } = rounds;
  const fleet = createFleetWatch(ports);
  const rest = createRest(clock);
  const hasWork = (): boolean =>
    behind.size > 0 || !texts.isEmpty() || (isWanted() && rounds.hasMoved());
  const pace = createPace(clock, flush, hasWork);
  const watched = createWatchedThreads({
    store,
    onRead(thread, events) {
      texts.noteEvents(thread, events);
      reader.note(thread, events);
    },
    onBehind(thread) {
      behind.add(thread);
      pace.schedule();
    },
  });

  /** Reports a problem at intervals while it lasts. */
  function trouble(problem: Failure): void {
    if (stop.signal.aborted || clock.monotonic() - troubledAt < TROUBLE_MS) return;
    troubledAt = clock.monotonic();
    ports.onError(new Error(problem.error.detail.message));
  }

  /** Returns the time that rows took, because rows have their own schedule. */
  async function flush(isForced: boolean): Promise<number> {
    for (const frame of texts.take()) {
      for (const client of watched.clientsOf(frame.thread)) client.text(frame);
    }
    const threads = [...behind];
    behind.clear();
    for (const thread of threads) {
      const pumped = await watched.pump(thread);
      if (pumped.ok) continue;
      behind.add(thread);
      trouble(pumped);
    }
    return isForced || rounds.isDue() ? await rounds.run() : 0;
  }

  async function readHeads(): Promise<void> {
    for await (const { thread, status } of heads) {
      rounds.move(thread, status);
      fleet.move();
      if (watched.has(thread)) behind.add(thread);
      if (isWanted() || behind.size > 0) pace.schedule();
      await rest.between();
    }
    if (!stop.signal.aborted) ports.onEnd();
  }

  const timers = [
    setInterval(() => isWanted() && pace.schedule(), POLL_MS).unref(),
    setInterval(() => void sendFleet(fleet, rounds.listening, trouble), POLL_MS).unref(),
    setInterval(() => (isWanted() || watched.isAny()) && void store.sweep(), SWEEP_MS).unref(),
  ];

  return {
    reader,
    watched,
    fleet,
    /** Clients that receive rows and approvals. */
    listening: rounds.listening,
    number: rounds.number,
    lag: pace.lag,
    async begin(): Promise<Outcome<null>> {
      const started = await reader.begin();
      if (started.ok) void readHeads();
      return started;
    },
    /** Sends events now, and rows when they are due. */
    flush: () => pace.run(false),
    /** Schedules the next round for a new client. */
    soon: () => pace.schedule(),
    /** Resolves when the reader has read everything that happened before the call. */
    async settle(): Promise<void> {
      await rest.end();
      await pace.run(true);
    },
    text(thread: string, piece: string): void {
      if (watched.has(thread)) pace.schedule(texts.add(thread, piece));
    },
    async stop(): Promise<void> {
      stop.abort();
      void rest.end();
      for (const one of timers) clearInterval(one);
      await pace.stop();
    },
  };
}
