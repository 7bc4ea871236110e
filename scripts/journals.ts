// Records journals for property tests: runs the end-to-end tests, keeps their registries, and writes the longest
// journals as `tests/journals/*.jsonl`, one event a line. Arguments are passed to vitest, for a part of the tests.
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { hostname, tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type Json, systemClock } from '@kernmantle/core/base';
import { decodeAll, readStored } from '@kernmantle/core/journal';
import { allThreads } from '@kernmantle/core/runtime';
import { openSqliteStore, type StoredEvent } from '@kernmantle/core/store';

const COUNT = 100;
/** Maximum size of one journal in bytes. */
const MAX_BYTES = 19_000;
const MAX_TEXT = 60;
const root = fileURLToPath(new URL('..', import.meta.url));

/** Returns a text without paths and names of this machine, cut to a short length. */
function portable(text: string): string {
  const plain = text
    .replaceAll(root.slice(0, -1), '/package')
    .replaceAll(/\/[\w./-]*\/km-[a-z]+-\w+/g, '/project')
    .replaceAll(hostname(), 'host');
  return plain.length > MAX_TEXT ? `${plain.slice(0, MAX_TEXT)}…` : plain;
}

function short(value: Json): Json {
  if (typeof value === 'string') return portable(value);
  if (Array.isArray(value)) return value.slice(0, 20).map(short);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, short(one)]));
}

/** Returns the lines of a journal, up to `MAX_BYTES`. The first part of a journal is a valid journal too. */
function linesOf(events: readonly StoredEvent[]): string[] {
  const lines: string[] = [];
  let bytes = 0;
  for (const event of events) {
    const line = JSON.stringify(short({ ...event }));
    bytes += Buffer.byteLength(line) + 1;
    if (bytes > MAX_BYTES) break;
    lines.push(line);
  }
  return lines;
}

/** Adds the journals of one registry, by the types of their events. Two journals with equal types are one example. */
async function addJournals(file: string, journals: Map<string, string[]>): Promise<void> {
  const store = await openSqliteStore({ file, clock: systemClock, readOnly: true });
  if (!store.ok) return;
  const rows = await allThreads(store.output, {});
  for (const { id } of rows.ok ? rows.output : []) {
    const events = await readStored(store.output, id);
    // A test can damage its journal. Such a journal is not an example.
    if (!events.ok || !decodeAll(events.output).ok) continue;
    const lines = linesOf(events.output);
    const types = events.output.slice(0, lines.length).map(({ type }) => type);
    journals.set(types.join(), lines);
  }
  await store.output.close();
}

const folder = mkdtempSync(join(tmpdir(), 'km-journals-'));
try {
  spawnSync(
    process.execPath,
    [join(root, 'node_modules', 'vitest', 'vitest.mjs'), 'run', '--project', 'e2e'].concat(
      process.argv.slice(2),
    ),
    { cwd: root, stdio: 'inherit', env: { ...process.env, KERNMANTLE_JOURNALS: folder } },
  );
  const journals = new Map<string, string[]>();
  for (const name of readdirSync(folder)) {
    await addJournals(join(folder, name, 'registry.db'), journals);
  }
  const target = join(root, 'tests', 'journals');
  rmSync(target, { recursive: true, force: true });
  mkdirSync(target);
  const longest = [...journals.values()].toSorted((a, b) => b.length - a.length).slice(0, COUNT);
  for (const [at, lines] of longest.entries()) {
    writeFileSync(
      join(target, `${String(at + 1).padStart(3, '0')}.jsonl`),
      `${lines.join('\n')}\n`,
    );
  }
  process.stdout.write(`${longest.length} journals\n`);
} finally {
  rmSync(folder, { recursive: true, force: true });
}
