// Runs of threads against bare loops, each subject in a process of its own that has just begun: one run
// to warm up, then the rounds that count. In one process either would profit from what the other has
// warmed, the fetch loop more than the thread. Runs itself once more, as the process that is measured.
import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { bareLoop } from './bare-loop.ts';
import { cpuMicros } from './row.ts';
import { openBareStage, openStage } from './thread-stage.ts';

const SELF = fileURLToPath(import.meta.url);
/** Processes of each subject; the one in the middle counts. */
const PROCESSES = 3;

/** What a process is told to measure: how often, and whatever its file makes of the rest. */
interface Load {
  rounds: number;
}

/** One round: `atOnce` runs of `turns` turns each. */
interface Turns extends Load {
  turns: number;
  atOnce: number;
}

type Name = 'ours' | 'base';

export interface Subject {
  /** One round. */
  run(): Promise<unknown>;
  close(): Promise<void>;
}

async function openTurns(name: Name, { turns, atOnce }: Turns): Promise<Subject> {
  const directive = `turns_${turns}`;
  const times = (run: () => Promise<unknown>) => () =>
    Promise.all(Array.from({ length: atOnce }, run));
  if (name === 'ours') {
    const { run, close } = await openStage([directive]);
    return { run: times(() => run(directive)), close };
  }
  const { url, root, close } = await openBareStage();
  return { run: times(() => bareLoop(url, root, directive)), close };
}

/** In the process that is measured, which `file` is then: prints what a round took, the mean of all that count. */
export async function serveSubject(
  file: string,
  open: (name: Name, load: never) => Promise<Subject>,
): Promise<void> {
  if (process.argv[1] !== file || process.argv[2] !== 'subject') return;
  const load = JSON.parse(process.argv[4] ?? '') as Load;
  const { run, close } = await open(process.argv[3] as Name, load as never);
  await run();
  const micros = await cpuMicros(async () => {
    for (let done = 0; done < load.rounds; done++) await run();
  });
  await close();
  process.stdout.write(String(micros / load.rounds));
}

const median = (values: number[]): number =>
  values.sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;

/** CPU microseconds of a round of each, processes taken in turns so that both meet the same machine. */
export function raceFresh(
  file: string,
  load: Load & Readonly<Record<string, string | number>>,
): Record<Name, number> {
  const seen: Record<Name, number[]> = { ours: [], base: [] };
  for (let turn = 0; turn < PROCESSES; turn++) {
    for (const [name, micros] of Object.entries(seen)) {
      const args = [file, 'subject', name, JSON.stringify(load)];
      micros.push(Number(execFileSync(process.execPath, args, { encoding: 'utf8' })));
    }
  }
  return { ours: median(seen.ours), base: median(seen.base) };
}

export const raceTurns = (load: Turns): Record<Name, number> => raceFresh(SELF, { ...load });

await serveSubject(SELF, openTurns);
