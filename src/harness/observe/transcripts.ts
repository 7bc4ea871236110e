// Transcripts of threads: what people read. Arguments are shown as a hash and how they begin; the
// registry has them whole. A transcript that lost lines is written again from the registry.

import type { Redactor } from '../../base/index.ts';
import {
  type Clock,
  isObject,
  type Json,
  type JsonObject,
  type Outcome,
  ok,
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
import { encode } from '../thread/journal-codec.ts';
import type { Noted } from '../thread/journal-event.ts';
import { readStored } from '../thread/read-journal.ts';

export type Detail = 'preview' | 'full';

/** A result is shown further than an argument: it is what people look for. */
const RESULT = 2000;
/** So many files are held open at once. */
const MAX_OPEN = 256;
/** So many events of one thread wait for each other at most. */
const MAX_WAITING = 100;

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

/** What a line shows of an event's data. The redactor goes over the whole line afterwards. */
export function shownData(type: string, data: JsonObject, redactor: Redactor): JsonObject {
  const { arguments: given, content, inputs } = data;
  if (type === 'tool_call' && given !== undefined) {
    return { ...data, arguments: preview(given, redactor) };
  }
  if (type === 'assistant_message' && content !== undefined) {
    return { ...data, content: previewCalls(content, redactor) };
  }
  if (type === 'tool_result' && content !== undefined) {
    return { ...data, content: preview(content, redactor, RESULT) };
  }
  if (type === 'thread_start' && inputs !== undefined) {
    return { ...data, inputs: preview(inputs, redactor) };
  }
  return data;
}

export interface TranscriptPorts {
  /** `.ai/threads` */
  dir: string;
  clock: Clock;
  known: KnownSecrets;
  /** As the registry has it. */
  store: Pick<Store, 'read'>;
  detail(): Detail;
  /** A transcript that cannot be written is reported once and stops nothing. */
  trouble(message: string): void;
}

export interface Transcripts {
  open(thread: string): (events: readonly Noted[], firstSeq: number) => void;
  /** This process is done with the thread; its next line opens the file again. */
  done(thread: string): void;
  /** Until everything is written that was lost before and is written again. */
  settled(): Promise<void>;
}

/** The writer of one thread, from one `open` to the next. */
interface Writing {
  state: 'new' | 'open' | 'broken';
}

type Line = Omit<TranscriptEvent, 'type'> & { type: string };

interface Waiting {
  writing: Writing;
  events: Line[];
}

export function createTranscripts(ports: TranscriptPorts): Transcripts {
  const { dir, clock, known, store, detail, trouble } = ports;
  const writers = new Map<string, Transcript>();
  /** For each thread that this process writes: the number of its next event. */
  const next = new Map<string, number>();
  // What is recorded in the same round of the event loop is one write. A process that is killed
  // before it loses lines the registry has: whoever resumes the thread writes them again.
  const waiting = new Map<string, Waiting>();
  let soon: NodeJS.Immediate | undefined;
  const restoring = new Map<string, Promise<void>>();
  /** Done with, once they are restored. */
  const leaving = new Set<string>();

  function show(thread: string, event: Line) {
    const data =
      detail() === 'full' ? event.data : shownData(event.type, event.data, known.redactor(thread));
    return { ...event, data };
  }
  const optionsOf = (thread: string) => ({
    dir,
    thread,
    redact: (value: Json) => known.redactor(thread).json(value),
  });
  async function journal(thread: string): Promise<StoredEvent[]> {
    const all = await readStored(store, thread);
    return all.ok ? all.output.filter(({ type }) => isTranscriptType(type)) : [];
  }
  /** What the registry has and the file has not; then the file is written anew. */
  function isBehind(thread: string, events: readonly StoredEvent[]): boolean {
    const text = readTranscript(dir, thread);
    const seen = new Set(text.ok ? text.output.lines.map(({ seq }) => seq) : []);
    return events.some(({ seq }) => !seen.has(seq));
  }
  /** Before the first line of this process: is everything there that was recorded before? */
  async function writeAgain(thread: string, firstSeq: number): Promise<void> {
    const before = (await journal(thread)).filter(({ seq }) => seq < firstSeq);
    if (!isBehind(thread, before)) return;
    const lines = before.map((event) => show(thread, event));
    const rebuilt = rebuildTranscript(optionsOf(thread), lines);
    if (!rebuilt.ok) trouble(rebuilt.error.detail.message);
  }
  /** Lines that come meanwhile wait for it. */
  function restore(thread: string, firstSeq: number): void {
    if (firstSeq === 1 || next.get(thread) === firstSeq) return;
    flush(thread);
    closeWriter(thread);
    const work = writeAgain(thread, firstSeq).finally(() => {
      restoring.delete(thread);
      flush(thread);
      if (!leaving.delete(thread)) return;
      done(thread);
    });
    restoring.set(thread, work);
  }
  function closeWriter(thread: string): void {
    writers.get(thread)?.close();
    writers.delete(thread);
  }
  function done(thread: string): void {
    if (restoring.has(thread)) {
      leaving.add(thread);
      return;
    }
    flush(thread);
    closeWriter(thread);
    next.delete(thread);
  }
  /** The least recently used one makes room: a thousand threads do not hold a thousand files. */
  function writerOf(thread: string): Outcome<Transcript> {
    const before = writers.get(thread);
    const opened = before ? ok(before) : createTranscript(optionsOf(thread));
    if (!opened.ok) return opened;
    writers.delete(thread);
    writers.set(thread, opened.output);
    const [oldest] = writers.keys();
    if (writers.size > MAX_OPEN && oldest !== undefined) closeWriter(oldest);
    return opened;
  }
  function flush(thread: string): void {
    const group = waiting.get(thread);
    if (!group || restoring.has(thread)) return;
    waiting.delete(thread);
    const lines = group.events.flatMap((event): TranscriptEvent[] => {
      const { type } = event;
      return isTranscriptType(type) ? [{ ...show(thread, event), type }] : [];
    });
    const writer = writerOf(thread);
    const written = writer.ok ? writer.output.append(lines) : writer;
    if (written.ok) return;
    group.writing.state = 'broken';
    trouble(written.error.detail.message);
    done(thread);
  }
  function flushAll(): void {
    soon = undefined;
    for (const thread of waiting.keys()) flush(thread);
  }
  function note(thread: string, writing: Writing, events: readonly Noted[], firstSeq: number) {
    const group = waiting.get(thread) ?? { writing, events: [] };
    const now = clock.now();
    for (const [index, event] of events.entries()) {
      const { turn } = event;
      group.events.push({ ts: now, seq: firstSeq + index, ...encode(event, turn), turn });
    }
    waiting.set(thread, group);
    next.set(thread, firstSeq + events.length);
    if (group.events.length >= MAX_WAITING) flush(thread);
    else soon ??= setImmediate(flushAll);
  }

  return {
    open(thread) {
      flush(thread);
      const writing: Writing = { state: 'new' };
      return (events, firstSeq) => {
        if (writing.state === 'broken') return;
        // Nothing to write is a question too: is everything there that was recorded before?
        if (writing.state === 'new') restore(thread, firstSeq);
        if (events.length === 0) return;
        writing.state = 'open';
        note(thread, writing, events, firstSeq);
      };
    },
    done,
    async settled() {
      while (restoring.size > 0) await Promise.all(restoring.values());
    },
  };
}
