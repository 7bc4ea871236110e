// Implements the fleet part of the store port: workers, queues, limits over all machines, and the labels
// of files.
import { type Clock, fail, getOwn, ok, parseJson, textAt, textsAt } from '@kernmantle/core/base';
import {
  type Entering,
  type Fleet,
  type FleetContents,
  GONE_MS,
  type QueueRow,
  SEND_WITHIN_MS,
  type SharedLimit,
  type WorkerRow,
  type WorkerState,
} from '@kernmantle/core/store';
import type { Database, Sql } from './connection.ts';
import type { Jobs } from './registry.ts';

const FIGURES = ['concurrent', 'requests_per_minute', 'tokens_per_minute'] as const;
const SCOPE = /^(?:provider|tenant):\S{1,200}$/;
const MOST = 1e15;
const LABEL_ROWS = 1000;
/** Place of a request without any limit, which is not counted. */
const NO_PLACE = '';

/** Reads the state of a worker. An older or newer worker can have fewer or more fields. */
function readState(text: string, id: string): WorkerState {
  const parsed = parseJson(text);
  const state = parsed.ok ? parsed.output : null;
  const listed = getOwn(state, 'projects');
  const number = (name: string): number => {
    const value = getOwn(state, name);
    return typeof value === 'number' ? value : 0;
  };
  const word = (name: string): string => textAt(state, name);
  const projects = Array.isArray(listed) ? listed : [];
  return {
    id,
    host: word('host'),
    version: word('version'),
    journal: number('journal'),
    slots: number('slots'),
    busy: number('busy'),
    tenants: textsAt(state, 'tenants'),
    projects: projects.map((one) => ({
      project: textAt(one, 'project'),
      items: textAt(one, 'items'),
    })),
    draining: getOwn(state, 'draining') === true,
    memory: number('memory'),
  };
}

interface WorkerLine extends Pick<WorkerRow, 'id' | 'started' | 'heartbeat' | 'clock_off'> {
  state: string;
}

async function readWorkers(sql: Sql): Promise<WorkerRow[]> {
  const lines = await sql.all<WorkerLine>(
    `SELECT id, state, started, heartbeat, clock_off FROM workers
     WHERE heartbeat > km_now() - $1::bigint ORDER BY started, id`,
    GONE_MS,
  );
  return lines.map(({ id, state, ...line }) => ({ ...readState(state, id), ...line }));
}

/** A worker that leaves deletes its row, so a silent row belongs to a worker that is gone. */
const LOST = `SELECT id, heartbeat FROM workers WHERE id = ANY ($1)
  AND heartbeat <= km_now() - ${GONE_MS}::bigint`;

/** Longer than any backoff of a worker. A thread that is queued for a later time does not wait for a worker. */
const BACKOFF_MS = 120_000;
const ANNOUNCE = `INSERT INTO workers (id, state, started, heartbeat, clock_off)
  VALUES ($1, $2, km_now(), km_now(), $3::bigint - km_now())
  ON CONFLICT (id) DO UPDATE SET state = $2, heartbeat = km_now(), clock_off = $3::bigint - km_now()`;
const WAKE = `UPDATE threads SET queued = km_now() WHERE id IN (
    SELECT t.id FROM threads t JOIN unnest($1::text[], $2::text[]) AS n(project, items)
      ON t.project = n.project AND t.items = n.items
    WHERE t.owner IS NULL AND t.queued > km_now() AND t.queued <= km_now() + ${BACKOFF_MS}
    ORDER BY t.id LIMIT 1000 FOR UPDATE OF t SKIP LOCKED) RETURNING id`;

/** A project with items that the worker did not announce before ends the backoff of its threads. */
async function announce(
  sql: Sql,
  jobs: Pick<Jobs, 'follow'>,
  { id, ...state }: WorkerState,
  now: number,
): Promise<null> {
  const row = await sql.get<{ state: string }>('SELECT state FROM workers WHERE id = $1', id);
  const before = row ? readState(row.state, id).projects : [];
  await sql.all(ANNOUNCE, id, JSON.stringify(state), Math.round(now));
  const added = state.projects.filter(
    ({ project, items }) => !before.some((one) => one.project === project && one.items === items),
  );
  if (added.length === 0 || state.draining) return null;
  const projects = added.map(({ project }) => project);
  const items = added.map((one) => one.items);
  const woken = await sql.all<{ id: string }>(WAKE, projects, items);
  const ids = woken.map((one) => one.id);
  if (ids.length > 0) await jobs.follow(sql, ids);
  return null;
}

async function readNow(sql: Sql): Promise<number> {
  const [line] = await sql.all<{ now: number }>('SELECT km_now() AS now');
  return line?.now ?? 0;
}

/** Returns true if a worker takes threads of this queue. */
const serves = ({ tenants, projects, draining, journal }: WorkerState, row: QueueLine): boolean =>
  !draining &&
  journal >= row.format &&
  (tenants.includes(row.tenant) || (tenants.length === 0 && row.tenant === '')) &&
  projects.some(({ project, items }) => project === row.project && items === row.items);

/** `format`: the newest journal format of the queued threads. */
type QueueLine = Omit<QueueRow, 'served_by'> & { format: number };

async function readContents(sql: Sql, schema: string): Promise<FleetContents> {
  const form = await sql.get<Omit<FleetContents, 'threads'>>(
    `SELECT current_setting('server_version') AS server,
       (SELECT value::int FROM about WHERE name = 'schema') AS form,
       (SELECT value::int FROM about WHERE name = 'journal') AS journal,
       (SELECT max(version) FROM ${schema}_jobs.version) AS queue`,
  );
  const threads = await sql.all<FleetContents['threads'][number]>(
    'SELECT status, count(*) AS count FROM threads GROUP BY status ORDER BY status',
  );
  return { server: '', form: 0, journal: 0, queue: 0, ...form, threads };
}

async function readQueues(sql: Sql): Promise<QueueRow[]> {
  const workers = await readWorkers(sql);
  const lines = await sql.all<QueueLine>(
    `SELECT coalesce(tenant, '') AS tenant, project, coalesce(items, '') AS items,
       count(*) FILTER (WHERE queued <= km_now()) AS ready,
       count(*) FILTER (WHERE queued > km_now()) AS later, max(format) AS format,
       -- A thread that a person queued again can be due before its creation. It waits since its update.
       min(CASE WHEN queued < created THEN updated ELSE queued END) AS oldest
     FROM threads WHERE queued IS NOT NULL AND owner IS NULL GROUP BY 1, 2, 3 ORDER BY 1, 2, 3`,
  );
  return lines.map((line) => {
    const { format: _, ...row } = line;
    return { ...row, served_by: workers.filter((worker) => serves(worker, line)).length };
  });
}

interface LimitLine {
  scope: string;
  concurrent: number | null;
  requests_per_minute: number | null;
  tokens_per_minute: number | null;
  spend_per_day: string | null;
}

const readLimit = (line: LimitLine): SharedLimit => ({
  scope: line.scope,
  ...Object.fromEntries(
    FIGURES.flatMap((name) => (line[name] === null ? [] : [[name, line[name]]])),
  ),
  ...(line.spend_per_day === null ? {} : { spend_per_day: BigInt(line.spend_per_day) }),
});

function checkLimit(limit: SharedLimit) {
  const { scope, spend_per_day } = limit;
  if (!SCOPE.test(scope)) {
    const message = `invalid scope \`${scope}\`; use \`provider:NAME\` or \`tenant:NAME\``;
    return fail('invalid_input', message);
  }
  for (const name of FIGURES) {
    const figure = limit[name];
    if (figure === undefined || (Number.isSafeInteger(figure) && figure >= 0 && figure <= MOST)) {
      continue;
    }
    return fail('invalid_input', `\`${figure}\` ${name} must be a whole number from 0 on`);
  }
  return spend_per_day !== undefined && spend_per_day < 0n
    ? fail('invalid_input', '`spend_per_day` must not be below 0')
    : ok(null);
}

async function writeLimit(sql: Sql, limit: SharedLimit): Promise<null> {
  const { scope, spend_per_day } = limit;
  const figures = [
    ...FIGURES.map((name) => limit[name] ?? null),
    spend_per_day?.toString() ?? null,
  ];
  if (figures.every((figure) => figure === null)) {
    await sql.all('DELETE FROM shared_limits WHERE scope = $1', scope);
    return null;
  }
  await sql.all(
    `INSERT INTO shared_limits (scope, concurrent, requests_per_minute, tokens_per_minute, spend_per_day)
     VALUES ($1, $2, $3, $4, $5) ON CONFLICT (scope) DO UPDATE SET concurrent = $2,
       requests_per_minute = $3, tokens_per_minute = $4, spend_per_day = $5`,
    scope,
    ...figures,
  );
  return null;
}

interface Entered {
  got: string;
  full_scope: string;
  full_limit: string;
  wait_ms: number;
  never: boolean;
  used: string;
  most: string;
}

async function enter(database: Database, request: Entering): ReturnType<Fleet['enter']> {
  const { provider, tenant, owner, tokens, spend, ttlMs } = request;
  const answer = await database.write(
    (sql) =>
      sql.get<Entered>(
        `SELECT got::text, full_scope, full_limit, wait_ms, never, used, most
         FROM km_enter($1, $2, $3, $4, $5, $6, $7)`,
        provider,
        tenant,
        owner,
        tokens,
        spend?.toString() ?? null,
        ttlMs,
        SEND_WITHIN_MS,
      ),
    { plain: true },
  );
  if (!answer.ok) return answer;
  const entered = answer.output;
  if (!entered || entered.full_limit === '') {
    const isCounted = entered !== undefined && entered.got !== '0';
    return ok({ place: isCounted ? entered.got : NO_PLACE });
  }
  const { full_limit: limit, full_scope: scope, used, most } = entered;
  if (!entered.never) return ok({ wait_ms: entered.wait_ms, limit, scope });
  const when =
    limit === 'spend_per_day' ? 'until midnight (UTC)' : 'for a request of this size at any time';
  const message =
    spend === undefined && limit === 'spend_per_day'
      ? `\`${limit}\` of ${scope} needs the price of the model; add it to \`pricing.yaml\``
      : `\`${limit}\` of ${scope} is exceeded ${when}: ${used} of ${most} are used`;
  return fail('shared_limit', message, { limit, scope, used, most, sent: false });
}

export function createFleet(
  database: Database,
  jobs: Pick<Jobs, 'follow'>,
  clock: Clock,
  journal: number,
): Fleet {
  return {
    place: database.place,
    journal,
    contents: () => database.read((sql) => readContents(sql, database.schema)),
    announce: (state) => database.write((sql) => announce(sql, jobs, state, clock.now())),
    leave: (worker) =>
      database.write(
        async (sql) => {
          // Workers that were silent for a day are removed as well.
          await sql.all(
            'DELETE FROM workers WHERE id = $1 OR heartbeat < km_now() - 86400000',
            worker,
          );
          return null;
        },
        { plain: true },
      ),
    workers: () => database.read(readWorkers),
    lost: (workers) =>
      database.read((sql) =>
        sql.all<{ id: string; heartbeat: number }>(LOST, [...new Set(workers)]),
      ),
    now: () => database.read(readNow),
    queues: () => database.read(readQueues),
    limits: () =>
      database.read(async (sql) => {
        const lines = await sql.all<LimitLine>(
          `SELECT scope, concurrent, requests_per_minute, tokens_per_minute, spend_per_day
           FROM shared_limits ORDER BY scope`,
        );
        return lines.map(readLimit);
      }),
    async setLimit(limit) {
      const checked = checkLimit(limit);
      if (!checked.ok) return checked;
      return await database.write((sql) => writeLimit(sql, limit), { plain: true });
    },
    enter: (ask) => enter(database, ask),
    stay: (places, ttlMs) =>
      database.write(
        async (sql) => {
          const rows = await sql.all<{ place: string }>(
            'SELECT place::text FROM km_stay($1, $2) AS kept (place)',
            places,
            ttlMs,
          );
          return rows.map(({ place }) => place);
        },
        { plain: true },
      ),
    async exit(place, { tokens, spend }) {
      if (place === NO_PLACE) return ok(null);
      return await database.write(
        async (sql) => {
          await sql.all('SELECT km_exit($1, $2, $3)', place, tokens, spend.toString());
          return null;
        },
        { plain: true },
      );
    },
    labelRows: (project, after) =>
      database.read((sql) =>
        sql.all<{ number: number; text: string }>(
          `SELECT number, text FROM label_rows WHERE project = $1 AND number > $2
           ORDER BY number LIMIT ${LABEL_ROWS}`,
          project,
          after,
        ),
      ),
    async addLabelRows(project, rows) {
      if (rows.length === 0) return ok(null);
      return await database.write(
        async (sql) => {
          await sql.all('SELECT km_add_labels($1, $2)', project, rows);
          return null;
        },
        { plain: true, lane: `labels ${project}` },
      );
    },
  };
}
