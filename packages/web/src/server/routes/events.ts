// Routes of the journal of a thread: pages of slim events, one event with its content, a search,
// provenance, and artifacts.
import { fail, type Json, masked, type Outcome, ok, parseJson } from '@kernmantle/core/base';
import { slimEvent } from '@kernmantle/core/journal';
import { reports } from '@kernmantle/core/reports';
import type { Store, StoredEvent, ThreadRow } from '@kernmantle/core/store';
import type { EventPage, ProvenanceView } from '../../model/api.ts';
import { answer } from '../answer.ts';
import type { AddRoutes } from '../context.ts';
import { needs } from '../roles.ts';
import { callIndexesOf } from '../thread/call-index.ts';
import { eventDetail } from '../thread/event-detail.ts';
import { PIECE_BYTES, partAt, textOf, textPiece } from '../thread/text-piece.ts';
import { findRow, readCount, readQuery } from './request-bodies.ts';

const DEFAULT_EVENTS = 200;
const MAX_EVENTS = 2000;
const CHUNK = 1000;
/** Bound of events that a search or a filter reads. `isComplete` is false if a search reaches it. */
const MAX_LOOKED = 200_000;
const MAX_FOUND = 500;
const MAX_SEQ = 1e9;
const MAX_OFFSET = 1e9;

interface PageRequest {
  readonly after: number | undefined;
  readonly before: number | undefined;
  readonly limit: number;
  readonly types: ReadonlySet<string> | undefined;
}

type Query = { [name in 'after' | 'before' | 'limit' | 'types']?: string };

function readPageRequest(query: Query): Outcome<PageRequest> {
  const after = readCount(query.after, { name: 'after', max: MAX_SEQ });
  if (!after.ok) return after;
  const before = readCount(query.before, { name: 'before', min: 1, max: MAX_SEQ });
  if (!before.ok) return before;
  const limit = readCount(query.limit, { name: 'limit', min: 1, max: MAX_EVENTS });
  if (!limit.ok) return limit;
  if (after.output !== undefined && before.output !== undefined) {
    return fail('invalid_input', '`after` and `before` cannot be combined; use one of them');
  }
  const types = query.types?.split(',');
  if (types?.some((type) => !/^[a-z_]{1,40}$/.test(type))) {
    return fail('invalid_input', '`types` must be types of events, with commas between them');
  }
  return ok({
    after: after.output,
    before: before.output,
    limit: limit.output ?? DEFAULT_EVENTS,
    types: types && new Set(types),
  });
}

const readAfter = (
  store: Store,
  id: string,
  { limit, types }: PageRequest,
  after: number,
): Promise<Outcome<StoredEvent[]>> =>
  store.read(id, { after, limit, ...(types && { types: [...types] }) });

/** Reads backwards from `before` on. The seqs of a journal have no gaps. */
async function readBefore(
  store: Store,
  id: string,
  request: PageRequest,
  before: number,
): Promise<Outcome<StoredEvent[]>> {
  const { limit, types } = request;
  let events: StoredEvent[] = [];
  let end = before;
  for (let scanned = 0; scanned < MAX_LOOKED && end > 1 && events.length < limit; ) {
    const size = Math.min(types ? CHUNK : limit, end - 1);
    const page = await store.read(id, { after: end - 1 - size, limit: size });
    if (!page.ok) return page;
    const fitting = types ? page.output.filter(({ type }) => types.has(type)) : page.output;
    events = [...fitting.slice(-(limit - events.length)), ...events];
    end -= size;
    scanned += size;
    if (!types) break;
  }
  return ok(events);
}

async function eventPage(
  store: Store,
  { id, seq }: ThreadRow,
  request: PageRequest,
): Promise<Outcome<EventPage>> {
  const { after, before } = request;
  const events =
    after === undefined
      ? await readBefore(store, id, request, Math.min(before ?? seq + 1, seq + 1))
      : await readAfter(store, id, request, after);
  if (!events.ok) return events;
  const last = Math.max(seq, events.output.at(-1)?.seq ?? 0);
  return ok({ events: events.output.map(slimEvent), first: last === 0 ? 0 : 1, last });
}

/** Returns all text of an event in lower case, with secrets masked. */
const wordsOf = ({ type, data }: StoredEvent): string =>
  `${type} ${masked(JSON.stringify(data))}`.toLowerCase();

interface FoundEvents {
  readonly seqs: readonly number[];
  readonly total: number;
  readonly isComplete: boolean;
}

async function findIn(
  store: Store,
  id: string,
  text: string,
  limit: number,
): Promise<Outcome<FoundEvents>> {
  const needle = text.toLowerCase();
  const quoted = JSON.stringify(needle).slice(1, -1);
  const seqs: number[] = [];
  let [total, after] = [0, 0];
  while (after < MAX_LOOKED) {
    const page = await store.read(id, { after, limit: CHUNK });
    if (!page.ok) return page;
    const last = page.output.at(-1);
    if (!last) return ok({ seqs, total, isComplete: true });
    for (const event of page.output) {
      const words = wordsOf(event);
      if (!words.includes(quoted) && !words.includes(needle)) continue;
      total += 1;
      if (seqs.length < limit) seqs.push(event.seq);
    }
    after = last.seq;
  }
  return ok({ seqs, total, isComplete: false });
}

/** Text that was too long for the journal, or the part that a pointer selects. */
async function artifactText(
  store: Store,
  id: string,
  hash: string,
  field: string,
): Promise<Outcome<string>> {
  if (!/^sha256:[0-9a-f]{64}$/.test(hash)) {
    return fail('invalid_input', 'the hash must be `sha256:` and 64 hexadecimal digits');
  }
  const bytes = await store.artifact(id, hash);
  if (!bytes.ok) return bytes;
  const text = Buffer.from(bytes.output).toString();
  const read = parseJson(text, 1000);
  if (!read.ok) return field === '' ? ok(masked(text)) : fail('not_found', 'field not found');
  const whole: Json = read.output;
  const content = partAt(whole, '/content');
  const part = partAt(content.ok ? content.output : whole, field);
  return part.ok ? ok(masked(textOf(part.output))) : part;
}

export const addEventsRoutes: AddRoutes = (api, parts) => {
  const books = callIndexesOf(parts.runtime);
  api.get('/threads/:id/events', needs('view'), async (context) => {
    const query = readQuery(context, ['after', 'before', 'limit', 'types']);
    const request = query.ok ? readPageRequest(query.output) : query;
    if (!request.ok) return answer(context, request);
    const target = await findRow(parts, context);
    if (!target.ok) return answer(context, target);
    return answer(context, await eventPage(target.output.store, target.output.row, request.output));
  });
  api.get('/threads/:id/events/:seq', needs('view'), async (context) => {
    const query = readQuery(context, ['offset']);
    if (!query.ok) return answer(context, query);
    const offset = readCount(query.output.offset, { name: 'offset', max: MAX_OFFSET });
    if (!offset.ok) return answer(context, offset);
    const seq = readCount(context.req.param('seq'), { name: 'seq', min: 1, max: MAX_SEQ });
    if (!seq.ok) return answer(context, seq);
    const target = await findRow(parts, context);
    if (!target.ok) return answer(context, target);
    const { store, row } = target.output;
    const book = await books.of(store, row.id);
    if (!book.ok) return answer(context, book);
    const where = { seq: seq.output ?? 0, offset: offset.output ?? 0 };
    const { library } = parts.runtime;
    return answer(context, await eventDetail(library, store, book.output, row.id, where));
  });
  api.get('/threads/:id/find', needs('view'), async (context) => {
    const query = readQuery(context, ['q', 'limit']);
    if (!query.ok) return answer(context, query);
    const limit = readCount(query.output.limit, { name: 'limit', min: 1, max: MAX_FOUND });
    if (!limit.ok) return answer(context, limit);
    const { q = '' } = query.output;
    if (q === '') return answer(context, fail('invalid_input', '`q` must be the text to find'));
    const target = await findRow(parts, context);
    if (!target.ok) return answer(context, target);
    const { store, row } = target.output;
    return answer(context, await findIn(store, row.id, q, limit.output ?? MAX_FOUND));
  });
  api.get('/threads/:id/provenance', needs('view'), async (context) => {
    const query = readQuery(context, ['seq', 'argument']);
    if (!query.ok) return answer(context, query);
    const { argument } = query.output;
    const seq = readCount(query.output.seq, { name: 'seq', min: 1, max: MAX_SEQ });
    if (!seq.ok) return answer(context, seq);
    const target = await findRow(parts, context);
    if (!target.ok) return answer(context, target);
    const { explainRefusal } = await reports.provenance();
    const result: Outcome<ProvenanceView> = await explainRefusal(
      target.output.store,
      target.output.row.id,
      {
        ...(seq.output !== undefined && { seq: seq.output }),
        ...(argument !== undefined && { argument }),
      },
    );
    return answer(context, result);
  });
  api.get('/threads/:id/artifacts/:hash', needs('view'), async (context) => {
    const query = readQuery(context, ['offset', 'length', 'field']);
    if (!query.ok) return answer(context, query);
    const offset = readCount(query.output.offset, { name: 'offset', max: MAX_OFFSET });
    if (!offset.ok) return answer(context, offset);
    const length = readCount(query.output.length, { name: 'length', min: 1, max: PIECE_BYTES });
    if (!length.ok) return answer(context, length);
    const target = await findRow(parts, context);
    if (!target.ok) return answer(context, target);
    const { store, row } = target.output;
    const hash = context.req.param('hash');
    const text = await artifactText(store, row.id, hash, query.output.field ?? '');
    if (!text.ok) return answer(context, text);
    const { text: piece, bytes, next } = textPiece(text.output, offset.output, length.output);
    return context.body(piece, 200, {
      'content-type': 'text/plain; charset=utf-8',
      'x-kernmantle-bytes': String(bytes),
      ...(next !== undefined && { 'x-kernmantle-next': String(next) }),
    });
  });
};
