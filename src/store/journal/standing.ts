// Does a thread's word still count? Asked at every use of a capability token, so the answer is kept:
// what this process changes is seen at once, what others change within a few milliseconds, by one
// cheap question for all threads.
import type { Clock } from '../../base/index.ts';
import type { Database } from '../database/database.ts';
import type { EventLog } from '../database/event-log.ts';
import { isEnded, type ThreadStatus } from '../thread-id.ts';
import type { Sent } from './signals.ts';

/**
 * `revoked`: somebody ended it and everything below it, or has just said so. `ended`: its own word
 * counts no more, that of a child that lives on does.
 */
export type Standing = 'good' | 'ended' | 'revoked' | 'unknown';

export interface Standings {
  /** What cannot be read counts as revoked. */
  standing(thread: string): Standing;
}

/** How long other processes' commits may go unseen. */
const LOOK_MS = 10;
const REVOKES: ReadonlySet<ThreadStatus> = new Set<ThreadStatus>([
  'aborted',
  'terminated',
  'killed',
]);

function createLook(database: Database, clock: Pick<Clock, 'monotonic'>) {
  let [version, looked] = [-1, Number.NEGATIVE_INFINITY];
  return (): number => {
    const now = clock.monotonic();
    const past = now - looked;
    // A clock that stands still tells nothing: then every time counts.
    if (past > 0 && past < LOOK_MS) return version;
    looked = now;
    version = Number(database.get('PRAGMA data_version')?.['data_version'] ?? 0);
    return version;
  };
}

export function createStandings(
  database: Database,
  clock: Pick<Clock, 'monotonic'>,
  sent: Sent,
): Standings & { listening(log: EventLog): EventLog } {
  const known = new Map<string, Standing>();
  const look = createLook(database, clock);
  let [changes, seen] = [0, ''];

  function read(thread: string): Standing {
    const row = database.get('SELECT status FROM threads WHERE id = ?', thread);
    if (!row) return 'unknown';
    const status = row['status'] as ThreadStatus;
    if (REVOKES.has(status)) return 'revoked';
    if (isEnded(status)) return 'ended';
    const sql = "SELECT 1 FROM signals WHERE thread = ? AND kind = 'kill'";
    return database.get(sql, thread) ? 'revoked' : 'good';
  }

  return {
    standing(thread) {
      try {
        const now = `${look()} ${sent.count} ${changes}`;
        if (now !== seen) known.clear();
        seen = now;
        const before = known.get(thread);
        if (before) return before;
        const answer = read(thread);
        known.set(thread, answer);
        return answer;
      } catch {
        return 'revoked';
      }
    },
    listening: (log) => ({
      ...log,
      status(...change) {
        changes += 1;
        log.status(...change);
      },
    }),
  };
}
