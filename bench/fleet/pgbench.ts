// Writes the recorded statements of a thread as a script of pgbench: the same statements with the same values, for any
// thread that the queue returns. Its model call sleeps as long as that of the worker.
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Statement, TEMPLATE } from './record.ts';
import { MODEL_MS } from './work.ts';

/** Returns pgbench from the PATH or from the folder of Debian. */
export function findPgbench(): string | undefined {
  if (spawnSync('pgbench', ['--version']).status === 0) return 'pgbench';
  const base = '/usr/lib/postgresql';
  const found = existsSync(base)
    ? readdirSync(base).map((version) => join(base, version, 'bin/pgbench'))
    : [];
  return found.findLast((path) => existsSync(path));
}

/** Escapes colons, because pgbench reads a colon as the start of a variable, even inside quotes. */
const quoted = (text: string): string =>
  `E'${text.replaceAll('\\', '\\\\').replaceAll("'", "''").replaceAll(':', '\\x3a')}'`;

const element = (value: unknown): string =>
  value === null
    ? 'NULL'
    : `"${(typeof value === 'string' ? value : JSON.stringify(value)).replaceAll(/(["\\])/g, '\\$1')}"`;

/** Writes a value as SQL. `job` is the recorded id of the job. */
function literal(value: unknown, job: string): string {
  if (value === null || value === undefined) return 'NULL';
  if (value === TEMPLATE) return ':singletonKey::text';
  if (Array.isArray(value)) {
    if (value.length === 1 && value[0] === TEMPLATE) return 'ARRAY[:singletonKey::text]';
    if (value.length === 1 && value[0] === job) return 'ARRAY[:id::uuid]';
    return quoted(`{${value.map(element).join(',')}}`);
  }
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  if (!text.includes(TEMPLATE)) return quoted(text);
  const filled = `replace(${quoted(text)}, '${TEMPLATE}', :singletonKey)`;
  return text.startsWith('{') ? `${filled}::jsonb` : filled;
}

/** Statements of a process that belong to no thread. */
const BESIDE =
  /km_tell|km_lost|km_renew|km_now\(\) AS wait|DISTINCT owner|LISTEN|'channel'|pg_notify/;

const KEY_TOO = 'RETURNING j.singleton_key AS "singletonKey", j.id';

export interface PgbenchScript {
  text: string;
  statements: number;
}

/** Returns the script with schema `from` replaced by schema `to`. */
export function scriptOf(life: readonly Statement[], from: string, to: string): PgbenchScript {
  const own = life.filter(({ text }) => !BESIDE.test(text));
  const begin = own.findIndex(({ text }) => text === 'BEGIN');
  const lived = own.slice(begin);
  const taken = lived.find(({ text }) => text.includes('km_take'));
  const jobs = taken?.values[1];
  const job = Array.isArray(jobs) ? String(jobs[0]) : '';
  const lines = lived.map(({ text, values }) => {
    const isFetch = text.includes('SKIP LOCKED');
    // The worker reads the name from the answer. pgbench needs it as a column.
    const said = isFetch ? text.replace('RETURNING j.id', KEY_TOO) : text;
    const filled = said
      .replaceAll(`${from}_jobs`, `${to}_jobs`)
      .replaceAll(/\$(\d+)/g, (_, number: string) => literal(values[Number(number) - 1], job))
      .trim();
    const isIntent = values.some((value) => Array.isArray(value) && value[0] === 'turn_start');
    const wait = isIntent ? `\n\\sleep ${MODEL_MS} ms` : '';
    return isFetch ? `${filled} \\gset` : `${filled};${wait}`;
  });
  return { text: `${lines.join('\n')}\n`, statements: lived.length };
}

/** Runs pgbench. Each client runs this number of threads, one after the other. */
export function runPgbench(
  program: string,
  script: PgbenchScript,
  { url, schema, clients, each }: { url: string; schema: string; clients: number; each: number },
): void {
  const folder = mkdtempSync(join(tmpdir(), 'km-pgbench-'));
  const file = join(folder, 'life.sql');
  writeFileSync(file, script.text);
  const { hostname, port, username, password, pathname } = new URL(url);
  const where = ['-h', hostname, '-p', port, '-U', username];
  const load = ['-c', String(clients), '-j', '2', '-t', String(each)];
  const args = [...where, '-n', '-M', 'prepared', ...load, '-f', file, pathname.slice(1)];
  try {
    execFileSync(program, args, {
      env: {
        ...process.env,
        PGPASSWORD: password,
        PGOPTIONS: `-c search_path=${schema} -c jit=off`,
      },
      stdio: ['ignore', 'pipe', 'pipe'],
      timeout: 100_000,
    });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
