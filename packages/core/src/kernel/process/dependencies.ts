// Installs packages that code tools declare, at the first execution and never at load, and only if the policy
// allows it. Otherwise the refusal contains the command. Each set of packages has one folder, named by its
// content: tools with the same list share it, and a changed list gets a new folder.
import { hash } from 'node:crypto';
import { existsSync, mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fail, messageOf, type Outcome, ok, shellQuote, systemRandom } from '../../base/index.ts';
import type { ScriptRuntime } from './config.ts';
import { childEnvironment, type ProcessPorts, searchPath } from './environment.ts';
import { runProcess } from './run.ts';

interface DependentTool {
  id: string;
  runtime: ScriptRuntime;
  dependencies: readonly string[];
}

/** Names and versions from a registry: no paths, no addresses, no options. */
const SHAPES: Readonly<Record<ScriptRuntime, RegExp>> = {
  node: /^(@[a-z0-9][\w.-]*\/)?[a-z0-9][\w.-]*(@[\w.^~<>=*+-]+)?$/i,
  python:
    /^[a-z0-9][\w.-]*(\[[\w, .-]+\])?((==|>=|<=|~=|!=|<|>)[\w.*+!]+(,\s*(==|>=|<=|~=|!=|<|>)[\w.*+!]+)*)?$/i,
};

const COMPLETE = '.complete';

/** Returns the folder of a set of packages, independent of its order. Undefined for an empty set. */
export function environmentFolder(
  projectRoot: string,
  runtime: ScriptRuntime,
  dependencies: readonly string[],
): string | undefined {
  if (dependencies.length === 0) return undefined;
  const list = [...new Set(dependencies)].sort();
  const name = hash('sha256', JSON.stringify([runtime, list])).slice(0, 16);
  return join(projectRoot, '.ai', '.env', runtime, name);
}

/** Returns the commands that fill `folder`, as argument lists. */
function installCommands({ runtime, dependencies }: DependentTool, folder: string): string[][] {
  // Install scripts and source builds run untrusted code, so packages that need them are refused.
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
  /^[\w@%+=:,./~^-]+$/.test(text) ? text : shellQuote(text);

/** Fails with the missing packages and the command that installs them, unless all are installed. */
function dependencyProblem(tool: DependentTool, folder: string): Outcome<null> {
  const { id, runtime, dependencies } = tool;
  const bad = dependencies.find((name) => !SHAPES[runtime].test(name));
  if (bad !== undefined) {
    const message = `dependency \`${bad}\` of tool \`${id}\` must be a package name with an optional version`;
    return fail('config_invalid', message, { config_path: 'dependencies' });
  }
  if (existsSync(join(folder, COMPLETE))) return ok(null);
  const steps = [...installCommands(tool, folder), ['touch', join(folder, COMPLETE)]];
  const install = steps.map((argv) => argv.map(quoted).join(' ')).join(' && ');
  const names = dependencies.map((name) => `\`${name}\``).join(', ');
  return fail(
    'dependency_missing',
    `tool \`${id}\` needs ${names}; set \`install: allow\` in the policy, or run: ${install}`,
    { tool: id, dependencies: [...dependencies], install },
  );
}

/** Settings of registries that a company may need. Tokens are not among them. */
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

type InstallPorts = Pick<ProcessPorts, 'clock' | 'env' | 'install'>;

async function step(
  argv: readonly string[],
  work: string,
  root: string,
  { clock, env }: InstallPorts,
  signal: AbortSignal,
): Promise<Outcome<null>> {
  const [file = '', ...args] = argv;
  const path = searchPath(env, root);
  const home = { home: work, temp: work };
  const childEnv = childEnvironment({ env, declared: REGISTRY, config: {}, path, ...home });
  const ended = await runProcess(
    { file, args, cwd: work, env: childEnv, fds: [], isSandboxed: false },
    { timeoutMs: INSTALL_MS, signal, clock },
  );
  if (ended.reason === 'exit' && ended.exitCode === 0) return ok(null);
  const output =
    ended.stderr.text.trim() || ended.stdout.text.trim() || ended.errno || ended.reason;
  return fail('dependency_missing', `\`${argv.join(' ')}\` failed: ${output.slice(-2000)}`, {
    exit_code: ended.exitCode,
    reason: ended.reason,
  });
}

/**
 * Installs missing packages if the policy allows it. This reaches the network and writes below `.ai/.env`. The
 * work happens in a folder beside the final one, which is renamed when it is complete. After a crash the next
 * attempt starts clean, and of two processes that install the same set one wins and the other uses its folder.
 */
export async function prepareDependencies(
  tool: DependentTool,
  projectRoot: string,
  ports: InstallPorts,
  signal: AbortSignal,
): Promise<Outcome<null>> {
  const folder = environmentFolder(projectRoot, tool.runtime, tool.dependencies);
  if (folder === undefined) return ok(null);
  const missing = dependencyProblem(tool, folder);
  if (missing.ok || missing.error.code === 'config_invalid') return missing;
  if (ports.install !== 'allow') return missing;
  const mark = Buffer.from(systemRandom(6)).toString('hex');
  const scratch = join(dirname(folder), `.work-${mark}`);
  const work = join(scratch, 'environment');
  try {
    mkdirSync(work, { recursive: true });
    for (const argv of installCommands(tool, work)) {
      const installed = await step(argv, scratch, projectRoot, ports, signal);
      if (!installed.ok) return installed;
    }
    writeFileSync(join(work, COMPLETE), `${tool.dependencies.join('\n')}\n`);
    takeName(work, folder);
    return ok(null);
  } catch (error) {
    return fail(
      'dependency_missing',
      `dependencies of \`${tool.id}\` cannot be installed: ${messageOf(error)}`,
    );
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
}

function takeName(work: string, folder: string): void {
  // An older version that worked in place, or a person, left a folder without its mark.
  if (!existsSync(join(folder, COMPLETE))) rmSync(folder, { recursive: true, force: true });
  try {
    renameSync(work, folder);
  } catch (error) {
    if (!existsSync(join(folder, COMPLETE))) throw error;
  }
}
