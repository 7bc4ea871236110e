// Implements `evaluate attacks`: measures the effects of a model that obeys an attacker, and the
// tasks that still succeed for the user.
import { writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { EXIT, fail, messageOf, type Outcome, ok, readRegularFile } from '@kernmantle/core/base';
import type { TraceLine } from '@kernmantle/evals';
import {
  type Cases,
  countRuns,
  type EvaluationPart,
  evaluate,
  inHalves,
  inOrder,
  type Metadata,
  MODES,
  type RunFigures,
  readCases,
  readMetadata,
  rename,
  runElsewhere,
  totalsOf,
  VARIANTS,
} from '@kernmantle/evals';
import { EXTENSIONS } from '../../extensions.ts';
import { asList, asText, type CommandCall, type CommandRun } from '../command.ts';
import { interruptible, type Terminal } from '../terminal/terminal.ts';

const MAX_BYTES = 256 * 1024 * 1024;

function readText(cwd: string, name: string): Outcome<string> {
  const file = resolve(cwd, name);
  const read = readRegularFile(file, { max: MAX_BYTES, followsLinks: true });
  return 'problem' in read
    ? fail('usage', `\`${name}\`: ${read.problem.message}`)
    : ok(read.bytes.toString('utf8'));
}

/** Returns the named values in the order of `all`, or all values if none is named. */
function chosen<T extends string>(value: unknown, all: readonly T[], option: string): Outcome<T[]> {
  const words = asList(value).flatMap((word) => word.split(','));
  const unknown = words.find((word) => !all.some((one) => one === word));
  if (unknown !== undefined) {
    return fail('usage', `\`--${option} ${unknown}\` not found; use ${all.join(', ')}`);
  }
  return ok(words.length === 0 ? [...all] : all.filter((one) => words.includes(one)));
}

function seedOf(text: string | undefined): Outcome<number | undefined> {
  if (text === undefined) return ok(undefined);
  return /^\d{1,9}$/.test(text)
    ? ok(Number(text))
    : fail('usage', `\`--seed ${text}\` must be a whole number`);
}

const COLUMNS: readonly (readonly [keyof RunFigures, string])[] = [
  ['suite', 'suite'],
  ['mode', 'mode'],
  ['variant', 'variant'],
  ['user_tasks', 'tasks'],
  ['utility', 'done'],
  ['utility_with_person', 'with a person'],
  ['approvals', 'approvals'],
  ['pairs', 'attacks'],
  ['utility_under_attack', 'done'],
  ['steered', 'steered'],
  ['attack_success', 'succeeded'],
  ['unsound_labels', 'labels lost'],
];

function showTable(runs: readonly RunFigures[], terminal: Terminal): void {
  const cells = [
    COLUMNS.map(([, title]) => title),
    ...runs.map((run) => COLUMNS.map(([name]) => String(run[name]))),
  ];
  const widths = COLUMNS.map((_, at) => Math.max(...cells.map((row) => row[at]?.length ?? 0)));
  for (const [at, row] of cells.entries()) {
    const line = row.map((cell, column) => {
      const width = widths[column] ?? 0;
      return column < 3 ? cell.padEnd(width) : cell.padStart(width);
    });
    terminal.out(at === 0 ? terminal.paint('bold', line.join('  ')) : line.join('  '));
  }
}

/** Prints progress: one redrawn line on a terminal, otherwise a line from time to time. */
function progress(terminal: Terminal): (done: number, all: number, what: string) => void {
  let last = 0;
  return (done, all, what) => {
    const now = Date.now();
    if (done < all && now - last < (terminal.isLive ? 200 : 10_000)) return;
    last = now;
    const line = `${done} of ${all} runs, ${what}`;
    if (terminal.isLive) terminal.write(`\r\u001b[K${done === all ? '' : line}`);
    else terminal.note(line);
  };
}

function writeTrace(cwd: string, name: string, lines: readonly unknown[]): Outcome<null> {
  try {
    writeFileSync(resolve(cwd, name), lines.map((line) => `${JSON.stringify(line)}\n`).join(''));
    return ok(null);
  } catch (error) {
    return fail('usage', `\`--trace ${name}\`: ${messageOf(error)}`);
  }
}

function metadataOf({ options, terminal: { cwd } }: CommandCall): Outcome<Metadata> {
  const name = asText(options.metadata);
  if (name === undefined) return ok({});
  const text = readText(cwd, name);
  return text.ok ? readMetadata(text.output, name) : text;
}

/** Runs all cases here, or one half here and the other half in a second process. */
async function runParts(
  { args, options, terminal }: CommandCall,
  cases: Cases,
  metadata: Metadata,
  part: EvaluationPart,
  signal: AbortSignal,
): Promise<Outcome<TraceLine[]>> {
  const { cwd, env } = terminal;
  const size = cases.suites.reduce((sum, { pairs }) => sum + pairs.length, 0);
  const [own, other] = inHalves(part, size, env);
  const onProgress = progress(terminal);
  const here = evaluate({
    cases,
    metadata,
    ...own,
    signal,
    extensions: EXTENSIONS,
    onProgress,
  });
  if (!other) return await here;
  const more = ['metadata', 'seed'].flatMap((name) => {
    const value = asText(options[name]);
    return value === undefined ? [] : [`--${name}`, value];
  });
  const words = { data: asText(args[0]) ?? '', more, cwd, env };
  const [first, second] = await Promise.all([here, runElsewhere(other, words, signal)]);
  if (!first.ok) return first;
  if (!second.ok) return second;
  const names = cases.suites.map(({ name }) => name);
  return ok(inOrder([...first.output, ...second.output], names));
}

export const evaluateAttacks: CommandRun = async (call) => {
  const { args, options, terminal } = call;
  const data = readText(terminal.cwd, asText(args[0]) ?? '');
  if (!data.ok) return data;
  const read = readCases(data.output);
  if (!read.ok) return read;
  const facts = metadataOf(call);
  if (!facts.ok) return facts;
  const modes = chosen(options.mode, MODES, 'mode');
  if (!modes.ok) return modes;
  const variants = chosen(options.variant, VARIANTS, 'variant');
  if (!variants.ok) return variants;
  const seed = seedOf(asText(options.seed));
  if (!seed.ok) return seed;
  const trace = asText(options.trace);
  const writable = trace === undefined ? ok(null) : writeTrace(terminal.cwd, trace, []);
  if (!writable.ok) return writable;
  const { cases, metadata } =
    seed.output === undefined
      ? { cases: read.output, metadata: facts.output }
      : rename(read.output, facts.output, seed.output);
  const part = { modes: modes.output, variants: variants.output };
  const lines = await interruptible((signal) => runParts(call, cases, metadata, part, signal));
  if (!lines.ok) return lines;
  const written = trace === undefined ? ok(null) : writeTrace(terminal.cwd, trace, lines.output);
  if (!written.ok) return written;
  const runs = countRuns(lines.output);
  const totals = totalsOf(runs);
  // The figures are also at the top level of the JSON, for scripts that read only them.
  const figures = { ...ok({ runs, totals }), runs, totals };
  terminal.finish(figures, () => showTable(runs, terminal));
  return totals.attack_success > 0 ? EXIT.failed : EXIT.done;
};
