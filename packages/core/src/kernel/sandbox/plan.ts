// Types of the request to a Linux sandbox and of its answer, the same for every program that implements it.
import { closeSync, constants, fstatSync, openSync, readlinkSync, statSync } from 'node:fs';
import { fail, type Outcome } from '../../base/index.ts';
import type { MountPlace } from './places.ts';
import type { ProjectView } from './project.ts';

/** Programs of the sandbox are looked up in system folders, never on a person's path. */
export const SANDBOX_PATH = '/usr/bin:/bin:/usr/sbin:/sbin:/run/current-system/sw/bin';
export const SANDBOX_HOME = '/tmp/.home';
export const SANDBOX_TEMP = '/tmp';
/** Numbers of the child's descriptors. Mounts by descriptor follow after these. */
export const ARGUMENTS_FD = 3;
export const CHANNEL_FD = 4;
/** Descriptor for the set-up of a sandbox. The program inside does not have it. */
export const STATUS_FD = 5;
export const FIRST_MOUNT_FD = 6;
/** Reported when the program has replaced the set-up, in the format of bubblewrap. */
export const BEGUN = '"exit-code"';

export interface SandboxReport {
  kind: 'bwrap' | 'util-linux' | 'sandbox-exec' | 'none';
  /** Absolute path of the program. Absent for `none`. */
  path?: string;
  version?: string;
  /** True if places can be mounted by open file, so that a swapped link is never followed. */
  bindsByFd?: boolean;
  /** Reason why there is no sandbox, or why the preferred one does not work. */
  reason?: string;
}

export interface Shown {
  source: string;
  target: string;
}

export interface SandboxPlan {
  report: SandboxReport;
  projectRoot: string;
  view: ProjectView;
  /** Readable paths besides the system, outside of hidden folders. Outer ones come before inner ones. */
  shown: readonly string[];
  /** Readable paths that are mounted last: the tool's own folder, which may be in a hidden one. */
  shownLast: readonly Shown[];
  /** Absolute paths inside that an empty file or folder covers after everything else is mounted. */
  closed: readonly string[];
  /** Size of `/tmp`, and of `/dev/shm`. */
  temporaryMb: number;
  network: boolean;
  cwd: string;
  env: Readonly<Record<string, string>>;
  command: readonly string[];
}

export interface SandboxLaunch {
  file: string;
  args: string[];
  /** Arguments for descriptor 3, which the list of processes must not show. */
  options: string;
  /** Open descriptors for the child, from 6 on. The caller closes them after the start. */
  fds: number[];
}

/** Opens the file or folder at the path. Undefined for a link, and for a path that goes through a link. */
export function openPlace(path: string): number | undefined {
  const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
  let fd: number | undefined;
  try {
    fd = openSync(path, flags);
    if (readlinkSync(`/proc/self/fd/${fd}`) === path) return fd;
  } catch {
    // The path was removed or is unreadable.
  }
  if (fd !== undefined) closeSync(fd);
  return undefined;
}

export const isFolder = (path: string): boolean =>
  statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false;

/** Returns device and inode of the place itself, as `stat -c %d:%i` prints them. */
export function identityOf(path: string): string | undefined {
  const fd = openPlace(path);
  if (fd === undefined) return undefined;
  const { dev, ino } = fstatSync(fd, { bigint: true });
  closeSync(fd);
  return `${dev}:${ino}`;
}

export const moved = (place: MountPlace): Outcome<never> =>
  fail('permission_denied', `\`${place.path}\` was replaced while the sandbox was being set up`, {
    rule: 'place_changed',
  });
