// Runs once around all tests: sets a temporary folder for them. A test that leaves a file in it, or a process that was
// started from it, fails the run.
import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  rmSync,
  statfsSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { timeoutMs } from './soak.ts';

const GRACE_MS = timeoutMs(5000);

const readProc = (read: () => string): string => {
  try {
    return read();
  } catch {
    return ''; // The process has ended, or belongs to another user.
  }
};

/** Returns processes that were started from the folder or work in it. Linux only. */
function processesIn(folder: string): string[] {
  if (process.platform !== 'linux') return [];
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((pid) => {
      const command = readProc(() => readFileSync(`/proc/${pid}/cmdline`, 'utf8'));
      const cwd = readProc(() => readlinkSync(`/proc/${pid}/cwd`));
      const isOurs = command.includes(folder) || cwd.startsWith(folder);
      return isOurs ? [`process ${pid}: ${command.replaceAll('\0', ' ').slice(0, 200)}`] : [];
    });
}

/** Returns the files in a folder, or the file itself, without compiled code. */
function filesIn(path: string): string[] {
  try {
    return readdirSync(path, { recursive: true, withFileTypes: true })
      .filter((entry) => !entry.isDirectory())
      .map((entry) => relative(path, join(entry.parentPath, entry.name)))
      .filter((name) => !name.startsWith('.cache/'));
  } catch {
    return ['']; // The folder is missing, or belongs to another user.
  }
}

/**
 * A command writes its compiled code when it ends, even if a test has ended it and removed its home. The home then
 * exists again, without any other file.
 */
const isCompiledOnly = (path: string): boolean =>
  existsSync(join(path, '.cache')) && filesIn(path).length === 0;

const MEMORY = '/dev/shm';
const ENOUGH_BYTES = 4 * 1024 ** 3;

/** Creates the folder in memory if that is large and executable, because tests create thousands of folders. */
function makeFolder(): string {
  const made = (parent: string): string => realpathSync(mkdtempSync(join(parent, 'km-tests-')));
  try {
    const { bavail, bsize } = statfsSync(MEMORY);
    if (process.env.TMPDIR !== undefined || bavail * bsize < ENOUGH_BYTES) return made(tmpdir());
    const folder = made(MEMORY);
    const program = join(folder, 'program');
    writeFileSync(program, '#!/bin/sh\n', { mode: 0o700 });
    const { status } = spawnSync(program);
    rmSync(program);
    if (status === 0) return folder;
    rmSync(folder, { recursive: true });
  } catch {
    // This folder does not exist here.
  }
  return made(tmpdir());
}

export default function setup(): () => Promise<void> {
  const before = process.env.TMPDIR;
  const folder = makeFolder();
  process.env.TMPDIR = folder;
  // A database server of another user must be able to enter the folder.
  chmodSync(folder, 0o711);
  const left = (): string[] => [
    ...readdirSync(folder)
      .filter((name) => !isCompiledOnly(join(folder, name)))
      .map((name) => `${name}: ${filesIn(join(folder, name)).slice(0, 50).join(' ')}`),
    ...processesIn(folder),
  ];
  return async () => {
    // A killed child needs a moment to end.
    for (const end = Date.now() + GRACE_MS; left().length > 0 && Date.now() < end; ) {
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    const found = left();
    rmSync(folder, { recursive: true, force: true });
    if (before === undefined) delete process.env.TMPDIR;
    else process.env.TMPDIR = before;
    if (found.length > 0) throw new Error(`tests left behind:\n${found.join('\n')}`);
  };
}
