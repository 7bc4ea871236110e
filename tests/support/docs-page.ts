// Reads a page of the documentation as what a reader would do with it: write the files it shows, type
// the commands, compare what comes out.
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, vi } from 'vitest';
import { LIBRARY } from './built.ts';
import { type Ran, runCommand, splitWords } from './command-line.ts';
import { type Fixture, makeFixture } from './project.ts';
import { pollMs } from './soak.ts';

export interface Block {
  kind: string;
  text: string;
  /** The file the sentence before the block names: "… `.ai/tools/a.yaml`:". */
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
  /** What the page shows; undefined when it shows nothing. */
  shown?: string;
}

/** Commands after `$ ` with what stands below each; in a block without `$ ` every line is one. */
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

/** Spaces do not count, and `…` stands for anything. */
export function matches(shown: string, output: string): boolean {
  const dense = (text: string): string => text.replace(/\s+/g, '');
  const parts = dense(shown).split('…');
  const pattern = parts.map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'));
  return new RegExp(`^${pattern.join('[^]*?')}$`).test(dense(output));
}

const isFailure = (shown: string): boolean =>
  /^error: |"ok": ?false|"severity":"error"/m.test(shown);

/** What runs in the background has said something before the next command is typed. */
const inBackground = (command: string): string =>
  `${command} > .said 2>&1 & echo $! >> .pids; until [ -s .said ]; do sleep 0.05; done`;

/** A command that is not ours; `$?` is what the one before it answered. */
function runShell(command: string, last: number, { root, env }: Fixture): Ran {
  const [, name, value] = /^export (\w+)=(\S+)$/.exec(command) ?? [];
  if (name !== undefined) env[name] = value;
  const typed = command.endsWith(' &') ? inBackground(command.slice(0, -2)) : command;
  const script = `exec 2>&1; (exit ${last}); ${typed}`;
  const done = spawnSync('/bin/sh', ['-c', script], { cwd: root, env, encoding: 'utf8' });
  return { code: done.status ?? 1, output: done.stdout };
}

/** Does what one block says; an example that does not come out as shown fails the test. */
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

/** A module of a page in a process of its own; what it prints comes back. */
export function runModule(
  text: string,
  { root, env, write }: Fixture,
  name = 'example.ts',
): string {
  const file = write(name, text.replaceAll("'kernmantle'", `'${LIBRARY}'`));
  return execFileSync(process.execPath, [file], { cwd: root, env: { ...env }, encoding: 'utf8' });
}

/** Nobody may have asked how an orphan ended: such a one is gone all the same. */
function isThere(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return process.platform !== 'linux' || !/\) Z /.test(readFileSync(`/proc/${pid}/stat`, 'utf8'));
  } catch {
    return false;
  }
}

/** What ends may still write: the project is removed when it is gone. */
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

/** Everything on a page in order, in a fresh project: files are written, commands run. */
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
