// Measures runs of threads and bare loops, each subject in its own new process: one run to warm up, then the counted
// rounds. In one process, each subject would profit from code that the other has warmed up, and the fetch loop would
// profit more. The file also runs as the measured process.
import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { bareLoop } from './bare-loop.ts';
import { cpuMicros } from './row.ts';
import { openBareStage, openStage } from './thread-stage.ts';

const SELF = fileURLToPath(import.meta.url);
/** Number of processes of each subject. The median counts. */
const PROCESSES = 3;

/** Instructions for a measured process: the number of rounds, and fields for its file. */
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
  /** Performs one round. */
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

/** Runs in the measured process, whose file is `file`. Prints the mean time of the counted rounds. */
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

/** Returns CPU microseconds of a round of each subject. The processes alternate, so that conditions are equal. */
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
