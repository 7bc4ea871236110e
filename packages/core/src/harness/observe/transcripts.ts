// Writes the transcripts of threads, which people read. An argument appears as a hash and a preview; the store has
// the whole. A transcript that lost lines is written again from the store.
import {
  type Clock,
  createRedactor,
  isObject,
  type Json,
  type Outcome,
  ok,
  type Redactor,
} from '../../base/index.ts';
import { isInTranscript, type Noted, readStored, shownData } from '../../journal/index.ts';
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

/** Length of the preview of a result. It is longer than that of an argument, because people look for results. */
const RESULT = 2000;
/** Maximum number of open files. */
const MAX_OPEN = 256;
/** Maximum number of events of one thread that wait for a write. */
const MAX_WAITING = 100;
/** Redactor for data that surely contains no secret. */
const NOTHING_HIDDEN = createRedactor([]);

/** Previews by value. They are used again, because a reply and its calls have the same arguments. */
type Previews = Map<Json, Json>;

// Secrets are redacted before the preview. Inside JSON of JSON an escaped secret would not be found, and the hash of
// a value with a secret would confirm a guess.
function preview(value: Json, redactor: Redactor, before: Previews): Json {
  const cached = before.get(value);
  if (cached !== undefined) return cached;
  const result = { ...previewOf(redactor.json(value), redactor) };
  before.set(value, result);
  return result;
}

function previewCalls(content: Json, redactor: Redactor, before: Previews): Json {
  if (!Array.isArray(content)) return content;
  const blocks: Json[] = [];
  for (const block of content) {
    const isCall = isObject(block) && block.type === 'tool_call';
    const { arguments: parameters = {} } = isCall ? block : {};
    blocks.push(isCall ? { ...block, arguments: preview(parameters, redactor, before) } : block);
  }
  return blocks;
}

/** Field that is shortened, by type of event. */
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
  const value = data[field];
  if (value === undefined) {
    return redactor ? JSON.stringify(redactor.json(data)) : (text ?? JSON.stringify(data));
  }
  const hide = redactor ?? NOTHING_HIDDEN;
  let short: Json;
  if (type === 'assistant_message') short = previewCalls(value, hide, before);
  else if (type !== 'tool_result') short = preview(value, hide, before);
  else short = { ...previewOf(hide.json(value), hide, RESULT) };
  const blocks = { ...data, [field]: short };
  return JSON.stringify(redactor ? redactor.json(blocks) : blocks);
}

/** Returns the line without seals. A line without any is returned unchanged. */
function shownLine(line: Line): Line {
  const data = shownData(line.type, line.data);
  if (data === line.data) return line;
  const { text: _, ...plain } = line;
  return { ...plain, data };
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

/** A thread whose transcript this process writes. */
interface WrittenThread {
  writing: OpenTranscript;
  // Events of two rounds of the event loop, mostly an intent and its result, are one write. A process that is
  // killed before loses lines that the store has. The process that resumes the thread writes them again.
  waiting: Line[];
  /** Number of the next event. Absent: the state of the file is not certain. */
  next?: number;
  restoring?: Promise<void>;
  /** True if the thread is closed once its file is restored. */
  isLeaving?: true;
}

export class Transcripts {
  readonly #ports: TranscriptPorts;
  readonly #threads = new Map<string, WrittenThread>();
  /** Open files. The most recently used file is the last one. */
  readonly #files = new Map<string, Transcript>();
  /** True if a write is planned for the end of the next round. */
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
      // A call without events only checks that the file has all earlier events.
      if (writing.state === 'new') this.#restore(thread, own, firstSeq);
      if (events.length === 0) return;
      writing.state = 'open';
      this.#note(thread, own, events, firstSeq);
    };
  }

  /** Closes the file of a thread. Its next line opens the file again. */
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

  /** Resolves when the file has all events of this thread, and those that it had lost. */
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

  /** Resolves when all lost lines are written again. */
  async settled(): Promise<void> {
    for (const { restoring } of this.#threads.values()) await restoring;
  }

  #note(thread: string, own: WrittenThread, events: readonly Noted[], firstSeq: number): void {
    const ts = this.#ports.clock.now();
    let seq = firstSeq;
    // The type of an event allows nothing but JSON.
    for (const event of events) own.waiting.push({ ...event, ts, seq: seq++ } as Line);
    own.next = seq;
    if (own.waiting.length >= MAX_WAITING) this.#flush(thread);
    if (this.#isDue) return;
    this.#isDue = true;
    // The write starts after the next round of the event loop, not after this one.
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
    for (const line of events) {
      const event = shownLine(line);
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

  /** Returns the open file of a thread. Closes the least recently used one if too many files are open. */
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

  /** Checks the file before the first line of this process. New lines wait for the check. */
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

  /** True if the file has each of these events once, in order, and nothing else, not even a part of a line. */
  #isWhole(thread: string, before: readonly StoredEvent[]): boolean {
    const text = readTranscript(this.#ports.dir, thread);
    if (!text.ok || text.output.problems.length > 0 || text.output.isTorn) return false;
    const { lines } = text.output;
    return lines.length === before.length && lines.every(({ seq }, at) => seq === before[at]?.seq);
  }
}
