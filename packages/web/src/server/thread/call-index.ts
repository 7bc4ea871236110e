// Projects the journal of a thread to its calls: requests, approvals, refusals, results. A journal
// only grows, so each is read once and continued from the last position. The cache keeps names and
// numbers; the content stays in the store.
import { createRecent, type Outcome, ok } from '@kernmantle/core/base';
import {
  calls,
  decode,
  forkOf,
  type Recorded,
  type RecordedOf,
  replyText,
  startOf,
} from '@kernmantle/core/journal';
import type { Store } from '@kernmantle/core/store';

type CallState = ReturnType<typeof calls.initial>;

export interface CallIndex {
  readonly calls: CallState;
  readonly start: ReturnType<typeof startOf>;
  /** Bounds and size of the last request to the model. */
  readonly last: { maxTokens: number; tokens: number; bytes: number; model: string };
  /** The text of the last reply that was let through. */
  readonly reply: string;
  readonly seq: number;
}

interface OpenIndex {
  calls: CallState;
  start: CallIndex['start'];
  last: CallIndex['last'];
  reply: string;
  /** Text of a reply that hooks can still withhold. */
  unjudged: string;
  seq: number;
}

const MAX_BOOKS = 50;
const MAX_REPLY = 20_000;

/** The size of the last request and the text of the last reply. */
function noteReply(book: OpenIndex, data: RecordedOf<'assistant_message'>['data']): void {
  if (data.injected) return;
  const { usage, bytes, model } = data;
  const tokens = usage.context_tokens + usage.output_tokens;
  book.last = { ...book.last, tokens, bytes: 0, model: model || book.last.model };
  if (usage.estimated) book.last.tokens = Math.max(tokens, Math.ceil(bytes / 3));
  const text = replyText(data.content);
  const isSaid = text.trim() !== '' && !data.apart && !data.withheld;
  if (isSaid) book[data.open ? 'unjudged' : 'reply'] = text.slice(0, MAX_REPLY);
}

function note(book: OpenIndex, event: Recorded): void {
  book.calls = calls.apply(book.calls, event);
  const start = startOf([event]);
  if (start) {
    book.start = start;
    book.last.model = start.model;
  }
  const fork = forkOf([event]);
  if (fork && book.start) {
    book.start = { ...book.start, ran: fork.data.ran };
    book.last.model = fork.data.model;
  }
  switch (event.type) {
    case 'turn_start':
      book.last = { ...book.last, maxTokens: event.data.max_tokens, model: event.data.model };
      break;
    case 'assistant_message':
      noteReply(book, event.data);
      break;
    case 'turn_end':
      if (event.data.done && book.unjudged !== '') book.reply = book.unjudged;
      book.unjudged = '';
      break;
    case 'tool_result':
      book.last.bytes += JSON.stringify(event.data.content).length;
      break;
    default:
  }
}

export interface CallIndexes {
  of(store: Store, thread: string): Promise<Outcome<CallIndex>>;
}

const indexes = new WeakMap<object, CallIndexes>();

/** Returns the cache of the project. It reads only new events of a journal. */
export function callIndexesOf(runtime: object): CallIndexes {
  const books = indexes.get(runtime) ?? createCallIndexes();
  indexes.set(runtime, books);
  return books;
}

function createCallIndexes(): CallIndexes {
  const books = createRecent<string, OpenIndex>(MAX_BOOKS);
  const reading = new Map<string, Promise<Outcome<CallIndex>>>();

  async function readOn(store: Store, thread: string): Promise<Outcome<CallIndex>> {
    const book: OpenIndex = books.get(thread) ?? {
      calls: calls.initial(),
      start: undefined,
      last: { maxTokens: 0, tokens: 0, bytes: 0, model: '' },
      reply: '',
      unjudged: '',
      seq: 0,
    };
    for (;;) {
      const page = await store.read(thread, { after: book.seq, limit: 2000 });
      if (!page.ok) return page;
      for (const stored of page.output) {
        const read = decode(stored);
        // The list of events reports rows that cannot be read.
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
