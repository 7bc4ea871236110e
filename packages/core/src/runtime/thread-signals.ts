// Sends signals of a person or a program to a thread, from any process. A thread without a lease cannot handle
// them, so the store keeps its signals, and this process writes its end.
import { hash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { userInfo } from 'node:os';
import { isAbsolute } from 'node:path';
import {
  canonicalJson,
  type Failure,
  fail,
  getOwn,
  isObject,
  type Json,
  type JsonObject,
  type Outcome,
  objectAt,
  ok,
  plainText,
  systemRandom,
} from '../base/index.ts';
import type {
  Approval,
  AuditEntry,
  Decision,
  Store,
  ThreadRow,
  ThreadStatus,
} from '../store/index.ts';
import { scopeProblem } from '../trust/index.ts';

/** A person, and the channel of their request. */
export interface Actor {
  readonly who: string;
  readonly channel: Decision['channel'];
}

/** Returns the user of this process, from the environment or else from the system. */
export function findPerson(env: Readonly<Record<string, string | undefined>>): string {
  try {
    return env.USER || env.LOGNAME || userInfo().username;
  } catch {
    // The system has no user with this number.
    return '';
  }
}

/** Returns the name for journals and approvals. */
export const actorName = ({ who, channel }: Actor): string =>
  who === '' ? channel : `${who} (${channel})`;

export const personAuditRow = (
  { who, channel }: Actor,
  operation: string,
  target: string,
  reason = '',
): AuditEntry => ({
  surface: channel,
  caller: who,
  subject: 'person',
  operation,
  target,
  decision: 'allowed',
  reason,
});

/** Writes an audit row if the request failed. A successful request writes its own row. */
async function auditFailure<T>(store: Store, row: AuditEntry, request: Promise<Outcome<T>>) {
  const outcome = await request;
  if (outcome.ok) return outcome;
  const { code, detail } = outcome.error;
  await store.audit([{ ...row, decision: 'failed', reason: `${code}: ${detail.message}` }]);
  return outcome;
}

/** Kinds of signals by the name of their command. */
const COMMANDS = {
  pause: 'pause',
  message: 'inject',
  interrupt: 'interrupt',
  compact: 'compact',
} as const;

export interface SignalResult {
  thread_id: string;
  kind: string;
  status: ThreadStatus;
}

/** Returns the signal's key. Two equal signals are distinct unless the caller passes a key. */
const signalKey = (key?: string): string =>
  key === undefined ? `told:${Buffer.from(systemRandom(9)).toString('base64url')}` : key;

async function signalResult(
  store: Store,
  id: string,
  kind: string,
): Promise<Outcome<SignalResult>> {
  const now = await store.thread(id);
  return now.ok ? ok({ thread_id: id, kind, status: now.output.status }) : now;
}

export async function signalThread(
  store: Store,
  thread: string,
  kind: keyof typeof COMMANDS,
  payload: JsonObject,
  by: Actor,
  key?: string,
): Promise<Outcome<SignalResult>> {
  const row = personAuditRow(by, COMMANDS[kind], thread, plainText(payload.reason ?? ''));
  const signal = { thread, kind, payload, key: signalKey(key), by: actorName(by) };
  const sent = await auditFailure(store, row, store.signal(signal, row));
  return sent.ok ? await signalResult(store, thread, kind) : sent;
}

/** Longest text that says what a summary must keep, in characters. */
const MAX_FOCUS = 2000;

/**
 * Asks a thread to make room in its context window before its next turn. Fails with `invalid_input` for a script or a
 * plan, and with `permission_denied` if the policy turns compaction off.
 */
export async function compactThread(
  store: Store,
  id: string,
  by: Actor,
  { focus = '', key }: { readonly focus?: string; readonly key?: string | undefined } = {},
): Promise<Outcome<SignalResult>> {
  if (focus.length > MAX_FOCUS) {
    const message = `\`focus\` has ${focus.length} characters; at most ${MAX_FOCUS} are allowed`;
    return fail('invalid_input', message);
  }
  const row = await store.thread(id);
  if (!row.ok) return row;
  const { value, from } = objectAt(row.output.limits, 'context_compact');
  if (from === 'script' || from === 'plan') {
    const what = from === 'script' ? 'a script' : 'a planned run';
    return fail('invalid_input', `thread \`${id}\` is ${what}, which holds no conversation`);
  }
  if (value === 'off' && from === 'policy') {
    return fail('permission_denied', 'the policy turns compaction off (`limits.context_compact`)');
  }
  const sent = await signalThread(store, id, 'compact', focus === '' ? {} : { focus }, by, key);
  if (sent.ok || sent.error.code !== 'thread_ended') return sent;
  const { message, ...detail } = sent.error.detail;
  return fail('thread_ended', `${message}; resume it first`, detail);
}

/** States in which a thread waits for a person's action. */
export const STANDS_STILL: ReadonlySet<ThreadStatus> = new Set([
  'paused',
  'needs_input',
  'waiting',
  'interrupted',
]);
const EXPIRY_CHECK_MS = 2000;

/**
 * Returns the row when the thread has ended or, unless `untilEnd`, is parked. When the signal aborts,
 * returns the present row.
 */
export async function waitForEnd(
  store: Store,
  id: string,
  signal: AbortSignal,
  { untilEnd = true }: { untilEnd?: boolean } = {},
): Promise<Outcome<ThreadRow>> {
  const { isEnded } = await import('../store/index.ts');
  // Workers resume interrupted threads.
  const standsStill = ({ status }: ThreadRow): boolean =>
    STANDS_STILL.has(status) && !(store.fleet && status === 'interrupted');
  const isOver = (now: ThreadRow): boolean =>
    isEnded(now.status) || (!untilEnd && standsStill(now));
  const row = await store.thread(id);
  if (!row.ok || isOver(row.output)) return row;
  // A killed process reports nothing, but its lease expires.
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

/** True if a process has the lease, which handles the signal at the next step. */
const isAttended = ({ lease_until }: ThreadRow, now: number): boolean => (lease_until ?? 0) > now;

const PATIENCE_MS = { terminate: 1000, kill: 5000 };

/**
 * Signals the whole tree, from the top. Running threads end themselves. This process ends the others, children
 * first.
 */
export function endThread(
  store: Store,
  id: string,
  kind: 'terminate' | 'kill',
  by: Actor,
  reason?: string,
): Promise<Outcome<SignalResult>> {
  const row = personAuditRow(by, kind === 'kill' ? 'kill' : 'stop', id, reason);
  return auditFailure(store, row, endBy(store, id, kind, actorName(by), row));
}

async function endBy(
  store: Store,
  id: string,
  kind: 'terminate' | 'kill',
  by: string,
  audit: AuditEntry,
): Promise<Outcome<SignalResult>> {
  const [{ endUnattended }, { allThreads, isEnded }] = await Promise.all([
    import('../harness/index.ts'),
    import('../store/index.ts'),
  ]);
  const status = kind === 'kill' ? 'killed' : 'terminated';
  const row = await store.thread(id);
  if (!row.ok) return row;
  if (isEnded(row.output.status)) {
    return fail('thread_ended', `thread \`${id}\` has ended already: ${row.output.status}`);
  }
  const all = await allThreads(store, { within: id });
  if (!all.ok) return all;
  const below = all.output.filter((one) => one.id !== id && !isEnded(one.status));
  const tree = [row.output, ...below.toSorted((a, b) => a.depth - b.depth)];
  const payload = audit.reason === '' ? {} : { reason: audit.reason };
  // The root is first, because a parent would continue after the end of its children.
  for (const { id: thread } of tree) {
    const signal = { thread, kind, payload, key: signalKey(), by };
    await store.signal(signal, thread === id ? audit : undefined);
  }
  for (const { id: thread } of tree.toReversed()) {
    const now = await store.thread(thread);
    if (!now.ok) return now;
    if (isEnded(now.output.status) || isAttended(now.output, Date.now())) continue;
    await endUnattended(store, thread, status, by);
  }
  const finished = await waitForEnd(store, id, AbortSignal.timeout(PATIENCE_MS[kind]));
  if (!finished.ok) return finished;
  if (kind === 'kill' && !isEnded(finished.output.status)) {
    // The owner of the lease does not respond. From now on it can neither record events nor cause effects.
    const killed = await endUnattended(store, id, 'killed', by, { force: true });
    if (!killed.ok) return killed;
  }
  return await signalResult(store, id, kind);
}

/**
 * Returns a digest of the displayed request, so that a decision applies to exactly this request. The digest changes
 * with every part of the request, and if its thread is resumed.
 */
export function approvalDigest(
  { id, thread = '', kind, binding, shown: display, uses, expires = 0 }: Approval,
  epoch: number,
): { readonly digest: string; readonly mark: string } {
  const digest = hash(
    'sha256',
    canonicalJson({ id, thread, epoch, kind, binding, shown: display, uses, expires }),
  );
  const mark = `${digest.slice(0, 4)}-${digest.slice(4, 8)}`.toUpperCase();
  return { digest, mark };
}

type DecisionWord = 'once' | 'value' | 'scope' | 'deny' | 'answer';

/** Returns the possible decisions, the safe one last. */
export function choicesFor({ kind, state, thread, shown: display }: Approval): DecisionWord[] {
  if (state !== 'pending') return [];
  if (kind === 'question') return ['answer', 'deny'];
  if (kind === 'capability') return ['once', 'scope', 'deny'];
  const roles = kind === 'call' && isObject(display.roles) ? Object.values(display.roles) : [];
  if (roles.length === 0) return ['once', 'deny'];
  const isScoped = thread !== undefined && roles.some((role) => SCOPED.has(role));
  return isScoped ? ['once', 'value', 'scope', 'deny'] : ['once', 'value', 'deny'];
}

/** Decides exactly the displayed request. `isWords`: the decision is the text answer to a question. */
export async function decideApproval(
  store: Store,
  id: string,
  request: Omit<Decision, 'who' | 'channel'> & {
    readonly by: Actor;
    readonly who?: string;
    readonly digest?: string;
  },
  isWords = false,
): Promise<Outcome<Approval>> {
  const { by, who = actorName(by), digest, ...fields } = request;
  const act = isWords ? 'answer' : fields.decision === 'approved' ? 'approve' : 'deny';
  const decision = { ...fields, who, channel: by.channel };
  const digestNote = digest === undefined ? '' : `shown ${digest}`;
  const reason = [fields.why, digestNote].filter((part) => part !== '').join('; ');
  const row = personAuditRow(by, `${act}:${id}`, '', reason);
  return await auditFailure(store, row, decideBy(store, id, decision, isWords, row));
}

async function decideBy(
  store: Store,
  id: string,
  decision: Decision,
  isWords: boolean,
  row: AuditEntry,
): Promise<Outcome<Approval>> {
  const result = await store.approvals({ id });
  if (!result.ok) return result;
  const [approval] = result.output;
  if (!approval) return fail('not_found', `approval \`${id}\` not found`, { approval: id });
  const { kind, shown: display } = approval;
  if (isWords && kind !== 'question') {
    const message = `approval request \`${id}\` is for a ${kind}, not a question; approve it or deny it`;
    return fail('invalid_input', message);
  }
  const isBeyond = kind === 'capability' && display.declared === 'no';
  if (isBeyond && decision.decision === 'approved' && decision.answer === undefined) {
    return fail(
      'invalid_input',
      `approval request \`${id}\` is for a right that directive \`${plainText(display.directive)}\` does not declare; approve it with \`beyond\`, or add \`${plainText(display.line)}\` to its permissions`,
      { option: 'beyond' },
    );
  }
  if (decision.decision === 'approved') {
    const changed = await changedSince(store, approval);
    if (changed) return changed;
  }
  const isValue = decision.decision === 'approved' && getOwn(decision.answer, 'value') === true;
  if (isValue && (kind !== 'call' || !isObject(display.roles))) {
    const message = `approval request \`${id}\` has no path, address or command; approve it without \`value\``;
    return fail('invalid_input', message, { option: 'value' });
  }
  const scope = decision.decision === 'approved' ? getOwn(decision.answer, 'scope') : undefined;
  const scoped =
    scope === undefined ? ok(decision) : scopedBy(approval, decision, plainText(scope));
  if (!scoped.ok) return scoped;
  // The target is the thread, or else the operation of the request.
  const target = approval.thread ?? plainText(display.operation ?? '');
  return await store.decide(id, scoped.output, { ...row, target });
}

/** Takes the answer of a person back. Calls that the answer covered ask again. */
export const withdrawAnswer = (store: Store, id: string, by: Actor): Promise<Outcome<Approval>> => {
  const row = personAuditRow(by, `withdraw:${id}`, '');
  return auditFailure(store, row, store.withdraw(id, row));
};

/**
 * Fails with `conflict` if the file of the request has changed, because an approved write applies to the displayed
 * file. In a shared store the file is on the machine of the worker, and the write itself checks it.
 */
async function changedSince(store: Store, approval: Approval): Promise<Failure | undefined> {
  const { id, thread, shown: display, binding } = approval;
  const [path, holds] = [getOwn(display.file, 'path'), getOwn(display.file, 'holds')];
  if (store.fleet || typeof path !== 'string' || typeof holds !== 'string') return undefined;
  const row = thread === undefined ? undefined : await store.thread(thread);
  const root = thread === undefined ? binding.project : row?.ok && row.output.project;
  if (typeof root !== 'string' || !isAbsolute(root) || !existsSync(root)) return undefined;
  const { fileIdentity } = await import('../kernel/index.ts');
  if ((await fileIdentity(root, path)) === holds) return undefined;
  const again = thread === undefined ? 'make the call again' : `resume thread \`${thread}\``;
  const message = `\`${path}\` changed after the approval request; ${again} to get a new request`;
  return fail('conflict', message, { approval: id, path });
}

/** Returns true if a decision failed because the file of the request changed. A new request is needed. */
export const isFileChanged = ({ error: { code, detail } }: Failure): boolean =>
  code === 'conflict' && detail.path !== undefined;

const SCOPED: ReadonlySet<Json | undefined> = new Set(['path', 'destination']);

/**
 * Returns the approval of a call for a scope: `GLOB`, or `NAME=GLOB` if several arguments match. `uses` limits the
 * number of calls within the scope, including this one.
 */
function scopedBy(
  { id, kind, thread, shown: display }: Approval,
  decision: Decision,
  scopeText: string,
): Outcome<Decision> {
  const roles = isObject(display.roles) ? display.roles : {};
  const names = Object.keys(roles).filter((name) => SCOPED.has(roles[name]));
  if (kind !== 'call' || thread === undefined || names.length === 0) {
    const message = `approval request \`${id}\` has no path and no address of a call; approve it without \`scope\``;
    return fail('invalid_input', message, { option: 'scope' });
  }
  const named = names.find((name) => scopeText.startsWith(`${name}=`));
  const name = named ?? (names.length === 1 ? names[0] : undefined);
  if (name === undefined) {
    return fail(
      'invalid_input',
      `the scope needs the name of an argument: ${names.map((one) => `\`${one}=GLOB\``).join(' or ')}`,
    );
  }
  const glob = named === undefined ? scopeText : scopeText.slice(named.length + 1);
  const problem = scopeProblem(
    plainText(roles[name]),
    glob,
    getOwn(display.arguments, name) ?? null,
  );
  if (problem !== undefined) return fail('invalid_input', `scope of \`${name}\`: ${problem}`);
  const counted = decision.uses === undefined ? {} : { counted: true };
  return ok({ ...decision, answer: { scope: { [name]: glob }, ...counted } });
}
