// How a value of a script came to be, or why something was refused. The script is run for it, as
// `script` runs it, and a trail is kept.

import { resolve } from 'node:path';
import {
  type Fault,
  fail,
  getOwn,
  isObject,
  type Json,
  type JsonObject,
  type Outcome,
  ok,
  plainText,
} from '../../base/index.ts';
import { createTrail, type Provenance, type ProvenanceNode } from '../../flow/index.ts';
import { type Recorded, type RecordedOf, readJournal } from '../../harness/index.ts';
import { asList, asText, type CommandCall, type CommandRun, type Ending } from '../command.ts';
import { exitCodeOf } from '../terminal/exit-code.ts';
import { type Terminal, visible } from '../terminal/terminal.ts';
import { findThread, withRegistry } from '../threads/open-threads.ts';
import { parseParameters } from './exec.ts';
import { runScriptJob, type ScriptJob, shownName } from './script.ts';

// Why something was refused in a thread, from its journal: everything the model writes is made of all it
// has read, so what led to a refusal is every message and result before it whose marks it carries.

interface Explained extends Provenance {
  /** What is explained, in one line. */
  readonly subject: string;
  readonly refusal: Json;
}

const REFUSED = new Set(['permission_denied', 'needs_input']);

type Result = RecordedOf<'tool_result'>;
/** What a model has read. */
type Read = Result | RecordedOf<'user_message'> | RecordedOf<'injected_message'>;

const isRead = (event: Recorded): event is Read =>
  event.type === 'user_message' ||
  event.type === 'injected_message' ||
  (event.type === 'tool_result' && !event.data.is_error);

const errorOf = ({ data }: Result): JsonObject => {
  const error = data.is_error ? getOwn(data.content, 'error') : undefined;
  return isObject(error) ? error : {};
};

const isRefusal = (event: Recorded): event is Result =>
  event.type === 'tool_result' && REFUSED.has(plainText(errorOf(event).code));

/** The tool of a result stands with its call when the result does not name it. */
function nameOf(event: Read, events: readonly Recorded[]): string {
  if (event.type !== 'tool_result') return event.type.replace('_', ' ');
  const { call_id, tool } = event.data;
  const call = events.find((other) => other.type === 'tool_call' && other.data.call_id === call_id);
  const made = call?.type === 'tool_call' ? call.data : undefined;
  const named = tool ?? getOwn(made?.arguments, 'item_id') ?? made?.verb;
  // What the harness hands over at the start is the directive itself.
  return named === undefined ? 'directive' : `tool ${plainText(named)}`;
}

function nodesBefore(events: readonly Recorded[], refused: Result): ProvenanceNode[] {
  const carried = new Set(refused.data.marks.taint);
  return events
    .filter(isRead)
    .filter(({ seq }) => seq < refused.seq)
    .map((event, id) => ({
      id,
      operation: nameOf(event, events),
      place: { file: 'turn', line: event.turn },
      labels: event.data.marks.labels,
      sources: event.data.marks.sources,
      from: [],
      taint: event.data.marks.taint,
    }))
    .filter(({ taint }) => taint.every((mark) => carried.has(mark)))
    .map(({ taint: _taint, ...node }) => node);
}

/** The last refusal of a thread. */
function explainThread(thread: string, events: readonly Recorded[]): Outcome<Explained> {
  const refused = events.findLast(isRefusal);
  if (!refused) return fail('not_found', `nothing was refused in thread \`${thread}\``);
  const error = errorOf(refused);
  const detail = isObject(error.detail) ? error.detail : error;
  const nodes = nodesBefore(events, refused);
  const tool = nameOf(refused, events);
  const known = new Set(nodes.flatMap(({ sources }) => sources));
  known.add(tool.replace(' ', ':'));
  const { guard = null, filter = null, reasons = [] } = detail;
  return ok({
    subject: `${tool}: ${plainText(detail.message ?? error.message ?? '')}`,
    refusal: { code: error.code ?? null, guard, filter, reasons },
    labels: refused.data.marks.labels,
    sources: refused.data.marks.sources.filter((source) => !known.has(source)),
    from: nodes.map(({ id }) => id),
    nodes,
  });
}

const placeText = ({ file, line }: ProvenanceNode['place']): string =>
  file === null || line === null ? '' : `${file}:${line}`;

function ofFault(fault: Fault, provenance: Provenance): Explained {
  const { message, guard = null, filter = null, reasons = [] } = fault.detail;
  return { subject: message, refusal: { code: fault.code, guard, filter, reasons }, ...provenance };
}

/** Asked for a line: the last thing made there. Otherwise the refusal, or the last thing that left. */
async function explain(
  job: ScriptJob,
  line: number | undefined,
): Promise<{ explained: Outcome<Explained>; fault?: Fault | undefined }> {
  const trail = createTrail();
  const shown = new Map<number, string>();
  const end = await runScriptJob({
    ...job,
    trail,
    onEffect(effect) {
      if (effect.line !== null) shown.set(effect.line, effect.kind);
    },
  });
  const { fault } = end;
  const last = line ?? [...shown.keys()].at(-1);
  if (fault && line === undefined) {
    return { explained: ok(ofFault(fault, trail.ofFault(fault))), fault };
  }
  const file = shownName(resolve(job.cwd, job.file ?? ''), job);
  const made = last === undefined ? undefined : trail.atLine(file, last).at(-1);
  if (made) {
    const subject = `${file}:${last}`;
    return { explained: ok({ subject, refusal: null, ...trail.ofMarks(made) }) };
  }
  if (fault) return { explained: { ok: false, error: fault } };
  const where = line === undefined ? 'the script made nothing' : `nothing was made at line ${line}`;
  return { explained: fail('not_found', `${where}, so there is nothing to explain`) };
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

const explainRefusal = (call: CommandCall, word: string): Promise<Ending> =>
  withRegistry(call, async ({ store }) => {
    const { terminal } = call;
    const row = await findThread(store, word);
    if (!row.ok) return row;
    const events = await readJournal(store, row.output.id);
    const explained = events.ok ? explainThread(row.output.id, events.output) : events;
    return terminal.finish(explained, (found) => drawTree(found, terminal));
  });

export const run: CommandRun = async (call) => {
  const { args, options, terminal } = call;
  const thread = asText(options.thread);
  if (thread !== undefined) return await explainRefusal(call, thread);
  const file = asText(args[0]);
  if (file === undefined) {
    return fail('usage', 'give a script, or a thread with `--thread`');
  }
  const payload = parseParameters(asList(options.payload));
  if (!payload.ok) return payload;
  const asked = asText(options.line);
  const line = asked === undefined ? undefined : Number(asked);
  if (line !== undefined && !(Number.isInteger(line) && line > 0)) {
    return fail('usage', `\`--line ${asked}\` is no line`);
  }
  const { cwd, env } = terminal;
  const { explained, fault } = await explain({ file, cwd, env, payload: payload.output }, line);
  const code = terminal.finish(explained, (found) => drawTree(found, terminal));
  // A refusal was asked about; any other end is that of the script.
  return fault && !REFUSED.has(fault.code) ? exitCodeOf(fault) : code;
};
