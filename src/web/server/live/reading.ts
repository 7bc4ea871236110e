// The one reader of a store, as long as anybody listens. Heads of threads that move are gathered and read
// in rounds, at most one every 100 ms and less often when a round takes long, so that those who look on
// never take much of the process that runs the threads.
import type { Failure, Outcome } from '../../../base/index.ts';
import type { StoredEvent, ThreadStatus } from '../../../store/index.ts';
import type { Frame, Topic } from '../../model/api.ts';
import { createChangeReader, type ReaderPorts, type Round, roundFrames } from './changes.ts';
import type { HubClient } from './client.ts';
import { createWatchedThreads } from './watched-threads.ts';

const ROUND_MS = 100;
const LONGEST_MS = 500;
/** Of the time between two rounds, a round takes at most this part. */
const SHARE = 1 / 8;
/** What is committed together is told together. */
const GATHER_MS = 20;
/** Approvals are decided and expire without any thread moving. */
const LOOK_MS = 1000;
/** A process that died says nothing; its lease does. */
const SWEEP_MS = 5000;
const MAX_TEXT = 64 * 1024;

export interface ReadingPorts extends ReaderPorts {
  onError(error: Error): void;
  /** The store says nothing any more. */
  onEnd(): void;
}

const isOfAll = (topic: Topic): boolean => topic === 'threads' || topic === 'approvals';

/** Pieces of replies that run in this process, until the next round. */
function createTexts() {
  const texts = new Map<string, string>();
  let size = 0;
  return {
    /** Is it time to hand them out? */
    add(thread: string, piece: string): boolean {
      texts.set(thread, ((texts.get(thread) ?? '') + piece).slice(-MAX_TEXT));
      size += piece.length;
      return size > MAX_TEXT;
    },
    /** A reply that stands in the journal needs no pieces. */
    noteEvents(thread: string, events: readonly StoredEvent[]): void {
      if (events.some(({ type }) => type === 'assistant_message')) texts.delete(thread);
    },
    isEmpty: () => texts.size === 0,
    take(): [thread: string, text: string][] {
      const all = [...texts];
      texts.clear();
      size = 0;
      return all;
    },
  };
}

export type HubReading = ReturnType<typeof createReading>;

export function createReading(ports: ReadingPorts, from: number) {
  const { store, clock } = ports;
  const stop = new AbortController();
  // Begins now: whatever moves while the first look is taken is told in the first round.
  const heads = store.changes({}, stop.signal);
  const reader = createChangeReader(ports, from);
  const texts = createTexts();
  const listening = new Set<HubClient>();
  const behind = new Set<string>();
  let moved = new Map<string, ThreadStatus>();
  let number = from;
  let timer: NodeJS.Timeout | undefined;
  let work: Promise<void> = Promise.resolve();
  let isBusy = false;
  let isTroubled = false;
  let dueAt = 0;
  let since: number | undefined;
  let lag = 0;

  const watched = createWatchedThreads({
    store,
    async onRead(thread, events) {
      texts.noteEvents(thread, events);
      return await reader.note(thread, events);
    },
    onBehind(thread) {
      behind.add(thread);
      schedule();
    },
  });

  /** Said once, until it works again. */
  function trouble(problem: Failure): void {
    if (!isTroubled && !stop.signal.aborted) ports.onError(new Error(problem.error.detail.message));
    isTroubled = true;
  }

  const isWanted = (): boolean => listening.size > 0;
  const hasWork = (): boolean =>
    behind.size > 0 || !texts.isEmpty() || (isWanted() && moved.size > 0);

  function schedule(isUrgent = false): void {
    if (stop.signal.aborted || isBusy) return;
    since ??= clock.monotonic();
    if (timer !== undefined && !isUrgent) return;
    clearTimeout(timer);
    const wait = isUrgent ? 0 : Math.max(GATHER_MS, dueAt - clock.monotonic());
    timer = setTimeout(() => void run(true), wait).unref();
  }

  /** One after the other; `isTimed`: the next one waits for its time. */
  function run(isTimed: boolean): Promise<void> {
    clearTimeout(timer);
    timer = undefined;
    work = work.then(async () => {
      if (stop.signal.aborted) return;
      isBusy = true;
      const start = clock.monotonic();
      await flush(!isTimed);
      const end = clock.monotonic();
      isBusy = false;
      if (since !== undefined) lag = end - since;
      since = undefined;
      dueAt = start + Math.min(LONGEST_MS, Math.max(ROUND_MS, (end - start) / SHARE));
      if (hasWork()) schedule();
    });
    return work;
  }

  async function flush(isForced: boolean): Promise<void> {
    for (const [thread, text] of texts.take()) {
      const frame: Frame = { kind: 'text', thread, text };
      for (const client of watched.clientsOf(thread)) client.text(frame);
    }
    const threads = [...behind];
    behind.clear();
    for (const thread of threads) {
      const pumped = await watched.pump(thread);
      if (pumped.ok) continue;
      behind.add(thread);
      trouble(pumped);
    }
    if (isForced || isWanted()) await round();
  }

  async function round(): Promise<void> {
    const now = moved;
    moved = new Map();
    const read = await readRound(now);
    if (!read.ok) {
      moved = new Map([...now, ...moved]);
      trouble(read);
      return;
    }
    isTroubled = false;
    if (read.output) tell(read.output);
  }

  async function readRound(
    now: ReadonlyMap<string, ThreadStatus>,
  ): Promise<Outcome<Round | undefined>> {
    const decided = await reader.lookAround();
    if (!decided.ok) return decided;
    if (now.size === 0 && decided.output.length === 0) return { ok: true, output: undefined };
    const read = await reader.round(now, decided.output, number + 1);
    if (read.ok) number += 1;
    return read;
  }

  function tell(news: Round): void {
    const made = new Map<string, Frame[]>();
    for (const client of listening) {
      const about = [...client.topics].filter(isOfAll);
      const key = about.toSorted().join();
      const frames = made.get(key) ?? roundFrames(news, about);
      made.set(key, frames);
      for (const [index, frame] of frames.entries()) {
        const isLast = index === frames.length - 1;
        client.batch(frame, about, isLast ? number : undefined);
      }
    }
  }

  async function follow(): Promise<void> {
    for await (const { thread, status } of heads) {
      moved.set(thread, status);
      reader.move(thread, status);
      if (watched.has(thread)) behind.add(thread);
      if (isWanted() || behind.size > 0) schedule();
    }
    if (!stop.signal.aborted) ports.onEnd();
  }

  const timers = [
    setInterval(() => {
      if (isWanted() && !isBusy) schedule();
    }, LOOK_MS).unref(),
    setInterval(() => {
      if (isWanted() || watched.threads().length > 0) void store.sweep();
    }, SWEEP_MS).unref(),
  ];

  return {
    reader,
    watched,
    /** Those who are told of rows and approvals. */
    listening,
    number: () => number,
    lag: () => lag,
    async begin(): Promise<Outcome<null>> {
      const begun = await reader.begin();
      if (begun.ok) void follow();
      return begun;
    },
    /** What has happened until now is in what the reader knows. */
    settle: () => run(false),
    text(thread: string, piece: string): void {
      if (watched.has(thread)) schedule(texts.add(thread, piece));
    },
    async stop(): Promise<void> {
      stop.abort();
      clearTimeout(timer);
      for (const one of timers) clearInterval(one);
      await work;
    },
  };
}
