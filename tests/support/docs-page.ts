// Follows a page of the documentation like a reader: it writes the files that the page shows, runs its commands and
// compares their output.
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, vi } from 'vitest';
import { LIBRARY, TESTING } from './built.ts';
import { type Ran, runCommand, splitWords } from './command-line.ts';
import { type Fixture, makeFixture } from './project.ts';
import { pollMs } from './soak.ts';

export interface Block {
  kind: string;
  text: string;
  /** File that the sentence before the block names: "… `.ai/tools/a.yaml`:". */
  file?: string;
}

const pathOf = (page: string): string => fileURLToPath(new URL(`../../${page}`, import.meta.url));
export const readPage = (page: string): string => readFileSync(pathOf(page), 'utf8');

export function blocksOf(page: string): Block[] {
  const fences = /(?:`([^`\s]+\.\w+)`[^`\n]*:\n\n)?^```(\w+)\n(.*?)^```$/gms;
  return Array.from(page.matchAll(fences), ([, file, kind = '', text = '']) =>
    file === undefined ? { kind, text } : { kind, text, file },
  );
}

interface Step {
  command: string;
  /** Output that the page shows. Undefined if it shows none. */
  shown?: string;
}

/** Returns the commands after `$ ` with the output below each. In a block without `$ `, every line is a command. */
export function stepsOf({ text }: Block): Step[] {
  const lines = text.trimEnd().split('\n');
  if (!lines.some((line) => line.startsWith('$ '))) {
    return lines.filter((line) => line.startsWith('km ')).map((command) => ({ command }));
  }
  const steps: Step[] = [];
  for (const line of lines) {
    const last = steps.at(-1);
    if (line.startsWith('$ ')) steps.push({ command: line.slice(2) });
    else if (last) last.shown = `${last.shown ?? ''}${line}\n`;
  }
  return steps;
}

/** True if the output equals the page. Spaces are ignored, and `…` matches any text. */
export function matches(shown: string, output: string): boolean {
  const dense = (text: string): string => text.replace(/\s+/g, '');
  const parts = dense(shown).split('…');
  const pattern = parts.map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'));
  return new RegExp(`^${pattern.join('[^]*?')}$`).test(dense(output));
}

const isFailure = (shown: string): boolean =>
  /^error: |"ok": ?false|"severity":"error"/m.test(shown);

/** Adds a wait for the first output of a background process before the next command. */
const inBackground = (command: string): string =>
  `${command} > .said 2>&1 & echo $! >> .pids; until [ -s .said ]; do sleep 0.05; done`;

/** Runs a command of the shell. `$?` is the exit code of the command before it. */
function runShell(command: string, last: number, { root, env }: Fixture): Ran {
  const [, name, value] = /^export (\w+)=(\S+)$/.exec(command) ?? [];
  if (name !== undefined) env[name] = value;
  const typed = command.endsWith(' &') ? inBackground(command.slice(0, -2)) : command;
  const script = `exec 2>&1; (exit ${last}); ${typed}`;
  const done = spawnSync('/bin/sh', ['-c', script], { cwd: root, env, encoding: 'utf8' });
  return { code: done.status ?? 1, output: done.stdout };
}

/** Runs one block. Fails if an example has another output than the page shows. */
export async function runSteps(block: Block, fixture: Fixture): Promise<void> {
  let last = 0;
  const steps = stepsOf(block);
  for (const [index, { command, shown }] of steps.entries()) {
    const ran = command.startsWith('km ')
      ? await runCommand(splitWords(command.slice(3)), fixture.root, fixture.env)
      : runShell(command, last, fixture);
    last = ran.code;
    if (shown !== undefined && !matches(shown, ran.output)) {
      expect(`$ ${command}\n${ran.output}`).toBe(`$ ${command}\n${shown}`);
    }
    const isAsked = steps[index + 1]?.command.includes('$?');
    if (isAsked !== true && !isFailure(shown ?? '')) {
      expect(`${command}: ${ran.code}\n${ran.output}`).toMatch(`${command}: 0\n`);
    }
  }
}

/** Writes a module of a page, with the addresses of the packages that it imports. Returns its path. */
export function writeModule(
  text: string,
  { write }: Pick<Fixture, 'write'>,
  name = 'example.ts',
): string {
  const linked = text
    .replaceAll("'kernmantle'", `'${LIBRARY}'`)
    .replaceAll("'kernmantle/testing'", `'${TESTING}'`)
    .replaceAll("'@opentelemetry/api'", `'${import.meta.resolve('@opentelemetry/api')}'`)
    .replaceAll("'zod'", `'${import.meta.resolve('zod')}'`);
  return write(name, linked);
}

/** Runs a module of a page in its own process and returns its output. */
export function runModule(text: string, fixture: Fixture, name?: string): string {
  const file = writeModule(text, fixture, name);
  const { root, env } = fixture;
  return execFileSync(process.execPath, [file], { cwd: root, env: { ...env }, encoding: 'utf8' });
}

/** True if the process exists. A zombie, whose exit code was not read, counts as ended. */
function isThere(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return process.platform !== 'linux' || !/\) Z /.test(readFileSync(`/proc/${pid}/stat`, 'utf8'));
  } catch {
    return false;
  }
}

/** Ends background processes and waits for them, because they can still write into the project. */
export async function stopBackground({ root }: Fixture): Promise<void> {
  const file = join(root, '.pids');
  if (!existsSync(file)) return;
  const pids = readFileSync(file, 'utf8').trim().split('\n').map(Number);
  for (const pid of pids) if (isThere(pid)) process.kill(pid);
  await vi.waitUntil(() => !pids.some(isThere), pollMs);
}

async function followBlocks(text: string, fixture: Fixture): Promise<void> {
  try {
    for (const block of blocksOf(text)) {
      if (block.file !== undefined) fixture.write(block.file, block.text);
      else if (block.kind === 'sh') await runSteps(block, fixture);
    }
  } finally {
    await stopBackground(fixture);
  }
}

/** Follows a whole page in a new project: writes its files and runs its commands in order. */
export async function followPage(
  page: string,
  change: (text: string) => string = (text) => text,
): Promise<Fixture> {
  const fixture = makeFixture();
  try {
    await followBlocks(change(readPage(page)), fixture);
    return fixture;
  } catch (error) {
    fixture.remove();
    throw error;
  }
}
