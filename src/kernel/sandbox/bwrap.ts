// The Linux sandbox: a bubblewrap command line for one child. Arguments travel through a pipe, so
// that the values of environment variables do not show in the list of processes.
import { closeSync, constants, openSync, readlinkSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { fail, type Outcome, ok } from '../../base/index.ts';
import { DEVICES, ISOLATION, type SandboxReport } from './probe.ts';
import { isCovered, type Place, type ProjectView } from './project.ts';
import { systemMounts } from './visible.ts';

export const SANDBOX_HOME = '/tmp/.home';
export const SANDBOX_TEMP = '/tmp';
/** Which descriptor of the child carries what; mounts by descriptor come after these. */
export const ARGUMENTS_FD = 3;
export const CHANNEL_FD = 4;
const FIRST_MOUNT_FD = 5;

export interface Shown {
  source: string;
  target: string;
}

export interface BwrapPlan {
  report: SandboxReport;
  projectRoot: string;
  view: ProjectView;
  /** Read-only, besides the system; sources outside what is hidden. */
  shown: readonly Shown[];
  /** Read-only, mounted last: the tool's own folder, which may lie in a hidden one. */
  shownLast: readonly Shown[];
  network: boolean;
  cwd: string;
  env: Readonly<Record<string, string>>;
  command: readonly string[];
}

export interface BwrapLaunch {
  file: string;
  args: string[];
  /** For descriptor 3: NUL-separated options. */
  options: string;
  /** Open descriptors for the child, from 5 on. The caller closes them after the start. */
  fds: number[];
}

/** Opens the place itself; undefined when a link stands there by now. */
function openPlace(path: string): number | undefined {
  const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
  let fd: number | undefined;
  try {
    fd = openSync(path, flags);
    if (readlinkSync(`/proc/self/fd/${fd}`) === path) return fd;
  } catch {
    // gone or unreadable
  }
  if (fd !== undefined) closeSync(fd);
  return undefined;
}

const moved = (place: Place): Outcome<never> =>
  fail('permission_denied', `\`${place.path}\` was replaced while the sandbox was being set up`);

/** Mounts of the project's places; by descriptor where bubblewrap can. */
function placeMounts(plan: BwrapPlan, fds: number[]): Outcome<string[]> {
  const options: string[] = [];
  for (const place of plan.view.places) {
    const path = join(plan.projectRoot, place.path);
    const bind = place.access === 'write' ? '--bind' : '--ro-bind';
    if (plan.report.bindsByFd) {
      const fd = openPlace(path);
      if (fd === undefined) return moved(place);
      options.push(`${bind}-fd`, String(FIRST_MOUNT_FD + fds.length), path);
      fds.push(fd);
    } else if (place.access === 'read' || place.path === '.git') options.push(bind, path, path);
    // Without mounts by descriptor a swapped link would be followed: that place stays read-only.
  }
  return ok(options);
}

/** Empty folders and files over what is hidden; the folders are closed once all is mounted. */
function hiddenMounts(hidden: readonly string[]): { cover: string[]; close: string[] } {
  const isFolder = (path: string) => statSync(path, { throwIfNoEntry: false })?.isDirectory();
  return {
    cover: hidden.flatMap((path) =>
      isFolder(path) ? ['--tmpfs', path] : ['--ro-bind', '/dev/null', path],
    ),
    close: hidden.filter(isFolder).flatMap((path) => ['--remount-ro', path]),
  };
}

const readOnly = ({ source, target }: Shown): string[] => ['--ro-bind', source, target];

/** Everything about one child, ready to be started. On failure nothing stays open. */
export function bwrapLaunch(plan: BwrapPlan): Outcome<BwrapLaunch> {
  const { projectRoot, view } = plan;
  const fds: number[] = [];
  const places = placeMounts(plan, fds);
  if (!places.ok) {
    for (const fd of fds) closeSync(fd);
    return places;
  }
  const visible = [projectRoot, ...plan.shown.map(({ source }) => source)];
  const hidden = hiddenMounts(view.hidden.filter((path) => isCovered(visible, path)));
  const outerFirst = plan.shown.toSorted((a, b) => a.target.length - b.target.length);
  const options = [
    ...ISOLATION,
    ...(plan.network ? [] : ['--unshare-net']),
    ...systemMounts(),
    ...DEVICES,
    '--tmpfs',
    SANDBOX_TEMP,
    '--dir',
    SANDBOX_HOME,
    ...outerFirst.flatMap(readOnly),
    view.root === 'write' ? '--bind' : '--ro-bind',
    projectRoot,
    projectRoot,
    ...places.output,
    ...hidden.cover,
    ...plan.shownLast.flatMap(readOnly),
    ...hidden.close,
    '--remount-ro',
    '/',
    '--chdir',
    plan.cwd,
    '--clearenv',
    ...Object.entries(plan.env).flatMap(([name, value]) => ['--setenv', name, value]),
  ];
  return ok({
    file: plan.report.path ?? 'bwrap',
    args: ['--args', String(ARGUMENTS_FD), '--', ...plan.command],
    options: options.map((option) => `${option}\0`).join(''),
    fds,
  });
}
