// From a tool's call to a child that can be started: the program is found, its rights are checked,
// its environment is made, and it is put into the sandbox. Nothing has run when this is done.
import { cpSync, mkdtempSync, realpathSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fail, isInside, type Outcome, ok, systemRandom } from '../../base/index.ts';
import type { PrimitiveCall } from '../primitive.ts';
import { realOf, resolveProjectPath } from '../rights/project-path.ts';
import { bwrapLaunch } from '../sandbox/bwrap.ts';
import { decideSandbox, needsNetwork, type SandboxMode, verifyStart } from '../sandbox/decide.ts';
import { seatbeltProfile } from '../sandbox/macos.ts';
import { SANDBOX_HOME, SANDBOX_TEMP, type Shown } from '../sandbox/plan.ts';
import { isCovered, type OpenView, projectView } from '../sandbox/project.ts';
import { utilLinuxLaunch } from '../sandbox/util-linux.ts';
import { toolchainFolders } from '../sandbox/visible.ts';
import type { ProcessConfig } from './config.ts';
import { childEnvironment, type ProcessPorts, searchPath } from './environment.ts';
import { type FoundProgram, findProgram } from './program.ts';
import type { Launch } from './run.ts';

type LaunchCall = Pick<PrimitiveCall, 'tool' | 'verify' | 'projectRoot'>;

export interface PreparedLaunch {
  launch: Launch;
  mode: SandboxMode;
  network: boolean;
  /** Absolute program and arguments as they run inside. */
  argv: readonly string[];
}

/** What may start, and all that was found out about it. */
interface AllowedStart {
  call: LaunchCall;
  config: ProcessConfig;
  ports: ProcessPorts;
  mode: SandboxMode;
  network: boolean;
  cwd: string;
  path: readonly string[];
  found: FoundProgram;
  unguessable: string;
}

function viewOf({ call, ports, mode, unguessable }: AllowedStart): Outcome<OpenView> {
  return projectView(
    call.projectRoot,
    {
      mode: mode === 'workspace' ? 'workspace' : 'strict',
      mayWrite: (path) => call.verify({ capability: 'fs.write', scope: { path } }).ok,
      mayWriteGit: () => call.verify({ capability: 'git.write' }).ok,
      globs: call.verify.globs?.(),
      unguessable,
    },
    ports.hidden,
  );
}

/** Toolchains on the path, the program itself, and what its tool brings; outer before inner. */
function shownFolders({ ports, found, path }: AllowedStart): string[] {
  const real = realOf(found.file) ?? found.file;
  const folders = [...path, dirname(found.file), dirname(real)];
  return toolchainFolders(folders, ports.env.HOME ?? '/root').sort((a, b) => a.length - b.length);
}

/** Listed files of the real home: where they are, and their place in the private one. */
function homeFiles({ call, config, ports }: AllowedStart, privateHome: string): Shown[] {
  const home = ports.env.HOME;
  if (call.tool.source !== 'bundle' || !home) return [];
  return config.homeFiles.flatMap((name) => {
    const source = realOf(join(home, name));
    return source === undefined ? [] : [{ source, target: join(privateHome, name) }];
  });
}

function environmentOf(
  { call, config, ports, path }: AllowedStart,
  home: string,
  temp: string,
): Record<string, string> {
  const { env } = ports;
  return childEnvironment({ env, declared: call.tool.env, config: config.env, path, home, temp });
}

function inNamespaces(start: AllowedStart): Outcome<Launch> {
  const view = viewOf(start);
  if (!view.ok) return view;
  const { call, ports, found, cwd, network } = start;
  const { projectRoot } = call;
  const { hidden, close } = view.output;
  const agent = call.tool.env.includes('SSH_AUTH_SOCK') ? ports.env.SSH_AUTH_SOCK : undefined;
  const socket = network && agent ? realOf(agent) : undefined;
  const isMissing = (path: string): boolean =>
    !isInside(path, projectRoot) || isCovered(hidden, path);
  const shown = shownFolders(start);
  const launch = ports.sandbox.kind === 'bwrap' ? bwrapLaunch : utilLinuxLaunch;
  const made = launch({
    report: ports.sandbox,
    projectRoot,
    view: {
      ...view.output,
      hidden: hidden.filter((path) => isCovered([projectRoot, ...shown], path)),
    },
    shown,
    shownLast: [
      ...found.shown.filter(isMissing).map((path) => ({ source: path, target: path })),
      ...homeFiles(start, SANDBOX_HOME),
      ...(socket && agent ? [{ source: socket, target: agent }] : []),
    ],
    network,
    cwd,
    env: environmentOf(start, SANDBOX_HOME, SANDBOX_TEMP),
    command: [found.file, ...found.args],
  });
  if (!made.ok) {
    close();
    return made;
  }
  return ok({ ...made.output, cwd: '/', env: {}, isSandboxed: true, cleanUp: close });
}

/** Without namespaces a private folder stands in for home and temporary files. */
function inFolder(start: AllowedStart): Outcome<Launch> {
  const { call, ports, found, mode, cwd, network } = start;
  const view = mode === 'none' ? undefined : viewOf(start);
  if (view && !view.ok) return view;
  const home = realpathSync.native(mkdtempSync(join(tmpdir(), 'kernmantle-')));
  for (const { source, target } of homeFiles(start, home)) {
    cpSync(source, target, { recursive: true });
  }
  const direct: Launch = {
    file: found.file,
    args: found.args,
    cwd,
    env: environmentOf(start, home, home),
    fds: [],
    isSandboxed: false,
    cleanUp() {
      rmSync(home, { recursive: true, force: true });
      return view?.output.close() ?? [];
    },
  };
  if (!view) return ok(direct);
  const profile = seatbeltProfile({
    projectRoot: call.projectRoot,
    view: view.output,
    readable: [...shownFolders(start), ...found.shown],
    home: ports.env.HOME ?? '/Users',
    temp: home,
    network,
  });
  const file = ports.sandbox.path ?? 'sandbox-exec';
  return ok({ ...direct, file, args: ['-p', profile, found.file, ...found.args] });
}

/** Checks every right first; a refusal has started and made nothing. */
export function prepareLaunch(
  call: LaunchCall,
  config: ProcessConfig,
  ports: ProcessPorts,
  { isSink = false }: { isSink?: boolean } = {},
): Outcome<PreparedLaunch> {
  const { tool, projectRoot } = call;
  const unguessable = Buffer.from(systemRandom(12)).toString('hex');
  const decided = decideSandbox(tool, ports);
  if (!decided.ok) {
    // A right that is missing is missing on every machine: it is the better answer.
    const needed = verifyStart(call, tool.sandbox, undefined, unguessable);
    return needed.ok ? decided : needed;
  }
  const mode = decided.output;
  const path = searchPath(ports.env, projectRoot);
  const program = findProgram(call, config, path, isSink);
  if (!program.ok) return program;
  const found = program.output;
  const rights = verifyStart(call, mode, found.inProject, unguessable);
  if (!rights.ok) return rights;
  const folder = resolveProjectPath(projectRoot, config.cwd);
  if (!folder.ok) return folder;
  const cwd = folder.output.absolute;
  if (!statSync(cwd, { throwIfNoEntry: false })?.isDirectory()) {
    return fail('not_found', `working folder \`${config.cwd}\` does not exist in the project`);
  }
  const network = needsNetwork(tool, mode);
  const start = { call, config, ports, mode, network, cwd, path, found, unguessable };
  const hasNamespaces = ['bwrap', 'util-linux'].includes(ports.sandbox.kind);
  const launch = mode !== 'none' && hasNamespaces ? inNamespaces(start) : inFolder(start);
  if (!launch.ok) return launch;
  const argv = [found.file, ...found.args];
  return ok({ launch: launch.output, mode, network: network || mode === 'none', argv });
}
