// Transcripts of threads: what people read. Arguments are shown as a hash and how they begin; the
// registry has them whole. A transcript that lost lines is written again from the registry.
import {
  type Clock,
  createRedactor,
  isObject,
  type Json,
  type JsonObject,
  type Outcome,
  ok,
  type Redactor,
} from '../../base/index.ts';
import {
  createTranscript,
  isTranscriptType,
  previewOf,
  readTranscript,
  rebuildTranscript,
  type Store,
  type StoredEvent,
  type Transcript,
  type TranscriptEvent,
} from '../../store/index.ts';
import type { KnownSecrets } from '../secrets/known-secrets.ts';
import { type Noted, readStored } from '../thread/journal-event.ts';
import { encode } from '../thread/journal-writer.ts';

/** A result is shown further than an argument: it is what people look for. */
const RESULT = 2000;
/** So many files are held open at once. */
const MAX_OPEN = 256;
/** So many events of one thread wait for each other at most. */
const MAX_WAITING = 100;
/** For what is known to hold no secret. */
const NOTHING_HIDDEN = createRedactor([]);

// Secrets go first: written as JSON once more they would be escaped deeper than anybody looks, and a
// hash of them would tell whoever guesses that he is right.
const preview = (value: Json, redactor: Redactor, max?: number): Json => ({
  ...previewOf(redactor.json(value), redactor, max),
});

const previewCalls = (content: Json, redactor: Redactor): Json =>
  Array.isArray(content)
    ? content.map((block) =>
        isObject(block) && block.type === 'tool_call'
          ? { ...block, arguments: preview(block.arguments ?? {}, redactor) }
          : block,
      )
    : content;

/** Which field of an event is shown shortened, and how. */
const SHORTENED: Readonly<Record<string, [field: string, shorten: typeof preview]>> = {
  thread_start: ['inputs', preview],
  assistant_message: ['content', previewCalls],
  tool_call: ['arguments', preview],
  tool_result: ['content', (content, redactor) => preview(content, redactor, RESULT)],
};

/** What a line shows of an event's data; the data itself where that is all of it. */
function shownData(type: string, data: JsonObject, redactor: Redactor): JsonObject {
  const [field = '', shorten = preview] = SHORTENED[type] ?? [];
  const given = data[field];
  return given === undefined ? data : { ...data, [field]: shorten(given, redactor) };
}

type Line = Omit<TranscriptEvent, 'type'> & { type: string };

/** The line with its text. */
function shownLine(line: Line, redactor: Redactor, isClean: boolean, isFull: boolean): Line {
  const { type, data, text = JSON.stringify(data) } = line;
  const shown = isFull ? data : shownData(type, data, isClean ? NOTHING_HIDDEN : redactor);
  if (isClean) return { ...line, text: shown === data ? text : JSON.stringify(shown) };
  return { ...line, text: JSON.stringify(redactor.json(shown)) };
}

interface TranscriptPorts {
  /** `.ai/threads` */
  dir: string;
  clock: Clock;
  known: KnownSecrets;
  /** As the registry has it. */
  store: Pick<Store, 'read'>;
  detail(): 'preview' | 'full';
  /** A transcript that cannot be written is reported once and stops nothing. */
  trouble(message: string): void;
}

/** What one `open` writes, until the next. */
interface Writing {
  state: 'new' | 'open' | 'broken';
}

/** A thread that this process writes. */
interface Written {
  writing: Writing;
  // What is recorded in the same round of the event loop is one write. A process that is killed
  // before it loses lines the registry has: whoever resumes the thread writes them again.
  waiting: Line[];
  /** The number of its next event; undefined: nothing is known of the file. */
  next?: number;
  restoring?: Promise<void>;
  /** Done with, once it is restored. */
  isLeaving?: true;
}

export class Transcripts {
  readonly #ports: TranscriptPorts;
  readonly #threads = new Map<string, Written>();
  /** The one used last is the last. */
  readonly #files = new Map<string, Transcript>();
  /** Is there a write at the end of this round? */
  #isDue = false;

  constructor(ports: TranscriptPorts) {
    this.#ports = ports;
  }

  open(thread: string): (events: readonly Noted[], firstSeq: number) => void {
    this.#flush(thread);
    const writing: Writing = { state: 'new' };
    return (events, firstSeq) => {
      if (writing.state === 'broken') return;
      const own = this.#threads.get(thread) ?? { writing, waiting: [] };
      this.#threads.set(thread, own);
      own.writing = writing;
      // Nothing to write is a question too: is everything there that was recorded before?
      if (writing.state === 'new') this.#restore(thread, own, firstSeq);
      if (events.length === 0) return;
      writing.state = 'open';
      this.#note(thread, own, events, firstSeq);
    };
  }

  /** This process is done with the thread; its next line opens the file again. */
  done(thread: string): void {
    const own = this.#threads.get(thread);
    if (own?.restoring) {
      own.isLeaving = true;
      return;
    }
    this.#flush(thread);
    this.#close(thread);
    this.#threads.delete(thread);
  }

  /** Until the file holds what was told of this thread, and what was lost before. */
  async written(thread: string): Promise<void> {
    await this.#threads.get(thread)?.restoring;
    this.#flush(thread);
  }

  /** Until everything is written that was lost before and is written again. */
  async settled(): Promise<void> {
    for (const { restoring } of this.#threads.values()) await restoring;
  }

  #note(thread: string, own: Written, events: readonly Noted[], firstSeq: number): void {
    const ts = this.#ports.clock.now();
    for (const [index, event] of events.entries()) {
      own.waiting.push({ ...encode(event, event.turn), ts, seq: firstSeq + index });
    }
    own.next = firstSeq + events.length;
    if (own.waiting.length >= MAX_WAITING) this.#flush(thread);
    if (this.#isDue) return;
    this.#isDue = true;
    setImmediate(() => {
      this.#isDue = false;
      for (const one of this.#threads.keys()) this.#flush(one);
    });
  }

  #flush(thread: string): void {
    const own = this.#threads.get(thread);
    if (!own || own.waiting.length === 0 || own.restoring) return;
    const lines = this.#lines(thread, own.waiting.splice(0));
    const file = this.#file(thread);
    const written = file.ok ? file.output.append(lines) : file;
    if (written.ok) return;
    own.writing.state = 'broken';
    this.#ports.trouble(written.error.detail.message);
    this.done(thread);
  }

  #lines(thread: string, events: readonly Line[]): TranscriptEvent[] {
    const { known, detail } = this.#ports;
    const [redactor, isFull] = [known.redactor(thread), detail() === 'full'];
    return events.flatMap((event): TranscriptEvent[] => {
      const { type, data, text } = event;
      if (!isTranscriptType(type)) return [];
      const isClean = known.isClean(thread, data, text);
      return [{ ...shownLine(event, redactor, isClean, isFull), type }];
    });
  }

  #options(thread: string) {
    const redact = (value: Json): Json => this.#ports.known.redactor(thread).json(value);
    return { dir: this.#ports.dir, thread, redact };
  }

  /** The least recently used one makes room: a thousand threads do not hold a thousand files. */
  #file(thread: string): Outcome<Transcript> {
    const before = this.#files.get(thread);
    const opened = before ? ok(before) : createTranscript(this.#options(thread));
    if (!opened.ok) return opened;
    this.#files.delete(thread);
    this.#files.set(thread, opened.output);
    const [oldest] = this.#files.keys();
    if (this.#files.size > MAX_OPEN && oldest !== undefined) this.#close(oldest);
    return opened;
  }

  #close(thread: string): void {
    this.#files.get(thread)?.close();
    this.#files.delete(thread);
  }

  /** Before the first line of this process, unless it wrote the one before; others wait for it. */
  #restore(thread: string, own: Written, firstSeq: number): void {
    if (firstSeq === 1 || own.next === firstSeq) return;
    this.#flush(thread);
    this.#close(thread);
    own.restoring = this.#writeAgain(thread, firstSeq).finally(() => {
      delete own.restoring;
      this.#flush(thread);
      if (own.isLeaving) this.done(thread);
    });
  }

  /** What the registry has and the file has not: then the file is written anew. */
  async #writeAgain(thread: string, firstSeq: number): Promise<void> {
    const { dir, store, trouble } = this.#ports;
    const all = await readStored(store, thread);
    const isBefore = ({ seq, type }: StoredEvent) => seq < firstSeq && isTranscriptType(type);
    const before = all.ok ? all.output.filter(isBefore) : [];
    const text = readTranscript(dir, thread);
    const seen = new Set(text.ok ? text.output.lines.map(({ seq }) => seq) : []);
    if (before.every(({ seq }) => seen.has(seq))) return;
    const rebuilt = rebuildTranscript(this.#options(thread), this.#lines(thread, before));
    if (!rebuilt.ok) trouble(rebuilt.error.detail.message);
  }
}
