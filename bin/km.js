#!/usr/bin/env node
// Starts `km`. This file is plain JavaScript: it must run on any Node, find a current one and start the command there.
// It uses `dist/` if that was built, otherwise the sources (also if KERNMANTLE_SRC=1). Tests use their own build
// (KERNMANTLE_DIST=tests).
import { existsSync, lstatSync, mkdirSync } from 'node:fs';
import * as nodeModule from 'node:module';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
const here = (path) => fileURLToPath(new URL(path, import.meta.url));

/**
 * Caches compiled code (and, from the sources, stripped types) between runs. A failure only disables the cache. The
 * folder must be writable by this user only, because another user could otherwise put code into it.
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
    // Without a writable home, the start only takes longer.
  }
}

/** Node 22 warns at every start that its SQLite is experimental. The tests of this package run on Node 22 too. */
function hideSqliteWarning() {
  const { emitWarning } = process;
  process.emitWarning = (warning, ...rest) => {
    if (!String(warning).startsWith('SQLite is an experimental')) {
      emitWarning.call(process, warning, ...rest);
    }
  };
}

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT'];
/** Two equal signals within this time count once, because a terminal can send one to both processes. */
const SAME_MS = 150;
/** Time after which a child that does not read the pipe gets the signal itself. */
const BUSY_MS = 1000;

/**
 * Runs the command on another Node and ends with its exit code. Signals of this process go to the child over a pipe.
 * A terminal or a supervisor often signals both processes, and the child must count the signal once. The pipe also
 * ends with this process, and then the child ends too.
 */
async function handOver(node) {
  const { spawn } = await import('node:child_process');
  const child = spawn(node, [process.argv[1], ...process.argv.slice(2)], {
    stdio: ['inherit', 'inherit', 'inherit', 'pipe'],
    env: { ...process.env, KERNMANTLE_LAUNCHER: String(process.pid) },
  });
  const pipe = child.stdio[3];
  const waiting = [];
  pipe.on('error', () => {});
  pipe.on('data', (heard) => {
    for (const _ of String(heard).trimEnd().split('\n')) clearTimeout(waiting.shift());
  });
  for (const signal of SIGNALS) {
    process.on(signal, () => {
      waiting.push(setTimeout(() => child.kill(signal), BUSY_MS));
      pipe.write(`${signal}\n`);
    });
  }
  child.on('error', (error) => {
    process.stderr.write(`kernmantle cannot start ${node}: ${error.message}\n`);
    process.exit(1);
  });
  child.on('exit', (code, signal) => {
    if (signal === null) process.exit(code);
    for (const name of SIGNALS) process.removeAllListeners(name);
    process.kill(process.pid, signal);
    setTimeout(() => process.exit(1), BUSY_MS);
  });
}

/** Follows the pipe in the child: handles signals of the launcher that this process did not get itself. */
async function followLauncher() {
  delete process.env.KERNMANTLE_LAUNCHER;
  const { Socket } = await import('node:net');
  const heardAt = {};
  const hear = (signal) => {
    heardAt[signal] = performance.now();
  };
  // A listener is added only together with one of the command, because a listener alone would prevent the exit.
  process.on('newListener', (name, listener) => {
    if (listener !== hear && SIGNALS.includes(name) && process.listenerCount(name) === 0) {
      process.on(name, hear);
    }
  });
  process.on('removeListener', (name, listener) => {
    if (listener !== hear && SIGNALS.includes(name) && process.listenerCount(name) === 1) {
      process.off(name, hear);
    }
  });
  const pass = (signal) => {
    const before = heardAt[signal] ?? Number.NEGATIVE_INFINITY;
    if (performance.now() - before < SAME_MS) return;
    setTimeout(() => {
      if ((heardAt[signal] ?? Number.NEGATIVE_INFINITY) === before)
        process.kill(process.pid, signal);
    }, SAME_MS);
  };
  const pipe = new Socket({ fd: 3, readable: true, writable: true });
  pipe.on('error', () => {});
  // The launcher was killed, so this process ends in the same way.
  pipe.on('close', () => process.kill(process.pid, 'SIGKILL'));
  pipe.on('data', (told) => {
    for (const signal of String(told).trimEnd().split('\n')) {
      pipe.write('heard\n');
      if (SIGNALS.includes(signal)) pass(signal);
    }
  });
  pipe.unref();
}

if (major > 22 || (major === 22 && minor >= 19)) {
  keepCompiled();
  hideSqliteWarning();
  if (process.env.KERNMANTLE_LAUNCHER === String(process.ppid)) await followLauncher();
  const ofTests = '../dist-tests/cli/main.js';
  const isTest = process.env.KERNMANTLE_DIST === 'tests' && existsSync(here(ofTests));
  const built = isTest ? ofTests : '../dist/cli/main.js';
  const useSource = !isTest && (process.env.KERNMANTLE_SRC === '1' || !existsSync(here(built)));
  const { main } = await import(useSource ? '../packages/kernmantle/src/cli/main.ts' : built);
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
  await handOver(node);
}
