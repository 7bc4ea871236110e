// Measures a thread whose model writes 20,000 deltas to three sinks, the thread and its live view, against a bare loop
// that joins the same text.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { bareLoop } from './bare-loop.ts';
import { raceFresh, type Subject, serveSubject } from './fresh.ts';
import type { BenchRow } from './row.ts';
import { openBareStage, openStage, startProvider } from './thread-stage.ts';

const DELTAS = 20_000;
const NAME = `deltas_${DELTAS}`;
const ROUNDS = 8;
const SELF = fileURLToPath(import.meta.url);

/** The bundle's provider with more destinations, as a project declares it. */
const TOOL = `tool_id: streamed_model
tool_type: http
version: "1.0.0"
description: A model whose stream goes to three sinks
executor_id: llm/anthropic_messages
effect: idempotent
requires: [net.http, fs.write]
config:
  stream:
    destinations:
      - { type: file_sink, path: streams/all.jsonl }
      - { type: file_sink, path: streams/all.txt, format: raw }
      - { type: null_sink }
`;
const FILES = {
  'home/policy.yaml': 'unsigned: allow\n',
  'project/.ai/tools/bench/streamed_model.yaml': TOOL,
  'project/.ai/config/models.yaml': 'providers:\n  anthropic:\n    tool: bench/streamed_model\n',
};

/** Throws unless the file of the runs contains every delta. */
function mustHaveAll(root: string, runs: number): void {
  const text = readFileSync(join(root, 'streams/all.jsonl'), 'utf8');
  const lines = text.split('"text_delta"').length - 1;
  const wanted = runs * DELTAS;
  if (lines !== wanted) throw new Error(`${lines} deltas in the file instead of ${wanted}`);
}

const SHAPES = {
  'at once': './provider.ts',
  'one chunk each': './provider-chunks.ts',
};

/** Provider and number of deltas. */
interface Stream {
  provider: string;
  rounds: number;
}

async function openThread(provider: string): Promise<Subject> {
  let [shown, runs] = [0, 0];
  const onText = (_thread: string, piece: string): void => {
    shown += piece.length;
  };
  const { run, root, close } = await openStage([NAME], {
    files: FILES,
    live: { onText },
    provider: () => startProvider(provider),
  });
  return {
    async run() {
      await run(NAME);
      runs += 1;
      if (shown === 0) throw new Error('no text was shown');
    },
    async close() {
      mustHaveAll(root, runs);
      await close();
    },
  };
}

async function openSubject(name: string, { provider }: Stream): Promise<Subject> {
  if (name === 'ours') return await openThread(provider);
  const { url, root, close } = await openBareStage(provider);
  return { run: () => bareLoop(url, root, NAME), close };
}

export async function bench(): Promise<BenchRow[]> {
  return Object.entries(SHAPES).map(([shape, provider]) => {
    const { ours, base } = raceFresh(SELF, { provider, rounds: ROUNDS });
    return {
      name: `a thread's model streams ${DELTAS} deltas, ${shape}, to three sinks`,
      ours: ours / 1000,
      base: base / 1000,
      ratio: ours / base,
      unit: 'ms CPU',
      target: 'at most 1.6x a bare loop',
      ok: ours <= 1.6 * base,
    };
  });
}

await serveSubject(SELF, openSubject);
