// Implements `provenance`: shows how a value of a script or a thread was computed, or why a call
// was refused.
import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import {
  compact,
  exitCodeOf,
  fail,
  getOwn,
  type Json,
  type Outcome,
  ok,
  plainText,
} from '@kernmantle/core/base';
import { type Explained, reports } from '@kernmantle/core/reports';
import { asList, asText, type CommandCall, type CommandRun, type Ending } from '../command.ts';
import { type Terminal, visible } from '../terminal/terminal.ts';
import { findThread, withRegistry } from '../threads/open-threads.ts';
import { parseParameters } from './exec.ts';
import { runScriptJob } from './script.ts';

const placeText = ({ file, line }: Explained['nodes'][number]['place']): string =>
  file === null || line === null ? '' : `${file}:${line}`;

/** Prints the tree from the result back to the sources. A node is printed once. */
function drawTree({ subject, labels, from, sources, nodes }: Explained, terminal: Terminal): void {
  const byId = new Map(nodes.map((node) => [node.id, node]));
  const printed = new Set<number>();
  const marks = (list: readonly string[]) =>
    list.length > 0 ? terminal.paint('dim', `  [${list.join(', ')}]`) : '';
  const draw = (ids: readonly number[], outside: readonly string[], indent: string): void => {
    const leaves = outside.map((source) => ({ text: visible(source), id: undefined }));
    const branches = ids.map((id) => ({ text: '', id }));
    [...branches, ...leaves].forEach(({ text, id }, at, all) => {
      const isLast = at === all.length - 1;
      const stem = `${indent}${isLast ? '└─ ' : '├─ '}`;
      const node = id === undefined ? undefined : byId.get(id);
      if (!node) return terminal.out(`${stem}${text}`);
      const isKnown = printed.has(node.id);
      printed.add(node.id);
      const place = terminal.paint('dim', `  ${placeText(node.place)}`);
      const name = visible(node.operation);
      terminal.out(`${stem}${name}${place}${marks(node.labels)}${isKnown ? '  (above)' : ''}`);
      if (!isKnown) draw(node.from, node.sources, `${indent}${isLast ? '   ' : '│  '}`);
    });
  };
  terminal.out(`${visible(subject)}${marks(labels)}`);
  draw(from, sources, '');
}

const words = (value: Json | undefined): string[] =>
  Array.isArray(value) ? value.map((one) => visible(plainText(one))) : [];

/** Prints the tree. A refusal also shows the sources of the taint and the missing permission. */
export function drawProvenance(explained: Explained, terminal: Terminal): void {
  drawTree(explained, terminal);
  if (explained.refusal === null) return;
  const [tainted, needed] = ['tainted_by', 'needed'].map((name) =>
    words(getOwn(explained.refusal, name)),
  );
  const line = (name: string, all: readonly string[] = []): void => {
    if (all.length > 0) terminal.out(`${terminal.paint('dim', name)} ${all.join('; ')}`);
  };
  line('tainted by', tainted);
  line('needed    ', needed);
}

/** Reads the number of a line or of an event. */
function numberOption(options: CommandCall['options'], name: string): Outcome<number | undefined> {
  const text = asText(options[name]);
  if (text === undefined) return ok(undefined);
  const value = Number(text);
  return Number.isInteger(value) && value > 0
    ? ok(value)
    : fail(
        'usage',
        `\`--${name} ${text}\` must be the number of ${name === 'line' ? 'a line' : 'an event'}`,
      );
}

const ofThread = (call: CommandCall, word: string, value?: string): Promise<Ending> =>
  withRegistry(call, async ({ store }) => {
    const { options, terminal } = call;
    const seq = numberOption(options, 'seq');
    if (!seq.ok) return seq;
    const row = await findThread(store, word);
    if (!row.ok) return row;
    const { explainRefusal } = await reports.provenance();
    const argument = asText(options.argument);
    const isNamed = seq.output !== undefined || argument !== undefined;
    if (value !== undefined && isNamed) {
      return fail('usage', `use either \`${value}\`, or \`--seq\` and \`--argument\``);
    }
    const subject = compact({ seq: seq.output, argument, value });
    const explained = await explainRefusal(store, row.output.id, subject);
    return terminal.finish(explained, (found) => drawProvenance(found, terminal));
  });

/** True if the argument is a script file. A thread is named by its id or `last`. */
const isScript = (cwd: string, word: string): boolean =>
  existsSync(resolve(cwd, word)) || (word !== 'last' && /[./\\]/.test(word));

export const run: CommandRun = async (call) => {
  const { args, options, terminal } = call;
  const thread = asText(options.thread);
  const [file, value] = [asText(args[0]), asText(args[1])];
  if (thread !== undefined) return await ofThread(call, thread, file);
  if (file === undefined) {
    return fail('usage', 'a script or a thread is missing');
  }
  if (!isScript(terminal.cwd, file)) return await ofThread(call, file, value);
  if (value !== undefined) return fail('usage', 'a script takes no value; use `--line`');
  if (options.seq !== undefined || options.argument !== undefined) {
    return fail('usage', '`--seq` and `--argument` need a thread');
  }
  const payload = parseParameters(asList(options.payload));
  if (!payload.ok) return payload;
  const line = numberOption(options, 'line');
  if (!line.ok) return line;
  const { cwd, env } = terminal;
  const { explainScript } = await import('@kernmantle/script');
  const { isRefused } = await reports.provenance();
  let explained: Outcome<Explained> | undefined;
  const job = { file, cwd, env, payload: payload.output };
  const { fault } = await runScriptJob(job, async (runtime, script) => {
    const end = await explainScript(runtime, script, line.output);
    ({ explained } = end);
    return end;
  });
  // The script could not run.
  explained ??= fail(fault?.code ?? 'not_found', fault?.detail.message ?? 'no script found');
  const code = terminal.finish(explained, (found) => drawProvenance(found, terminal));
  // The user asked about a refusal, so the refusal is a success of this command. Any other failure
  // is that of the script.
  return fault && !isRefused(fault) ? exitCodeOf(fault) : code;
};
