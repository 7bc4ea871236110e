// Declared dependencies of code tools: installed at first execute, never at load, and only when the
// policy says so. Otherwise the answer is the command that would do it.

import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fail, getOwn, messageOf, type Outcome, ok, systemRandom } from '../../base/index.ts';
import type { Plan } from '../tool/plan.ts';
import type { ScriptRuntime } from './config.ts';
import type { ProcessPorts } from './environment.ts';
import { childEnvironment, searchPath } from './environment.ts';
import { runProcess } from './run.ts';

export async function prepareDependencies(
  plan: Plan,
  projectRoot: string,
  install: 'allow' | 'ask' | 'deny',
  ports: InstallPorts,
): Promise<Outcome<null>> {
  const dependencies = plan.links.flatMap((link) => link.tool?.dependencies ?? []);
  const runtime = getOwn(plan.config, 'runtime');
  if (dependencies.length === 0 || (runtime !== 'node' && runtime !== 'python')) return ok(null);
  const tool = { id: plan.leaf.id, runtime, dependencies } as const;
  const missing = dependencyProblem(tool, projectRoot);
  if (missing.ok || install !== 'allow') return missing;
  return await installDependencies(tool, projectRoot, ports);
}

// Packages that code tools declare. Each set of them has one folder, named after what is in it, so
// that two tools with the same list share it and a changed list never meets old files. Nothing is
// installed at load; at execute only when policy allows it or a person approved.

/** Names and versions from a registry; no paths, no addresses, nothing that reads as an option. */
const SHAPES: Readonly<Record<ScriptRuntime, RegExp>> = {
  node: /^(@[a-z0-9][\w.-]*\/)?[a-z0-9][\w.-]*(@[\w.^~<>=*+-]+)?$/i,
  python:
    /^[a-z0-9][\w.-]*(\[[\w, .-]+\])?((==|>=|<=|~=|!=|<|>)[\w.*+!]+(,\s*(==|>=|<=|~=|!=|<|>)[\w.*+!]+)*)?$/i,
};

export const COMPLETE = '.complete';

/** Where a set of packages lives; undefined for none. The order of the list does not matter. */
export function environmentFolder(
  projectRoot: string,
  runtime: ScriptRuntime,
  dependencies: readonly string[],
): string | undefined {
  if (dependencies.length === 0) return undefined;
  const list = [...new Set(dependencies)].sort();
  const hash = createHash('sha256')
    .update(JSON.stringify([runtime, list]))
    .digest('hex');
  return join(projectRoot, '.ai', '.env', runtime, hash.slice(0, 16));
}

/** The commands that fill `folder`, as argument lists. */
export function installCommands(
  runtime: ScriptRuntime,
  dependencies: readonly string[],
  folder: string,
): string[][] {
  // Install scripts and source builds run code of strangers: packages that need them are refused.
  if (runtime === 'node') {
    const flags = ['--no-audit', '--no-fund', '--ignore-scripts', '--no-save', '--loglevel=error'];
    return [['npm', 'install', '--prefix', folder, ...flags, '--', ...dependencies]];
  }
  const python = join(folder, 'bin', 'python');
  const flags = ['--no-input', '--disable-pip-version-check', '--only-binary', ':all:', '--quiet'];
  return [
    ['python3', '-m', 'venv', folder],
    [python, '-m', 'pip', 'install', ...flags, '--', ...dependencies],
  ];
}

const quoted = (text: string): string =>
  /^[\w@%+=:,./~^-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;

/** What a person can paste to install by hand what `folder` needs. */
export function installLine(
  runtime: ScriptRuntime,
  dependencies: readonly string[],
  folder: string,
): string {
  const steps = installCommands(runtime, dependencies, folder).map((argv) =>
    argv.map(quoted).join(' '),
  );
  return [...steps, `touch ${quoted(join(folder, COMPLETE))}`].join(' && ');
}

export interface DependentTool {
  id: string;
  runtime: ScriptRuntime;
  dependencies: readonly string[];
}

export function badDependency(tool: DependentTool): Outcome<null> {
  const bad = tool.dependencies.find((name) => !SHAPES[tool.runtime].test(name));
  return bad === undefined
    ? ok(null)
    : fail(
        'config_invalid',
        `dependency \`${bad}\` of tool \`${tool.id}\` must be a package name with an optional version`,
        {
          config_path: 'dependencies',
        },
      );
}

/** `dependency_missing` with the exact command, unless everything the tool declares is installed. */
export function dependencyProblem(tool: DependentTool, projectRoot: string): Outcome<null> {
  const shape = badDependency(tool);
  if (!shape.ok) return shape;
  const folder = environmentFolder(projectRoot, tool.runtime, tool.dependencies);
  if (folder === undefined || existsSync(join(folder, COMPLETE))) return ok(null);
  const install = installLine(tool.runtime, tool.dependencies, folder);
  return fail(
    'dependency_missing',
    `tool \`${tool.id}\` needs ${tool.dependencies.map((name) => `\`${name}\``).join(', ')}; set \`install: allow\` in the policy, or run: ${install}`,
    { tool: tool.id, dependencies: [...tool.dependencies], install },
  );
}

// Fills the folder of a tool's dependencies. The work happens in a folder beside it, which takes the
// final name only when it is complete: cut off anywhere, the next attempt starts clean, and of two
// processes that install the same set one wins and the other uses it.

/** Settings of the registries, which a company may need; no tokens. */
const REGISTRY = [
  'npm_config_registry',
  'PIP_INDEX_URL',
  'PIP_TRUSTED_HOST',
  'HTTP_PROXY',
  'HTTPS_PROXY',
  'NO_PROXY',
  'http_proxy',
  'https_proxy',
  'no_proxy',
  'NODE_EXTRA_CA_CERTS',
  'SSL_CERT_FILE',
];
const INSTALL_MS = 10 * 60_000;
const MAX_LOG = 64 * 1024;

export interface InstallPorts extends Pick<ProcessPorts, 'clock' | 'env' | 'random'> {
  signal: AbortSignal;
}

async function step(
  argv: readonly string[],
  work: string,
  root: string,
  ports: InstallPorts,
): Promise<Outcome<null>> {
  const [file = '', ...args] = argv;
  const cap = { maxBytes: MAX_LOG, secrets: [] };
  const path = searchPath(ports.env, root);
  const env = childEnvironment({
    env: ports.env,
    declared: REGISTRY,
    config: {},
    path,
    home: work,
    temp: work,
  });
  const ended = await runProcess(
    { file, args, cwd: work, env, fds: [], isSandboxed: false },
    {
      stdin: undefined,
      timeoutMs: INSTALL_MS,
      graceMs: 2000,
      signal: ports.signal,
      clock: ports.clock,
      stdout: cap,
      stderr: cap,
      channel: cap,
    },
  );
  if (ended.reason === 'exit' && ended.exitCode === 0) return ok(null);
  const said = ended.stderr.text.trim() || ended.stdout.text.trim() || ended.errno || ended.reason;
  return fail('dependency_missing', `\`${argv.join(' ')}\` failed: ${said.slice(-2000)}`, {
    exit_code: ended.exitCode,
    reason: ended.reason,
  });
}

/**
 * Installs what is missing. To be called only when policy says `install: allow` or a person
 * approved: it reaches the network and writes below `.ai/.env`.
 */
export async function installDependencies(
  tool: DependentTool,
  projectRoot: string,
  ports: InstallPorts,
): Promise<Outcome<null>> {
  const shape = badDependency(tool);
  if (!shape.ok) return shape;
  if (dependencyProblem(tool, projectRoot).ok) return ok(null);
  const folder = environmentFolder(projectRoot, tool.runtime, tool.dependencies);
  if (folder === undefined) return ok(null);
  const mark = Buffer.from((ports.random ?? systemRandom)(6)).toString('hex');
  const scratch = join(dirname(folder), `.work-${mark}`);
  const work = join(scratch, 'environment');
  try {
    mkdirSync(work, { recursive: true });
    for (const argv of installCommands(tool.runtime, tool.dependencies, work)) {
      const done = await step(argv, scratch, projectRoot, ports);
      if (!done.ok) return done;
    }
    writeFileSync(join(work, COMPLETE), `${tool.dependencies.join('\n')}\n`);
    return takeName(work, folder);
  } catch (error) {
    return fail(
      'dependency_missing',
      `dependencies of \`${tool.id}\` cannot be installed: ${messageOf(error)}`,
    );
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
}

function takeName(work: string, folder: string): Outcome<null> {
  // Half a folder without its mark was left by a version that worked in place, or by a person.
  if (!existsSync(join(folder, COMPLETE))) rmSync(folder, { recursive: true, force: true });
  try {
    renameSync(work, folder);
  } catch (error) {
    if (!existsSync(join(folder, COMPLETE))) throw error;
  }
  return ok(null);
}
