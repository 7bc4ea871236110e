// Questions to people and their answers. An approval is bound: to one exact call, or to a named
// capability or limit, of one thread. INVARIANT: only a human channel decides, once, and what was
// approved is used no more often and no later than was said.
import {
  type Clock,
  canonicalJson,
  fail,
  type Json,
  type JsonObject,
  type Outcome,
  ok,
  type RandomBytes,
} from '../base/index.ts';
import type { Database, Row } from './database/database.ts';
import type { Signals } from './journal/signals.ts';
import { isEnded, noThread, type ThreadStatus } from './thread-id.ts';

export type ApprovalKind = 'call' | 'capability' | 'limit' | 'question';
export type ApprovalState = 'pending' | 'approved' | 'denied' | 'expired' | 'used';
/** Ways in which a person, and nobody else, reaches us. */
export type HumanChannel = 'cli' | 'web' | 'mcp';

export interface ApprovalRequest {
  thread: string;
  kind: ApprovalKind;
  /** What exactly is asked for: tool, hash of arguments and token; or capability or limit and scope. */
  binding: JsonObject;
  /** For the person: redacted, no secrets. */
  shown: JsonObject;
  /** How often it may be used; 1 when left out. */
  uses?: number;
  /** Milliseconds since 1970; also ends the waiting for an answer. */
  expires?: number;
}

export interface Approval extends ApprovalRequest {
  id: string;
  state: ApprovalState;
  uses: number;
  asked: number;
  decided?: number;
  who?: string;
  channel?: HumanChannel;
  why?: string;
  answer?: Json;
}

export interface Decision {
  decision: 'approved' | 'denied';
  who: string;
  channel: HumanChannel;
  why: string;
  /** To a question: words. */
  answer?: Json;
  /** The person may give less or more than was asked for. */
  uses?: number;
  expires?: number;
}

export interface Approvals {
  /** The same open question of the same thread is asked once. */
  ask(request: ApprovalRequest): Outcome<Approval>;
  /** Tells the thread with a signal `approval` in the same commit. */
  decide(id: string, decision: Decision): Outcome<Approval>;
  get(id: string): Outcome<Approval>;
  /** The latest one for exactly this. */
  find(thread: string, binding: JsonObject): Outcome<Approval | undefined>;
  /** Oldest first. */
  list(filter?: { state?: ApprovalState; thread?: string; limit?: number }): Outcome<Approval[]>;
  /** Counts one use. `approval_pending|denied|expired|used` are different answers. */
  use(id: string, binding: JsonObject): Outcome<Approval>;
}

const COLUMNS =
  'id, thread, kind, binding, shown, state, uses_left, expires, asked, decided, who, channel, why, answer';
const REFUSALS: Readonly<Record<Exclude<ApprovalState, 'approved'>, string>> = {
  pending: 'nobody has answered yet',
  denied: 'was denied',
  expired: 'has expired',
  used: 'was used as often as allowed',
};

/** What stands in the rows that may be in a state now. */
const STORED_AS: Readonly<Record<ApprovalState, readonly ApprovalState[]>> = {
  pending: ['pending'],
  approved: ['approved'],
  denied: ['denied'],
  used: ['approved'],
  expired: ['pending', 'approved'],
};

/** Expiry is a fact of the clock, not of the row. */
function stateAt(row: Row, now: number): ApprovalState {
  const state = row['state'] as ApprovalState;
  if (state !== 'pending' && state !== 'approved') return state;
  if (row['expires'] !== null && (row['expires'] as number) <= now) return 'expired';
  return state === 'approved' && row['uses_left'] === 0 ? 'used' : state;
}

function toApproval(row: Row, now: number): Approval {
  const optional = Object.fromEntries(
    ['expires', 'decided', 'who', 'channel', 'why']
      .filter((name) => row[name] !== null)
      .map((name) => [name, row[name]]),
  ) as Partial<Approval>;
  return {
    id: row['id'] as string,
    thread: row['thread'] as string,
    kind: row['kind'] as ApprovalKind,
    binding: JSON.parse(row['binding'] as string) as JsonObject,
    shown: JSON.parse(row['shown'] as string) as JsonObject,
    state: stateAt(row, now),
    uses: row['uses_left'] as number,
    asked: row['asked'] as number,
    ...optional,
    ...(row['answer'] === null ? {} : { answer: JSON.parse(row['answer'] as string) as Json }),
  };
}

export function createApprovals(
  database: Database,
  clock: Clock,
  random: RandomBytes,
  signals: Signals,
): Approvals {
  const find = (id: string): Outcome<Approval> => {
    const row = database.get(`SELECT ${COLUMNS} FROM approvals WHERE id = ?`, id);
    if (!row) return fail('not_found', `there is no approval \`${id}\``, { approval: id });
    return ok(toApproval(row, clock.now()));
  };
  const findBound = (thread: string, binding: string): Approval | undefined => {
    const sql = `SELECT ${COLUMNS} FROM approvals WHERE thread = ? AND binding = ? ORDER BY asked DESC, id DESC LIMIT 1`;
    const row = database.get(sql, thread, binding);
    return row && toApproval(row, clock.now());
  };

  function ask(request: ApprovalRequest): Outcome<Approval> {
    const { thread, kind, shown, uses = 1, expires = null } = request;
    const owner = database.get('SELECT status FROM threads WHERE id = ?', thread);
    if (!owner) return noThread(thread);
    const binding = canonicalJson(request.binding);
    const before = findBound(thread, binding);
    if (before?.state === 'pending' && before.kind === kind) return ok(before);
    const id = `ap_${Buffer.from(random(9)).toString('base64url').replaceAll('-', '_')}`;
    const sql = `INSERT INTO approvals (${COLUMNS}) VALUES (?, ?, ?, ?, ?, 'pending', ?, ?, ?, NULL, NULL, NULL, NULL, NULL)`;
    database.run(sql, id, thread, kind, binding, JSON.stringify(shown), uses, expires, clock.now());
    return find(id);
  }

  function decide(id: string, given: Decision): Outcome<Approval> {
    const found = find(id);
    if (!found.ok) return found;
    const { state, thread, uses, expires } = found.output;
    if (state !== 'pending') {
      const message = `approval \`${id}\` cannot be decided any more: it is ${state}`;
      return fail('conflict', message, { approval: id, state });
    }
    const answer = given.answer === undefined ? null : JSON.stringify(given.answer);
    const sql = `UPDATE approvals SET state = ?, uses_left = ?, expires = ?, decided = ?, who = ?,
      channel = ?, why = ?, answer = ? WHERE id = ?`;
    // biome-ignore format: in the order of the statement
    database.run(
      sql, given.decision, given.uses ?? uses, given.expires ?? expires ?? null, clock.now(), given.who,
      given.channel, given.why, answer, id,
    );
    const row = database.get('SELECT status FROM threads WHERE id = ?', thread);
    if (row && !isEnded(row['status'] as ThreadStatus)) {
      const told = signals.signal(
        thread,
        'approval',
        { approval: id },
        `approval:${id}`,
        given.who,
      );
      if (!told.ok) return told;
    }
    return find(id);
  }

  function use(id: string, binding: JsonObject): Outcome<Approval> {
    const found = find(id);
    if (!found.ok) return found;
    if (canonicalJson(found.output.binding) !== canonicalJson(binding)) {
      return fail('permission_denied', `approval \`${id}\` is for something else`, {
        approval: id,
      });
    }
    const { state } = found.output;
    if (state !== 'approved') {
      const code = `approval_${state}`;
      return fail(code, `approval \`${id}\`: ${REFUSALS[state]}`, { approval: id, state });
    }
    database.run('UPDATE approvals SET uses_left = uses_left - 1 WHERE id = ?', id);
    return find(id);
  }

  return {
    ask: (request) => database.write(() => ask(request)),
    decide: (id, decision) => database.write(() => decide(id, decision)),
    get: (id) => database.read(() => find(id)),
    find: (thread, binding) => database.read(() => ok(findBound(thread, canonicalJson(binding)))),
    list: ({ state, thread, limit = 100 } = {}) =>
      database.read(() => {
        const stored = state === undefined ? ['pending', 'approved', 'denied'] : STORED_AS[state];
        const sql = `SELECT ${COLUMNS} FROM approvals WHERE state IN (?, ?, ?)
          AND (? IS NULL OR thread = ?) ORDER BY asked, id`;
        const [first = '', second = '', third = ''] = stored;
        const rows = database.all(sql, first, second, third, thread ?? null, thread ?? null);
        const now = clock.now();
        const all = rows.map((row) => toApproval(row, now));
        return ok(all.filter((row) => state === undefined || row.state === state).slice(0, limit));
      }),
    use: (id, binding) => database.write(() => use(id, binding)),
  };
}
