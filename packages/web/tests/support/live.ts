// A hub over a real registry, writers inside the test and as processes, and clients that keep what they
// were told.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fail, type Outcome, ok, systemClock } from '@kernmantle/core/base';
import type { NewEvent } from '@kernmantle/core/store';
import { openSqliteStore, type Store } from '@kernmantle/core/store';
import { programWords } from '@kernmantle/test-support/built';
import { makePlace, must } from '@kernmantle/test-support/registry';
import { aThread, owner, writerOf } from '@kernmantle/test-support/store-suite/stage';
import { onTestFinished } from 'vitest';
import type { ListedApproval, ListedRun, StreamFrame, Totals } from '../../src/model/api.ts';
import type { Hub, Subscription } from '../../src/server/context.ts';
import { createHub } from '../../src/server/live/hub.ts';

export interface LiveStage {
  readonly file: string;
  readonly store: Store;
  readonly hub: Hub;
  /** Another hub over the same registry, as after a restart. */
  another(): Hub;
}

const errors: Error[] = [];

/** `isThere`: whether the registry exists from the beginning. */
export async function openLive(isThere: () => boolean = () => true): Promise<LiveStage> {
  const { file, remove } = makePlace();
  const store = must(await openSqliteStore({ file, clock: systemClock }));
  const hubs: Hub[] = [];
  const opened = async (): Promise<Outcome<Store>> =>
    isThere() ? ok(store) : fail('not_found', 'no thread has run yet');
  const another = (): Hub => {
    const hub = createHub({
      store: opened,
      clock: systemClock,
      isHere: () => false,
      served: () => fail('not_found', 'no project here'),
      onError: (error) => errors.push(error),
    });
    hubs.push(hub);
    return hub;
  };
  onTestFinished(async () => {
    for (const hub of hubs) await hub.close();
    await store.close();
    remove();
    const met = errors.splice(0);
    if (met.length > 0) throw new AggregateError(met, 'the hub met errors');
  });
  return { file, store, hub: another(), another };
}

/** Events as threads write them. */
export const message = (text: string): NewEvent => ({
  type: 'user_message',
  data: { text, marks: { labels: [], taint: [], sources: [] } },
});
export const denied = (text: string): NewEvent => ({
  type: 'permission_denied',
  data: { code: 'permission_denied', detail: { message: text } },
});

export async function openThread({ store }: LiveStage, id: string, directive = 'deploy') {
  return writerOf(
    store,
    must(await store.createThread(aThread(id, { directive, start: { lease: owner() } }))),
  );
}

/** What a client was told, as a page keeps it: rows by id, events of one thread by number. */
export interface Heard {
  readonly frames: StreamFrame[];
  readonly rows: Map<string, ListedRun>;
  readonly approvals: Map<string, ListedApproval>;
  /** In the order in which they came, doubles too. */
  readonly seqs: number[];
  readonly resets: { topic: string; after?: number }[];
  totals: Totals | undefined;
  text: string;
  position: string | undefined;
}

export const nothingHeard = (): Heard => ({
  frames: [],
  rows: new Map(),
  approvals: new Map(),
  seqs: [],
  resets: [],
  totals: undefined,
  text: '',
  position: undefined,
});

export function hear(heard: Heard, frame: StreamFrame, position?: string): void {
  heard.frames.push(frame);
  if (position !== undefined) heard.position = position;
  if (frame.kind === 'text') heard.text += frame.text;
  if (frame.kind === 'reset') {
    const { topic, after } = frame;
    heard.resets.push({ topic, ...(after === undefined ? {} : { after }) });
  }
  if (frame.kind !== 'batch') return;
  for (const row of frame.threads ?? []) heard.rows.set(row.id, row);
  for (const one of frame.approvals ?? []) heard.approvals.set(one.id, one);
  for (const { events } of frame.events ?? []) heard.seqs.push(...events.map(({ seq }) => seq));
  heard.totals = frame.totals ?? heard.totals;
}

export interface FakeClient extends Subscription {
  readonly heard: Heard;
  /** Takes nothing from now on, or takes again. */
  block(isBlocked: boolean): void;
}

export function joinHub(hub: Hub, topics: readonly string[], after?: string): FakeClient {
  const heard = nothingHeard();
  let isBlocked = false;
  const subscribed = hub.subscribe({
    topics,
    ...(after === undefined ? {} : { after }),
    send(frame, position) {
      if (isBlocked) return false;
      hear(heard, frame, position);
      return true;
    },
  });
  const subscription = must(subscribed);
  return {
    ...subscription,
    heard,
    block(now) {
      isBlocked = now;
      if (!now) subscription.ready();
    },
  };
}

export interface Writing {
  /** What it said, line by line. */
  readonly lines: string[];
  line(count: number): Promise<void>;
  go(): void;
  kill(): Promise<void>;
  ended(): Promise<void>;
}

/** A process that writes into the registry: see `store-writer.ts` for what it can do. */
export function spawnWriter(file: string, ...args: readonly string[]): Writing {
  const command = programWords('store-writer', args[0] ?? '', file, ...args.slice(1));
  const child = spawn(process.execPath, command, { stdio: ['pipe', 'pipe', 'inherit'] });
  const lines: string[] = [];
  const reader = createInterface({ input: child.stdout });
  reader.on('line', (line) => void lines.push(line));
  const over = once(child, 'exit');
  onTestFinished(async () => {
    child.kill('SIGKILL');
    await over;
  });
  return {
    lines,
    async line(count) {
      while (lines.length < count) await once(reader, 'line');
    },
    go: () => void child.stdin.write('go\n'),
    async kill() {
      child.kill('SIGKILL');
      await over;
    },
    async ended() {
      await over;
    },
  };
}
