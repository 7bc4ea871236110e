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
