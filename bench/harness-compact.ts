// Measures a thread that could make room and never has to, against the same thread with `compact="off"`. The difference
// is the check before each turn.
import { fileURLToPath } from 'node:url';
import { raceFresh, type Subject, serveSubject } from './fresh.ts';
import type { BenchRow } from './row.ts';
import { openStage, stageDirective } from './thread-stage.ts';

const SELF = fileURLToPath(import.meta.url);
const [TURNS, ROUNDS] = [400, 4];
const NAME = `turns_${TURNS}`;
const MODES = { ours: 'auto', base: 'off' } as const;

/** `name`: the mode of the thread. */
async function open(name: keyof typeof MODES): Promise<Subject> {
  const context = `<context compact="${MODES[name]}">2000000</context>`;
  const text = stageDirective(NAME).replace('</limits>', `${context}</limits>`);
  const { run, close } = await openStage([NAME], {
    files: { [`project/.ai/directives/${NAME}.md`]: text },
  });
  return { run: () => run(NAME), close };
}

export async function bench(): Promise<BenchRow[]> {
  const { ours, base } = raceFresh(SELF, { rounds: ROUNDS });
  return [
    {
      name: `${TURNS} turns with compaction that never starts`,
      ours: ours / TURNS,
      base: base / TURNS,
      ratio: ours / base,
      unit: 'µs CPU per turn',
      target: 'at most 1.05x of a thread without',
      ok: ours <= 1.05 * base,
    },
  ];
}

await serveSubject(SELF, open);
