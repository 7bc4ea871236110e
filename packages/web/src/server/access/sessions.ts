// Sessions of the page. A link from the terminal or a bearer token opens one; a link works once,
// for a short time. A session needs a cookie and a key: cookies ignore ports, so other servers of
// this machine also get the cookie, but only a page of this origin has the key. Hashes are stored
// by project and port, so that a restarted server accepts the session.
import { timingSafeEqual } from 'node:crypto';
import { readdirSync, rmSync } from 'node:fs';
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
import { isSecretHash, secretHash } from './tokens.ts';

const LINK_MS = 2 * 60 * 1000;
export const SESSION_MS = 12 * 60 * 60 * 1000;
/** Bound per token in the last two files, because an unbounded file would lock out every client. */
const MAX_OPENED = 100;
const DAY_MS = 24 * 60 * 60 * 1000;

/** Stored data of a session, without cookie and key. */
export interface WebSession {
  readonly id: string;
  readonly who: string;
  readonly role: WebRole;
  readonly port: number;
  /** Id of the link or the token that opened the session. */
  readonly from: string;
  readonly created: number;
  readonly expires: number;
}

interface StoredSession extends WebSession {
  readonly project: string;
  readonly cookie: string;
  readonly key: string;
}

interface StoredLink extends Omit<WebSession, 'from'> {
  readonly project: string;
  readonly hash: string;
}

interface SessionState {
  readonly links: Map<string, StoredLink>;
  readonly sessions: Map<string, StoredSession>;
  readonly used: Set<string>;
  /** Number of sessions that each token has opened, including ended ones. */
  readonly opened: Map<string, number>;
}

const ROLES: readonly string[] = ['view', 'steer', 'approve'] satisfies WebRole[];
const NUMBERS = ['port', 'created', 'expires'];

/** True if a line has exactly these fields, each of the right type. */
function readRow(row: JsonObject, texts: readonly string[], hashes: readonly string[]): boolean {
  const names = Object.keys(row).filter((name) => name !== 'op');
  return (
    names.length === texts.length + hashes.length + NUMBERS.length + 1 &&
    texts.every((name) => typeof getOwn(row, name) === 'string') &&
    NUMBERS.every((name) => Number.isFinite(getOwn(row, name))) &&
    hashes.every((name) => isSecretHash(plainText(getOwn(row, name)))) &&
    ROLES.includes(plainText(row.role))
  );
}

function apply(
  { links, sessions, used, opened }: SessionState,
  row: JsonObject,
): string | undefined {
  const { op, ...rest } = row;
  if (op === 'link' && readRow(row, ['id', 'who', 'project'], ['hash'])) {
    const link = rest as unknown as StoredLink;
    links.set(link.id, link);
  } else if (op === 'open' && readRow(row, ['id', 'who', 'project', 'from'], ['cookie', 'key'])) {
    const session = rest as unknown as StoredSession;
    // INVARIANT: a link opens at most one session, the first one in the file, whichever process wrote it.
    if (used.has(session.from)) return undefined;
    if (links.has(session.from)) used.add(session.from);
    else opened.set(session.from, (opened.get(session.from) ?? 0) + 1);
    sessions.set(session.id, session);
  } else if (op === 'end' && typeof row.id === 'string') sessions.delete(row.id);
  else return 'unknown decision';
  return undefined;
}

/** Returns the address of a link. Its fragment reaches no log and no other page. */
export const linkTo = (url: string, secret: string): string => `${url}/#t=${secret}`;

const isSame = (hash: string, other: string): boolean =>
  timingSafeEqual(Buffer.from(hash, 'hex'), Buffer.from(other, 'hex'));

const publicPart = ({ project: _p, cookie: _c, key: _k, ...session }: StoredSession): WebSession =>
  session;

const nameOf = (time: number): string =>
  `sessions-${new Date(time).toISOString().slice(0, 10)}.jsonl`;

/** Removes files of past days. Errors are ignored. */
function cleanUp(folder: string, oldest: string): void {
  try {
    for (const name of readdirSync(folder)) {
      if (/^sessions-[\d-]{10}\.jsonl$/.test(name) && name <= oldest) rmSync(join(folder, name));
    }
  } catch {
    // The folder does not exist yet, or another process was faster.
  }
}

export type SessionStore = ReturnType<typeof openSessions>;

/** Opens the sessions of a project, by its real path. The folder of the user has one file per day. */
export function openSessions(
  { home, project }: { home: string; project: string },
  clock: Pick<Clock, 'now'> = systemClock,
  random: RandomBytes = systemRandom,
) {
  const folder = join(home, 'web');
  // No entry is valid for more than half a day.
  const { load, append } = openDecisions<SessionState>({
    what: 'the file of sessions',
    closedTo: 0o077,
    files: () => [clock.now() - DAY_MS, clock.now()].map((time) => join(folder, nameOf(time))),
    empty: () => ({ links: new Map(), sessions: new Map(), used: new Set(), opened: new Map() }),
    apply,
  });
  const text = (count: number): string => Buffer.from(random(count)).toString('base64url');
  const isOver = ({ expires }: { expires: number }): boolean => !(expires > clock.now());

  function own(): Outcome<StoredSession[]> {
    const state = load();
    if (!state.ok) return state;
    const all = [...state.output.sessions.values()];
    return ok(all.filter((session) => session.project === project && !isOver(session)));
  }

  function end(id: string): Outcome<null> {
    const sessions = own();
    if (!sessions.ok) return sessions;
    if (!sessions.output.some((session) => session.id === id)) {
      return fail('not_found', `session \`${id}\` not found in this project`, { session: id });
    }
    return append({ op: 'end', id });
  }

  return {
    /** Creates a link for the server on this port. Only this answer contains the secret. */
    addLink(port: number, { who, role }: Pick<WebSession, 'who' | 'role'>): Outcome<string> {
      const secret = `kml_${text(32)}`;
      const [created, hash] = [clock.now(), secretHash(secret)];
      const expires = created + LINK_MS;
      const row = { id: `link_${text(9)}`, who, role, project, port, created, expires, hash };
      const written = append({ op: 'link', ...row });
      return written.ok ? ok(secret) : written;
    },
    /** Returns the link if it is valid here and unused. Every stored one is compared. */
    findLink(port: number, secret: string): Outcome<Omit<WebSession, 'from'> | undefined> {
      const state = load();
      if (!state.ok) return state;
      const hash = secretHash(secret);
      let match: StoredLink | undefined;
      for (const link of state.output.links.values()) {
        const isOurs = link.project === project && link.port === port;
        if (isSame(link.hash, hash) && isOurs) match = link;
      }
      return ok(match && !isOver(match) && !state.output.used.has(match.id) ? match : undefined);
    },
    /** Opens a session. Undefined if its link was used before. Only this answer has the cookie and the key. */
    open(
      request: Pick<WebSession, 'who' | 'role' | 'port' | 'from'> & { expires?: number },
    ): Outcome<(WebSession & { cookie: string; key: string }) | undefined> {
      const { who, role, port, from } = request;
      const before = load();
      if (!before.ok) return before;
      if ((before.output.opened.get(from) ?? 0) >= MAX_OPENED) {
        const message = `the token has opened ${MAX_OPENED} sessions, the maximum; use one of them, or send the token`;
        return fail('rate_limit', message);
      }
      const [cookie, key, created] = [text(32), text(32), clock.now()];
      const expires = Math.min(created + SESSION_MS, request.expires ?? Number.POSITIVE_INFINITY);
      const session = { id: `session_${text(9)}`, who, role, port, from, created, expires };
      const hashes = { cookie: secretHash(cookie), key: secretHash(key) };
      const written = append({ op: 'open', ...session, project, ...hashes });
      if (!written.ok) return written;
      const state = load();
      if (!state.ok) return state;
      return ok(state.output.sessions.has(session.id) ? { ...session, cookie, key } : undefined);
    },
    /** Returns the session of cookie and key; both must match. Every stored one is compared. */
    find(port: number, cookies: readonly string[], key: string): Outcome<WebSession | undefined> {
      const sessions = own();
      if (!sessions.ok) return sessions;
      const [keyHash, ...hashes] = [key, ...cookies].map(secretHash);
      let match: StoredSession | undefined;
      for (const session of sessions.output) {
        const isKey = isSame(session.key, keyHash ?? '');
        const isCookie = hashes.map((hash) => isSame(session.cookie, hash)).includes(true);
        if (isKey && isCookie && session.port === port) match = session;
      }
      return ok(match && publicPart(match));
    },
    counts(id: string): boolean {
      const sessions = own();
      return sessions.ok && sessions.output.some((session) => session.id === id);
    },
    list(): Outcome<WebSession[]> {
      const sessions = own();
      return sessions.ok ? ok(sessions.output.map(publicPart)) : sessions;
    },
    end,
    clean: () => cleanUp(folder, nameOf(clock.now() - 2 * DAY_MS)),
  };
}
