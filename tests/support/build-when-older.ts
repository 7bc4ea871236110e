// Builds a folder when it is missing or older than its sources.
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, renameSync, rmSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

interface Build {
  /** Path of the folder, relative to the root of the repository. */
  readonly folder: string;
  /** File in the folder that the build writes last. */
  readonly last: string;
  readonly sources: readonly string[];
  /** Program that builds. Its arguments are the folder and `args`. */
  readonly program: string;
  readonly args?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
}

function newest(path: string): number {
  const info = statSync(path);
  if (!info.isDirectory()) return info.mtimeMs;
  const inside = readdirSync(path, { recursive: true, encoding: 'utf8' }).filter(
    (name) => !name.endsWith('.test.ts'),
  );
  return Math.max(info.mtimeMs, ...inside.map((name) => statSync(join(path, name)).mtimeMs));
}

export function buildWhenOlder({ folder, last, sources, program, args = [], env }: Build): void {
  const built = join(ROOT, folder);
  const file = join(built, last);
  const time = existsSync(file) ? statSync(file).mtimeMs : 0;
  if (sources.every((source) => newest(join(ROOT, source)) < time)) return;
  // The build writes beside the folder and then renames, so a reader gets the old files or the new ones.
  const fresh = `${built}-${process.pid}`;
  mkdirSync(dirname(built), { recursive: true });
  execFileSync(process.execPath, [join(ROOT, program), fresh, ...args], {
    cwd: ROOT,
    stdio: ['ignore', 'ignore', 'inherit'],
    env: { ...process.env, ...env },
  });
  rmSync(built, { recursive: true, force: true });
  renameSync(fresh, built);
}
