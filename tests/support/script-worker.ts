// Runs many scripts on the command line in one process: `km script --worker`, each job in its own project.
import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { type Fixture, makeFixture } from './project.ts';

const LAUNCHER = fileURLToPath(new URL('../../bin/km.js', import.meta.url));

export interface RunEnd {
  readonly code: number;
  readonly out: string;
  readonly err: string;
  /** Returns a file of the project after the run. Undefined if it does not exist. */
  file(name: string): string | undefined;
}

export interface ScriptWorker {
  readonly fixture: Fixture;
  /** Runs a strict script, or a script in markdown mode if it starts with `/`. */
  run(text: string, files?: Readonly<Record<string, string>>): Promise<RunEnd>;
  end(): Promise<void>;
}

interface Answer {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

const isAnswer = (item: unknown): item is Answer =>
  typeof item === 'object' && item !== null && 'code' in item && 'out' in item && 'err' in item;

export function startWorker(): ScriptWorker {
  const fixture = makeFixture();
  const child: ChildProcess = spawn(process.execPath, [LAUNCHER, 'script', '--worker'], {
    cwd: fixture.root,
    env: { ...fixture.env, KERNMANTLE_SRC: '1' },
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  if (!child.stdout || !child.stdin) throw new Error('the worker has no streams');
  const { stdin } = child;
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  let jobs = 0;
  return {
    fixture,
    async run(text, files = {}) {
      jobs += 1;
      const work = join(fixture.root, `job-${jobs}`);
      const name = text.startsWith('/') ? 'script.md' : 'script.mld';
      for (const [file, content] of Object.entries({ '.ai/.keep': '', [name]: text, ...files })) {
        const path = join(work, file);
        mkdirSync(dirname(path), { recursive: true });
        writeFileSync(path, content);
      }
      stdin.write(`${JSON.stringify({ id: jobs, work, file: name })}\n`);
      const { value } = await lines.next();
      const answer: unknown = JSON.parse(String(value));
      if (!isAnswer(answer)) throw new Error(`the worker said ${String(value)}`);
      const file = (one: string) => {
        const path = join(work, one);
        return existsSync(path) ? readFileSync(path, 'utf8') : undefined;
      };
      return { ...answer, file };
    },
    async end() {
      const ended = new Promise((done) => child.once('exit', done));
      stdin.end();
      await ended;
      fixture.remove();
    },
  };
}
