// Going back to a snapshot. A journal only grows: going back is one more event in it, and what came
// after the snapshot no longer counts for the conversation. What it cost, which limits were raised and
// which hooks have fired stays as it is, and nothing that was done is undone.
import { fail, type Json, type Outcome, ok, plainText } from '../base/index.ts';
import { describe } from '../flow/index.ts';
import { isEnded, type NewEvent, type StoredEvent, type ThreadRow } from '../store/index.ts';
import { packMarks } from './conversation.ts';
import type { ThreadContext } from './thread-context.ts';

/** The number of a snapshot's event, or the latest one. */
export type SnapshotName = number | 'last';

/** Where a resume went back to. */
const rewoundTo = ({ type, data }: NewEvent): number | undefined =>
  type === 'signal' && data.kind === 'resume' && typeof data.from === 'number'
    ? data.from
    : undefined;

/** The events that count for the conversation: without what was gone back over. */
export function standing<T extends NewEvent & { seq: number }>(history: readonly T[]): T[] {
  let kept: T[] = [];
  for (const event of history) {
    const from = rewoundTo(event);
    if (from !== undefined) kept = kept.filter(({ seq }) => seq <= from);
    kept.push(event);
  }
  return kept;
}

const snapshotsIn = (history: readonly StoredEvent[]): StoredEvent[] =>
  standing(history).filter(({ type }) => type === 'snapshot');

/** The snapshot of this name; what there is instead when it is unknown. */
export function findSnapshot(
  thread: string,
  history: readonly StoredEvent[],
  wanted: SnapshotName,
): Outcome<number> {
  const known = snapshotsIn(history);
  const found = wanted === 'last' ? known.at(-1) : known.find(({ seq }) => seq === wanted);
  if (found) return ok(found.seq);
  const list = known.map(({ seq, data }) => `${seq} (${plainText(data.reason ?? '')})`);
  const there =
    list.length === 0
      ? 'it has none; a model makes one with `help` and the action `checkpoint`'
      : `it has ${list.join(', ')}`;
  return fail('not_found', `thread \`${thread}\` has no snapshot \`${wanted}\`: ${there}`, {
    thread,
    snapshots: known.map(({ seq }) => seq),
  });
}

/** What has ended is opened again, except for a child: its parent has counted on that end. */
export function mayRewind({ id, status, parent, root }: ThreadRow): Outcome<null> {
  if (!isEnded(status) || parent === undefined) return ok(null);
  const message = `thread \`${id}\` has ended (${status}) and its parent was told; go back with its root \`${root}\``;
  return fail('thread_ended', message, { thread: id, status, root });
}

/** The call that made the snapshot; at that point it had no result yet. */
function snapshotCall(kept: readonly StoredEvent[], from: number): string | undefined {
  const before = kept.filter(({ seq }) => seq <= from);
  const call = before.findLast(({ type }) => type === 'tool_call');
  if (!call || call.data.verb !== 'help') return undefined;
  const id = plainText(call.data.call_id);
  const isDone = before.some(
    ({ type, seq, data }) => type === 'tool_result' && seq > call.seq && data.call_id === id,
  );
  return isDone ? undefined : id;
}

const line = (from: number): string =>
  `[harness] this thread went back to snapshot ${from}. What was done after it is not undone: look before you repeat it.`;

export interface RewindWords {
  text: string;
  /** Who says it, for the record. */
  by: string;
}

const FROM_PERSON = packMarks(describe({ taint: ['src:user'] }));

/** What goes into the journal: where it goes back to, and what the model is told about it. */
export function rewindEvents(
  { conversation, world }: ThreadContext,
  history: readonly StoredEvent[],
  from: number,
  words?: RewindWords,
): NewEvent[] {
  const marks = packMarks(conversation.marks());
  const call = snapshotCall(standing(history), from);
  const content: Json = { action: 'checkpoint', snapshot: from };
  return [
    { type: 'signal', data: { kind: 'resume', by: world.owner, from } },
    ...(call === undefined
      ? []
      : [{ type: 'tool_result', data: { call_id: call, content, is_error: false, marks } }]),
    { type: 'injected_message', data: { text: line(from), by: 'harness', marks } },
    ...(words ? [{ type: 'injected_message', data: { ...words, marks: FROM_PERSON } }] : []),
  ];
}
