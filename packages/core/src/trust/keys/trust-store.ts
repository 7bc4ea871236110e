// Whose signatures count, and for what. The file is a list of decisions, one JSON line each, and is
// only ever appended to: several processes can decide at once, none overwrites another's revocation.
// A line that was cut off by a crash was never acknowledged and is passed over; any other line that
// cannot be read stops everything, because it may have been a revocation.
import {
  closeSync,
  fstatSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readFileSync,
  readSync,
  statSync,
  writeSync,
} from 'node:fs';
import { dirname } from 'node:path';
import {
  type Clock,
  errnoOf,
  fail,
  globProblem,
  isObject,
  type JsonObject,
  matchGlob,
  type Outcome,
  ok,
  parseJson,
} from '../../base/index.ts';
import { keyIdOf } from './key.ts';

interface TrustedKey {
  id: string;
  /** The 32 bytes in base64url. */
  key: string;
  name?: string;
  /** Kinds of items it may sign; absent: all. */
  kinds?: string[];
  /** Globs of full item ids; absent: all. */
  ids?: string[];
  /** ISO time from which on its signatures no longer count. */
  expires?: string;
  revoked?: boolean;
}

export type TrustStore = ReturnType<typeof createTrustStore>;

const FIELDS = ['id', 'key', 'name', 'kinds', 'ids', 'expires'];
const ISO = /^\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:\d{2}))?$/;
const MAX_BYTES = 8 * 1024 * 1024;

const isTexts = (value: unknown): value is string[] =>
  Array.isArray(value) && value.every((item) => typeof item === 'string');

/** Why this is no entry; undefined when it is one. */
function entryProblem(entry: JsonObject): string | undefined {
  const { id, key, name, kinds, ids, expires } = entry;
  const stray = Object.keys(entry).find((field) => !FIELDS.includes(field));
  if (stray !== undefined) return `unknown field \`${stray}\``;
  const derived = typeof key === 'string' ? keyIdOf(key) : undefined;
  if (!derived?.ok) return '`key` must be a public key: 32 bytes in base64url';
  if (id !== derived.output) return `\`id\` must be \`${derived.output}\`, the id of this key`;
  if (name !== undefined && (typeof name !== 'string' || /[\u0000-\u001f\u007f]/.test(name))) {
    return '`name` must be a text';
  }
  if (kinds !== undefined && !isTexts(kinds)) return '`kinds` must be a list of texts';
  if (ids !== undefined && !isTexts(ids)) return '`ids` must be a list of globs';
  const glob = ids?.find((id) => globProblem(id) !== undefined);
  if (glob !== undefined) return `glob \`${glob}\` ${globProblem(glob)}`;
  const isTime = (text: unknown) =>
    typeof text === 'string' && ISO.test(text) && !Number.isNaN(Date.parse(text));
  return expires === undefined || isTime(expires)
    ? undefined
    : '`expires` must be a date such as `2027-01-31` or a time with a zone';
}

type Keys = Map<string, TrustedKey>;

/** Replays one decision; says why when it is none. */
function applyLine(keys: Keys, line: JsonObject): string | undefined {
  const { op, ...rest } = line;
  const id = rest.id;
  if (op === 'trust') {
    const problem = entryProblem(rest);
    if (problem !== undefined) return problem;
    const entry = rest as unknown as TrustedKey;
    // A revocation is final, also against an older decision that came late.
    const revoked = keys.get(entry.id)?.revoked === true;
    keys.set(entry.id, revoked ? { ...entry, revoked } : entry);
    return undefined;
  }
  if (typeof id !== 'string' || Object.keys(rest).length !== 1) return 'unknown decision';
  if (op !== 'revoke') return 'unknown decision';
  const known = keys.get(id);
  if (known) keys.set(id, { ...known, revoked: true });
  return undefined;
}

function replay(text: string, file: string): Outcome<Keys> {
  const keys: Keys = new Map();
  for (const [index, line] of text.split('\n').entries()) {
    if (line.trim() === '') continue;
    const parsed = parseJson(line, 4);
    // A line of ours ends in `}` and holds none before its end but in a name.
    if (!parsed.ok && !line.endsWith('}')) continue;
    const problem =
      parsed.ok && isObject(parsed.output)
        ? applyLine(keys, parsed.output)
        : 'it cannot be read as JSON';
    if (problem !== undefined) {
      const message = `line ${index + 1} of the trust store \`${file}\` is not usable: ${problem}; repair or delete that line`;
      return fail('config_invalid', message, { file, line: index + 1 });
    }
  }
  return ok(keys);
}

function endsOpen(handle: number): boolean {
  const { size } = fstatSync(handle);
  const last = Buffer.alloc(1);
  return size > 0 && (readSync(handle, last, 0, 1, size - 1) !== 1 || last[0] !== 0x0a);
}

function appendLine(file: string, line: JsonObject): Outcome<null> {
  try {
    mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
    const handle = openSync(file, 'a+', 0o600);
    try {
      // One write: concurrent appends do not mix. The cut-off rest of an earlier one gets its end.
      const bytes = Buffer.from(`${endsOpen(handle) ? '\n' : ''}${JSON.stringify(line)}\n`);
      if (writeSync(handle, bytes) !== bytes.length) throw new Error('the disk is full');
      fsyncSync(handle);
    } finally {
      closeSync(handle);
    }
    return ok(null);
  } catch (error) {
    return fail('config_invalid', `cannot write the trust store \`${file}\`: ${errnoOf(error)}`);
  }
}

function scopeProblem(key: TrustedKey, kind: string, itemId: string, now: number) {
  if (key.revoked) return 'was revoked';
  // A time that cannot be read counts as past.
  if (key.expires !== undefined && !(Date.parse(key.expires) > now)) {
    return `expired on ${key.expires}`;
  }
  if (key.kinds && !key.kinds.includes(kind)) return `is not trusted for items of kind ${kind}`;
  if (key.ids && !key.ids.some((glob) => matchGlob(glob, itemId))) {
    return `is not trusted for \`${itemId}\``;
  }
  return undefined;
}

export function createTrustStore(file: string, clock: Pick<Clock, 'now'>) {
  let cache: { stamp: string; keys: Outcome<Keys> } | undefined;

  /** Read again whenever the file is another one: a revocation counts in every process at once. */
  function load(): Outcome<Keys> {
    try {
      const { ino, size, mtimeNs, mode } = statSync(file, { bigint: true });
      const stamp = `${ino}:${size}:${mtimeNs}:${mode}`;
      if (cache?.stamp === stamp) return cache.keys;
      cache = { stamp, keys: read(Number(size), Number(mode)) };
      return cache.keys;
    } catch (error) {
      const code = errnoOf(error);
      if (code === 'ENOENT') return ok(new Map());
      return fail('config_invalid', `cannot read the trust store \`${file}\`: ${code}`);
    }
  }

  function read(size: number, mode: number): Outcome<Keys> {
    if (size > MAX_BYTES) return fail('config_invalid', `the trust store \`${file}\` is too large`);
    if (process.platform !== 'win32' && (mode & 0o022) !== 0) {
      const message = `the trust store \`${file}\` can be changed by others; check it, then run \`chmod 600 ${file}\``;
      return fail('config_invalid', message, { file });
    }
    return replay(readFileSync(file, 'utf8'), file);
  }

  function known(id: string): Outcome<TrustedKey> {
    const keys = load();
    if (!keys.ok) return keys;
    const key = keys.output.get(id);
    return key ? ok(key) : fail('not_found', `no key \`${id}\` in the trust store`, { key: id });
  }

  return {
    list(): Outcome<TrustedKey[]> {
      const keys = load();
      return keys.ok ? ok([...keys.output.values()]) : keys;
    },
    /** Trusts a key, or changes what it is trusted for. `invalid_input` for a revoked key, which stays revoked. */
    add(entry: TrustedKey): Outcome<null> {
      const { revoked, ...key } = entry;
      const problem = revoked ? 'it is revoked already' : entryProblem(key);
      if (problem !== undefined) return fail('invalid_input', `cannot trust this key: ${problem}`);
      const keys = load();
      if (!keys.ok) return keys;
      if (keys.output.get(key.id)?.revoked) {
        const message = `key \`${key.id}\` was revoked and stays revoked; trust a new key of its owner`;
        return fail('invalid_input', message);
      }
      return appendLine(file, { op: 'trust', ...key });
    },
    revoke(id: string): Outcome<null> {
      const key = known(id);
      return key.ok ? appendLine(file, { op: 'revoke', id }) : key;
    },
    /** `not_found` for a key nobody decided about; `signature_invalid` when it does not count here. */
    judge(keyId: string, kind: string, itemId: string): Outcome<TrustedKey> {
      const key = known(keyId);
      if (!key.ok) return key;
      const problem = scopeProblem(key.output, kind, itemId, clock.now());
      if (problem === undefined) return key;
      return fail('signature_invalid', `key \`${keyId}\` ${problem}`, { key: keyId });
    },
  };
}
