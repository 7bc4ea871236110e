// Transcripts of threads: what people read. Arguments are shown as a hash and how they begin; the
// registry has them whole. A transcript that lost lines is written again from the registry.
import {
  type Clock,
  createRedactor,
  isObject,
  type Json,
  type Outcome,
  ok,
  type Redactor,
} from '../../base/index.ts';
import { isInTranscript, type Noted, readStored } from '../../journal/index.ts';
import {
  createTranscript,
  previewOf,
  readTranscript,
  rebuildTranscript,
  type Store,
  type StoredEvent,
  type Transcript,
  type TranscriptEvent,
} from '../../store/index.ts';
import type { KnownSecrets } from '../secrets/known-secrets.ts';
import type { LostCommits } from '../thread/ports.ts';

/** A result is shown further than an argument: it is what people look for. */
const RESULT = 2000;
/** So many files are held open at once. */
const MAX_OPEN = 256;
/** So many events of one thread wait for each other at most. */
const MAX_WAITING = 100;
/** For what is known to hold no secret. */
const NOTHING_HIDDEN = createRedactor([]);

/** Shown already: a reply and its calls have the same arguments. */
type Previews = Map<Json, Json>;

// Secrets go first: written as JSON once more they would be escaped deeper than anybody looks, and a
// hash of them would tell whoever guesses that he is right.
function preview(value: Json, redactor: Redactor, before: Previews): Json {
  const known = before.get(value);
  if (known !== undefined) return known;
  const shown = { ...previewOf(redactor.json(value), redactor) };
  before.set(value, shown);
  return shown;
}

function previewCalls(content: Json, redactor: Redactor, before: Previews): Json {
  if (!Array.isArray(content)) return content;
  const shown: Json[] = [];
  for (const block of content) {
    const isCall = isObject(block) && block.type === 'tool_call';
    const { arguments: given = {} } = isCall ? block : {};
    shown.push(isCall ? { ...block, arguments: preview(given, redactor, before) } : block);
  }
  return shown;
}

/** Which field of an event is shown shortened. */
const SHORTENED: Readonly<Record<string, string>> = {
  thread_start: 'inputs',
  assistant_message: 'content',
  tool_call: 'arguments',
  tool_result: 'content',
};

type Line = Omit<TranscriptEvent, 'type'> & { type: string };

/** Returns the data of an event for its line, as JSON. Without a redactor nothing is hidden. */
function shownText(
  { type, data, text }: Line,
  redactor: Redactor | undefined,
  isFull: boolean,
  before: Previews,
): string {
  const field = isFull ? '' : (SHORTENED[type] ?? '');
  const given = data[field];
  if (given === undefined) {
    return redactor ? JSON.stringify(redactor.json(data)) : (text ?? JSON.stringify(data));
  }
  const hide = redactor ?? NOTHING_HIDDEN;
  let short: Json;
  if (type === 'assistant_message') short = previewCalls(given, hide, before);
  else if (type !== 'tool_result') short = preview(given, hide, before);
  else short = { ...previewOf(hide.json(given), hide, RESULT) };
  const shown = { ...data, [field]: short };
  return JSON.stringify(redactor ? redactor.json(shown) : shown);
}

interface TranscriptPorts {
  dir: string;
  clock: Clock;
  known: KnownSecrets;
  store: Pick<Store, 'read'>;
  detail(): 'preview' | 'full';
  /** A transcript that cannot be written is reported once and stops nothing. */
  trouble(message: string): void;
}

interface OpenTranscript {
  state: 'new' | 'open' | 'broken';
}

/** A thread that this process writes. */
interface WrittenThread {
  writing: OpenTranscript;
  // What is recorded in two rounds of the event loop, mostly an intent and its result, is one write. A
  // process that is killed before loses lines the registry has: who resumes the thread writes them again.
  waiting: Line[];
  /** The number of its next event; undefined: nothing is known of the file. */
  next?: number;
  restoring?: Promise<void>;
  /** Done with, once it is restored. */
  isLeaving?: true;
}

export class Transcripts {
  readonly #ports: TranscriptPorts;
  readonly #threads = new Map<string, WrittenThread>();
  /** The one used last is the last. */
  readonly #files = new Map<string, Transcript>();
  /** Is there a write at the end of the next round? */
  #isDue = false;
  readonly #flushAll = (): void => {
    this.#isDue = false;
    for (const thread of this.#threads.keys()) this.#flush(thread);
  };

  constructor(ports: TranscriptPorts) {
    this.#ports = ports;
  }

  open(thread: string): (events: readonly Noted[], firstSeq: number) => void {
    this.#flush(thread);
    const writing: OpenTranscript = { state: 'new' };
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

  /** Counts the events of a file after this number, which the store lost. Zero if this process writes the file. */
  ahead(thread: string, seq: number): LostCommits {
    const text = this.#threads.has(thread) ? undefined : readTranscript(this.#ports.dir, thread);
    const lines = text?.ok ? text.output.lines.filter((line) => line.seq > seq) : [];
    const calls = lines.flatMap(({ type, data }) => {
      const { call_id, tool, effect, child } = data;
      // A spawn reserves the id of its child, so it can safely be repeated.
      const isWrite = type === 'tool_call' && effect === 'write' && child === undefined;
      return isWrite && typeof call_id === 'string' && typeof tool === 'string'
        ? [{ call_id, tool }]
        : [];
    });
    return { events: lines.length, calls };
  }

  /** Until everything is written that was lost before and is written again. */
  async settled(): Promise<void> {
    for (const { restoring } of this.#threads.values()) await restoring;
  }

  #note(thread: string, own: WrittenThread, events: readonly Noted[], firstSeq: number): void {
    const ts = this.#ports.clock.now();
    let seq = firstSeq;
    // JSON by construction: the union holds nothing else.
    for (const event of events) own.waiting.push({ ...event, ts, seq: seq++ } as Line);
    own.next = seq;
    if (own.waiting.length >= MAX_WAITING) this.#flush(thread);
    if (this.#isDue) return;
    this.#isDue = true;
    // After the next round, not after this one.
    setImmediate(setImmediate, this.#flushAll);
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
    const lines: TranscriptEvent[] = [];
    const previews: Previews = new Map();
    for (const event of events) {
      const { ts, seq, turn, type, data } = event;
      if (!isInTranscript(type)) continue;
      const isClean = known.isClean(thread, data, event.text);
      const text = shownText(event, isClean ? undefined : redactor, isFull, previews);
      lines.push({ ts, seq, turn, type, data, text });
    }
    return lines;
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
  #restore(thread: string, own: WrittenThread, firstSeq: number): void {
    if (firstSeq === 1 || own.next === firstSeq) return;
    this.#flush(thread);
    this.#close(thread);
    own.restoring = this.#writeAgain(thread, firstSeq).finally(() => {
      delete own.restoring;
      this.#flush(thread);
      if (own.isLeaving) this.done(thread);
    });
  }

  /** Writes the file again if it differs from the store. */
  async #writeAgain(thread: string, firstSeq: number): Promise<void> {
    const { store, trouble } = this.#ports;
    const all = await readStored(store, thread);
    const isBefore = ({ seq, type }: StoredEvent) => seq < firstSeq && isInTranscript(type);
    const before = all.ok ? all.output.filter(isBefore) : [];
    if (!all.ok || this.#isWhole(thread, before)) return;
    const rebuilt = rebuildTranscript(this.#options(thread), this.#lines(thread, before));
    if (!rebuilt.ok) trouble(rebuilt.error.detail.message);
  }

  /** Has the file each of these once, in order, and nothing else, not even a piece of a line? */
  #isWhole(thread: string, before: readonly StoredEvent[]): boolean {
    const text = readTranscript(this.#ports.dir, thread);
    if (!text.ok || text.output.problems.length > 0 || text.output.isTorn) return false;
    const { lines } = text.output;
    return lines.length === before.length && lines.every(({ seq }, at) => seq === before[at]?.seq);
  }
}
