// Why something was refused in a thread, from its journal: everything the model writes is made of all it
// has read, so what led to a refusal is every message and result before it whose marks it carries.
import {
  fail,
  getOwn,
  type Json,
  type JsonObject,
  type Outcome,
  ok,
  plainText,
} from '../base/index.ts';
import type { Provenance, ProvenanceNode } from '../flow/index.ts';
import type { StoredEvent } from '../store/index.ts';

export interface Explained extends Provenance {
  /** What is explained, in one line. */
  readonly subject: string;
  readonly refusal: Json;
}

const REFUSED = new Set(['permission_denied', 'needs_input']);
const READ = new Set(['user_message', 'injected_message', 'tool_result']);

const list = (marks: Json | undefined, name: string): string[] => {
  const found = getOwn(marks ?? null, name);
  return Array.isArray(found) ? found.map(String) : [];
};

const errorOf = ({ type, data }: StoredEvent): Json | undefined =>
  type === 'tool_result' && data.is_error === true
    ? getOwn(data.content ?? null, 'error')
    : undefined;

const isRefusal = (event: StoredEvent): boolean =>
  REFUSED.has(plainText(getOwn(errorOf(event) ?? null, 'code')));

/** The tool of a result stands with its call when the result does not name it. */
function nameOf(event: StoredEvent, events: readonly StoredEvent[]): string {
  const { type, data } = event;
  if (type !== 'tool_result') return type.replace('_', ' ');
  const call = events.find(
    (other) => other.type === 'tool_call' && other.data.call_id === data.call_id,
  );
  const args = call?.data.arguments ?? null;
  const named = data.tool ?? getOwn(args, 'item_id') ?? call?.data.verb ?? null;
  // What the harness hands over at the start is the directive itself.
  return named === null ? 'directive' : `tool ${plainText(named)}`;
}

function nodesBefore(events: readonly StoredEvent[], refused: StoredEvent): ProvenanceNode[] {
  const carried = new Set(list(refused.data.marks, 'taint'));
  return events
    .filter(({ seq, type, data }) => seq < refused.seq && READ.has(type) && data.is_error !== true)
    .map((event, id) => ({
      id,
      operation: nameOf(event, events),
      place: { file: 'turn', line: event.turn },
      labels: list(event.data.marks, 'labels'),
      sources: list(event.data.marks, 'sources'),
      from: [],
      taint: list(event.data.marks, 'taint'),
    }))
    .filter(({ taint }) => taint.every((mark) => carried.has(mark)))
    .map(({ taint: _taint, ...node }) => node);
}

/** The last refusal of a thread. */
export function explainThread(thread: string, events: readonly StoredEvent[]): Outcome<Explained> {
  const refused = events.findLast(isRefusal);
  if (!refused) return fail('not_found', `nothing was refused in thread \`${thread}\``);
  const error = (errorOf(refused) ?? {}) as JsonObject;
  const detail = (getOwn(error, 'detail') ?? error) as JsonObject;
  const nodes = nodesBefore(events, refused);
  const tool = nameOf(refused, events);
  const known = new Set(nodes.flatMap(({ sources }) => sources));
  known.add(tool.replace(' ', ':'));
  const { guard = null, filter = null, reasons = [] } = detail;
  return ok({
    subject: `${tool}: ${plainText(detail.message ?? error.message ?? '')}`,
    refusal: { code: error.code ?? null, guard, filter, reasons },
    labels: list(refused.data.marks, 'labels'),
    sources: list(refused.data.marks, 'sources').filter((source) => !known.has(source)),
    from: nodes.map(({ id }) => id),
    nodes,
  });
}
