// The way to a server: a pool of connections, what happens when one breaks, and when nobody said whether
// a write arrived. INVARIANT: a write whose answer was lost is looked for before it is made again, so it
// is there once or not at all; who cannot find out in time says so (`store_unknown`).
/* oxlint-disable typescript/no-unnecessary-type-parameters -- whoever asks says what the columns are */

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

export interface DatabasePlace {
  /** As `pg` takes it. */
  readonly url: string;
  /** Of our tables; the engine's have a schema of their own, `SCHEMA_jobs`. */
  readonly schema: string;
}

/** Statements on one connection. They throw what the server throws; the doors make an answer of it. */
export interface Sql {
  /** Planned once a connection: for texts that are always the same. */
  all<R extends object>(text: string, ...values: unknown[]): Promise<R[]>;
  get<R extends object>(text: string, ...values: unknown[]): Promise<R | undefined>;
  /** Any text, as the engine asks for it. */
  executeSql(text: string, values?: unknown[]): Promise<{ rows: Record<string, unknown>[] }>;
}

export interface SqlWriting<T> {
  /** One statement, which is a transaction by itself. Read before each try. */
  plain?: boolean;
  /** Writes of one lane are made in order. */
  lane?: string;
  /** Root of a tree whose writes are made in order. */
  tree?: string | undefined;
  /** Called with the answer of a write, before the next write of its lane and tree starts. */
  done?: (answer: T) => void;
  /** What was answered, if it was written before. Without it, making it again does no harm. */
  written?: (sql: Sql) => Promise<T | undefined>;
  /** How long to look for it, on the monotonic clock; as long as anybody is patient when left out. */
  until?: number | undefined;
  patienceMs?: number;
}

export interface Database {
  readonly schema: string;
  /** Of the server, as it may be shown. */
  readonly place: string;
  /** Statements that only read, on one connection. */
  read<T>(work: (sql: Sql) => Promise<T>, patienceMs?: number): Answer<T>;
  /** In one transaction, which a throw undoes: `RefusedWrite`, or a refusal of the server's functions. */
  write<T>(work: (sql: Sql) => Promise<T>, how?: SqlWriting<T>): Answer<T>;
  /** A connection of its own, for who listens or takes long; theirs to end. */
  connect(settings?: pg.ClientConfig): Promise<pg.Client>;
  /** Answers what was asked for; `store_closed` after it. */
  close(): Promise<void>;
}

export interface DatabaseOptions {
  readonly place: DatabasePlace;
  /** As it may be shown. */
  readonly shown: string;
  readonly clock: Clock;
  readonly random: RandomBytes;
  /** How long others, or a server that starts again, are waited for. */
  readonly patienceMs?: number;
  /** Connections at most, besides the one that listens. */
  readonly connections?: number;
  /** The library's own, for who wants to see what happens when it fails. */
  readonly Client?: new (
    config?: pg.ClientConfig,
  ) => pg.Client;
}

const PATIENCE_MS = 10_000;
const CONNECTIONS = 10;
/** Whoever holds rows and does not go on loses them; a connection that says nothing is given up. */
const [STATEMENT_MS, SILENT_MS, CONNECT_MS] = [5000, 6000, 5000];
const MAX_NAMES = 300;

/** Every connection begins with these, without asking. */
function settingsOf({ url, schema }: DatabasePlace): string {
  const address = new URL(url);
  const given = address.searchParams.get('options');
  const settings = {
    search_path: schema,
    statement_timeout: STATEMENT_MS,
    idle_in_transaction_session_timeout: STATEMENT_MS,
    jit: 'off',
  };
  const ours = Object.entries(settings).map(([name, value]) => `-c ${name}=${value}`);
  address.searchParams.set('options', [...(given === null ? [] : [given]), ...ours].join(' '));
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
      // Times and counts: all of them are far below 2^53.
      getTypeParser: (type, format) =>
        type === library.types.builtins.INT8 ? Number : library.types.getTypeParser(type, format),
    },
  };
}

const names = new Map<string, string>();

/** The same text has the same name on every connection. */
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

/** The pool, and how long whoever uses it is patient. */
interface Way extends Pick<DatabaseOptions, 'shown' | 'clock' | 'random'> {
  readonly pool: pg.Pool;
  readonly patienceMs: number;
}

/** Short at first; never two of them in step. */
const pause = ({ random }: Way, tries: number): Promise<void> =>
  new Promise((resolve) => {
    setTimeout(resolve, Math.min(2 ** tries, 100) * (0.5 + (random(1)[0] ?? 0) / 512));
  });

const unknown = (place: string): Failure =>
  fail(
    'store_unknown',
    `nobody knows whether this was written: the registry at ${place} was lost`,
    { place },
  );

/** Once more after what others did, or after a connection was lost, as long as it makes sense. */
async function send<T>(way: Way, work: SqlWork<T>, how: SqlWriting<T>): Answer<T> {
  const { clock, shown } = way;
  const deadline = clock.monotonic() + (how.patienceMs ?? way.patienceMs);
  let isInDoubt = false;
  for (let tries = 0; ; tries++) {
    const tried: Tried<T> = await attempt(way, work, how, isInDoubt);
    if ('output' in tried) return ok(tried.output);
    const { kind, failure } = tried.trouble;
    if (kind === 'refused' || kind === 'final') {
      // What was lost may have arrived after we looked, and be why this one is refused.
      const late =
        isInDoubt && how.written ? await attempt(way, how.written, READ, false) : undefined;
      const found = late && 'output' in late ? late.output : undefined;
      return found === undefined ? failure : ok(found);
    }
    if (tried.isSent) isInDoubt = true;
    const isOver = clock.monotonic() >= (isInDoubt ? (how.until ?? deadline) : deadline);
    if (isOver) return isInDoubt ? unknown(shown) : failure;
    await pause(way, tries);
  }
}

/** Reading again does no harm, whatever became of the first. */
async function readAgain<T>(way: Way, work: SqlWork<T>, patienceMs: number): Answer<T> {
  const outcome: Outcome<T> = await send(way, work, { ...READ, patienceMs });
  if (outcome.ok || outcome.error.code !== 'store_unknown') return outcome;
  const { shown: place } = way;
  const message = `the registry at ${place} cannot be reached`;
  return fail('store_failed', message, { place, ...UNREACHABLE });
}

/** What is asked in one lane is asked in order. */
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

/** Nothing is connected before it is needed. */
export async function openDatabase(options: DatabaseOptions): Answer<Database> {
  const { place, shown, patienceMs = PATIENCE_MS, connections: max = CONNECTIONS } = options;
  const drivers = await loadDrivers();
  if (!drivers.ok) return drivers;
  const library = drivers.output.pg;
  const config = configOf(options, library);
  const Client = options.Client ?? library.Client;
  const pool = new library.Pool({ ...config, max, Client });
  // A connection that breaks while nobody uses it is replaced by the next one.
  pool.on('error', () => {});
  pool.on('connect', (client) => void client.on('error', () => {}));
  const way: Way = { ...options, pool, patienceMs };
  const [inLane, inTree] = [createLanes(), createLanes()];
  const unanswered = new Set<Promise<unknown>>();
  let isClosed = false;
  const closed: Failure = fail('store_closed', `the registry at ${shown} was closed`, {
    place: shown,
  });

  function asked<T>(ask: () => Answer<T>): Answer<T> {
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
    read: (work, ms = patienceMs) => asked(() => readAgain(way, work, ms)),
    write: (work, how = {}) =>
      asked(() => inLane(how.lane, () => inTree(how.tree, () => finish(work, how)))),
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
