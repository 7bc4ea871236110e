// Runs the official MCP conformance suite as published, and reads its results from the files that it writes. Its
// `wire-schema-*` checks prove nothing (a dead port passes them), so a success of them is never counted. A failure of
// them counts against the scenario.
import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parse } from 'yaml';

export const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const PACKAGE = join(ROOT, 'node_modules', '@modelcontextprotocol', 'conformance');

export const REVISIONS = ['2025-11-25', '2026-07-28'] as const;
export type Revision = (typeof REVISIONS)[number];

export interface Scenario {
  readonly name: string;
  readonly revision: Revision;
  /** Successful checks without `wire-schema-*`. */
  readonly passed: number;
  /** Failures and warnings, or the reason why the scenario did not run. Empty if it passes. */
  readonly problems: readonly string[];
}

interface Check {
  readonly id: string;
  readonly status: 'SUCCESS' | 'FAILURE' | 'WARNING' | 'SKIPPED' | 'INFO';
  readonly errorMessage?: string;
}

interface Requirements {
  readonly server: readonly string[];
  readonly client: readonly string[];
}

/** Scored scenarios of a revision, for servers and for clients. */
export function requirementsOf(revision: Revision): Requirements {
  const text = readFileSync(join(PACKAGE, 'requirements', `${revision}.yaml`), 'utf8');
  const { server, client } = parse(text) as Requirements;
  return { server, client };
}

export function suiteVersion(): string {
  const { version } = JSON.parse(readFileSync(join(PACKAGE, 'package.json'), 'utf8')) as {
    version: string;
  };
  return version;
}

/** Runs every scored scenario of the revision against the server at `url`. */
export async function runServerScenarios(url: string, revision: Revision): Promise<Scenario[]> {
  return inFolder(async (results) => {
    await runSuite(['server', '--url', url, '--requirements', revision, '-o', results]);
    const found = readResults(results, 'server-');
    return requirementsOf(revision).server.map((name) => judge(name, revision, found.get(name)));
  });
}

/** Runs one scenario against the client that `command` starts. The address of the server is the last argument. */
export async function runClientScenario(
  command: string,
  name: string,
  revision: Revision,
): Promise<Scenario> {
  return inFolder(async (results) => {
    const which = ['--scenario', name, '--spec-version', revision];
    const code = await runSuite(['client', '--command', command, ...which, '-o', results]);
    const scenario = judge(name, revision, readResults(results, '').get(name));
    if (code === 0 || scenario.problems.length > 0) return scenario;
    return { ...scenario, problems: [`the suite ended with ${code}`] };
  });
}

async function inFolder<T>(work: (folder: string) => Promise<T>): Promise<T> {
  const folder = mkdtempSync(join(tmpdir(), 'km-conformance-'));
  try {
    return await work(folder);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function runSuite(args: readonly string[]): Promise<number> {
  const child = spawn(process.execPath, [join(PACKAGE, 'dist', 'index.js'), ...args], {
    cwd: ROOT,
    env: { ...process.env, PATH: [dirname(process.execPath), process.env['PATH']].join(delimiter) },
    stdio: 'ignore',
    timeout: 180_000,
  });
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('exit', (code) => resolve(code ?? -1));
  });
}

/** Reads the result folders. Their names are the scenario and the time of its run. */
function readResults(folder: string, prefix: string): Map<string, readonly Check[]> {
  const found = new Map<string, readonly Check[]>();
  for (const entry of readdirSync(folder)) {
    const [, name] = /^(.+)-\d{4}-\d\d-\d\dT[\dZ-]+$/.exec(entry) ?? [];
    const file = join(folder, entry, 'checks.json');
    // A scenario that was interrupted leaves an empty folder.
    if (!name?.startsWith(prefix) || !existsSync(file)) continue;
    found.set(name.slice(prefix.length), JSON.parse(readFileSync(file, 'utf8')) as Check[]);
  }
  return found;
}

/** A scenario passes if at least one check succeeded and no check failed or warned. */
export function judge(
  name: string,
  revision: Revision,
  checks: readonly Check[] | undefined,
): Scenario {
  if (!checks) return { name, revision, passed: 0, problems: ['it did not run'] };
  const counted = checks.filter(({ id }) => !id.startsWith('wire-schema-'));
  const passed = counted.filter(({ status }) => status === 'SUCCESS').length;
  const problems = checks
    .filter(({ status }) => status === 'FAILURE' || status === 'WARNING')
    .map(({ id, errorMessage }) => `${id}: ${errorMessage ?? 'no reason given'}`);
  if (passed === 0 && problems.length === 0) problems.push('none of its checks ran');
  return { name, revision, passed, problems };
}
