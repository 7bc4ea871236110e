// The package as it is published, in a folder of its own; the checkout's `dist/` is left alone.
import { execFileSync } from 'node:child_process';
import { copyFileSync, cpSync, mkdtempSync, realpathSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const REPOSITORY = fileURLToPath(new URL('../..', import.meta.url));

export interface BuiltPackage {
  dir: string;
  remove(): void;
}

/** With `types`, the declarations are written too. */
export function buildPackage({ types = false } = {}): BuiltPackage {
  const dir = realpathSync(mkdtempSync(join(tmpdir(), 'km-package-')));
  const dist = join(dir, 'dist');
  for (const name of ['bundle', 'node_modules'])
    symlinkSync(join(REPOSITORY, name), join(dir, name));
  copyFileSync(join(REPOSITORY, 'package.json'), join(dir, 'package.json'));
  cpSync(join(REPOSITORY, 'bin'), join(dir, 'bin'), { recursive: true });
  const node = (...args: string[]): unknown =>
    execFileSync(process.execPath, args, {
      cwd: REPOSITORY,
      stdio: ['ignore', 'ignore', 'inherit'],
    });
  if (types) {
    node('node_modules/typescript/bin/tsc', '-p', 'tsconfig.build.json', '--outDir', dist);
  }
  node('scripts/bundle.js', dist);
  return { dir, remove: () => rmSync(dir, { recursive: true, force: true }) };
}
