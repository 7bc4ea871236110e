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

/** One round: `atOnce` runs of `turns` turns each. */
export interface Load {
  turns: number;
  atOnce: number;
  rounds: number;
}

type Subject = 'ours' | 'base';

async function openSubject(
  subject: Subject,
  name: string,
): Promise<{ run(): Promise<unknown>; close(): Promise<void> }> {
  if (subject === 'ours') {
    const stage = await openStage([name]);
    return { run: () => stage.run(name), close: stage.close };
  }
  const stage = await openBareStage();
  return { run: () => bareLoop(stage.url, stage.root, name), close: stage.close };
}

/** The process that is measured prints what a round took, the mean of all that count. */
async function measure(subject: Subject, { turns, atOnce, rounds }: Load): Promise<void> {
  const { run, close } = await openSubject(subject, `turns_${turns}`);
  const round = (): Promise<unknown> => Promise.all(Array.from({ length: atOnce }, () => run()));
  await round();
  const micros = await cpuMicros(async () => {
    for (let done = 0; done < rounds; done++) await round();
  });
  await close();
  process.stdout.write(String(micros / rounds));
}

const median = (values: number[]): number =>
  values.sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;

/** CPU microseconds of a round of each, processes taken in turns so that both meet the same machine. */
export function raceFresh(load: Load): Record<Subject, number> {
  const seen: Record<Subject, number[]> = { ours: [], base: [] };
  for (let turn = 0; turn < PROCESSES; turn++) {
    for (const [subject, micros] of Object.entries(seen)) {
      const args = [SELF, 'subject', subject, JSON.stringify(load)];
      micros.push(Number(execFileSync(process.execPath, args, { encoding: 'utf8' })));
    }
  }
  return { ours: median(seen.ours), base: median(seen.base) };
}

if (process.argv[1] === SELF && process.argv[2] === 'subject') {
  await measure(process.argv[3] as Subject, JSON.parse(process.argv[4] ?? '') as Load);
}
