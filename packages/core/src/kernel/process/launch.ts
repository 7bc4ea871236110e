// Turns a tool's call into a child that can be started: it finds the program, checks the rights, makes
// the environment and prepares the sandbox. Nothing runs yet.
import { cpSync, mkdtempSync, realpathSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, relative } from 'node:path';
import { fail, isInside, matchGlob, type Outcome, ok, systemRandom } from '../../base/index.ts';
import type { PrimitiveCall } from '../primitive.ts';
import { realOf, resolveProjectPath } from '../rights/project-path.ts';
import { bwrapLaunch } from '../sandbox/bwrap.ts';
import { decideSandbox, needsNetwork, type SandboxMode, verifyStart } from '../sandbox/decide.ts';
import { findEndpoints } from '../sandbox/executable-names.ts';
import { seatbeltProfile } from '../sandbox/macos.ts';
import { pathspecsOf } from '../sandbox/pathspecs.ts';
import { type AccessQuestion, accessAt, findPlaces, isWithin } from '../sandbox/places.ts';
import { SANDBOX_HOME, SANDBOX_TEMP, type Shown } from '../sandbox/plan.ts';
import {
  isCovered,
  type OpenView,
  type ProjectView,
  projectView,
  type SetAside,
} from '../sandbox/project.ts';
import { utilLinuxLaunch } from '../sandbox/util-linux.ts';
import { toolchainFolders } from '../sandbox/visible.ts';
import { withBounds } from './bounds.ts';
import type { ProcessConfig } from './config.ts';
import { childEnvironment, type ProcessPorts, searchPath } from './environment.ts';
import { type FoundProgram, findProgram } from './program.ts';
import type { Launch } from './run.ts';

type LaunchCall = Pick<PrimitiveCall, 'tool' | 'verify' | 'projectRoot'>;

export interface PreparedLaunch {
  launch: Launch;
  mode: SandboxMode;
  network: boolean;
  /** Absolute path of the program and its arguments, as they are inside of the sandbox. */
  argv: readonly string[];
  /** The part of the project that the child can read and write. */
  view: ProjectView;
}

/** An allowed start, with the results of the checks. */
interface AllowedStart {
  call: LaunchCall;
  config: ProcessConfig;
  ports: ProcessPorts;
  mode: SandboxMode;
  network: boolean;
  cwd: string;
  path: readonly string[];
  found: FoundProgram;
  /** A random name for files of this child. */
  name: string;
}

const OF_GIT = /^git\./;
const WRITES_GIT = ['git.write', 'git.push'];
const UNCONFINED: ProjectView = { root: 'write', places: [], hidden: [] };

/** Returns random characters. A glob that matches them matches every name. */
const unguessable = (): string =>
  String.fromCharCode(...[...systemRandom(24)].map((byte) => 0xe000 + byte));

/** Returns what the caller may read and write, restricted by the globs and the effect of the tool. */
function questionOf({ call, mode }: Pick<AllowedStart, 'call' | 'mode'>): AccessQuestion {
  const { verify, tool } = call;
  const { sees } = tool;
  const globs = verify.globs?.();
  const isWriter = mode !== 'strict' && tool.effect !== 'read';
  return {
    mayRead: (path) =>
      (sees === undefined || sees.some((glob) => matchGlob(glob, path))) &&
      verify({ capability: 'fs.read', scope: { path } }).ok,
    mayWrite: isWriter
      ? (path) => verify({ capability: 'fs.write', scope: { path } }).ok
      : undefined,
    globs: globs && [...globs, ...(sees ?? [])],
    unguessable: unguessable(),
  };
}

/** Models read results too, so the path of a person's home folder is replaced. */
const shownAside = ({ paths, folder }: SetAside, home: string | undefined): SetAside => ({
  paths,
  folder: home && isInside(folder, home) ? join('~', relative(home, folder)) : folder,
});

function viewOf(start: AllowedStart): Outcome<OpenView> {
  const { call, ports, cwd, name } = start;
  const { tool, verify, projectRoot } = call;
  const writesGit = WRITES_GIT.some((one) => tool.requires.includes(one));
  const view = projectView(
    projectRoot,
    {
      ...questionOf(start),
      usesGit: tool.requires.some((one) => OF_GIT.test(one)),
      mayWriteGit: () => writesGit && verify({ capability: 'git.write' }).ok,
      aside: ports.aside,
      name,
    },
    ports.hidden,
  );
  if (!view.ok) return view;
  const folder = relative(projectRoot, cwd);
  const { places } = view.output;
  const isThere =
    folder === '' ||
    accessAt(view.output, folder) !== 'none' ||
    places.some(({ path }) => isWithin(folder, path));
  const { close } = view.output;
  if (isThere) return ok({ ...view.output, close: () => shownAside(close(), ports.env.HOME) });
  close();
  return fail('permission_denied', `the working folder \`${folder}\` may not be read`, {
    missing: 'fs.read',
    attempted: folder,
    scope: { path: folder },
  });
}

/** Returns arguments that restrict git to readable paths. Refuses a tool that cannot be restricted. */
function gitRestriction(start: AllowedStart): Outcome<readonly string[]> {
  const { call, config, mode } = start;
  const { pathspecs } = config;
  const paths = pathspecs === undefined || pathspecs === 'none' ? [] : pathspecs;
  if (mode === 'none' || !call.tool.requires.some((one) => OF_GIT.test(one))) return ok(paths);
  const question = questionOf(start);
  const readable = findPlaces(call.projectRoot, { ...question, mayWrite: undefined });
  if (!readable.ok) return readable;
  if (readable.output.readsAll || pathspecs === 'none') return ok(paths);
  if (pathspecs !== undefined) return pathspecsOf(question, paths);
  return fail(
    'permission_denied',
    `tool \`${call.tool.id}\` runs git, whose history contains files that the caller may not read; set its \`config.pathspecs\`, or use the git tools of the bundle`,
    { missing: 'fs.read', attempted: call.tool.id },
  );
}

/**
 * Returns the folders that the child can read: toolchains on the path, the program, and the files of its
 * tool. Outer folders come before inner ones.
 */
function shownFolders({ ports, found, path }: AllowedStart): string[] {
  const real = realOf(found.file) ?? found.file;
  const folders = [...path, dirname(found.file), dirname(real)];
  return toolchainFolders(folders, ports.env.HOME ?? '/root').sort((a, b) => a.length - b.length);
}

/** Returns the listed files of the real home folder with their path in the private one. */
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

/**
 * Returns sockets, FIFOs and devices that a child could reach, as paths inside. System folders are not
 * searched, because only root writes there.
 */
function endpointsIn(
  projectRoot: string,
  { root, places, hidden }: ProjectView,
  others: readonly Shown[],
): Outcome<string[]> {
  const covered = new Set([...hidden, ...places.map(({ path }) => join(projectRoot, path))]);
  const open = places.filter(({ access }) => access !== 'none').map(({ path }) => path);
  const roots = [...(root === 'none' ? [] : ['']), ...open].map((path) => join(projectRoot, path));
  const inProject = findEndpoints(roots, (path) => covered.has(path));
  if (!inProject.ok) return inProject;
  const endpoints = [...inProject.output];
  for (const { source, target } of others) {
    const real = realOf(source);
    if (real === undefined) continue;
    const here = findEndpoints([real], (path) => path === projectRoot || hidden.includes(path));
    if (!here.ok) return here;
    endpoints.push(...here.output.map((path) => join(target, relative(real, path))));
  }
  return ok([...new Set(endpoints)]);
}

interface PlatformLaunch {
  launch: Launch;
  view: ProjectView;
}

function inNamespaces(start: AllowedStart): Outcome<PlatformLaunch> {
  const view = viewOf(start);
  if (!view.ok) return view;
  const { call, config, ports, found, cwd, network } = start;
  const { projectRoot } = call;
  const { root, places, hidden, close } = view.output;
  const agent = call.tool.env.includes('SSH_AUTH_SOCK') ? ports.env.SSH_AUTH_SOCK : undefined;
  const socket = network && agent ? realOf(agent) : undefined;
  const isUnseen = (path: string): boolean =>
    isInside(path, projectRoot) && accessAt(view.output, relative(projectRoot, path)) === 'none';
  const isMissing = (path: string): boolean =>
    !isInside(path, projectRoot) || isCovered(hidden, path) || isUnseen(path);
  const readable = shownFolders(start);
  const shownLast = [
    ...found.shown.filter(isMissing).map((path) => ({ source: path, target: path })),
    ...homeFiles(start, SANDBOX_HOME),
  ];
  const closed = endpointsIn(projectRoot, view.output, [
    // Mounts of the project cover a toolchain that is inside of it.
    ...readable
      .filter((path) => !isInside(path, projectRoot))
      .map((path) => ({ source: path, target: path })),
    ...shownLast,
  ]);
  if (!closed.ok) {
    close();
    return closed;
  }
  const inside = ports.sandbox.kind === 'bwrap' ? bwrapLaunch : utilLinuxLaunch;
  const sandbox = inside({
    report: ports.sandbox,
    projectRoot,
    view: {
      root,
      places,
      hidden: hidden.filter(
        (path) => isCovered([projectRoot, ...readable], path) && !isUnseen(path),
      ),
    },
    shown: readable,
    shownLast: [...shownLast, ...(socket && agent ? [{ source: socket, target: agent }] : [])],
    closed: closed.output.filter((path) => path !== agent),
    temporaryMb: config.bounds.memoryMb,
    network,
    cwd,
    env: environmentOf(start, SANDBOX_HOME, SANDBOX_TEMP),
    command: withBounds([found.file, ...found.args], config.bounds, true),
  });
  if (!sandbox.ok) {
    close();
    return sandbox;
  }
  const launch: Launch = {
    ...sandbox.output,
    cwd: '/',
    env: {},
    bounds: config.bounds,
    isSandboxed: true,
    cleanUp: close,
  };
  return ok({ launch, view: { root, places, hidden } });
}

/** Prepares a start without namespaces. A private folder replaces home and temporary files. */
function inFolder(start: AllowedStart): Outcome<PlatformLaunch> {
  const { call, config, ports, found, mode, cwd, network } = start;
  const [program = '', ...args] = withBounds([found.file, ...found.args], config.bounds, false);
  const view = mode === 'none' ? undefined : viewOf(start);
  if (view && !view.ok) return view;
  const home = realpathSync.native(mkdtempSync(join(tmpdir(), 'kernmantle-')));
  for (const { source, target } of homeFiles(start, home)) {
    cpSync(source, target, { recursive: true });
  }
  const direct: Launch = {
    file: program,
    args,
    cwd,
    env: environmentOf(start, home, home),
    fds: [],
    bounds: config.bounds,
    isSandboxed: false,
    cleanUp() {
      rmSync(home, { recursive: true, force: true });
      return view?.output.close();
    },
  };
  if (!view) return ok({ launch: direct, view: UNCONFINED });
  const closed = endpointsIn(call.projectRoot, view.output, []);
  if (!closed.ok) {
    direct.cleanUp?.();
    return closed;
  }
  const { root, places, hidden } = view.output;
  const profile = seatbeltProfile({
    projectRoot: call.projectRoot,
    view: { root, places, hidden: [...hidden, ...closed.output] },
    readable: shownFolders(start),
    always: found.shown,
    home: ports.env.HOME ?? '/Users',
    temp: home,
    network,
  });
  const file = ports.sandbox.path ?? 'sandbox-exec';
  const launch = { ...direct, file, args: ['-p', profile, program, ...args] };
  return ok({ launch, view: { root, places, hidden } });
}

/** Checks every right that a start needs. Creates nothing. */
export function allowStart(
  call: LaunchCall,
  config: ProcessConfig,
  ports: ProcessPorts,
  isSink = false,
): Outcome<Pick<AllowedStart, 'mode' | 'path' | 'found' | 'name'>> {
  const { tool, projectRoot } = call;
  const name = Buffer.from(systemRandom(12)).toString('hex');
  const decided = decideSandbox(tool, ports);
  if (!decided.ok) {
    // A missing right is missing on every machine, so it is reported before a missing sandbox.
    const needed = verifyStart(call, tool.sandbox, undefined, name);
    return needed.ok ? decided : needed;
  }
  const mode = decided.output;
  const path = searchPath(ports.env, projectRoot);
  const program = findProgram(call, config, path, isSink);
  if (!program.ok) return program;
  const rights = verifyStart(call, mode, program.output.inProject, name);
  return rights.ok ? ok({ mode, path, found: program.output, name }) : rights;
}

/** Prepares a start. It checks every right first, and a refusal starts and creates nothing. */
export function prepareLaunch(
  call: LaunchCall,
  config: ProcessConfig,
  ports: ProcessPorts,
  { isSink = false }: { isSink?: boolean } = {},
): Outcome<PreparedLaunch> {
  const { tool, projectRoot } = call;
  const allowed = allowStart(call, config, ports, isSink);
  if (!allowed.ok) return allowed;
  const { mode } = allowed.output;
  const folder = resolveProjectPath(projectRoot, config.cwd);
  if (!folder.ok) return folder;
  const cwd = folder.output.absolute;
  if (!statSync(cwd, { throwIfNoEntry: false })?.isDirectory()) {
    return fail('not_found', `working folder \`${config.cwd}\` not found in the project`);
  }
  const network = needsNetwork(tool, mode);
  const start = { ...allowed.output, call, config, ports, network, cwd };
  const gitArguments = gitRestriction(start);
  if (!gitArguments.ok) return gitArguments;
  const found = { ...start.found, args: [...start.found.args, ...gitArguments.output] };
  const hasNamespaces = ['bwrap', 'util-linux'].includes(ports.sandbox.kind);
  const launch =
    mode !== 'none' && hasNamespaces
      ? inNamespaces({ ...start, found })
      : inFolder({ ...start, found });
  if (!launch.ok) return launch;
  const argv = [found.file, ...found.args];
  return ok({ ...launch.output, mode, network: network || mode === 'none', argv });
}
