// Defines the environment of the conformance suite: a store, other stores on the same data, a clock that does not
// advance by itself, and controlled faults. Each implementation provides its own.
import type { Clock, Outcome } from '@kernmantle/core/base';
import type {
  Commit,
  Committed,
  LeasedThread,
  NewEvent,
  NewThread,
  Owner,
  Store,
} from '../../../packages/core/src/store/port.ts';

export interface TestClock extends Clock {
  /** Advances both clocks. */
  pass(ms: number): void;
}

export function makeClock(): TestClock {
  let [wall, steady] = [1_700_000_000_000, 5000];
  return {
    now: () => wall,
    monotonic: () => steady,
    pass(ms) {
      wall += ms;
      steady += ms;
    },
  };
}

/** Faults between a store and its data. */
export interface Faults {
  /** The next commit is written, and its answer is lost. */
  loseAnswer(): void;
  /** The next commit is lost before it is written. */
  loseRequest(): void;
  /** The next commit is written and its answer is lost. Then no data can be reached until `reconnect`. */
  disconnect(): void;
  reconnect(): void;
  /** Sets whether other processes use the data all the time. */
  busy(isBusy: boolean): void;
  /** Runs `step` between the lost answer and the check whether the commit was written. */
  meanwhile(step: () => Promise<void> | void): void;
  /** The step-th write of every transaction throws. Undefined: no write throws. */
  breakAt(step: number | undefined): void;
}

export interface Stage {
  store: Store;
  clock: TestClock;
  faults: Faults;
  /** Owners whose processes have certainly ended. */
  gone: Set<string>;
  /** Maximum number of events of one thread in this store. Absent: no limit. */
  maxEvents?: number;
  /** Sets the number of the last event of a thread, as if all earlier events were written. */
  setSeq(thread: string, seq: number): Promise<void>;
  /** Opens another process on the same data. It is closed with the stage. */
  another(): Promise<Store>;
  close(): Promise<void>;
}

export type OpenStage = () => Promise<Stage>;

/** Returns the output of an outcome. Throws for a failure. */
export function must<T>(outcome: Outcome<T>): T {
  if (!outcome.ok) throw new Error(`${outcome.error.code}: ${outcome.error.detail.message}`);
  return outcome.output;
}

export const codeOf = (outcome: Outcome<unknown>): string =>
  outcome.ok ? 'ok' : outcome.error.code;

export const TTL = 60_000;
export const owner = (name = 'here'): Owner => ({ owner: name, ttlMs: TTL });

export const aThread = (id: string, more: Partial<NewThread> = {}): NewThread => ({
  id,
  directive: 'deploy',
  version: '1.0.0',
  runner: 'safety',
  project: 'one',
  limits: { turns: 10 },
  budget: {},
  inputs: { target: 'staging' },
  events: [],
  start: { lease: owner() },
  ...more,
});

export const event = (text = 'x'): NewEvent => ({ type: 'note', data: { text } });

export const aCommit = (
  { epoch, seq }: { epoch: number; seq: number },
  more: Partial<Commit> = {},
): Commit => ({ expect: { seq, epoch }, events: [event()], ...more });

/** A leased thread with its sequence number, as its writer sees it. */
export interface Writer {
  thread: string;
  epoch: number;
  seq: number;
  commit(more?: Partial<Commit>): Promise<Outcome<Committed>>;
  must(more?: Partial<Commit>): Promise<Committed>;
}

export function writerOf(store: Store, { thread, epoch, row }: LeasedThread): Writer {
  const writer: Writer = {
    thread,
    epoch,
    seq: row.seq,
    async commit(more = {}) {
      const quiet = more.expect?.quiet ? { quiet: true as const } : {};
      const { expect: _, ...rest } = more;
      const { seq } = writer;
      const commit: Commit = { expect: { seq, epoch, ...quiet }, events: [event()], ...rest };
      const answer = await store.commit(thread, commit);
      if (answer.ok) writer.seq = answer.output.seq;
      return answer;
    },
    must: async (more) => must(await writer.commit(more)),
  };
  return writer;
}

export async function begin(
  store: Store,
  id: string,
  more: Partial<NewThread> = {},
): Promise<Writer> {
  return writerOf(store, must(await store.createThread(aThread(id, more))));
}

/** Creates a child with a commit of its parent. The child runs in this process. */
export async function bear(
  store: Store,
  parent: Writer,
  id: string,
  more: Partial<NewThread> = {},
): Promise<Writer> {
  const { children } = await parent.must({ children: [aThread(id, more)] });
  const [held] = children;
  if (!held) throw new Error('no child was answered');
  return writerOf(store, held);
}

/** Returns all data that a reader can find about threads. Two results differ if a row was written between them. */
export async function pictureOf(store: Store, threads: readonly string[]): Promise<string> {
  const picture: unknown[] = [];
  for (const id of threads) {
    const row = await store.thread(id);
    const events = await store.read(id);
    const budgets = await store.budgets([id]);
    const signals = await store.signals(id);
    const approvals = await store.approvals({ thread: id });
    const secrets = must(await store.secrets(id)).map(({ number, sealed }) => [
      number,
      Buffer.from(sealed).toString('hex'),
    ]);
    picture.push({ id, row, events, budgets, signals, approvals, secrets });
  }
  picture.push(await store.auditRows({ limit: 1000 }));
  return JSON.stringify(picture, (_, value) => (typeof value === 'bigint' ? `${value}n` : value));
}
