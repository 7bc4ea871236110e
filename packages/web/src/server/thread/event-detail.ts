// Builds the view of one event with its content. A call, its denial and its result share one view, with
// the gates and the arguments.
import { fail, type JsonObject, masked, type Outcome, ok } from '@kernmantle/core/base';
import type { Library } from '@kernmantle/core/items';
import { type Call, decode, eventContent, type Recorded } from '@kernmantle/core/journal';
import type { Store, StoredEvent } from '@kernmantle/core/store';
import type { EventDetail } from '../../model/api.ts';
import { maskedJson } from '../listed-approvals.ts';
import { argumentsOf, callEvents, faultOf, gatesOf, verdictOf, waysOut } from './call-facts.ts';
import type { CallIndex } from './call-index.ts';
import { gatesWithReasons } from './rights.ts';
import { PIECE_BYTES, textOf, textPiece } from './text-piece.ts';

const MAX_ARTIFACTS = 20;
const ARTIFACT = /sha256:[0-9a-f]{64}/g;

function entryFor({ calls }: CallIndex, data: JsonObject): Call | undefined {
  const id = data.call_id;
  return typeof id === 'string' ? calls.find(id) : undefined;
}

async function callPart(
  library: Library,
  store: Store,
  thread: string,
  { book, entry }: { readonly book: CallIndex; readonly entry: Call },
): Promise<Outcome<Partial<EventDetail>>> {
  const events = await callEvents(store, thread, entry);
  if (!events.ok) return events;
  const gates = gatesWithReasons(gatesOf(entry, events.output), library, book, entry);
  const fault = faultOf(events.output);
  const message = fault?.detail.message;
  const [call, denied] = [entry.intents.at(-1), entry.deniedAt];
  return ok({
    call: {
      ...(call !== undefined && { call }),
      ...(denied !== undefined && { denied }),
      ...(entry.result && { result: entry.result.seq }),
    },
    arguments: argumentsOf(library, entry, events.output),
    gates,
    verdict: verdictOf(gates),
    ...(typeof message === 'string' && { why: masked(message) }),
    ...(fault && { ways: waysOut(fault) }),
  });
}

/** Returns the condition of a hook in the current directive. Among hooks with the same name the position decides. */
function conditionOf(library: Library, { start }: CallIndex, event: Recorded): { when?: string } {
  if (event.type !== 'hook' && event.type !== 'hook_start') return {};
  const match = library.find('directive', start?.directive ?? '');
  const hooks = (match.ok && match.output.directive?.hooks) || [];
  const at = event.type === 'hook_start' ? event.data.index : undefined;
  const placed = at === undefined ? undefined : hooks[at];
  const sameName = hooks.filter(({ directive }) => directive === event.data.directive);
  const [first] = placed && sameName.includes(placed) ? [placed] : sameName;
  return first ? { when: masked(first.when) } : {};
}

async function storedAt(store: Store, thread: string, seq: number): Promise<Outcome<StoredEvent>> {
  const read = await store.read(thread, { after: seq - 1, limit: 1 });
  if (!read.ok) return read;
  const [stored] = read.output;
  return stored?.seq === seq
    ? ok(stored)
    : fail('not_found', `thread \`${thread}\` has no event ${seq}`, { thread, seq });
}

/** Builds the view of an event. `offset`: start of the pieces of long texts. Fails with `not_found`. */
export async function eventDetail(
  library: Library,
  store: Store,
  book: CallIndex,
  thread: string,
  { seq, offset }: { readonly seq: number; readonly offset: number },
): Promise<Outcome<EventDetail>> {
  const stored = await storedAt(store, thread, seq);
  if (!stored.ok) return stored;
  const { ts, turn, type, data } = stored.output;
  const view = maskedJson({ seq, ts, turn, type, data });
  const text = JSON.stringify(view, null, 2);
  const raw = textPiece(text, offset);
  const read = decode(stored.output);
  const content = read.ok ? eventContent(read.output) : undefined;
  const isOfHook = type === 'hook' || type === 'hook_start';
  const entry = isOfHook ? undefined : entryFor(book, data);
  const part = entry ? await callPart(library, store, thread, { book, entry }) : ok({});
  if (!part.ok) return part;
  const denied = entry?.deniedAt;
  const artifacts = [...new Set(text.match(ARTIFACT) ?? [])].slice(0, MAX_ARTIFACTS);
  return ok({
    event: raw.bytes > PIECE_BYTES ? {} : view,
    raw,
    ...(content !== undefined &&
      content !== '' && { content: textPiece(masked(textOf(content)), offset) }),
    ...(!read.ok && { verdict: 'The event cannot be read', why: read.error.detail.message }),
    ...(read.ok && conditionOf(library, book, read.output)),
    ...part.output,
    ...(artifacts.length > 0 && { artifacts }),
    command:
      denied === undefined
        ? `km threads show ${thread}`
        : `km provenance --thread ${thread} --seq ${denied}`,
  });
}
