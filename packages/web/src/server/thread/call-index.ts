// The journals of threads by their calls: what was asked for, allowed, refused, done. A journal only grows,
// so each is read once and from where it was left; what is kept of a call are names and numbers, its
// content stays in the store.
import { createRecent, getOwn, isObject, type Json, type Outcome, ok } from '@kernmantle/core/base';
import { type DataOf, decode, type Recorded } from '@kernmantle/core/journal';
import type { Store } from '@kernmantle/core/store';

type Start = DataOf<'thread_start'>;

/** Everything that belongs to one call; numbers are those of events. */
export interface CallEntry {
  readonly id: string;
  readonly turn: number;
  /** The reply that asked for it. */
  readonly reply?: number;
  tool: string;
  action?: string;
  target?: string;
  call?: number;
  denied?: number;
  result?: number;
  isError?: boolean;
  stage?: string;
  /** A person was asked about it: the approval, and how that stands. */
  approval?: string;
  asked?: 'pending' | 'used' | 'denied' | 'expired';
}

export interface CallBook {
  readonly calls: ReadonlyMap<string, CallEntry>;
  readonly start: Start | undefined;
  /** Of the last request: what it could have answered, and how long it was. */
  readonly last: { maxTokens: number; tokens: number; bytes: number; model: string };
  /** How often each approved right was used. */
  readonly used: ReadonlyMap<string, number>;
  /** The text of the last reply that was let through. */
  readonly reply: string;
  readonly seq: number;
}

interface OpenBook {
  calls: Map<string, CallEntry>;
  start: Start | undefined;
  last: CallBook['last'];
  used: Map<string, number>;
  reply: string;
  /** Text of a reply that hooks can still withhold. */
  unjudged: string;
  seq: number;
}

const MAX_BOOKS = 50;
const MAX_REPLY = 20_000;

const toolIn = (name: string, given: Json): string => {
  const id = getOwn(given, 'item_id');
  return name === 'execute' && typeof id === 'string' ? id : name;
};

const actionIn = (given: Json): { action?: string } => {
  const inner = getOwn(given, 'parameters');
  const action = getOwn(isObject(inner) ? inner : given, 'action');
  return typeof action === 'string' ? { action } : {};
};

/** What a reply asks for; refused before it began it has no event of its own. */
function noteReply(
  book: OpenBook,
  { seq, turn, data }: Extract<Recorded, { type: 'assistant_message' }>,
) {
  if (!data.injected) {
    const { usage, bytes, model } = data;
    const tokens = usage.context_tokens + usage.output_tokens;
    book.last = { ...book.last, tokens, bytes: 0, model: model || book.last.model };
    if (usage.estimated) book.last.tokens = Math.max(tokens, Math.ceil(bytes / 3));
    const text = data.content.map((block) => (block.type === 'text' ? block.text : '')).join('');
    const isSaid = text.trim() !== '' && !data.apart && !data.withheld;
    if (isSaid) book[data.open ? 'unjudged' : 'reply'] = text.slice(0, MAX_REPLY);
  }
  for (const block of data.content) {
    if (block.type !== 'tool_call' || book.calls.has(block.id)) continue;
    const { id, name, arguments: given } = block;
    book.calls.set(id, { id, turn, reply: seq, tool: toolIn(name, given), ...actionIn(given) });
  }
}

function entryOf({ calls }: OpenBook, id: string, turn: number, tool = ''): CallEntry {
  const entry = calls.get(id) ?? { id, turn, tool };
  calls.set(id, entry);
  return entry;
}

function noteApproval(
  book: OpenBook,
  { data, turn }: Extract<Recorded, { type: 'approval' }>,
): void {
  if (data.kind === 'capability' && (data.state === 'used' || data.state === 'returned')) {
    const step = data.state === 'used' ? 1 : -1;
    book.used.set(data.approval, (book.used.get(data.approval) ?? 0) + step);
  }
  if (data.kind !== 'call' || data.action !== 'ask') return;
  const entry = entryOf(book, data.call_id, turn);
  [entry.approval, entry.asked] = [data.approval, data.state];
}

function note(book: OpenBook, event: Recorded): void {
  const { seq, turn } = event;
  switch (event.type) {
    case 'thread_start':
      book.start = event.data;
      book.last.model = event.data.model;
      break;
    case 'turn_start':
      book.last = { ...book.last, maxTokens: event.data.max_tokens, model: event.data.model };
      break;
    case 'assistant_message':
      noteReply(book, event);
      break;
    case 'turn_end':
      if (event.data.done && book.unjudged !== '') book.reply = book.unjudged;
      book.unjudged = '';
      break;
    case 'tool_call': {
      const { call_id, tool, target, arguments: given } = event.data;
      const entry = entryOf(book, call_id, turn, tool);
      Object.assign(entry, { tool, call: seq, ...actionIn(given) });
      if (target !== undefined) entry.target = target;
      // Made again, after a person was asked.
      delete entry.denied;
      break;
    }
    case 'permission_denied': {
      const { call_id, stage } = event.data;
      if (call_id === undefined) break;
      const entry = entryOf(book, call_id, turn);
      entry.denied = seq;
      if (stage !== undefined) entry.stage = stage;
      break;
    }
    case 'tool_result': {
      const { call_id, is_error, tool, content } = event.data;
      const entry = entryOf(book, call_id, turn, tool);
      [entry.result, entry.isError] = [seq, is_error];
      if (tool !== undefined) entry.tool = tool;
      book.last.bytes += JSON.stringify(content).length;
      break;
    }
    case 'approval':
      noteApproval(book, event);
      break;
    default:
  }
}

export interface CallBooks {
  of(store: Store, thread: string): Promise<Outcome<CallBook>>;
}

const known = new WeakMap<object, CallBooks>();

/** One for each project that is served: whoever asks about a thread reads its journal on, not again. */
export function callBooksOf(runtime: object): CallBooks {
  const books = known.get(runtime) ?? createCallBooks();
  known.set(runtime, books);
  return books;
}

function createCallBooks(): CallBooks {
  const books = createRecent<string, OpenBook>(MAX_BOOKS);
  const reading = new Map<string, Promise<Outcome<CallBook>>>();

  async function readOn(store: Store, thread: string): Promise<Outcome<CallBook>> {
    const book: OpenBook = books.get(thread) ?? {
      calls: new Map(),
      start: undefined,
      last: { maxTokens: 0, tokens: 0, bytes: 0, model: '' },
      used: new Map(),
      reply: '',
      unjudged: '',
      seq: 0,
    };
    for (;;) {
      const page = await store.read(thread, { after: book.seq, limit: 2000 });
      if (!page.ok) return page;
      for (const stored of page.output) {
        const read = decode(stored);
        // What cannot be read is told where events are listed.
        if (read.ok) note(book, read.output);
        book.seq = stored.seq;
      }
      if (page.output.length === 0) break;
    }
    books.set(thread, book);
    return ok(book);
  }
  return {
    of(store, thread) {
      const under =
        reading.get(thread) ?? readOn(store, thread).finally(() => reading.delete(thread));
      reading.set(thread, under);
      return under;
    },
  };
}
