import { execFile } from 'node:child_process';
import { accessSync, constants } from 'node:fs';
import { join } from 'node:path';
import { systemMounts } from './visible.ts';

// What every bubblewrap command line begins with: the probe tries exactly what later runs.

/** New namespaces for everything, no capabilities, and no life after the process that started it. */
export const ISOLATION: readonly string[] = [
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
export const DEVICES: readonly string[] = [
  '--proc',
  '/proc',
  '--remount-ro',
  '/proc',
  '--dev',
  '/dev',
];

// Is there a sandbox that works here? Asked once at start by really running something in it: a
// binary on the path proves nothing where user namespaces are switched off.

export interface SandboxReport {
  kind: 'bwrap' | 'sandbox-exec' | 'none';
  /** Absolute path of the program; absent for `none`. */
  path?: string;
  version?: string;
  /** Can places be mounted by open file, so that a swapped link is never followed? */
  bindsByFd?: boolean;
  /** Why there is none. */
  reason?: string;
}

const PROBE_MS = 10_000;
/** Where the system puts it: the person's path is not asked, a project could be on it. */
const FOLDERS = [
  '/usr/bin',
  '/bin',
  '/usr/local/bin',
  '/run/current-system/sw/bin',
  '/run/wrappers/bin',
];

const INSTALL: Readonly<Record<string, string>> = {
  linux:
    'install bubblewrap (`apt install bubblewrap`, `dnf install bubblewrap`, `pacman -S bubblewrap`); where user namespaces are restricted, allow them for it',
  darwin: '`/usr/bin/sandbox-exec` is part of macOS; check that it was not removed',
};

/** How to get a sandbox on this system, for messages and `doctor`. */
export const sandboxHint = (platform: string = process.platform): string =>
  INSTALL[platform] ?? 'there is none for this system: use Linux, macOS or WSL 2';

function findIn(folders: readonly string[], name: string): string | undefined {
  return folders
    .map((folder) => join(folder, name))
    .find((path) => {
      try {
        accessSync(path, constants.X_OK);
        return true;
      } catch {
        return false;
      }
    });
}

const run = (command: string, args: readonly string[]): Promise<{ ok: boolean; text: string }> =>
  new Promise((resolve) => {
    const options = { timeout: PROBE_MS, env: { PATH: '/usr/bin:/bin' }, maxBuffer: 65_536 };
    execFile(command, args, options, (error, stdout, stderr) => {
      resolve({ ok: !error, text: (error ? stderr.trim() || error.message : stdout).trim() });
    });
  });

async function probeBwrap(folders: readonly string[]): Promise<SandboxReport> {
  const path = findIn(folders, 'bwrap');
  if (path === undefined) return { kind: 'none', reason: '`bwrap` is not installed' };
  const mounts = [...DEVICES, '--tmpfs', '/tmp'];
  const tried = await run(path, [
    ...ISOLATION,
    '--unshare-net',
    ...systemMounts(),
    ...mounts,
    '--',
    '/bin/sh',
    '-c',
    ':',
  ]);
  if (!tried.ok) return { kind: 'none', reason: `\`bwrap\` does not work here: ${tried.text}` };
  const version = await run(path, ['--version']);
  const help = await run(path, ['--help']);
  return {
    kind: 'bwrap',
    path,
    version: version.text.replace(/^bubblewrap\s+/, ''),
    bindsByFd: help.text.includes('--ro-bind-fd'),
  };
}

async function probeSeatbelt(folders: readonly string[]): Promise<SandboxReport> {
  const path = findIn(folders, 'sandbox-exec');
  if (path === undefined) return { kind: 'none', reason: '`sandbox-exec` is missing' };
  const tried = await run(path, ['-p', '(version 1)(allow default)', '/usr/bin/true']);
  return tried.ok
    ? { kind: 'sandbox-exec', path }
    : { kind: 'none', reason: `\`sandbox-exec\` does not work here: ${tried.text}` };
}

/** Never throws. Costs a few process starts: ask once and keep the answer. */
export async function probeSandbox(
  platform: string = process.platform,
  folders: readonly string[] = FOLDERS,
): Promise<SandboxReport> {
  if (platform === 'linux') return await probeBwrap(folders);
  if (platform === 'darwin') return await probeSeatbelt(folders);
  return { kind: 'none', reason: `no sandbox is known for \`${platform}\`` };
}
