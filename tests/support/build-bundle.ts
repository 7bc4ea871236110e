// Runs once before the tests that start `km`: puts the modules together into `dist-tests/` when a source is newer.
// A bundle starts in half of the time. Its compiled code is kept beside it.
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, renameSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const BUILT = join(ROOT, 'dist-tests');
const SOURCES = [
  'src',
  'bundle/config',
  'bundle/policy.yaml',
  'scripts/bundle.js',
  'package-lock.json',
];

function newest(path: string): number {
  const info = statSync(path);
  if (!info.isDirectory()) return info.mtimeMs;
  const inside = readdirSync(path, { recursive: true, encoding: 'utf8' });
  return Math.max(info.mtimeMs, ...inside.map((name) => statSync(join(path, name)).mtimeMs));
}

function isCurrent(): boolean {
  const last = join(BUILT, 'known-yaml.json');
  if (!existsSync(last)) return false;
  const built = statSync(last).mtimeMs;
  return SOURCES.every((source) => newest(join(ROOT, source)) < built);
}

export default function setup(): void {
  if (isCurrent()) return;
  const fresh = `${BUILT}-${process.pid}`;
  execFileSync(process.execPath, [join(ROOT, 'scripts', 'bundle.js'), fresh], {
    cwd: ROOT,
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  mkdirSync(join(fresh, 'compile'), { mode: 0o700 });
  rmSync(BUILT, { recursive: true, force: true });
  renameSync(fresh, BUILT);
}
