// Fills the folder of a tool's dependencies. The work happens in a folder beside it, which takes the
// final name only when it is complete: cut off anywhere, the next attempt starts clean, and of two
// processes that install the same set one wins and the other uses it.
import { existsSync, mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fail, type Outcome, ok, systemRandom } from '../base/index.ts';
import { childEnvironment, searchPath } from './process-env.ts';
import type { ProcessPorts } from './process-launch.ts';
import { runProcess } from './process-run.ts';
import {
  badDependency,
  COMPLETE,
  type DependentTool,
  dependencyProblem,
  environmentFolder,
  installCommands,
} from './runtime-environment.ts';

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
      `dependencies of \`${tool.id}\` cannot be installed: ${(error as Error).message}`,
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
