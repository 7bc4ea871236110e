// Stores decisions as lines of files in the user's folder: which keys are trusted, and who may log in. The files
// are append-only, so several processes can write and none overwrites a removal by another one. A running process
// reads new decisions before each use. A line that a crash cut off was never confirmed and is skipped. After any
// other unreadable line every use fails, because the line may have been a removal.
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
  statSync,
  writeSync,
} from 'node:fs';
import { dirname } from 'node:path';
import {
  diskReason,
  errnoOf,
  fail,
  isMissing,
  isObject,
  type JsonObject,
  type Outcome,
  ok,
  parseJson,
} from '../../base/index.ts';

const MAX_BYTES = 8 * 1024 * 1024;
const { O_APPEND, O_CREAT, O_NOFOLLOW, O_NONBLOCK, O_RDWR, O_RDONLY } = constants;

interface Decisions<State> {
  /** Name of the files in messages, such as `the trust store`. */
  readonly what: string;
  /** Mode bits that a file may not have. */
  readonly closedTo: number;
  readonly followsLinks?: boolean;
  /** Paths in the order of reading. New lines go to the last one. */
  files(): readonly string[];
  empty(): State;
  /** Applies a line to the state. Returns why the line is not usable. Undefined: it was applied. */
  apply(state: State, row: JsonObject): string | undefined;
}

export function openDecisions<State>(decisions: Decisions<State>) {
  const { what, closedTo, followsLinks, files, empty, apply } = decisions;
  const links = followsLinks ? 0 : O_NOFOLLOW;
  let cache: { stamp: string; state: Outcome<State> } | undefined;

  function stampOf(file: string): string {
    try {
      const there = (followsLinks ? statSync : lstatSync)(file, { bigint: true });
      return `${file}:${there.ino}:${there.size}:${there.mtimeNs}:${there.mode}`;
    } catch (error) {
      return `${file}:${errnoOf(error)}`;
    }
  }

  function read(file: string): Outcome<string> {
    try {
      const handle = openSync(file, O_RDONLY | O_NONBLOCK | links);
      try {
        const { size, mode } = fstatSync(handle);
        if (size > MAX_BYTES) return fail('config_invalid', `${what} \`${file}\` is too large`);
        if (process.platform !== 'win32' && (mode & closedTo) !== 0) {
          const message = `${what} \`${file}\` is open to others; check it, then run \`chmod 600 ${file}\``;
          return fail('config_invalid', message, { file });
        }
        return ok(readFileSync(handle, 'utf8'));
      } finally {
        closeSync(handle);
      }
    } catch (error) {
      if (isMissing(errnoOf(error))) return ok('');
      return fail('config_invalid', `cannot read ${what} \`${file}\`: ${diskReason(error)}`);
    }
  }

  function replay(file: string, state: State): Outcome<State> {
    const text = read(file);
    if (!text.ok) return text;
    for (const [index, line] of text.output.split('\n').entries()) {
      if (line.trim() === '') continue;
      const parsed = parseJson(line, 4);
      // A complete line ends in `}` and has no earlier one outside of a name.
      if (!parsed.ok && !line.endsWith('}')) continue;
      const row = parsed.ok ? parsed.output : undefined;
      const problem = isObject(row) ? apply(state, row) : 'it cannot be read as JSON';
      if (problem === undefined) continue;
      const message = `line ${index + 1} of ${what} \`${file}\` is not usable: ${problem}; repair or delete that line`;
      return fail('config_invalid', message, { file, line: index + 1 });
    }
    return ok(state);
  }

  return {
    /**
     * Returns the state. Reads the files again after a change, so that a removal counts at once, and after
     * a failure, which may be temporary.
     */
    load(): Outcome<State> {
      const names = files();
      const stamp = names.map(stampOf).join('\n');
      if (cache?.stamp === stamp) return cache.state;
      let state: Outcome<State> = ok(empty());
      for (const file of names) if (state.ok) state = replay(file, state.output);
      cache = state.ok ? { stamp, state } : undefined;
      return state;
    },
    append(line: JsonObject): Outcome<null> {
      const file = files().at(-1) ?? '';
      try {
        mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
        const handle = openSync(file, O_RDWR | O_APPEND | O_CREAT | links, 0o600);
        try {
          const { size } = fstatSync(handle);
          const last = Buffer.alloc(1);
          const isCut =
            size > 0 && (readSync(handle, last, 0, 1, size - 1) !== 1 || last[0] !== 10);
          // Each process appends with one write, so lines do not mix. A line that a crash cut off is ended first.
          const bytes = Buffer.from(`${isCut ? '\n' : ''}${JSON.stringify(line)}\n`);
          if (writeSync(handle, bytes) !== bytes.length) throw new Error('the disk is full');
          fsyncSync(handle);
        } finally {
          closeSync(handle);
        }
        return ok(null);
      } catch (error) {
        return fail('config_invalid', `cannot write ${what} \`${file}\`: ${diskReason(error)}`);
      }
    },
  };
}
