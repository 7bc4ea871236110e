// Connects to a server with a pool of connections, and repeats requests after a lost connection. INVARIANT: a
// write whose answer was lost is always looked for before it is repeated, so it is written at most once. If that
// takes too long, the result is `store_unknown`.
/* oxlint-disable typescript/no-unnecessary-type-parameters -- the caller names the columns */

import {
  type Clock,
  type Failure,
  fail,
  type Outcome,
  ok,
  type RandomBytes,
} from '@kernmantle/core/base';
import type { Answer } from '@kernmantle/core/store';
import type pg from 'pg';
import { loadDrivers } from './drivers/load.ts';
import { type Trouble, troubleOf, UNREACHABLE } from './errors.ts';

export interface DatabaseAddress {
  /** Connection string in the format of `pg`. */
  readonly url: string;
  /** Schema of the tables. The tables of the queue are in `SCHEMA_jobs`. */
  readonly schema: string;
}

/** Statements on one connection. They throw the errors of the server; `read` and `write` convert them. */
export interface Sql {
  /** Prepares the statement once per connection, so the text must be constant. */
  all<R extends object>(text: string, ...values: unknown[]): Promise<R[]>;
  get<R extends object>(text: string, ...values: unknown[]): Promise<R | undefined>;
  /** Runs any text, for the library of the queue. */
  executeSql(text: string, values?: unknown[]): Promise<{ rows: Record<string, unknown>[] }>;
}

export interface SqlWriting<T> {
  /** True: the write is one statement, which is its own transaction. It is read before each try. */
  plain?: boolean;
  /** Writes of one lane run in order. Absent: in any order. */
  lane?: string;
  /** Root of a tree whose writes run in order. Absent: in any order. */
  tree?: string | undefined;
  /** Called with the answer of a write, before the next write of its lane and tree starts. */
  done?: (answer: T) => void;
  /** Finds the answer of a write that was written. Absent: the write can be repeated. */
  written?: (sql: Sql) => Promise<T | undefined>;
  /** End of the search for a lost write, on the monotonic clock. Absent: after `patienceMs`. */
  until?: number | undefined;
  patienceMs?: number;
}

export interface Database {
  readonly schema: string;
  /** Address of the server, without its password. */
  readonly place: string;
  /** Runs statements that only read, on one connection. */
  read<T>(work: (sql: Sql) => Promise<T>, patienceMs?: number): Answer<T>;
  /** Runs statements in one transaction. An exception rolls it back. The answer of `RefusedWrite` is its failure. */
  write<T>(work: (sql: Sql) => Promise<T>, how?: SqlWriting<T>): Answer<T>;
  /** Opens a connection for listening or for long work. The caller ends it. */
  connect(settings?: pg.ClientConfig): Promise<pg.Client>;
  /** Waits for the open requests. Later requests fail with `store_closed`. */
  close(): Promise<void>;
}

export interface DatabaseOptions {
  readonly place: DatabaseAddress;
  /** Text of the address, without its password. */
  readonly shown: string;
  readonly clock: Clock;
  readonly random: RandomBytes;
  /** Longest wait of a request for locks, or for a server that restarts. Absent: 10 seconds. */
  readonly patienceMs?: number;
  /** Maximum number of connections, besides the one that listens. Absent: 10. */
  readonly connections?: number;
  /** Replaces the client of the library, for tests of its failures. Absent: the client of `pg`. */
  readonly Client?: new (
    config?: pg.ClientConfig,
  ) => pg.Client;
}

const PATIENCE_MS = 10_000;
const CONNECTIONS = 10;
/** Times after which an idle transaction loses its locks, and a silent connection or a connect is given up. */
const [STATEMENT_MS, SILENT_MS, CONNECT_MS] = [5000, 6000, 5000];
const MAX_NAMES = 300;

/** Adds the settings with which every connection starts. */
function settingsOf({ url, schema }: DatabaseAddress): string {
  const address = new URL(url);
  const first = address.searchParams.get('options');
  const settings = {
    search_path: schema,
    statement_timeout: STATEMENT_MS,
    idle_in_transaction_session_timeout: STATEMENT_MS,
    jit: 'off',
  };
  const ours = Object.entries(settings).map(([name, value]) => `-c ${name}=${value}`);
  address.searchParams.set('options', [...(first === null ? [] : [first]), ...ours].join(' '));
  return address.href;
}

function configOf({ place }: DatabaseOptions, library: typeof pg): pg.ClientConfig {
  return {
    connectionString: settingsOf(place),
    application_name: 'kernmantle',
    keepAlive: true,
    connectionTimeoutMillis: CONNECT_MS,
    query_timeout: SILENT_MS,
    types: {
      // All times and counts are far below 2^53.
      getTypeParser: (type, format) =>
        type === library.types.builtins.INT8 ? Number : library.types.getTypeParser(type, format),
    },
  };
}

const names = new Map<string, string>();

/** Returns the name of a statement. The same text has the same name on every connection. */
function nameOf(text: string): { name?: string } {
  let name = names.get(text);
  if (name === undefined) {
    if (names.size >= MAX_NAMES) return {};
    name = `km${names.size}`;
    names.set(text, name);
  }
  return { name };
}

export function sqlOf(client: pg.ClientBase): Sql {
  async function all<R extends object>(text: string, ...values: unknown[]): Promise<R[]> {
    const { rows } = await client.query<R>({ ...nameOf(text), text, values });
    return rows;
  }
  return {
    all,
    get: async <R extends object>(text: string, ...values: unknown[]) =>
      (await all<R>(text, ...values))[0],
    executeSql: (text, values) => client.query(text, values),
  };
}

const READ = { plain: true } as const;

type Tried<T> = { output: T } | { trouble: Trouble; isSent: boolean };

async function rollBack(client: pg.PoolClient): Promise<boolean> {
  try {
    await client.query('ROLLBACK');
    return true;
  } catch {
    return false;
  }
}

type SqlWork<T> = (sql: Sql) => Promise<T>;

async function attempt<T>(
  { pool, shown }: Way,
  work: SqlWork<T>,
  { plain, written }: SqlWriting<T>,
  isInDoubt: boolean,
): Promise<Tried<T>> {
  let [isSent, isBroken, isOpen] = [false, false, false];
  let client: pg.PoolClient | undefined;
  try {
    client = await pool.connect();
    const sql = sqlOf(client);
    const before = isInDoubt ? await written?.(sql) : undefined;
    if (before !== undefined) return { output: before };
    if (plain) {
      isSent = true;
      return { output: await work(sql) };
    }
    isOpen = true;
    await client.query('BEGIN');
    const output = await work(sql);
    isSent = true;
    await client.query('COMMIT');
    return { output };
  } catch (error) {
    const trouble = troubleOf(error, shown);
    isBroken = trouble.kind === 'lost';
    if (client && isOpen && !isBroken) isBroken = !(await rollBack(client));
    return { trouble, isSent: isSent && trouble.kind === 'lost' };
  } finally {
    client?.release(isBroken);
  }
}

/** The pool, and the longest wait of a request for it. */
interface Way extends Pick<DatabaseOptions, 'shown' | 'clock' | 'random'> {
  readonly pool: pg.Pool;
  readonly patienceMs: number;
}

/** Waits before another try. The time is short at first and has a random part. */
const pause = ({ random }: Way, tries: number): Promise<void> =>
  new Promise((resolve) => {
    setTimeout(resolve, Math.min(2 ** tries, 100) * (0.5 + (random(1)[0] ?? 0) / 512));
  });

const unknown = (place: string): Failure =>
  fail(
    'store_unknown',
    `the result of the write is unknown, because the connection to the registry at ${place} broke`,
    { place },
  );

/** Repeats a write after a conflict or after a lost connection, until its time is over. */
async function send<T>(way: Way, work: SqlWork<T>, how: SqlWriting<T>): Answer<T> {
  const { clock, shown } = way;
  const deadline = clock.monotonic() + (how.patienceMs ?? way.patienceMs);
  let isInDoubt = false;
  for (let tries = 0; ; tries++) {
    const tried: Tried<T> = await attempt(way, work, how, isInDoubt);
    if ('output' in tried) return ok(tried.output);
    const { kind, failure } = tried.trouble;
    if (kind === 'refused' || kind === 'final') {
      // The lost write can have arrived after the search, and can be the reason for this refusal.
      const late =
        isInDoubt && how.written ? await attempt(way, how.written, READ, false) : undefined;
      const written = late && 'output' in late ? late.output : undefined;
      return written === undefined ? failure : ok(written);
    }
    if (tried.isSent) isInDoubt = true;
    const isOver = clock.monotonic() >= (isInDoubt ? (how.until ?? deadline) : deadline);
    if (isOver) return isInDoubt ? unknown(shown) : failure;
    await pause(way, tries);
  }
}

/** Repeats a read after a lost connection. */
async function readAgain<T>(way: Way, work: SqlWork<T>, patienceMs: number): Answer<T> {
  const outcome: Outcome<T> = await send(way, work, { ...READ, patienceMs });
  if (outcome.ok || outcome.error.code !== 'store_unknown') return outcome;
  const { shown: place } = way;
  const message = `the registry at ${place} cannot be reached`;
  return fail('store_failed', message, { place, ...UNREACHABLE });
}

/** Runs the requests of one lane one after the other. */
function createLanes() {
  const lanes = new Map<string, Promise<unknown>>();
  return async <T>(lane: string | undefined, run: () => Answer<T>): Answer<T> => {
    if (lane === undefined) return run();
    const before = lanes.get(lane);
    const answer = before ? before.then(run) : run();
    lanes.set(lane, answer);
    const outcome = await answer;
    if (lanes.get(lane) === answer) lanes.delete(lane);
    return outcome;
  };
}

/** Creates the pool. The first request opens a connection. */
export async function openDatabase(options: DatabaseOptions): Answer<Database> {
  const { place, shown, patienceMs = PATIENCE_MS, connections: max = CONNECTIONS } = options;
  const drivers = await loadDrivers();
  if (!drivers.ok) return drivers;
  const library = drivers.output.pg;
  const config = configOf(options, library);
  const Client = options.Client ?? library.Client;
  const pool = new library.Pool({ ...config, max, Client });
  // The pool replaces a connection that breaks while it is idle.
  pool.on('error', () => {});
  pool.on('connect', (client) => void client.on('error', () => {}));
  const way: Way = { ...options, pool, patienceMs };
  const [inLane, inTree] = [createLanes(), createLanes()];
  const unanswered = new Set<Promise<unknown>>();
  let isClosed = false;
  const closed: Failure = fail('store_closed', `the registry at ${shown} was closed`, {
    place: shown,
  });

  function track<T>(ask: () => Answer<T>): Answer<T> {
    if (isClosed) return Promise.resolve(closed);
    const answer = ask();
    unanswered.add(answer);
    void answer.then(() => unanswered.delete(answer));
    return answer;
  }

  async function finish<T>(work: SqlWork<T>, how: SqlWriting<T>): Answer<T> {
    const answer = await send(way, work, how);
    if (answer.ok) how.done?.(answer.output);
    return answer;
  }

  return ok({
    schema: place.schema,
    place: shown,
    read: (work, ms = patienceMs) => track(() => readAgain(way, work, ms)),
    write: (work, how = {}) =>
      track(() => inLane(how.lane, () => inTree(how.tree, () => finish(work, how)))),
    async connect(settings = {}) {
      const client = new Client({ ...config, ...settings });
      client.on('error', () => {});
      await client.connect();
      return client;
    },
    async close() {
      while (unanswered.size > 0) await Promise.all(unanswered);
      isClosed = true;
      await pool.end();
    },
  });
}
