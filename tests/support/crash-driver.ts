// Starts processes on a project, kills or freezes them, and reads their output until then.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { systemClock } from '@kernmantle/core/base';
import { openSqliteStore, type Store, type ThreadRow } from '@kernmantle/core/store';
import { programWords } from './built.ts';
import type { CrashStage } from './crash-project.ts';

export interface Life {
  child: ChildProcess;
  lines: string[];
  /** Resolves when `count` lines with this start have arrived, or when the process has ended. */
  said(start: string, count?: number): Promise<void>;
  over: Promise<unknown>;
}

const lives: Life[] = [];

export async function endLives(): Promise<void> {
  for (const { child, over } of lives.splice(0)) {
    child.kill('SIGKILL');
    await over;
  }
}

/** Starts a process that runs a thread. `diesAt` is the event at which it kills itself, such as `part signal 1`. */
export const live = (made: CrashStage, diesAt = ''): Life => start(made, 'thread-process', diesAt);

/** Starts a process that runs queued threads. */
export const workOn = (made: CrashStage, diesAt = ''): Life => start(made, 'fleet-process', diesAt);

function start(
  { fixture }: CrashStage,
  program: 'thread-process' | 'fleet-process',
  diesAt: string,
): Life {
  const child = spawn(process.execPath, programWords(program, fixture.root, 'lead'), {
    env: { ...fixture.env, DIES_AT: diesAt },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const lines: string[] = [];
  const waiting = new Set<() => void>();
  const reader = createInterface({ input: child.stdout as NodeJS.ReadableStream });
  const tell = (): void => {
    for (const look of waiting) look();
  };
  reader.on('line', (line) => {
    lines.push(line);
    tell();
  });
  let isOver = false;
  const over = Promise.all([once(child, 'exit'), once(reader, 'close')]).then(() => {
    isOver = true;
    tell();
  });
  const said = (start: string, count = 1): Promise<void> =>
    new Promise((resolve) => {
      const look = (): void => {
        if (!isOver && lines.filter((line) => line.startsWith(start)).length < count) return;
        waiting.delete(look);
        resolve();
      };
      waiting.add(look);
      look();
    });
  const life = { child, lines, said, over };
  lives.push(life);
  return life;
}

export async function kill(life: Life): Promise<void> {
  life.child.kill('SIGKILL');
  await life.over;
  lives.splice(lives.indexOf(life), 1);
}

export async function openRegistry({ fixture }: CrashStage): Promise<Store> {
  const file = join(fixture.root, '.ai', 'threads', 'registry.db');
  const opened = await openSqliteStore({ file, clock: systemClock });
  if (!opened.ok) throw new Error(opened.error.detail.message);
  return opened.output;
}

export const rowsOf = async (store: Store): Promise<ThreadRow[]> => {
  const rows: ThreadRow[] = [];
  for (let cursor: string | undefined; ; ) {
    const page = await store.query({ limit: 500, ...(cursor === undefined ? {} : { cursor }) });
    if (!page.ok) throw new Error(page.error.detail.message);
    for (const { id } of page.output.rows) {
      const row = await store.thread(id);
      if (!row.ok) throw new Error(row.error.detail.message);
      rows.push(row.output);
    }
    cursor = page.output.next_cursor;
    if (cursor === undefined) return rows;
  }
};
