// Bearer tokens for HTTP clients. A token opens one project, with one role, until it expires. The
// file has only its hash, so a reader of the file cannot use the token.
import { hash as digest, randomUUID, timingSafeEqual } from 'node:crypto';
import { join } from 'node:path';
import {
  type Clock,
  fail,
  getOwn,
  type JsonObject,
  type Outcome,
  ok,
  plainText,
  type RandomBytes,
  systemClock,
  systemRandom,
} from '@kernmantle/core/base';
import { openDecisions } from '@kernmantle/core/trust';
import type { WebRole } from '../../model/api.ts';

export interface TokenClient {
  /** Id of the token of the client. A client without a token gets a random id. */
  readonly id: string;
  /** Name that the client reports. It is recorded, and no decision uses it. */
  readonly name: string;
  /** `view` reads, `steer` also starts and signals threads, `approve` also decides approvals. */
  readonly role: WebRole;
}

const ROLES: readonly WebRole[] = ['view', 'steer', 'approve'];

/** Stored data of a token, without the token itself. */
interface WebToken {
  readonly id: string;
  readonly name: string;
  readonly role: WebRole;
  readonly created: string;
  readonly expires: string;
  /** Last characters of the token, to distinguish it from others. */
  readonly last: string;
}

interface StoredToken extends WebToken {
  readonly project: string;
  readonly hash: string;
}

export type TokenStore = ReturnType<typeof openTokens>;

/** SHA-256 in hex, the stored form of a secret with 256 bits. */
export const secretHash = (secret: string): string => digest('sha256', secret);

export const isSecretHash = (text: string): boolean => /^[0-9a-f]{64}$/.test(text);

const MAX_NAME = 100;
const MAX_DAYS = 3650;
const DAY_MS = 24 * 60 * 60 * 1000;
const TEXTS = ['id', 'name', 'role', 'created', 'expires', 'last', 'project', 'hash'] as const;
function readStored(line: JsonObject): StoredToken | undefined {
  const { op: _op, ...rest } = line;
  const isWhole =
    TEXTS.every((name) => typeof getOwn(rest, name) === 'string') &&
    Object.keys(rest).length === TEXTS.length &&
    ROLES.some((role) => role === rest.role) &&
    isSecretHash(plainText(rest.hash)) &&
    !Number.isNaN(Date.parse(plainText(rest.expires)));
  return isWhole ? (rest as unknown as StoredToken) : undefined;
}

function apply(tokens: Map<string, StoredToken>, row: JsonObject): string | undefined {
  const added = row.op === 'add' ? readStored(row) : undefined;
  if (added) tokens.set(added.id, added);
  else if (row.op === 'remove' && typeof row.id === 'string') tokens.delete(row.id);
  else return 'unknown decision';
  return undefined;
}

const textFrom =
  (random: RandomBytes) =>
  (count: number): string =>
    Buffer.from(random(count)).toString('base64url');

/**
 * Adds a token with the role `steer` that is valid until the process ends. It is in no file. Its id
 * differs from the ids of stored tokens.
 */
export function withProcessToken(
  tokens: Pick<TokenStore, 'find'>,
  random: RandomBytes = systemRandom,
): { token: string; tokens: Pick<TokenStore, 'find'> } {
  const token = `kmt_${textFrom(random)(32)}`;
  const hash = Buffer.from(secretHash(token), 'hex');
  const last = token.slice(-4);
  const row = { id: `http:${randomUUID()}`, name: '', created: '', expires: '', last };
  const isOwn = (secret: string): boolean =>
    timingSafeEqual(hash, Buffer.from(secretHash(secret), 'hex'));
  const find: TokenStore['find'] = (secret) =>
    isOwn(secret) ? ok({ ...row, role: 'steer' }) : tokens.find(secret);
  return { token, tokens: { find } };
}

const publicPart = ({ hash: _hash, project: _project, ...token }: StoredToken): WebToken => token;

/**
 * Opens the tokens of a project, by its real path. The file is in the folder of the user, because a
 * project folder can be shared, but access to its page must not be.
 */
export function openTokens(
  { home, project }: { home: string; project: string },
  clock: Pick<Clock, 'now'> = systemClock,
  random: RandomBytes = systemRandom,
) {
  const file = join(home, 'web-tokens.jsonl');
  const { load, append } = openDecisions({
    what: 'the file of tokens',
    closedTo: 0o077,
    files: () => [file],
    empty: () => new Map<string, StoredToken>(),
    apply,
  });

  function own(): Outcome<StoredToken[]> {
    const tokens = load();
    if (!tokens.ok) return tokens;
    return ok([...tokens.output.values()].filter((token) => token.project === project));
  }

  const isOver = ({ expires }: WebToken): boolean => !(Date.parse(expires) > clock.now());
  const text = textFrom(random);

  return {
    /** Lists all tokens of this project, including expired ones. */
    list(): Outcome<WebToken[]> {
      const tokens = own();
      return tokens.ok ? ok(tokens.output.map(publicPart)) : tokens;
    },
    /** Creates a token. Only this answer contains it. Fails with `invalid_input` for an invalid field. */
    add(request: {
      name: string;
      role: string;
      days: number;
    }): Outcome<WebToken & { token: string }> {
      const { name, days } = request;
      const role = ROLES.find((one) => one === request.role);
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
      const written = append({ op: 'add', ...row, project, hash: secretHash(token) });
      return written.ok ? ok({ ...row, token }) : written;
    },
    remove(id: string): Outcome<null> {
      const tokens = own();
      if (!tokens.ok) return tokens;
      if (!tokens.output.some((token) => token.id === id)) {
        return fail('not_found', `token \`${id}\` not found in this project`, { token: id });
      }
      return append({ op: 'remove', id });
    },
    /** Returns the token if it is valid in this project now. Compares every stored hash in constant time. */
    find(secret: string): Outcome<WebToken | undefined> {
      const tokens = own();
      if (!tokens.ok) return tokens;
      const hash = Buffer.from(secretHash(secret), 'hex');
      let match: StoredToken | undefined;
      for (const token of tokens.output) {
        if (timingSafeEqual(Buffer.from(token.hash, 'hex'), hash)) match = token;
      }
      return ok(match && !isOver(match) ? publicPart(match) : undefined);
    },
    /** True if the token with this id is still valid. */
    counts(id: string): boolean {
      const tokens = own();
      return tokens.ok && tokens.output.some((token) => token.id === id && !isOver(token));
    },
  };
}
