// Builds the package as published, in its own folder. The `dist/` of the checkout does not change.
import { execFileSync } from 'node:child_process';
import {
  copyFileSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  realpathSync,
  rmSync,
  symlinkSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const REPOSITORY = fileURLToPath(new URL('../..', import.meta.url));

export interface BuiltPackage {
  dir: string;
  remove(): void;
}

/** Links all installed modules except these, like an installation without them. */
function linkModules(dir: string, without: readonly string[]): void {
  const from = join(REPOSITORY, 'node_modules');
  mkdirSync(join(dir, 'node_modules'));
  for (const name of readdirSync(from)) {
    if (!without.includes(name)) symlinkSync(join(from, name), join(dir, 'node_modules', name));
  }
}

/** Builds the package. `types` also writes the declarations. `without` names packages that are not linked. */
export function buildPackage({
  types = false,
  without = [],
}: {
  types?: boolean;
  without?: readonly string[];
} = {}): BuiltPackage {
  const dir = realpathSync(mkdtempSync(join(tmpdir(), 'km-package-')));
  const dist = join(dir, 'dist');
  symlinkSync(join(REPOSITORY, 'bundle'), join(dir, 'bundle'));
  if (without.length > 0) linkModules(dir, without);
  else symlinkSync(join(REPOSITORY, 'node_modules'), join(dir, 'node_modules'));
  copyFileSync(join(REPOSITORY, 'package.json'), join(dir, 'package.json'));
  cpSync(join(REPOSITORY, 'bin'), join(dir, 'bin'), { recursive: true });
  const node = (...args: string[]): unknown =>
    execFileSync(process.execPath, args, {
      cwd: REPOSITORY,
      stdio: ['ignore', 'ignore', 'inherit'],
    });
  if (types) {
    const declarations = join(dist, 'types');
    node('node_modules/typescript/bin/tsc', '-p', 'tsconfig.build.json', '--outDir', declarations);
    node('scripts/declarations.js', declarations);
  }
  node('scripts/bundle.js', dist);
  return { dir, remove: () => rmSync(dir, { recursive: true, force: true }) };
}
