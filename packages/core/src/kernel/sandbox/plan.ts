// What a Linux sandbox is asked for and what it answers with, whichever program makes it.
import { closeSync, constants, fstatSync, openSync, readlinkSync, statSync } from 'node:fs';
import { fail, type Outcome } from '../../base/index.ts';
import type { MountPlace } from './places.ts';
import type { ProjectView } from './project.ts';

/** What sets a sandbox up is looked for where the system puts it, never on a person's path. */
export const SANDBOX_PATH = '/usr/bin:/bin:/usr/sbin:/sbin:/run/current-system/sw/bin';
export const SANDBOX_HOME = '/tmp/.home';
export const SANDBOX_TEMP = '/tmp';
/** Which descriptor of the child carries what; mounts by descriptor come after these. */
export const ARGUMENTS_FD = 3;
export const CHANNEL_FD = 4;
/** For the set-up of a sandbox alone: the program that runs inside does not have it. */
export const STATUS_FD = 5;
export const FIRST_MOUNT_FD = 6;
/** Reported when the program has taken the place of the set-up, in the words of bubblewrap. */
export const BEGUN = '"exit-code"';

export interface SandboxReport {
  kind: 'bwrap' | 'util-linux' | 'sandbox-exec' | 'none';
  /** Absolute path of the program; absent for `none`. */
  path?: string;
  version?: string;
  /** Can places be mounted by open file, so that a swapped link is never followed? */
  bindsByFd?: boolean;
  /** Why there is none, or why not the one that is tried first. */
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
  /** Read-only, besides the system; outside what is hidden, outer before inner. */
  shown: readonly string[];
  /** Read-only, mounted last: the tool's own folder, which may lie in a hidden one. */
  shownLast: readonly Shown[];
  /** Absolute paths inside that an empty file or folder covers, mounted after everything else. */
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
  /** For descriptor 3: what nobody should see in the list of processes. */
  options: string;
  /** Open descriptors for the child, from 6 on. The caller closes them after the start. */
  fds: number[];
}

/** Opens the place itself; undefined when a link stands there by now. */
export function openPlace(path: string): number | undefined {
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

export const isFolder = (path: string): boolean =>
  statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false;

/** Device and inode of the place itself, as `stat -c %d:%i` prints them. */
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
