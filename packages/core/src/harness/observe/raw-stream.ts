// Writes the events of a provider to `stream.jsonl` of a thread, if its directive keeps them. A secret that several
// pieces of a text contain in parts is redacted too, so a piece can be written later than it arrived.
import { mkdirSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Clock, JsonObject, Redactor } from '../../base/index.ts';
import { createRecordFile } from '../../flow/index.ts';
import type { EventFilter } from '../../kernel/index.ts';
import type { RawStream, WatchPort } from '../thread/ports.ts';
import { createEventRedactor } from './event-redactor.ts';

interface RawStreamPorts {
  dir: string;
  clock: Pick<Clock, 'now'>;
  redactor(thread: string): Redactor;
  /** A file that cannot be written is reported and stops nothing. */
  trouble(message: string): void;
}

const MAX_FILE = 64 * 1024 * 1024;
const MAX_HELD = 64 * 1024;
/** Returns a filter that hides the thread's secrets from the sinks of a tool. `undefined`: it has no secrets. */
function createEventFilter(redactor: Redactor): EventFilter | undefined {
  if (redactor.isIdle) return undefined;
  const redact = createEventRedactor(redactor);
  return {
    push({ event, data, id }) {
      const redacted = redact.data(data);
      const isText = typeof redacted === 'string' && !/^\s*"/.test(data);
      return [
        {
          ...(event !== undefined && { event: redactor.text(event) }),
          data: isText ? redacted : JSON.stringify(redacted),
          ...(id !== undefined && { id: redactor.text(id) }),
        },
      ];
    },
    end() {
      const rest = redact.rest();
      return Object.keys(rest).length > 0 ? [{ event: 'rest', data: JSON.stringify(rest) }] : [];
    },
  };
}

/** Appends lines to the file, unless it is full. */
function writeLines(file: string, lines: string): void {
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
  const records = createRecordFile(file);
  try {
    records.touch();
    if (statSync(file).size < MAX_FILE) records.append(lines);
  } finally {
    records.close();
  }
}

function rawStream(ports: RawStreamPorts): (thread: string, turn: number) => RawStream {
  return (thread, turn) => {
    const file = join(ports.dir, thread, 'stream.jsonl');
    const redact = createEventRedactor(ports.redactor(thread));
    let [buffer, isBroken] = ['', false];
    function flush(): void {
      if (buffer === '' || isBroken) return;
      try {
        writeLines(file, buffer);
      } catch (error) {
        isBroken = true;
        ports.trouble(`the stream \`${file}\` cannot be written: ${(error as Error).message}`);
      }
      buffer = '';
    }
    function line(what: JsonObject): void {
      const ts = new Date(ports.clock.now()).toISOString();
      buffer += `${JSON.stringify({ ts, turn, ...what })}\n`;
      if (buffer.length > MAX_HELD) flush();
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

/** Creates the outputs for the streams of threads: the file `stream.jsonl` and the sinks of tools. */
export function createRawStreams(
  ports: RawStreamPorts,
): Required<Pick<WatchPort, 'rawStream' | 'sinks'>> {
  return {
    rawStream: rawStream(ports),
    sinks: (thread) => ({
      filter: () => createEventFilter(ports.redactor(thread)),
      trouble: (message) => ports.trouble(`${message} (thread \`${thread}\`)`),
    }),
  };
}
