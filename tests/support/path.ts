// Finds the programs that tests start.
import { existsSync } from 'node:fs';
import { delimiter, dirname, join } from 'node:path';

const PROGRAMS = ['bash', 'sleep', 'tar', 'git', 'npm', 'python3', 'chromium'];
const isSystem = (folder: string): boolean => /^\/(usr|bin|sbin)(\/|$)/.test(folder);

/**
 * `PATH` of tests: the folder of this Node, the system's folders, and another folder only for a program
 * that the system lacks. A sandbox searches each toolchain on the path for sockets, and a version
 * manager holds thousands of folders.
 */
export function testPath(path = process.env.PATH ?? ''): string {
  if (process.platform === 'win32') return path;
  const folders = path.split(delimiter);
  const system = folders.filter(isSystem);
  const holds = (folder: string, program: string): boolean => existsSync(join(folder, program));
  const others = PROGRAMS.filter((program) => !system.some((folder) => holds(folder, program)));
  const needed = others.flatMap(
    (program) => folders.find((folder) => holds(folder, program)) ?? [],
  );
  return [...new Set([dirname(process.execPath), ...system, ...needed])].join(delimiter);
}
