// A thread whose model writes 20,000 deltas, delivered to three sinks besides the thread itself and
// its live view, against a bare loop that puts the same text together.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { bareLoop } from './bare-loop.ts';
import { type BenchRow, race } from './row.ts';
import { openStage, startProvider } from './thread-stage.ts';

const DELTAS = 20_000;
const NAME = `deltas_${DELTAS}`;
const ROUNDS = 15;

/** The bundle's provider with more destinations, as a project would declare it. */
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

/** Every delta is in the file that a run left: what is measured is what it should be. */
function mustHaveAll(root: string): void {
  const text = readFileSync(join(root, 'streams/all.jsonl'), 'utf8');
  const lines = text.split('"text_delta"').length - 1;
  if (lines !== DELTAS) throw new Error(`${lines} deltas in the file instead of ${DELTAS}`);
}

const SHAPES = {
  'at once': './provider.ts',
  'one chunk each': './provider-chunks.ts',
};

async function rowFor(shape: string, provider: string): Promise<BenchRow> {
  let shown = 0;
  const onText = (_thread: string, piece: string): void => {
    shown += piece.length;
  };
  const stage = await openStage([NAME], {
    files: FILES,
    live: { onText },
    provider: () => startProvider(provider),
  });
  try {
    await stage.run(NAME);
    mustHaveAll(stage.root);
    if (shown === 0) throw new Error('no text was shown');
    const { ours = 0, base = 0 } = await race(
      { ours: () => stage.run(NAME), base: () => bareLoop(stage.url, stage.root, NAME) },
      ROUNDS,
    );
    return {
      name: `a thread's model streams ${DELTAS} deltas, ${shape}, to three sinks`,
      ours: ours / 1000,
      base: base / 1000,
      ratio: ours / base,
      unit: 'ms CPU',
      target: 'at most 1.6x a bare loop',
      ok: ours <= 1.6 * base,
    };
  } finally {
    await stage.close();
  }
}

export async function bench(): Promise<BenchRow[]> {
  const rows: BenchRow[] = [];
  for (const [shape, provider] of Object.entries(SHAPES)) rows.push(await rowFor(shape, provider));
  return rows;
}
