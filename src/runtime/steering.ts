// What a person or a program says to a thread, from any process. A thread that nobody is at work on
// cannot hear; what it was told waits, and an end is written for it.
import { fail, type JsonObject, type Outcome, ok, plainText, systemRandom } from '../base/index.ts';
import type { Approval, Decision, Store, ThreadRow, ThreadStatus } from '../store/index.ts';

export interface Told {
  thread_id: string;
  /** What it was told. */
  kind: string;
  /** What it is now. */
  status: ThreadStatus;
}

/** Two words are two signals, however alike. */
const signalKey = (): string => `told:${Buffer.from(systemRandom(9)).toString('base64url')}`;

async function told(store: Store, id: string, kind: string): Promise<Outcome<Told>> {
  const now = await store.thread(id);
  return now.ok ? ok({ thread_id: id, kind, status: now.output.status }) : now;
}

export async function tellThread(
  store: Store,
  thread: string,
  kind: 'pause' | 'message' | 'interrupt',
  payload: JsonObject,
  by: string,
): Promise<Outcome<Told>> {
  const sent = await store.signal({ thread, kind, payload, key: signalKey(), by });
  return sent.ok ? await told(store, thread, kind) : sent;
}

/** It goes on only when a person does something. */
export const STANDS_STILL: ReadonlySet<ThreadStatus> = new Set([
  'paused',
  'needs_input',
  'waiting',
  'interrupted',
]);
const EXPIRY_CHECK_MS = 2000;

/** The row when it is over or, unless `untilEnd`, stands still; as it is when the signal aborts. */
export async function waitForEnd(
  store: Store,
  id: string,
  signal: AbortSignal,
  { untilEnd = true }: { untilEnd?: boolean } = {},
): Promise<Outcome<ThreadRow>> {
  const { isEnded } = await import('../store/index.ts');
  const isOver = ({ status }: ThreadRow): boolean =>
    isEnded(status) || (!untilEnd && STANDS_STILL.has(status));
  const row = await store.thread(id);
  if (!row.ok || isOver(row.output)) return row;
  // A process that died says nothing; its lease does.
  const timer = setInterval(() => void store.sweep(), EXPIRY_CHECK_MS);
  try {
    for await (const news of store.watch({ thread: id, seq: row.output.seq }, signal)) {
      if (news.type !== 'status') continue;
      const now = await store.thread(id);
      if (!now.ok || isOver(now.output)) return now;
    }
  } finally {
    clearInterval(timer);
  }
  return await store.thread(id);
}

/** Somebody holds it: the signal is read at the next step. */
const isAttended = ({ lease_until }: ThreadRow, now: number): boolean => (lease_until ?? 0) > now;

const PATIENCE_MS = { terminate: 1000, kill: 5000 };

/** Children first, then itself. Whoever is at work is asked; an end nobody writes is written here. */
export async function endThread(
  store: Store,
  id: string,
  kind: 'terminate' | 'kill',
  by: string,
): Promise<Outcome<Told>> {
  const [{ endUnattended }, { isEnded }] = await Promise.all([
    import('../harness/index.ts'),
    import('../store/index.ts'),
  ]);
  const status = kind === 'kill' ? 'killed' : 'terminated';
  const row = await store.thread(id);
  if (!row.ok) return row;
  if (isEnded(row.output.status)) {
    return fail('thread_ended', `thread \`${id}\` has ended already: ${row.output.status}`);
  }
  const page = await store.query({ within: id, limit: 500 });
  if (!page.ok) return page;
  const below = page.output.rows.filter((one) => one.id !== id && !isEnded(one.status));
  for (const one of [...below.toSorted((a, b) => b.depth - a.depth), row.output]) {
    const now = await store.thread(one.id);
    if (!now.ok) return now;
    if (isEnded(now.output.status)) continue;
    await store.signal({ thread: one.id, kind, payload: {}, key: signalKey(), by });
    if (!isAttended(now.output, Date.now())) await endUnattended(store, one.id, status, by);
  }
  const seen = await waitForEnd(store, id, AbortSignal.timeout(PATIENCE_MS[kind]));
  if (!seen.ok) return seen;
  if (kind === 'kill' && !isEnded(seen.output.status)) {
    // It does not answer. From here on it can neither append nor act.
    const killed = await endUnattended(store, id, 'killed', by, { force: true });
    if (!killed.ok) return killed;
  }
  return await told(store, id, kind);
}

/** A decision on exactly what was asked for; words are for questions, `beyond` for undeclared rights. */
export async function decideApproval(
  store: Store,
  id: string,
  given: Decision,
  isWords = false,
): Promise<Outcome<Approval>> {
  const found = await store.approvals({ id });
  if (!found.ok) return found;
  const [asked] = found.output;
  if (!asked) return fail('not_found', `there is no approval \`${id}\``, { approval: id });
  const { kind, shown } = asked;
  if (isWords && kind !== 'question') {
    const message = `\`${id}\` asks for a ${kind}, not for words: approve it or deny it`;
    return fail('invalid_input', message);
  }
  const isBeyond = kind === 'capability' && shown.declared === 'no';
  if (isBeyond && given.decision === 'approved' && given.answer === undefined) {
    return fail(
      'invalid_input',
      `\`${id}\` asks for what directive \`${plainText(shown.directive)}\` does not declare: approve it with \`beyond\`, or add \`${plainText(shown.line)}\` to its permissions`,
    );
  }
  return await store.decide(id, given);
}
