// The one stream of this tab. A live view subscribes to its topic, with the position of its
// snapshot. The stream uses `fetch`, because a request needs the key, and reconnects after the last
// id. Frames are applied together, once per animation frame. A hidden tab closes its stream after
// some time; one hidden tab, the owner of a lock, keeps the topic `approvals`, so that one title
// shows their count.
import { batch, signal } from '@preact/signals';
import { createParser } from 'eventsource-parser';
import type { StreamFrame, Topic } from '../model/api.ts';
import { headersOf } from './api.ts';

interface ConnectionState {
  /** `over`: the session has ended, and a new link is needed. */
  readonly state: 'connecting' | 'live' | 'lost' | 'over';
  /** Start of this state, in milliseconds since 1970. */
  readonly since: number;
  readonly retry_at?: number;
}

interface TopicReader {
  /** Called with a frame of this topic, inside a batch of signals. */
  take(frame: Exclude<StreamFrame, { kind: 'reset' }>): void;
  /** Called after a loss: read the snapshot again, and events from `after` on. */
  reset(after?: number): void;
}

const FIRST_RETRY_MS = 500;
const LAST_RETRY_MS = 15_000;
/** The server sends at least a heartbeat every 15 s. */
const SILENCE_MS = 40_000;
const HIDDEN_MS = 30_000;
/** Topics that start within this time share one request. */
const GATHER_MS = 30;
const LOCK = 'kernmantle-approvals';

export const connection = signal<ConnectionState>({ state: 'connecting', since: Date.now() });

interface Subscription {
  readonly readers: Set<TopicReader>;
  position: string | undefined;
}
const subscriptions = new Map<Topic, Subscription>();
/** Topics of the stream. `all`: visible tab; `few`: hidden tab that counts approval requests; `none`: hidden tab. */
let scope: 'all' | 'few' | 'none' = 'all';
let current: AbortController | undefined;
let currentTopics = '';
let timer: ReturnType<typeof setTimeout> | undefined;
let retryMs = FIRST_RETRY_MS;
let releaseLock: (() => void) | undefined;

function become(state: ConnectionState['state'], retry_at?: number): void {
  const before = connection.peek();
  const since = before.state === state ? before.since : Date.now();
  connection.value = { state, since, ...(retry_at === undefined ? {} : { retry_at }) };
}

function wantedTopics(): Topic[] {
  const all = [...subscriptions.keys()].toSorted();
  if (scope === 'all') return all;
  return scope === 'few' ? all.filter((topic) => topic === 'approvals') : [];
}

/**
 * Subscribes to a topic from `position` on. Returns the function that ends it. A topic is open
 * while it has readers.
 */
export function listen(
  topic: Topic,
  position: string | undefined,
  reader: TopicReader,
): () => void {
  const entry = subscriptions.get(topic);
  if (entry) entry.readers.add(reader);
  else subscriptions.set(topic, { readers: new Set([reader]), position });
  connectSoon(GATHER_MS);
  return () => {
    const now = subscriptions.get(topic);
    now?.readers.delete(reader);
    if (now?.readers.size === 0) subscriptions.delete(topic);
    connectSoon(GATHER_MS);
  };
}

/** Connects immediately, and cancels the scheduled retry. */
export function connectNow(): void {
  retryMs = FIRST_RETRY_MS;
  if (connection.peek().state === 'over') become('connecting');
  current?.abort();
  current = undefined;
  currentTopics = '';
  connectSoon(0);
}

function connectSoon(ms: number): void {
  if (connection.peek().state === 'over') return;
  clearTimeout(timer);
  timer = setTimeout(connect, ms);
}

/** Builds the query with the positions of all topics. The server merges the positions. */
function query(topics: readonly Topic[]): string {
  const words = new URLSearchParams({ topics: topics.join(',') });
  const positions = new Set(topics.map((topic) => subscriptions.get(topic)?.position ?? ''));
  for (const position of positions) if (position !== '') words.append('after', position);
  return words.toString();
}

function connect(): void {
  const topics = wantedTopics();
  const key = topics.join(',');
  // The open stream already has these topics.
  if (current && key === currentTopics) return;
  current?.abort();
  current = undefined;
  currentTopics = key;
  if (topics.length === 0) return;
  const stop = new AbortController();
  current = stop;
  void readStream(topics, stop).then((end) => {
    if (current !== stop) return;
    current = undefined;
    currentTopics = '';
    if (end === 'over') become('over');
    else lose();
  });
}

/** Retries with backoff and jitter, so that tabs do not retry together. */
function lose(): void {
  const wait = retryMs * (0.75 + Math.random() * 0.5);
  retryMs = Math.min(retryMs * 2, LAST_RETRY_MS);
  become('lost', Date.now() + wait);
  connectSoon(wait);
}

async function readStream(
  topics: readonly Topic[],
  stop: AbortController,
): Promise<'lost' | 'over'> {
  let silence: ReturnType<typeof setTimeout> | undefined;
  const onData = (): void => {
    clearTimeout(silence);
    silence = setTimeout(() => stop.abort(), SILENCE_MS);
  };
  try {
    onData();
    const init = { headers: headersOf(), signal: stop.signal, cache: 'no-store' } as const;
    const response = await fetch(`/api/stream?${query(topics)}`, init);
    if (response.status === 401) return 'over';
    if (!response.ok || !response.body) return 'lost';
    retryMs = FIRST_RETRY_MS;
    become('live');
    const parser = createParser({
      onEvent: ({ id, data }) => arrive(topics, JSON.parse(data) as StreamFrame, id),
    });
    const text = new TextDecoder();
    const reader = response.body.getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done || stop.signal.aborted) return 'lost';
      onData();
      parser.feed(text.decode(value, { stream: true }));
    }
  } catch {
    return 'lost';
  } finally {
    clearTimeout(silence);
    stop.abort();
  }
}

// Frames wait for the next animation frame. A hidden tab has none and uses a timer.
let waiting: StreamFrame[] = [];
let isDue = false;

function arrive(topics: readonly Topic[], frame: StreamFrame, id: string | undefined): void {
  if (id !== undefined) {
    for (const topic of topics) {
      const entry = subscriptions.get(topic);
      if (entry) entry.position = id;
    }
  }
  waiting.push(frame);
  if (isDue) return;
  isDue = true;
  if (document.hidden) setTimeout(applyFrames, 100);
  else requestAnimationFrame(applyFrames);
}

function applyFrames(): void {
  isDue = false;
  const frames = waiting;
  waiting = [];
  batch(() => {
    for (const frame of frames) for (const topic of topicsOf(frame)) deliver(topic, frame);
  });
}

function topicsOf(frame: StreamFrame): Topic[] {
  if (frame.kind === 'reset') return [frame.topic];
  if (frame.kind === 'text') return [`thread:${frame.thread}`];
  const topics = (frame.events ?? []).map(({ thread }) => `thread:${thread}`);
  if (frame.threads || frame.totals) topics.push('threads');
  if (frame.approvals) topics.push('approvals');
  if (frame.fleet) topics.push('fleet');
  return topics;
}

function deliver(topic: Topic, frame: StreamFrame): void {
  for (const reader of subscriptions.get(topic)?.readers ?? []) {
    if (frame.kind === 'reset') reader.reset(frame.after);
    else reader.take(frame);
  }
}

// Hidden tabs close their stream, because browsers allow six connections per host.
let hiding: ReturnType<typeof setTimeout> | undefined;

function goHidden(): void {
  scope = 'none';
  connectSoon(0);
  void navigator.locks?.request(LOCK, () => {
    if (!document.hidden) return undefined;
    scope = 'few';
    connectSoon(0);
    return new Promise<void>((resolve) => {
      releaseLock = resolve;
    });
  });
}

document.addEventListener('visibilitychange', () => {
  clearTimeout(hiding);
  if (document.hidden) {
    hiding = setTimeout(goHidden, HIDDEN_MS);
    return;
  }
  releaseLock?.();
  releaseLock = undefined;
  scope = 'all';
  retryMs = FIRST_RETRY_MS;
  connectSoon(0);
});
addEventListener('online', () => {
  if (connection.peek().state === 'lost') connectNow();
});
