// What a provider sent, event by event, in `stream.jsonl` of a thread: for whoever asks for it. A secret
// that is spread over several pieces of a text is found all the same, so a piece may stand a little
// later than it came.
import { closeSync, constants, fstatSync, mkdirSync, openSync, writeSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { RedactionStream, Redactor } from '../../base/index.ts';
import { type Clock, isObject, type Json, type JsonObject, parseJson } from '../../base/index.ts';
import type { RawStream } from '../thread/ports.ts';

export interface RawStreamPorts {
  /** `.ai/threads` */
  dir: string;
  clock: Pick<Clock, 'now'>;
  redactor(thread: string): Redactor;
  /** A file that cannot be written is reported and stops nothing. */
  trouble(message: string): void;
}

const MAX_FILE = 64 * 1024 * 1024;
const MAX_HELD = 64 * 1024;
/** Fields that come piece by piece, in both protocols. */
const PIECES: ReadonlySet<string> = new Set([
  'text',
  'thinking',
  'partial_json',
  'content',
  'reasoning_content',
  'arguments',
  'refusal',
]);

/** Texts that grow over events are redacted as the one text that they are. */
export function createEventRedactor(redactor: Redactor) {
  const growing = new Map<string, RedactionStream>();
  function piece(place: string, text: string): string {
    const stream = growing.get(place) ?? redactor.stream();
    growing.set(place, stream);
    return stream.push(text);
  }
  function walk(value: Json, place: string): Json {
    if (Array.isArray(value)) return value.map((item, at) => walk(item, `${place}/${at}`));
    if (!isObject(value)) return value;
    const { index } = value;
    const here = typeof index === 'number' ? `${place}#${index}` : place;
    const shown: JsonObject = {};
    for (const [key, child] of Object.entries(value)) {
      shown[key] =
        typeof child === 'string' && PIECES.has(key)
          ? piece(`${here}/${key}`, child)
          : walk(child, `${here}/${key}`);
    }
    return shown;
  }
  return {
    data(text: string): Json {
      const parsed = parseJson(text, 50);
      return parsed.ok ? redactor.json(walk(parsed.output, '')) : redactor.text(text);
    },
    /** What was held back to the end, by where it belongs. */
    rest(): JsonObject {
      const left = [...growing].map(([place, stream]) => [place, stream.end()] as const);
      return Object.fromEntries(left.filter(([, text]) => text !== ''));
    },
  };
}

// A link in its place could send our lines anywhere, a pipe could make us wait forever.
function openLines(file: string): number {
  const { O_APPEND, O_CREAT, O_NOFOLLOW, O_NONBLOCK, O_WRONLY } = constants;
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
  const flags = O_WRONLY | O_CREAT | O_APPEND | (O_NOFOLLOW ?? 0) | (O_NONBLOCK ?? 0);
  const handle = openSync(file, flags, 0o600);
  if (fstatSync(handle).isFile()) return handle;
  closeSync(handle);
  throw new Error('it is not a regular file');
}

/** Lines to the end of the file, in large writes; nothing more once it is full. */
function writeLines(file: string, lines: string): void {
  const handle = openLines(file);
  try {
    if (fstatSync(handle).size < MAX_FILE) writeSync(handle, lines);
  } finally {
    closeSync(handle);
  }
}

export function createRawStreams(
  ports: RawStreamPorts,
): (thread: string, turn: number) => RawStream {
  return (thread, turn) => {
    const file = join(ports.dir, thread, 'stream.jsonl');
    const redact = createEventRedactor(ports.redactor(thread));
    let [held, isBroken] = ['', false];
    function flush(): void {
      if (held === '' || isBroken) return;
      try {
        writeLines(file, held);
      } catch (error) {
        isBroken = true;
        ports.trouble(`the stream \`${file}\` cannot be written: ${(error as Error).message}`);
      }
      held = '';
    }
    function line(what: JsonObject): void {
      const ts = new Date(ports.clock.now()).toISOString();
      held += `${JSON.stringify({ ts, turn, ...what })}\n`;
      if (held.length > MAX_HELD) flush();
    }
    return {
      write({ event, data }) {
        if (!isBroken) line({ ...(event !== undefined && { event }), data: redact.data(data) });
      },
      end() {
        const rest = redact.rest();
        line({ event: 'end', ...(Object.keys(rest).length > 0 && { rest }) });
        flush();
      },
    };
  };
}
