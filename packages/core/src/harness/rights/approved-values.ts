// Finds approvals that hold for more than one call: of a value, which then counts as named by a person, or of a
// scope of values. INVARIANT: an approved value was always shown to the person in full and not hidden. A scope
// always has one tool, role and kind, and the glob of the person. Counted uses are taken before the call begins.
import { getOwn, isObject, type Json, type JsonObject } from '../../base/index.ts';
import {
  type Argument,
  type ArgumentOrigin,
  type Operation,
  operationName,
} from '../../flow/index.ts';
import type { Approval, Store } from '../../store/index.ts';
import { valueInScope } from '../../trust/index.ts';
import type { CallRecord, Control } from '../thread/thread.ts';
import { isSeen } from './call-shown.ts';

interface ApprovedValue {
  readonly row: Approval;
  readonly role: Json;
  readonly kind: Json;
  readonly text?: string;
  readonly scope?: { readonly operation: Json; readonly glob: string };
}

export const membersOf = (value: Json | undefined): [string, Json][] =>
  Object.entries(isObject(value) ? value : {});

/** Maximum number of approvals of a thread that are read. */
export const MAX_ANSWERS = 1000;

export const isCounted = ({ answer }: Approval): boolean => getOwn(answer, 'counted') === true;

/** True if the approval is in force. One with a number of uses is not after the last use. */
export const isGiven = (row: Approval): boolean =>
  row.state === 'approved' || (row.state === 'used' && !isCounted(row));

function allowedBy(row: Approval): ApprovedValue[] {
  const { kind, answer, shown } = row;
  if (kind !== 'call' || !isGiven(row)) return [];
  const scopes: JsonObject = Object.fromEntries(membersOf(getOwn(answer, 'scope')));
  const isValue = getOwn(answer, 'value') === true;
  return membersOf(shown.roles).flatMap(([name, role]): ApprovedValue[] => {
    const of = { row, role, kind: getOwn(shown.kinds, name) ?? null };
    const glob = getOwn(scopes, name);
    if (typeof glob === 'string') {
      return [{ ...of, scope: { operation: shown.operation ?? null, glob } }];
    }
    const value = getOwn(shown.arguments, name) ?? null;
    // The person has not seen a value that was hidden or shortened.
    return isValue && isSeen(value) ? [{ ...of, text: JSON.stringify(value) }] : [];
  });
}

/** Returns the approved values and scopes for the threads of a chain. */
export async function allowedValues(
  store: Store,
  chain: readonly string[],
): Promise<readonly ApprovedValue[]> {
  const found = await Promise.all(
    chain.map((thread) => store.approvals({ thread, limit: MAX_ANSWERS })),
  );
  return found.flatMap((page) => (page.ok ? page.output.flatMap(allowedBy) : []));
}

function covers(
  { role, kind, text, scope }: ApprovedValue,
  operation: string,
  { role: ownRole, kind: ownKind, value: { data } }: Argument,
): boolean {
  if (role !== ownRole || kind !== (ownKind ?? null) || ownRole === undefined) return false;
  if (!scope) return text === JSON.stringify(data);
  return scope.operation === operation && valueInScope(ownRole, scope.glob, data);
}

/** The call that the request was about takes its answer in `ask-about-call.ts`, so that a crash is detected. */
function isOfThisCall(control: Control, { state, binding }: Approval): boolean {
  const intent = control.intents.get(control.currentCall);
  return state === 'approved' && intent !== undefined && binding.call === intent.key;
}

/** Takes one use, at most once per call. Returns false if another call took the last one. */
async function takeCounted(
  { journal, control }: CallRecord,
  { id, binding, who = '', why = '' }: Approval,
): Promise<boolean> {
  const call = control.currentCall;
  const { taken = [] } = control.intents.get(call) ?? {};
  if (taken.includes(id)) return true;
  const note = { kind: 'call', action: 'ask', state: 'used', approval: id, call_id: call } as const;
  const event = { type: 'approval', data: { ...note, by: who, why } } as const;
  const committed = await journal.commit(event, { use: [{ approval: id, binding }] });
  const intent = control.intents.get(call);
  if (committed.ok && intent) control.intents.set(call, { ...intent, taken: [...taken, id] });
  return committed.ok;
}

/** Returns the approval that covers the argument, and `undefined` if there is none. */
export async function originIn(
  thread: CallRecord,
  allowed: readonly ApprovedValue[],
  op: Operation,
  argument: Argument,
): Promise<ArgumentOrigin | undefined> {
  const operation = operationName(op);
  for (const one of allowed) {
    const { row } = one;
    if (!covers(one, operation, argument) || isOfThisCall(thread.control, row)) continue;
    if (isCounted(row) && !(await takeCounted(thread, row))) continue;
    return { kind: 'approval', by: row.id };
  }
  return undefined;
}
