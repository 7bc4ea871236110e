// Makes the bubblewrap command line of the Linux sandbox for one child. Arguments go through a pipe, so
// that the list of processes does not show the values of environment variables.
import { closeSync, openSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { type Outcome, ok } from '../../base/index.ts';
import { accessAt } from './places.ts';
import {
  ARGUMENTS_FD,
  FIRST_MOUNT_FD,
  isFolder,
  moved,
  openPlace,
  SANDBOX_HOME,
  SANDBOX_TEMP,
  type SandboxLaunch,
  type SandboxPlan,
  type Shown,
  STATUS_FD,
} from './plan.ts';
import { systemPlaces } from './visible.ts';

/** Arguments for new namespaces of every kind, no capabilities, and an end together with the parent process. */
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
 * System folders of a child. `/proc` is read-only: for root the files below `/proc/sys` belong to the
 * child, and one of them names a program that the kernel starts.
 */
const DEVICES = '--proc /proc --remount-ro /proc --dev /dev --remount-ro /dev'.split(' ');

/** Returns the start of every command line. The probe tries exactly these arguments. */
export const bwrapWorld = (network: boolean, temporaryMb: number): string[] => [
  ...ISOLATION,
  ...(network ? [] : ['--unshare-net']),
  ...systemPlaces().flatMap((path) => ['--ro-bind-try', path, path]),
  ...DEVICES,
  ...['/dev/shm', SANDBOX_TEMP].flatMap((path) =>
    `--size ${temporaryMb * 1024 * 1024} --tmpfs ${path}`.split(' '),
  ),
];

/**
 * Returns arguments that cover a path with an empty folder or file. A folder becomes read-only after
 * everything is mounted.
 */
function empty(path: string, fds: number[]): string[] {
  if (isFolder(path)) return ['--tmpfs', path];
  fds.push(openSync('/dev/null', 'r'));
  return ['--ro-bind-data', String(FIRST_MOUNT_FD + fds.length - 1), path];
}

/** Returns the mounts of the project's places, by descriptor if bubblewrap supports it. */
function placeMounts(plan: SandboxPlan, fds: number[]): Outcome<string[]> {
  const options: string[] = [];
  for (const place of plan.view.places) {
    const path = join(plan.projectRoot, place.path);
    const bind = place.access === 'write' ? '--bind' : '--ro-bind';
    if (place.access === 'none') options.push(...empty(path, fds));
    else if (plan.report.bindsByFd) {
      const fd = openPlace(path);
      if (fd === undefined) return moved(place);
      options.push(`${bind}-fd`, String(FIRST_MOUNT_FD + fds.length), path);
      fds.push(fd);
    } else if (place.access === 'read' || place.path === '.git') options.push(bind, path, path);
    // Without mounts by descriptor a swapped link would be followed, so that place stays read-only.
    else if (accessAt(plan.view, dirname(place.path)) !== 'write') {
      options.push('--ro-bind', path, path);
    }
  }
  return ok(options);
}

const hiddenFolders = ({ projectRoot, view }: SandboxPlan): string[] => [
  ...(view.root === 'none' ? [projectRoot] : []),
  ...view.places
    .filter(({ access }) => access === 'none')
    .map(({ path }) => join(projectRoot, path))
    .filter(isFolder),
  ...view.hidden.filter(isFolder),
];

const readOnly = ({ source, target }: Shown): string[] => ['--ro-bind', source, target];

const closing = (path: string): string[] =>
  isFolder(path) ? ['--tmpfs', path, '--remount-ro', path] : ['--ro-bind', '/dev/null', path];

/** Returns the complete start of one child. On failure nothing stays open. */
export function bwrapLaunch(plan: SandboxPlan): Outcome<SandboxLaunch> {
  const { projectRoot, view } = plan;
  const fds: number[] = [];
  const places = placeMounts(plan, fds);
  if (!places.ok) {
    for (const fd of fds) closeSync(fd);
    return places;
  }
  const options = [
    ...bwrapWorld(plan.network, plan.temporaryMb),
    '--dir',
    SANDBOX_HOME,
    ...plan.shown.flatMap((path) => readOnly({ source: path, target: path })),
    ...(view.root === 'none'
      ? ['--tmpfs', projectRoot]
      : [view.root === 'write' ? '--bind' : '--ro-bind', projectRoot, projectRoot]),
    ...places.output,
    ...view.hidden.flatMap((path) => empty(path, fds)),
    ...plan.shownLast.flatMap(readOnly),
    ...plan.closed.flatMap(closing),
    ...hiddenFolders(plan).flatMap((path) => ['--remount-ro', path]),
    '--remount-ro',
    '/',
    '--chdir',
    plan.cwd,
    '--clearenv',
    ...Object.entries(plan.env).flatMap(([name, value]) => ['--setenv', name, value]),
  ];
  return ok({
    file: plan.report.path ?? 'bwrap',
    args: [
      '--args',
      String(ARGUMENTS_FD),
      '--json-status-fd',
      String(STATUS_FD),
      '--',
      ...plan.command,
    ],
    options: options.map((option) => `${option}\0`).join(''),
    fds,
  });
}
