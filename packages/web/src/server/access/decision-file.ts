// Decisions about who may come in, as lines of files in the user's folder. They are only appended to:
// several processes can decide at once, none overwrites a removal, and a running server sees it with the
// next request. What is secret in them are hashes; they are closed to others all the same.
import { createHash } from 'node:crypto';
import {
  closeSync,
  constants,
  fstatSync,
  fsyncSync,
  lstatSync,
  mkdirSync,
  openSync,
  readFileSync,
  readSync,
  writeSync,
} from 'node:fs';
import { dirname } from 'node:path';
import {
  errnoOf,
  fail,
  isObject,
  type JsonObject,
  type Outcome,
  ok,
  parseJson,
} from '@kernmantle/core/base';

const MAX_BYTES = 4 * 1024 * 1024;
const { O_APPEND, O_CREAT, O_NOFOLLOW, O_NONBLOCK, O_RDWR, O_RDONLY } = constants;

/** SHA-256 in hex: what is kept of a secret with 256 bits. */
export const secretHash = (secret: string): string =>
  createHash('sha256').update(secret).digest('hex');

export const isSecretHash = (text: string): boolean => /^[0-9a-f]{64}$/.test(text);

interface Decisions<State> {
  /** Of tokens, of sessions: for messages. */
  readonly what: string;
  /** Read in this order; lines go to the last. */
  files(): readonly string[];
  empty(): State;
  /** False when a line says nothing that is known. */
  apply(state: State, row: JsonObject): boolean;
}

function appendLine(file: string, line: JsonObject, what: string): Outcome<null> {
  try {
    mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
    const handle = openSync(file, O_RDWR | O_APPEND | O_CREAT | (O_NOFOLLOW ?? 0), 0o600);
    try {
      const { size } = fstatSync(handle);
      const last = Buffer.alloc(1);
      const isOpen = size > 0 && (readSync(handle, last, 0, 1, size - 1) !== 1 || last[0] !== 10);
      // One write: two at once do not mix. What was cut off before gets its end.
      const bytes = Buffer.from(`${isOpen ? '\n' : ''}${JSON.stringify(line)}\n`);
      if (writeSync(handle, bytes) !== bytes.length) throw new Error('the disk is full');
      fsyncSync(handle);
    } finally {
      closeSync(handle);
    }
    return ok(null);
  } catch (error) {
    return fail('config_invalid', `cannot write the ${what} to \`${file}\`: ${errnoOf(error)}`);
  }
}

/** Read as it is: a link, or a file that others may change, is not taken. */
function readLines(file: string, what: string): Outcome<string> {
  try {
    const handle = openSync(file, O_RDONLY | (O_NOFOLLOW ?? 0) | (O_NONBLOCK ?? 0));
    try {
      const { size, mode } = fstatSync(handle);
      if (size > MAX_BYTES) return fail('config_invalid', `\`${file}\` is too large`);
      if (process.platform !== 'win32' && (mode & 0o077) !== 0) {
        const message = `\`${file}\` is open to others; check it, then run \`chmod 600 ${file}\``;
        return fail('config_invalid', message, { file });
      }
      return ok(readFileSync(handle, 'utf8'));
    } finally {
      closeSync(handle);
    }
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return ok('');
    return fail('config_invalid', `cannot read the ${what} in \`${file}\`: ${errnoOf(error)}`);
  }
}

function stampOf(file: string): string {
  const there = lstatSync(file, { bigint: true, throwIfNoEntry: false });
  const at = there ? `${there.ino}:${there.size}:${there.mtimeNs}:${there.mode}` : '';
  return `${file}:${at}`;
}

export function openDecisions<State>({ what, files, empty, apply }: Decisions<State>) {
  let cache: { stamp: string; state: Outcome<State> } | undefined;

  /** A line that cannot be read may have been a removal: then nothing counts. */
  function replay(file: string, state: State): Outcome<State> {
    const text = readLines(file, what);
    if (!text.ok) return text;
    for (const [index, line] of text.output.split('\n').entries()) {
      if (line.trim() === '') continue;
      const parsed = parseJson(line, 4);
      // Cut off by a crash, so never acknowledged.
      if (!parsed.ok && !line.endsWith('}')) continue;
      const row = parsed.ok && isObject(parsed.output) ? parsed.output : {};
      if (apply(state, row)) continue;
      const message = `line ${index + 1} of \`${file}\` is not usable; repair or delete that line`;
      return fail('config_invalid', message, { file, line: index + 1 });
    }
    return ok(state);
  }

  return {
    /** As the files stand now. */
    load(): Outcome<State> {
      const names = files();
      const stamp = names.map(stampOf).join('\n');
      if (cache?.stamp === stamp) return cache.state;
      let state: Outcome<State> = ok(empty());
      for (const file of names) if (state.ok) state = replay(file, state.output);
      cache = { stamp, state };
      return state;
    },
    append(line: JsonObject): Outcome<null> {
      const file = files().at(-1) ?? '';
      return appendLine(file, line, what);
    },
  };
}
