// Encodes rows as text before they are queued, so a transaction is short and its size is known. A value
// that is not JSON, is too large or has an invalid id is refused before it is queued.
import { hash } from 'node:crypto';
import {
  type Failure,
  fail,
  getOwn,
  isObject,
  type Json,
  type JsonObject,
  type Outcome,
  ok,
} from '../base/index.ts';
import { checkAmounts } from './amounts.ts';
import type {
  Approval,
  Commit,
  Decision,
  NewApproval,
  NewEvent,
  NewSignal,
  NewThread,
  ThreadSummary,
} from './port.ts';
import { parseThreadId } from './thread-id.ts';

/** Maximum characters of an event. A larger value must be an artifact. */
const MAX_EVENT = 8 * 1024 * 1024;
const MAX_PAYLOAD = 1024 * 1024;
const MAX_ARTIFACT = 64 * 1024 * 1024;

/** Maximum characters of each of the two search texts of a thread: start and end. */
const MAX_SEARCH = 4000;
/** Maximum number of threads that a query with `search` reads. */
export const MAX_LOOKED = 20_000;

/** Normalises a text for storage and for search. */
export const searchForm = (text: string): string =>
  text.toWellFormed().replaceAll('\0', '').normalize('NFC').toLowerCase();

const searchText = (text: string | undefined): string | undefined =>
  text === undefined || text === ''
    ? undefined
    : searchForm(text.slice(0, 4 * MAX_SEARCH))
        .slice(0, MAX_SEARCH)
        .toWellFormed();

/** Parses a text of the registry. Returns undefined if it is not JSON. */
function valueIn(text: string): Json | undefined {
  try {
    return JSON.parse(text) as Json;
  } catch {
    return undefined;
  }
}

/** Parses an object of the registry. Returns undefined if the text is not a JSON object. */
function objectIn(text: string): JsonObject | undefined {
  const value = valueIn(text);
  return isObject(value) ? value : undefined;
}

/** Returns an object without fields for a damaged text. The decoder of the event then reports it. */
export const eventData = (text: string): JsonObject => objectIn(text) ?? {};

/** Returns the value at each path, null for a missing one. */
export const valuesAt = (data: JsonObject, paths: readonly (readonly string[])[]): Json[] =>
  paths.map((path) => path.reduce<Json | undefined>(getOwn, data) ?? null);

/** Reads cost and title of a row. A damaged cost becomes empty, and the title reports the damage. */
export function costAndTitle(
  text: string,
  title: string | null | undefined,
): Pick<ThreadSummary, 'cost' | 'title'> {
  const cost = objectIn(text);
  if (cost) return { cost, ...(typeof title === 'string' && { title }) };
  return { cost: {}, title: `(its cost cannot be read) ${title ?? ''}`.trim().slice(0, 80) };
}

/** Reads the payload of a signal. A damaged payload is replaced by a reason that names the signal. */
export function signalPayload(text: string, number: number, kind: string): Json {
  const payload = valueIn(text);
  if (payload !== undefined) return payload;
  return { reason: `signal ${number} (\`${kind}\`) is damaged: its payload is not JSON` };
}

/** Columns of an approval that contain JSON text. */
interface ApprovalTexts {
  id: string;
  binding: string;
  shown: string;
  answer: string | null;
}

/** Names the text of an approval that cannot be read. INVARIANT: such an approval never counts as approved. */
export function damageOf({ id, binding, shown, answer }: ApprovalTexts): string | undefined {
  const texts = [
    ['binding', objectIn(binding) !== undefined],
    ['shown', objectIn(shown) !== undefined],
    ['answer', answer === null || valueIn(answer) !== undefined],
  ] as const;
  const damaged = texts.find(([, isRead]) => !isRead)?.[0];
  return damaged && `approval \`${id}\` is damaged: its \`${damaged}\` cannot be read`;
}

/** Reads the texts of an approval. A damaged approval has an empty binding and a question about the damage. */
export function approvalTexts(row: ApprovalTexts): Pick<Approval, 'binding' | 'shown' | 'answer'> {
  const damage = damageOf(row);
  if (damage !== undefined) return { binding: {}, shown: { question: `${damage}; deny it` } };
  const answer = row.answer === null ? undefined : valueIn(row.answer);
  return {
    binding: eventData(row.binding),
    shown: eventData(row.shown),
    ...(answer !== undefined && { answer }),
  };
}

/** Fails with `conflict` if a person approves a damaged request. A person can only deny it. */
export function damagedDecision(
  row: ApprovalTexts,
  { decision }: Pick<Decision, 'decision'>,
): Failure | undefined {
  const damage = decision === 'approved' ? damageOf(row) : undefined;
  if (damage === undefined) return undefined;
  const message = `${damage}; deny it and repeat the call`;
  return fail('conflict', message, { approval: row.id });
}

/** Fails with `conflict` unless the request is approved, because another one has no answer to take back. */
export function withdrawRefusal({
  id,
  state,
}: Pick<Approval, 'id' | 'state'>): Failure | undefined {
  if (state === 'approved' || state === 'used') return undefined;
  return fail('conflict', `approval \`${id}\` is ${state}`, { approval: id, state });
}

export interface EventText {
  type: string;
  turn: number;
  ts: number | undefined;
  text: string;
}

export interface SignalText extends Omit<NewSignal, 'payload'> {
  text: string;
}

export interface ThreadText {
  thread: NewThread;
  events: readonly EventText[];
  limits: string;
  inputs: string;
  search: string | undefined;
}

export interface CommitText {
  commit: Commit;
  events: readonly EventText[];
  cost: string | undefined;
  result: string | undefined;
  limits: string | undefined;
  search: string | undefined;
  children: readonly ThreadText[];
  tell: readonly SignalText[];
  bytes: number;
}

/** Fails with `invalid_input` for `undefined` and for a value that JSON cannot represent. */
function textOf(value: Json): Outcome<string> {
  try {
    const text: string | undefined = JSON.stringify(value);
    return text === undefined ? fail('invalid_input', 'the value is not JSON') : ok(text);
  } catch (error) {
    return fail('invalid_input', `the value is not JSON: ${(error as Error).message}`);
  }
}

/** Returns the results of `one` for all items, or the first failure. */
function each<T, U>(all: readonly T[], one: (item: T) => Outcome<U>): Outcome<U[]> {
  const results: U[] = [];
  for (const item of all) {
    const outcome = one(item);
    if (!outcome.ok) return outcome;
    results.push(outcome.output);
  }
  return ok(results);
}

function encodeEvent({ type, data, text: encoded, turn = 0, ts }: NewEvent): Outcome<EventText> {
  const text = encoded === undefined ? textOf(data) : ok(encoded);
  if (!text.ok) return text;
  if (text.output.length <= MAX_EVENT) return ok({ type, turn, ts, text: text.output });
  const message = `a \`${type}\` event of ${text.output.length} characters is too large; store it as an artifact`;
  return fail('invalid_input', message, { max: MAX_EVENT });
}

export function encodeSignal({ payload, ...signal }: NewSignal): Outcome<SignalText> {
  const text = textOf(payload);
  if (!text.ok) return text;
  if (text.output.length <= MAX_PAYLOAD) return ok({ ...signal, text: text.output });
  const message = `a signal of ${text.output.length} characters is too large; the maximum is 1 MB`;
  return fail('invalid_input', message, { thread: signal.thread, kind: signal.kind });
}

export function encodeThread(thread: NewThread): Outcome<ThreadText> {
  const [id, budget] = [parseThreadId(thread.id), checkAmounts(thread.budget)];
  if (!id.ok) return id;
  if (!budget.ok) return budget;
  const reserves = each(thread.reserve ?? [], ({ amounts }) => checkAmounts(amounts));
  if (!reserves.ok) return reserves;
  const texts = each([thread.limits, thread.inputs], textOf);
  if (!texts.ok) return texts;
  const events = each(thread.events, encodeEvent);
  if (!events.ok) return events;
  const [limits = '', inputs = ''] = texts.output;
  const search = searchText(thread.search);
  return ok({ thread, events: events.output, limits, inputs, search });
}

/** Checks all amounts that a commit moves. */
function checkMoved({ raise, charge, reserve, settle }: Commit): Outcome<unknown> {
  let checked: Outcome<null> = ok(null);
  if (raise) checked = checkAmounts(raise);
  if (checked.ok && charge) checked = checkAmounts(charge);
  for (const { amounts } of reserve ?? []) if (checked.ok) checked = checkAmounts(amounts);
  for (const { actual } of settle ?? []) if (checked.ok) checked = checkAmounts(actual);
  return checked;
}

export function sizeOf(events: readonly EventText[]): number {
  let sum = 0;
  for (const { text } of events) sum += text.length;
  return sum;
}

const NONE = ok([]);

export function encodeCommit(commit: Commit): Outcome<CommitText> {
  const { cost, result, limits, children, tell, ask } = commit;
  // A caller in plain JavaScript has no type check.
  if (commit.events.length === 0) {
    return fail('invalid_input', 'a commit must have at least one event');
  }
  const valid = checkMoved(commit);
  if (!valid.ok) return valid;
  const events = each(commit.events, encodeEvent);
  if (!events.ok) return events;
  const spent = cost === undefined ? ok(undefined) : textOf(cost);
  if (!spent.ok) return spent;
  const ended = result === undefined ? ok(undefined) : textOf(result);
  if (!ended.ok) return ended;
  const bounds = limits === undefined ? ok(undefined) : textOf(limits);
  if (!bounds.ok) return bounds;
  const newThreads = children ? each(children, encodeThread) : NONE;
  if (!newThreads.ok) return newThreads;
  const signals = tell ? each(tell, encodeSignal) : NONE;
  if (!signals.ok) return signals;
  const requests = ask ? each(ask, checkApproval) : NONE;
  if (!requests.ok) return requests;
  let bytes = sizeOf(events.output);
  for (const child of newThreads.output) bytes += sizeOf(child.events);
  return ok({
    commit,
    events: events.output,
    cost: spent.output,
    result: ended.output,
    limits: bounds.output,
    search: searchText(commit.search),
    children: newThreads.output,
    tell: signals.output,
    bytes,
  });
}

/** Checks id, uses and texts of an approval request. Fails with `invalid_input`. */
export function checkApproval(approval: NewApproval): Outcome<unknown> {
  const { id, uses = 1 } = approval;
  if (id === '') return fail('invalid_input', 'an approval must have an id');
  if (!Number.isInteger(uses) || uses < 1) {
    return fail('invalid_input', `the number of uses \`${uses}\` must be a whole number from 1 on`);
  }
  return each([approval.binding, approval.shown], textOf);
}

/** Returns the hash of the bytes. Fails with `invalid_input` if there are too many. */
export function hashArtifact(thread: string, bytes: Uint8Array): Outcome<string> {
  if (bytes.length <= MAX_ARTIFACT) {
    return ok(`sha256:${hash('sha256', bytes)}`);
  }
  const message = `an artifact of ${bytes.length} bytes is too large; the maximum is ${MAX_ARTIFACT} bytes`;
  return fail('invalid_input', message, { thread, max: MAX_ARTIFACT });
}
