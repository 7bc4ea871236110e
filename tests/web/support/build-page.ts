// Runs once before the tests that need the page: builds `dist/page` when it is missing or older than
// what it is made of.
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, renameSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));
const PAGE = join(ROOT, 'dist', 'page');
const SOURCES = ['src/web/page', 'src/web/model', 'scripts/page.js', 'package-lock.json'];

function newest(path: string): number {
  const { mtimeMs } = statSync(path);
  if (!statSync(path).isDirectory()) return mtimeMs;
  const inside = readdirSync(path, { recursive: true, encoding: 'utf8' });
  return Math.max(mtimeMs, ...inside.map((name) => statSync(join(path, name)).mtimeMs));
}

function isCurrent(): boolean {
  const index = join(PAGE, 'index.html');
  if (!existsSync(index)) return false;
  const built = statSync(index).mtimeMs;
  return SOURCES.every((source) => newest(join(ROOT, source)) < built);
}

export default function setup(): void {
  if (isCurrent()) return;
  // Beside it and moved: whoever reads it meanwhile sees the old one or the new one.
  const fresh = `${PAGE}-${process.pid}`;
  mkdirSync(join(ROOT, 'dist'), { recursive: true });
  execFileSync(process.execPath, [join(ROOT, 'scripts', 'page.js'), fresh], {
    cwd: ROOT,
    stdio: ['ignore', 'ignore', 'inherit'],
    // The page that is shipped, not one for tests.
    env: { ...process.env, NODE_ENV: 'production' },
  });
  rmSync(PAGE, { recursive: true, force: true });
  renameSync(fresh, PAGE);
}
