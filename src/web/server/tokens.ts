// Bearer tokens for whoever reaches a project over HTTP. A token opens one project, with one role, for
// a time; only its hash is kept, so that nobody who reads the file can use it. Like the trust store the
// file is a list of decisions that is only appended to: several processes can decide at once, none
// overwrites a removal, and a running server sees it with the next request.
import { createHash, timingSafeEqual } from 'node:crypto';
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
import { dirname, join } from 'node:path';
import {
  type Clock,
  errnoOf,
  fail,
  getOwn,
  isObject,
  type JsonObject,
  type Outcome,
  ok,
  parseJson,
  plainText,
  type RandomBytes,
  systemClock,
  systemRandom,
} from '../../base/index.ts';
import type { McpClient } from '../../mcp/index.ts';

type Role = McpClient['role'];
const ROLES: readonly Role[] = ['view', 'steer', 'approve'];

/** All that is known of a token; the token itself is not. */
interface WebToken {
  readonly id: string;
  readonly name: string;
  readonly role: Role;
  /** ISO times. */
  readonly created: string;
  readonly expires: string;
  /** Its end, to tell it from others. */
  readonly last: string;
}

interface Kept extends WebToken {
  readonly project: string;
  /** SHA-256 in hex. */
  readonly hash: string;
}

export type TokenStore = ReturnType<typeof openTokens>;

const MAX_BYTES = 4 * 1024 * 1024;
const MAX_NAME = 100;
const MAX_DAYS = 3650;
const DAY_MS = 24 * 60 * 60 * 1000;
const TEXTS = ['id', 'name', 'role', 'created', 'expires', 'last', 'project', 'hash'] as const;
const { O_APPEND, O_CREAT, O_NOFOLLOW, O_NONBLOCK, O_RDWR, O_RDONLY } = constants;

const hashOf = (token: string): string => createHash('sha256').update(token).digest('hex');

function readKept(line: JsonObject): Kept | undefined {
  const { op: _op, ...rest } = line;
  const isWhole =
    TEXTS.every((name) => typeof getOwn(rest, name) === 'string') &&
    Object.keys(rest).length === TEXTS.length &&
    ROLES.some((role) => role === rest.role) &&
    /^[0-9a-f]{64}$/.test(plainText(rest.hash)) &&
    !Number.isNaN(Date.parse(plainText(rest.expires)));
  return isWhole ? (rest as unknown as Kept) : undefined;
}

/** Replays the decisions. A line that cannot be read may have been a removal: then no token counts. */
function replay(text: string, file: string): Outcome<ReadonlyMap<string, Kept>> {
  const tokens = new Map<string, Kept>();
  for (const [index, line] of text.split('\n').entries()) {
    if (line.trim() === '') continue;
    const parsed = parseJson(line, 4);
    // Cut off by a crash, so never acknowledged.
    if (!parsed.ok && !line.endsWith('}')) continue;
    const row = parsed.ok && isObject(parsed.output) ? parsed.output : {};
    const added = row.op === 'add' ? readKept(row) : undefined;
    if (added) tokens.set(added.id, added);
    else if (row.op === 'remove' && typeof row.id === 'string') tokens.delete(row.id);
    else {
      const message = `line ${index + 1} of \`${file}\` is not usable; repair or delete that line`;
      return fail('config_invalid', message, { file, line: index + 1 });
    }
  }
  return ok(tokens);
}

function appendLine(file: string, line: JsonObject): Outcome<null> {
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
    return fail('config_invalid', `cannot write the tokens to \`${file}\`: ${errnoOf(error)}`);
  }
}

/** Read as it is: a link, or a file that others may change, is not taken. */
function readTokens(file: string): Outcome<string> {
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
    return fail('config_invalid', `cannot read the tokens in \`${file}\`: ${errnoOf(error)}`);
  }
}

const shown = ({ hash: _hash, project: _project, ...token }: Kept): WebToken => token;

/**
 * The tokens of a project, by its real path; those of others are not seen. They lie in the user's folder:
 * a project may be shared, who may come in is not.
 */
export function openTokens(
  { home, project }: { home: string; project: string },
  clock: Pick<Clock, 'now'> = systemClock,
  random: RandomBytes = systemRandom,
) {
  const file = join(home, 'web-tokens.jsonl');
  let cache: { stamp: string; tokens: Outcome<ReadonlyMap<string, Kept>> } | undefined;

  function load(): Outcome<ReadonlyMap<string, Kept>> {
    const there = lstatSync(file, { bigint: true, throwIfNoEntry: false });
    const stamp = there ? `${there.ino}:${there.size}:${there.mtimeNs}:${there.mode}` : '';
    if (cache?.stamp === stamp) return cache.tokens;
    const text = readTokens(file);
    cache = { stamp, tokens: text.ok ? replay(text.output, file) : text };
    return cache.tokens;
  }

  function own(): Outcome<Kept[]> {
    const tokens = load();
    if (!tokens.ok) return tokens;
    return ok([...tokens.output.values()].filter((token) => token.project === project));
  }

  const isOver = ({ expires }: WebToken): boolean => !(Date.parse(expires) > clock.now());
  const text = (count: number): string => Buffer.from(random(count)).toString('base64url');

  return {
    /** Those of this project, also such as are over. */
    list(): Outcome<WebToken[]> {
      const tokens = own();
      return tokens.ok ? ok(tokens.output.map(shown)) : tokens;
    },
    /** Makes one; the token itself is in this answer and nowhere else. */
    add(wanted: {
      name: string;
      role: string;
      days: number;
    }): Outcome<WebToken & { token: string }> {
      const { name, days } = wanted;
      const role = ROLES.find((known) => known === wanted.role);
      if (!role) return fail('invalid_input', `\`role\` must be one of ${ROLES.join(', ')}`);
      if (name.length > MAX_NAME || /\p{C}/u.test(name)) {
        return fail('invalid_input', `\`name\` must be a text of at most ${MAX_NAME} characters`);
      }
      if (!Number.isInteger(days) || days < 1 || days > MAX_DAYS) {
        return fail('invalid_input', `\`days\` must be a number between 1 and ${MAX_DAYS}`);
      }
      const others = own();
      if (!others.ok) return others;
      const token = `kmt_${text(32)}`;
      const now = clock.now();
      const [created, expires] = [now, now + days * DAY_MS].map((at) => new Date(at).toISOString());
      const row: WebToken = {
        id: `token_${text(9)}`,
        name,
        role,
        created: created ?? '',
        expires: expires ?? '',
        last: token.slice(-4),
      };
      const written = appendLine(file, { op: 'add', ...row, project, hash: hashOf(token) });
      return written.ok ? ok({ ...row, token }) : written;
    },
    remove(id: string): Outcome<null> {
      const tokens = own();
      if (!tokens.ok) return tokens;
      if (!tokens.output.some((token) => token.id === id)) {
        return fail('not_found', `this project has no token \`${id}\``, { token: id });
      }
      return appendLine(file, { op: 'remove', id });
    },
    /** The one that was given, if it counts here and now. Every one is compared, in constant time. */
    find(given: string): Outcome<WebToken | undefined> {
      const tokens = own();
      if (!tokens.ok) return tokens;
      const hash = Buffer.from(hashOf(given), 'hex');
      let found: Kept | undefined;
      for (const token of tokens.output) {
        if (timingSafeEqual(Buffer.from(token.hash, 'hex'), hash)) found = token;
      }
      return ok(found && !isOver(found) ? shown(found) : undefined);
    },
    /** Does a token that opened something still count? */
    counts(id: string): boolean {
      const tokens = own();
      return tokens.ok && tokens.output.some((token) => token.id === id && !isOver(token));
    },
  };
}
