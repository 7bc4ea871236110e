// The Linux sandbox: a bubblewrap command line for one child. Arguments travel through a pipe, so
// that the values of environment variables do not show in the list of processes.
import { closeSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { type Outcome, ok } from '../../base/index.ts';
import {
  ARGUMENTS_FD,
  FIRST_MOUNT_FD,
  moved,
  openPlace,
  SANDBOX_HOME,
  SANDBOX_TEMP,
  type SandboxLaunch,
  type SandboxPlan,
  type Shown,
} from './plan.ts';
import { isCovered } from './project.ts';
import { systemPlaces } from './visible.ts';

/** New namespaces for everything, no capabilities, and no life after the process that started it. */
const ISOLATION: readonly string[] = [
  '--unshare-user-try',
  '--unshare-ipc',
  '--unshare-pid',
  '--unshare-uts',
  '--unshare-cgroup-try',
  '--die-with-parent',
  '--cap-drop',
  'ALL',
  '--hostname',
  'sandbox',
];

/**
 * System folders as a child needs them. `/proc` is read-only: run by root, the files below
 * `/proc/sys` belong to the child, and one of them names a program that the kernel starts.
 */
const DEVICES: readonly string[] = ['--proc', '/proc', '--remount-ro', '/proc', '--dev', '/dev'];

const systemMounts = (): string[] =>
  systemPlaces().flatMap((path) => ['--ro-bind-try', path, path]);

/** What every command line begins with: a probe tries exactly what later runs. */
export const bwrapWorld = (network: boolean): string[] => [
  ...ISOLATION,
  ...(network ? [] : ['--unshare-net']),
  ...systemMounts(),
  ...DEVICES,
  '--tmpfs',
  SANDBOX_TEMP,
];

/** Mounts of the project's places; by descriptor where bubblewrap can. */
function placeMounts(plan: SandboxPlan, fds: number[]): Outcome<string[]> {
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
export function bwrapLaunch(plan: SandboxPlan): Outcome<SandboxLaunch> {
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
    ...bwrapWorld(plan.network),
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
