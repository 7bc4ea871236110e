// How a value of a script came to be, or why something was refused. The script is run for it, as
// `script` runs it, and a trail is kept.
import { resolve } from 'node:path';
import { type Fault, fail, type Outcome, ok } from '../../base/index.ts';
import { createTrail, type Provenance, type ProvenanceNode } from '../../flow/index.ts';
import { asList, asText, type CommandCall, type CommandRun } from '../command.ts';
import { readEvents } from '../read-events.ts';
import { runScriptJob, type ScriptJob, shownName } from '../script-run.ts';
import { type Terminal, visible } from '../terminal.ts';
import { findThread, withRegistry } from '../thread-access.ts';
import { type Explained, explainThread } from '../thread-provenance.ts';
import { parseParameters } from './exec.ts';

const placeText = ({ file, line }: ProvenanceNode['place']): string =>
  file === null || line === null ? '' : `${file}:${line}`;

function ofFault(fault: Fault, provenance: Provenance): Explained {
  const { message, guard = null, filter = null, reasons = [] } = fault.detail;
  return { subject: message, refusal: { code: fault.code, guard, filter, reasons }, ...provenance };
}

/** Asked for a line: the last thing made there. Otherwise the refusal, or the last thing that left. */
async function explain(job: ScriptJob, line: number | undefined): Promise<Outcome<Explained>> {
  const trail = createTrail();
  const shown = new Map<number, string>();
  const end = await runScriptJob({
    ...job,
    trail,
    onEffect(effect) {
      if (effect.line !== null) shown.set(effect.line, effect.kind);
    },
  });
  const last = line ?? [...shown.keys()].at(-1);
  if (end.fault && line === undefined) return ok(ofFault(end.fault, trail.ofFault(end.fault)));
  const file = shownName(resolve(job.cwd, job.file ?? ''), job);
  const made = last === undefined ? undefined : trail.atLine(file, last).at(-1);
  if (made) return ok({ subject: `${file}:${last}`, refusal: null, ...trail.ofMarks(made) });
  if (end.fault) return { ok: false, error: end.fault };
  const where = line === undefined ? 'the script made nothing' : `nothing was made at line ${line}`;
  return fail('not_found', `${where}, so there is nothing to explain`);
}

/** A tree from the end to the beginning; what was shown once is not shown again. */
function drawTree({ subject, labels, from, sources, nodes }: Explained, terminal: Terminal): void {
  const byId = new Map(nodes.map((node) => [node.id, node]));
  const seen = new Set<number>();
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
      const isKnown = seen.has(node.id);
      seen.add(node.id);
      const place = terminal.paint('dim', `  ${placeText(node.place)}`);
      const name = visible(node.operation);
      terminal.out(`${stem}${name}${place}${marks(node.labels)}${isKnown ? '  (above)' : ''}`);
      if (!isKnown) draw(node.from, node.sources, `${indent}${isLast ? '   ' : '│  '}`);
    });
  };
  terminal.out(`${visible(subject)}${marks(labels)}`);
  draw(from, sources, '');
}

function jobOf({ args, terminal }: CommandCall, payload: ScriptJob['payload']): ScriptJob {
  return {
    file: asText(args[0]),
    text: undefined,
    cwd: terminal.cwd,
    env: terminal.env,
    payload,
    stdin: () => '',
    onEffect: () => {},
  };
}

const explainRefusal = (call: CommandCall, word: string): Promise<number> =>
  withRegistry(call, async ({ store }) => {
    const { terminal } = call;
    const row = findThread(store, word);
    if (!row.ok) return terminal.finish(row, () => {});
    const events = readEvents(store, row.output.id);
    const explained = events.ok ? explainThread(row.output.id, events.output) : events;
    return terminal.finish(explained, (found) => drawTree(found, terminal));
  });

export const run: CommandRun = async (call) => {
  const { args, options, terminal } = call;
  const thread = asText(options.thread);
  if (thread !== undefined) return await explainRefusal(call, thread);
  if (asText(args[0]) === undefined) {
    return terminal.finish(fail('usage', 'give a script, or a thread with `--thread`'), () => {});
  }
  const payload = parseParameters(asList(options.payload));
  if (!payload.ok) return terminal.finish(payload, () => {});
  const asked = asText(options.line);
  const line = asked === undefined ? undefined : Number(asked);
  if (line !== undefined && !(Number.isInteger(line) && line > 0)) {
    return terminal.finish(fail('usage', `\`--line ${asked}\` is no line`), () => {});
  }
  const explained = await explain(jobOf(call, payload.output), line);
  return terminal.finish(explained, (found) => drawTree(found, terminal));
};
