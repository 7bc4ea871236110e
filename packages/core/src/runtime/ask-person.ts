// Requests approvals for calls outside threads, from the command line, a script or a program. The registry stores
// an approval request, which is bound to exactly this call of this caller. The same call after the approval uses
// it. A present person is asked in this process, too. The first answer from any process counts.
import { setTimeout as sleep } from 'node:timers/promises';
import {
  fail,
  getOwn,
  isObject,
  type Json,
  type JsonObject,
  type Outcome,
  ok,
  plainText,
  systemRandom,
} from '../base/index.ts';
import type { ApprovalAnswer, Ports, Question } from '../flow/index.ts';
import type { Approval, Decision, Store } from '../store/index.ts';
import type { OpenProject } from './open-project.ts';
import { type Actor, decideApproval, findPerson, isFileChanged } from './thread-signals.ts';

/** `digest`: that of the request that the person has seen. The audit keeps it. */
export type PersonAnswer = Pick<Decision, 'decision' | 'answer' | 'why'> & {
  readonly digest?: string;
};

/** Asks the present person. Undefined: no answer. The signal aborts if the request was decided elsewhere. */
export type AskPerson = (
  question: string,
  signal: AbortSignal,
  approval: Approval,
) => Promise<PersonAnswer | boolean | undefined>;

interface CallOrigin {
  surface: string;
  name: string;
  person?: AskPerson | undefined;
}

const POLL_MS = 500;

/** Returns the identity of a caller. A client can change the name before the `@` with each request. */
const callerId = ({ surface, name }: CallOrigin): string =>
  surface === 'mcp' ? name.slice(name.lastIndexOf('@') + 1) : name;

async function rowOf(store: Store, id: string): Promise<Outcome<Approval>> {
  const result = await store.approvals({ id });
  if (!result.ok) return result;
  const [row] = result.output;
  return row ? ok(row) : fail('not_found', `approval \`${id}\` not found`, { approval: id });
}

/**
 * Returns the latest answer to exactly this call, or the pending request. A denial counts until the
 * request expires.
 */
export async function findAnswer(
  store: Store,
  binding: JsonObject,
  now: number,
): Promise<Outcome<Approval | undefined>> {
  for (const state of ['approved', 'pending', 'denied'] as const) {
    const result = await store.approvals({ binding, state });
    if (!result.ok) return result;
    const own = result.output.filter(
      ({ thread, expires = now }) => thread === undefined && (state !== 'denied' || expires > now),
    );
    const row = own.at(-1);
    if (row) return ok(row);
  }
  return ok(undefined);
}

/** Settles when any process has decided the request. */
async function decided(store: Store, id: string, signal: AbortSignal): Promise<Outcome<Approval>> {
  for (;;) {
    await sleep(POLL_MS, undefined, { signal }).catch(() => undefined);
    const row = await rowOf(store, id);
    if (!row.ok || row.output.state !== 'pending' || signal.aborted) return row;
  }
}

/** Returns one line per argument: its origin and whether it is tainted. */
function originLines({ tainted, origins }: JsonObject): string[] {
  const lines: string[] = [];
  for (const [name, facts] of Object.entries(isObject(tainted) ? tainted : {})) {
    const part = (field: string): string => plainText(getOwn(facts, field));
    const place = part('stands_in') === '' ? part('from') : part('stands_in');
    const words = part('excerpt') === '' ? '' : `: “${part('excerpt')}”`;
    lines.push(`\`${name}\` ${part('labels')} from ${place}${words}`);
  }
  for (const [name, who] of Object.entries(isObject(origins) ? origins : {})) {
    lines.push(`\`${name}\`: ${plainText(who)}`);
  }
  return lines;
}

const IN_DIFF: ReadonlySet<string> = new Set(['content', 'old_string', 'new_string']);
const withoutContent = (value: Json, change: string | undefined): Json =>
  isObject(value) && change !== undefined
    ? Object.fromEntries(Object.entries(value).filter(([name]) => !IN_DIFF.has(name)))
    : value;

/** Returns the change of a file as lines: its diff, or the whole content of a new file. */
function changeIn(file: Json | undefined, values: Json): string | undefined {
  const [diff, content] = [getOwn(file, 'diff'), getOwn(values, 'content')];
  if (diff !== undefined) return plainText(diff);
  const isNew = getOwn(file, 'change') === 'create' && typeof content === 'string';
  return isNew ? content.replace(/\n$/, '').replace(/^/gm, '+') : undefined;
}

/** Returns the text of an approval request: the question, the reason, the origins of its values, the call. */
function questionText({ shown: display }: Approval): string {
  const { operation, question, because, arguments: values = {}, file } = display;
  const change = changeIn(file, values);
  return [
    plainText(question),
    ...(because === undefined ? [] : [plainText(because)]),
    ...originLines(display),
    `${plainText(operation)} ${JSON.stringify(withoutContent(values, change))}`,
    ...(change === undefined ? [] : [change]),
  ].join('\n');
}

/** Returns all reasons of the request, for a person who wants details. */
export function reasonsText({ id, thread, shown: display }: Approval): string {
  const { asked_by: rules, because, sources, before, directive } = display;
  const calls = Array.isArray(before) ? before : [];
  const same = calls.filter((one) => getOwn(one, 'same') === true).length;
  const line = (label: string, value: Json | undefined): string[] =>
    value === undefined || value === '' ? [] : [`${label}: ${plainText(value)}`];
  return [
    ...line('why', because),
    ...line('asked by', rules),
    ...originLines(display),
    ...line('it comes from', sources),
    ...(before === undefined
      ? []
      : [`this directive before: ${calls.length} calls, ${same} with the same values`]),
    ...line('directive', directive),
    ...line('thread', thread),
    `approval: ${id}`,
  ].join('\n');
}

/**
 * Asks the present person about a stored request. Returns the request, which was decided here or elsewhere, or
 * is still pending.
 */
export async function askHere(
  store: Store,
  row: Approval,
  person: AskPerson,
  by: Actor,
): Promise<Outcome<Approval>> {
  const over = new AbortController();
  const here = async (): Promise<Outcome<Approval>> => {
    for (let text = questionText(row); ; ) {
      const reply = await person(text, over.signal, row);
      if (reply === undefined) return ok(row);
      const yes = reply === true ? 'approved' : 'denied';
      const answer = typeof reply === 'boolean' ? ({ decision: yes, why: '' } as const) : reply;
      const outcome = await decideApproval(store, row.id, { ...answer, by });
      if (outcome.ok) return outcome;
      if (isFileChanged(outcome)) return outcome;
      // Another decision was faster, and it counts.
      if (outcome.error.code !== 'invalid_input') return await rowOf(store, row.id);
      text = outcome.error.detail.message;
    }
  };
  const first = await Promise.race([here(), decided(store, row.id, over.signal)]);
  over.abort();
  return first;
}

export async function putQuestion(
  { clock, policies }: OpenProject,
  store: Store,
  binding: JsonObject,
  display: JsonObject,
): Promise<Outcome<Approval>> {
  const id = `ap_${Buffer.from(systemRandom(9)).toString('base64url').replaceAll('-', '_')}`;
  const expires = clock.now() + policies.current().policy.approvalMs;
  return await store.ask({ id, kind: 'call', binding, shown: display, expires });
}

async function answerTo(
  open: OpenProject,
  asker: CallOrigin,
  question: Question,
): Promise<Outcome<ApprovalAnswer>> {
  const { surface, name, person } = asker;
  const opened = await open.store?.();
  if (!opened)
    return fail(
      'permission_denied',
      'approval needed, but this project has no thread store; run `km init`',
    );
  if (!opened.ok) return opened;
  const store = opened.output;
  const { answerIn, callBinding, callShown, renewed } = await import('../harness/index.ts');
  const binding = {
    ...callBinding(question),
    project: open.project,
    surface,
    caller: callerId(asker),
  };
  const present = await findAnswer(store, binding, open.clock.now());
  if (!present.ok) return present;
  const show = async () => ({
    ...(await callShown(question, open.project)),
    surface,
    ...(name !== '' && { caller: name }),
  });
  const by = { who: findPerson(open.env), channel: 'cli' } as const;
  const request = present.output
    ? await renewed(store, present.output, question, show)
    : await putQuestion(open, store, binding, await show());
  /** If the file of a request changed, the person is asked again with the present changes. */
  const askAtHand = async (pending: Approval, at: AskPerson): Promise<Outcome<Approval>> => {
    const outcome = await askHere(store, pending, at, by);
    if (outcome.ok || !isFileChanged(outcome)) return outcome;
    const again = await renewed(store, pending, question, show);
    return again.ok && again.output.state === 'pending' ? await askAtHand(again.output, at) : again;
  };
  const isOpen = request.ok && request.output.state === 'pending';
  const row = isOpen && person ? await askAtHand(request.output, person) : request;
  if (!row.ok) return row;
  const answer = answerIn(row.output);
  if (!answer) return ok({ answer: 'pending', approval: row.output.id });
  // The approval is used exactly once, before the effect.
  const used = answer.answer === 'approved' ? await store.use(row.output.id, binding) : ok(null);
  return used.ok ? ok(answer) : used;
}

export const askOutside =
  (open: OpenProject, asker: CallOrigin): NonNullable<Ports['ask']> =>
  (question) =>
    answerTo(open, asker, question);
