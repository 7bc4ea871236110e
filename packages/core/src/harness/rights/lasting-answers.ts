// Finds the answers of people that last. An approval of a value or of a scope also answers the rule `ask_first` for
// later calls of the same tool, in its thread and in those below it. INVARIANT: an answer always covers every steering
// argument of a call, and an answer for a command ends when the model is shown untrusted text after it.
import { getOwn, isObject, type Json, plainText } from '../../base/index.ts';
import { type Argument, type Operation, operationName, type Ports } from '../../flow/index.ts';
import type { Approval, Store, StoredEvent } from '../../store/index.ts';
import { valueInScope } from '../../trust/index.ts';
import { unpackMarks } from '../thread/conversation.ts';
import type { OwnJournal } from '../thread/thread.ts';
import { isCounted, isGiven, MAX_ANSWERS, membersOf } from './approved-values.ts';
import { isSeen, READ, steers } from './call-shown.ts';

interface Covered {
  readonly role: string;
  readonly kind: Json;
  /** The approved value, unless `scope` is present. */
  readonly value: Json;
  readonly scope?: string;
}

export interface LastingAnswer {
  readonly approval: string;
  readonly thread: string;
  readonly operation: string;
  readonly covers: ReadonlyMap<string, Covered>;
  /** Thread of the hook that asked. Absent: the thread asked itself. */
  readonly hook?: string;
}

/** Returns the answer if it lasts. An answer with a number of uses is for the calls that use it alone. */
function lastingIn(row: Approval): LastingAnswer | undefined {
  const { id: approval, thread, kind, binding, shown, answer } = row;
  const scopes = getOwn(answer, 'scope');
  const lasts = getOwn(answer, 'value') === true || isObject(scopes);
  const isCall = kind === 'call' && shown.action === 'ask' && shown.about === undefined;
  if (!isCall || !lasts || !isGiven(row) || isCounted(row) || thread === undefined)
    return undefined;
  const covers = new Map<string, Covered>();
  for (const [name, role] of membersOf(shown.roles)) {
    const scope = getOwn(scopes, name);
    const value = getOwn(shown.arguments, name) ?? null;
    const isScoped = typeof scope === 'string';
    // The person has not seen a value that was hidden or shortened.
    if (!isScoped && !isSeen(value)) return undefined;
    const argumentKind = getOwn(shown.kinds, name) ?? null;
    covers.set(name, {
      role: plainText(role),
      kind: argumentKind,
      value,
      ...(isScoped && { scope }),
    });
  }
  const hook = typeof binding.hook === 'string' && { hook: binding.hook };
  const operation = plainText(shown.operation ?? '');
  return covers.size === 0 ? undefined : { approval, thread, operation, covers, ...hook };
}

const isCommand = ({ covers }: LastingAnswer): boolean =>
  [...covers.values()].some(({ role }) => role === 'command');

/** Returns the answers that last for a thread, oldest first, with those that untrusted text has ended. */
async function lastingAnswers(store: Store, thread: string): Promise<readonly LastingAnswer[]> {
  const rows = await store.approvals({ thread, limit: MAX_ANSWERS });
  return rows.ok ? rows.output.flatMap((row) => lastingIn(row) ?? []) : [];
}

function coversCall(
  { operation, covers }: LastingAnswer,
  op: Operation,
  inputs: readonly Argument[],
) {
  const steering = inputs.filter(steers);
  if (operation !== operationName(op) || steering.length !== covers.size) return false;
  return steering.every(({ name, role = '', kind = null, value: { data } }) => {
    const one = covers.get(name);
    if (!one || one.role !== role || one.kind !== kind) return false;
    return one.scope === undefined
      ? JSON.stringify(one.value) === JSON.stringify(data)
      : valueInScope(role, one.scope, data);
  });
}

/** Types of events that a model reads, with the use of an answer and the reading mode. */
const TYPES = ['thread_start', 'approval', ...READ];
const MAX_EVENTS = 10_000;

const isUseOf = ({ type, data }: StoredEvent, approval: string): boolean =>
  type === 'approval' && data.approval === approval && data.state === 'used';

/**
 * True if the model was shown no untrusted text since the use of this approval, or at all without one. With references,
 * a model is shown none. False if the journal is too long to tell.
 */
async function isUntouched(store: Store, thread: string, since?: string): Promise<boolean> {
  const read = await store.read(thread, { types: TYPES, limit: MAX_EVENTS });
  const events = read.ok ? read.output : [];
  const from = since === undefined ? 0 : events.findLastIndex((event) => isUseOf(event, since));
  if (from < 0 || events.length === 0 || events.length === MAX_EVENTS) return false;
  if (events[0]?.data.untrusted === 'reference') return true;
  return !events
    .slice(from)
    .some(({ data }) => unpackMarks(data.marks).taint.includes('untrusted'));
}

/** Lists the answers of a thread that last, for people. */
export async function answersInForce(store: Store, thread: string): Promise<LastingAnswer[]> {
  const inForce: LastingAnswer[] = [];
  for (const one of await lastingAnswers(store, thread)) {
    if (!isCommand(one) || (await isUntouched(store, thread, one.approval))) inForce.push(one);
  }
  return inForce;
}

/** Checks the threads from the asked one down to this one, because each of them can have read untrusted text. */
async function isFresh({ ports, place, journal }: OwnJournal, answer: LastingAnswer) {
  if (!isCommand(answer)) return true;
  await journal.flush();
  for (const id of place.chain) {
    await ports.threads.live.get(id)?.thread.journal.flush();
    const isAsked = id === answer.thread;
    const isClean = await isUntouched(ports.store, id, isAsked ? answer.approval : undefined);
    if (!isClean || isAsked) return isClean;
  }
  return false;
}

/** Returns the port that tells whether an earlier answer of a person covers a call of the thread. */
export const answeredBefore =
  (thread: OwnJournal): NonNullable<Ports['answered']> =>
  async (op, inputs) => {
    const { ports, place } = thread;
    if (ports.replay || !inputs.some(steers)) return false;
    for (const id of place.chain) {
      for (const one of await lastingAnswers(ports.store, id)) {
        const isOther = one.hook !== undefined && one.hook !== place.id;
        if (!isOther && coversCall(one, op, inputs) && (await isFresh(thread, one))) return true;
      }
    }
    return false;
  };
