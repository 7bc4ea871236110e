// From a tool's call to a child that can be started: the program is found, its rights are checked,
// its environment is made, and it is put into the sandbox. Nothing has run when this is done.
import { cpSync, mkdtempSync, realpathSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fail, isInside, type Outcome, ok, systemRandom } from '../../base/index.ts';
import type { PrimitiveCall } from '../primitive.ts';
import { resolveProjectPath } from '../rights/project-path.ts';
import { bwrapLaunch } from '../sandbox/bwrap.ts';
import { decideSandbox, needsNetwork, type SandboxMode, verifyStart } from '../sandbox/decide.ts';
import { seatbeltProfile } from '../sandbox/macos.ts';
import { SANDBOX_HOME, SANDBOX_TEMP, type SandboxReport, type Shown } from '../sandbox/plan.ts';
import { isCovered, type OpenView, projectView } from '../sandbox/project.ts';
import { utilLinuxLaunch } from '../sandbox/util-linux.ts';
import { toolchainFolders } from '../sandbox/visible.ts';
import type { ProcessConfig } from './config.ts';
import {
  childEnvironment,
  type ProcessEnvironment,
  type ProcessPorts,
  searchPath,
} from './environment.ts';
import { type FoundProgram, findProgram } from './program.ts';
import type { Launch } from './run.ts';

export type LaunchCall = Pick<PrimitiveCall, 'tool' | 'verify' | 'projectRoot'>;

export interface PreparedLaunch {
  launch: Launch;
  mode: SandboxMode;
  network: boolean;
  /** Absolute program and arguments as they run inside. */
  argv: readonly string[];
}

const userFolder = (env: ProcessEnvironment): string[] => {
  if (env.KERNMANTLE_HOME) return [env.KERNMANTLE_HOME];
  return env.HOME ? [join(env.HOME, '.ai')] : [];
};

const realOf = (path: string): string | undefined => {
  try {
    return realpathSync.native(path);
  } catch {
    return undefined;
  }
};

const asIs = (path: string): Shown => ({ source: path, target: path });

interface Confinement {
  mode: SandboxMode;
  network: boolean;
  cwd: string;
  path: readonly string[];
  found: FoundProgram;
  unguessable: string;
}

function viewOf(call: LaunchCall, ports: ProcessPorts, plan: Confinement): Outcome<OpenView> {
  return projectView(
    call.projectRoot,
    {
      mode: plan.mode === 'workspace' ? 'workspace' : 'strict',
      mayWrite: (path) => call.verify({ capability: 'fs.write', scope: { path } }).ok,
      mayWriteGit: () => call.verify({ capability: 'git.write' }).ok,
      globs: call.verify.globs?.(),
      unguessable: plan.unguessable,
    },
    [...userFolder(ports.env), ...(ports.hidden ?? [])],
  );
}

/** Toolchains on the path, the program itself, and what its tool brings. */
function shownFolders(ports: ProcessPorts, plan: Confinement): string[] {
  const { found, path } = plan;
  const real = realOf(found.file) ?? found.file;
  return toolchainFolders([...path, dirname(found.file), dirname(real)], ports.env.HOME ?? '/root');
}

/** Listed files of the real home: where they are, and their place in the private one. */
function homeFiles(
  call: LaunchCall,
  config: ProcessConfig,
  ports: ProcessPorts,
  privateHome: string,
): Shown[] {
  const home = ports.env.HOME;
  if (call.tool.source !== 'bundle' || !home) return [];
  return config.homeFiles.flatMap((name) => {
    const source = realOf(join(home, name));
    return source === undefined ? [] : [{ source, target: join(privateHome, name) }];
  });
}

function environmentOf(
  call: LaunchCall,
  config: ProcessConfig,
  ports: ProcessPorts,
  path: readonly string[],
  home: string,
  temp: string,
) {
  const { env } = ports;
  return childEnvironment({ env, declared: call.tool.env, config: config.env, path, home, temp });
}

function inNamespaces(
  call: LaunchCall,
  config: ProcessConfig,
  ports: ProcessPorts,
  plan: Confinement,
): Outcome<Launch> {
  const view = viewOf(call, ports, plan);
  if (!view.ok) return view;
  const { found, cwd, network } = plan;
  const agent = call.tool.env.includes('SSH_AUTH_SOCK') ? ports.env.SSH_AUTH_SOCK : undefined;
  const socket = network && agent ? realOf(agent) : undefined;
  const isMissing = (path: string): boolean =>
    !isInside(path, call.projectRoot) || isCovered(view.output.hidden, path);
  const launch = ports.sandbox.kind === 'bwrap' ? bwrapLaunch : utilLinuxLaunch;
  const made = launch({
    report: ports.sandbox,
    projectRoot: call.projectRoot,
    view: view.output,
    shown: shownFolders(ports, plan).map(asIs),
    shownLast: [
      ...found.shown.filter(isMissing).map(asIs),
      ...homeFiles(call, config, ports, SANDBOX_HOME),
      ...(socket && agent ? [{ source: socket, target: agent }] : []),
    ],
    network,
    cwd,
    env: environmentOf(call, config, ports, plan.path, SANDBOX_HOME, SANDBOX_TEMP),
    command: [found.file, ...found.args],
  });
  if (!made.ok) {
    view.output.close();
    return made;
  }
  const cleanUp = () => view.output.close();
  return ok({ ...made.output, cwd: '/', env: {}, isSandboxed: true, cleanUp });
}

/** Without namespaces a private folder stands in for home and temporary files. */
function inFolder(
  call: LaunchCall,
  config: ProcessConfig,
  ports: ProcessPorts,
  plan: Confinement,
): Outcome<Launch> {
  const { found, mode } = plan;
  const view = mode === 'none' ? undefined : viewOf(call, ports, plan);
  if (view && !view.ok) return view;
  const home = realpathSync.native(mkdtempSync(join(tmpdir(), 'kernmantle-')));
  for (const { source, target } of homeFiles(call, config, ports, home)) {
    cpSync(source, target, { recursive: true });
  }
  const direct: Launch = {
    file: found.file,
    args: found.args,
    cwd: plan.cwd,
    env: environmentOf(call, config, ports, plan.path, home, home),
    fds: [],
    isSandboxed: false,
    cleanUp() {
      rmSync(home, { recursive: true, force: true });
      return view?.ok ? view.output.close() : [];
    },
  };
  if (!view?.ok) return ok(direct);
  const profile = seatbeltProfile({
    projectRoot: call.projectRoot,
    view: view.output,
    readable: [...shownFolders(ports, plan), ...found.shown],
    home: ports.env.HOME ?? '/Users',
    temp: home,
    network: plan.network,
  });
  const file = ports.sandbox.path ?? 'sandbox-exec';
  return ok({ ...direct, file, args: ['-p', profile, found.file, ...found.args] });
}

const hasNamespaces = ({ kind }: SandboxReport): boolean =>
  kind === 'bwrap' || kind === 'util-linux';

/** Checks every right first; a refusal has started and made nothing. */
export function prepareLaunch(
  call: LaunchCall,
  config: ProcessConfig,
  ports: ProcessPorts,
  options: { isSink?: boolean } = {},
): Outcome<PreparedLaunch> {
  const { tool, projectRoot } = call;
  const unguessable = Buffer.from((ports.random ?? systemRandom)(12)).toString('hex');
  const decided = decideSandbox(tool, ports);
  if (!decided.ok) {
    // A right that is missing is missing on every machine: it is the better answer.
    const needed = verifyStart(call, tool.sandbox, undefined, unguessable);
    return needed.ok ? decided : needed;
  }
  const mode = decided.output;
  const path = searchPath(ports.env, projectRoot);
  const found = findProgram(call, config, {
    path,
    node: ports.node ?? process.execPath,
    isSink: options.isSink ?? false,
  });
  if (!found.ok) return found;
  const rights = verifyStart(call, mode, found.output.inProject, unguessable);
  if (!rights.ok) return rights;
  const cwd = resolveProjectPath(projectRoot, config.cwd);
  if (!cwd.ok) return cwd;
  if (!statSync(cwd.output.absolute, { throwIfNoEntry: false })?.isDirectory()) {
    return fail('not_found', `working folder \`${config.cwd}\` does not exist in the project`);
  }
  const network = needsNetwork(tool, mode);
  const plan = { mode, network, cwd: cwd.output.absolute, path, found: found.output, unguessable };
  const place = mode !== 'none' && hasNamespaces(ports.sandbox) ? inNamespaces : inFolder;
  const launch = place(call, config, ports, plan);
  if (!launch.ok) return launch;
  const argv = [found.output.file, ...found.output.args];
  return ok({ launch: launch.output, mode, network: network || mode === 'none', argv });
}
