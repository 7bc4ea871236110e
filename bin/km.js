#!/usr/bin/env node
// The launcher. Plain JavaScript: it must run on any Node, find a current one, and hand over.
// `dist/` is used when it was built, `src/` otherwise (or when KERNMANTLE_SRC=1 asks for it).
import { existsSync, lstatSync, mkdirSync } from 'node:fs';
import * as nodeModule from 'node:module';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
const here = (path) => fileURLToPath(new URL(path, import.meta.url));

/**
 * Compiled code (and, from `src/`, stripped types) is kept between runs; where that fails, it is not.
 * Only in a folder that nobody else may write: another one would let others hand us code.
 */
function keepCompiled() {
  try {
    const cache = process.env.XDG_CACHE_HOME || join(homedir(), '.cache');
    const folder = join(cache, 'kernmantle', 'compile');
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    const { uid, mode } = lstatSync(folder);
    const isOwn =
      process.getuid === undefined || (uid === process.getuid() && (mode & 0o022) === 0);
    if (isOwn) nodeModule.enableCompileCache?.(folder);
  } catch {
    // No home, or none that can be written: it only takes longer.
  }
}

if (major > 22 || (major === 22 && minor >= 19)) {
  keepCompiled();
  const built = '../dist/cli/main.js';
  const useSource = process.env.KERNMANTLE_SRC === '1' || !existsSync(here(built));
  const { main } = await import(useSource ? '../src/cli/main.ts' : built);
  await main(process.argv.slice(2));
} else {
  const node = here(`../node_modules/node/bin/node${process.platform === 'win32' ? '.exe' : ''}`);
  if (!existsSync(node)) {
    process.stderr.write(
      `kernmantle needs Node 22.19 or newer; this is ${process.version}.\n` +
        'Install a current Node, or in a clone of the repository run `npm run demo` once: it brings one.\n',
    );
    process.exit(1);
  }
  const { spawnSync } = await import('node:child_process');
  // Signals reach the child through the terminal's process group; only its exit matters here.
  for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => {});
  const child = spawnSync(node, [process.argv[1], ...process.argv.slice(2)], { stdio: 'inherit' });
  process.exit(child.status ?? (child.signal === 'SIGINT' ? 130 : 1));
}
