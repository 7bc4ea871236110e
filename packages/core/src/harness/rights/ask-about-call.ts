// Asks a person about one call. The approval request is bound to the exact call, and the thread parks. After the
// resume the call is made again and finds its answer. INVARIANT: a call that waits has never begun. Its answer
// is always taken in a commit of its own before the effect, so a resume can tell a waiting call from one that
// may have had its effect.
import { hash } from 'node:crypto';
import {
  canonicalJson,
  type Fault,
  fail,
  getOwn,
  type Json,
  type JsonObject,
  type Outcome,
  objectAt,
  ok,
  plainText,
} from '../../base/index.ts';
import type { ToolEffect } from '../../flow/index.ts';
import {
  type ApprovalAnswer,
  type Descriptor,
  operationName,
  type Ports,
  type Question,
} from '../../flow/index.ts';
import type { Approval, NewApproval, Store } from '../../store/index.ts';
import { packMarks } from '../thread/conversation.ts';
import type { JournalWriter } from '../thread/journal-writer.ts';
import { makeApprovalId } from '../thread/opening.ts';
import type { ReplayPort } from '../thread/ports.ts';
import { countFailure } from '../thread/talk.ts';
import type {
  Control,
  EscalatedCall,
  HarnessPorts,
  Lineage,
  OwnJournal,
  Thread,
} from '../thread/thread.ts';
import { filePreview, threadCallShown } from './call-shown.ts';
import { declaredRights } from './thread-token.ts';

type AskPort = NonNullable<Ports['ask']>;

/** The part of a thread that asks a person and waits for the answer. */
export type ApprovalRequester = OwnJournal & Pick<Thread, 'control'>;

/** Returns the thread that a request is for. A hook asks for its parent; its id keeps its requests apart. */
export const askedFor = ({ id, kind, parent }: Lineage) =>
  kind === 'hook' && parent !== undefined
    ? { thread: parent, owner: { thread: parent }, hook: { hook: id } }
    : { thread: id, owner: {}, hook: {} };

const digest = (value: Json): string => hash('sha256', canonicalJson(value));

/** Returns the operation and its arguments after the guards. The same call has the same binding. */
export function callBinding({ op, arguments: inputs }: Question, about?: Json): JsonObject {
  const { type, subtype = '', name, target = '' } = op;
  const values = inputs.map((input) => [input.name, input.value.data]);
  return {
    operation: operationName(op),
    arguments: digest([type, subtype, name, target, values, about ?? null]),
  };
}

/** Returns the answer of a person, and `undefined` while the request is pending. */
export function answerIn({ id, state, why = '', shown }: Approval): ApprovalAnswer | undefined {
  if (state === 'pending') return undefined;
  // The request is bound to this call, so this call used it before its process was lost.
  const answer = state === 'used' ? 'approved' : state;
  const holds = getOwn(shown.file, 'holds');
  const preview = typeof holds === 'string' && { holds };
  return { answer, approval: id, ...(why !== '' && { why }), ...preview };
}

interface QuestionedCall {
  /** Id of the step. Empty for a request to a model, which the conversation identifies. */
  readonly id: string;
  /** Key of the call. A repetition of the same call has the same key; no other call has it. */
  readonly key: string;
  readonly effect: ToolEffect;
  /** True if the call has begun, so that a resume would repeat it from its start. */
  readonly isBegun?: boolean;
  readonly about?: () => Json;
}

/** Returns a digest of the declared rights. A renewed token has the same digest. */
function rightsHash(ports: HarnessPorts, { directive }: Lineage): string {
  const rights = declaredRights(ports, directive);
  const grants = rights.ok ? rights.output.grants : [];
  return digest(grants.map(({ capability, scope = {} }) => ({ capability, scope: { ...scope } })));
}

/** Fails if the call has begun and cannot be repeated, because it could not wait for the answer. */
function tooLate(
  { phase, op }: Question,
  { effect, isBegun }: QuestionedCall,
): Outcome<never> | undefined {
  if (effect !== 'write' || (phase === 'before' && !isBegun)) return undefined;
  const name = operationName(op);
  return phase === 'after'
    ? fail(
        'permission_denied',
        `the result of ${name} cannot wait for an approval, because the call is done and cannot be repeated; ask before the call`,
      )
    : fail(
        'permission_denied',
        `${name} cannot wait for an approval, because its tool is running and cannot be repeated; ask before the tool`,
      );
}

const noteOf = (
  state: 'used' | 'denied' | 'expired',
  { id, why = '', who = '' }: Approval,
  call: string,
) =>
  ({
    type: 'approval',
    data: { kind: 'call', action: 'ask', state, approval: id, call_id: call, by: who, why },
  }) as const;

async function putQuestion(
  thread: ApprovalRequester,
  question: Question,
  binding: JsonObject,
  call: string,
): Promise<Outcome<ApprovalAnswer>> {
  const { journal, ports, place, control } = thread;
  const expires = ports.clock.now() + ports.policies().policy.approvalMs;
  const callPreview = await threadCallShown(thread, question);
  const id = makeApprovalId(ports.random);
  const { owner } = askedFor(place);
  const request: NewApproval = { id, kind: 'call', binding, shown: callPreview, expires, ...owner };
  const data = {
    kind: 'call',
    action: 'ask',
    state: 'pending',
    approval: id,
    call_id: call,
    expires,
  } as const;
  const committed = await journal.commit({ type: 'approval', data }, { ask: [request] });
  if (!committed.ok) return committed;
  return ok(rest(control, question, committed.output.approvals[0]?.id ?? id));
}

function rest(control: Control, { questions }: Question, approval: string): ApprovalAnswer {
  control.ending ??= { status: 'waiting', reason: questions.join('; ') };
  return { answer: 'pending', approval };
}

/** Records the answer, and marks an approval as used, once, before the effect of the call. */
async function take(
  journal: JournalWriter,
  row: Approval,
  call: string,
): Promise<Outcome<ApprovalAnswer>> {
  const answer = answerIn(row) ?? { answer: 'pending' };
  if (row.state === 'approved') {
    const use = [{ approval: row.id, binding: row.binding }];
    const committed = await journal.commit(noteOf('used', row, call), { use });
    if (!committed.ok) return committed;
  } else if (row.state === 'denied' || row.state === 'expired') {
    journal.note(noteOf(row.state, row, call));
  }
  return ok(answer);
}

/** True if the answer was used. An answer is for one effect, so a repeated write needs a new one. */
const isSpent = ({ state }: Approval, { id, effect }: QuestionedCall): boolean =>
  state === 'used' && effect === 'write' && id !== '';

/** Updates the preview of a pending request about a file that has changed since. */
export async function renewed(
  store: Pick<Store, 'restate'>,
  row: Approval,
  question: Question,
  show: () => Promise<JsonObject>,
): Promise<Outcome<Approval>> {
  if (row.state !== 'pending' || row.shown.file === undefined) return ok(row);
  const now = await filePreview(question);
  if (now?.holds === getOwn(row.shown.file, 'holds')) return ok(row);
  return await store.restate({ ...row, shown: await show() });
}

async function askedBefore(
  { place, control }: ApprovalRequester,
  question: Question,
  replay: ReplayPort,
): Promise<Outcome<ApprovalAnswer>> {
  const answer = await replay.asked(place.id);
  if (!answer.ok || answer.output.answer !== 'pending') return answer;
  return ok(rest(control, question, answer.output.approval ?? ''));
}

/** Returns the port that asks a person about one call of a thread. */
export const askAbout =
  (thread: ApprovalRequester, call: QuestionedCall): AskPort =>
  async (question) => {
    const { ports, place, control, journal } = thread;
    if (ports.replay) return await askedBefore(thread, question, ports.replay);
    const late = tooLate(question, call);
    if (late) return late;
    const { thread: asker, hook } = askedFor(place);
    const binding = {
      ...callBinding(question, call.about?.()),
      call: call.key,
      rights: rightsHash(ports, place),
      ...hook,
    };
    const found = await ports.store.approvals({ thread: asker, binding });
    if (!found.ok) return found;
    const row = found.output.at(-1);
    if (!row || isSpent(row, call)) return await putQuestion(thread, question, binding, call.id);
    if (row.state === 'pending') {
      const show = () => threadCallShown(thread, question);
      const current = await renewed(ports.store, row, question, show);
      return current.ok ? ok(rest(control, question, row.id)) : current;
    }
    return await take(journal, row, call.id);
  };

/** Returns the port for requests inside a tool that a call of the thread runs. */
export function askInside(thread: ApprovalRequester, key: string, effect: ToolEffect): AskPort {
  const id = [...thread.control.intents].find(([, intent]) => intent.key === key)?.[0] ?? '';
  return askAbout(thread, { id, key, effect, isBegun: true });
}

/** Approves every request inside a step that a person has approved. */
export const APPROVED: AskPort = () => ok({ answer: 'approved' });

export const isPending = (outcome: Outcome<unknown>): boolean =>
  !outcome.ok &&
  (outcome.error.code === 'approval_pending' || outcome.error.detail.answer === 'pending');

/** Number of consecutive failures of a tool after which the rule `escalate` asks a person. */
const MAX_FAILURES = 3;

/** Asks a person about a tool that fails again and again. Returns true if the thread parks for the answer. */
export async function escalateFailure(
  thread: ApprovalRequester & Pick<Thread, 'rights'>,
  call: string,
  tool: string,
  { content, isError, marks: carried }: { content: Json; isError: boolean; marks: Descriptor },
): Promise<Outcome<boolean>> {
  const { ports, place, journal, control, rights } = thread;
  const count = countFailure(thread, tool, isError);
  if (count < MAX_FAILURES || !rights.rules.given().escalate) return ok(false);
  const message = plainText(getOwn(getOwn(getOwn(content, 'error'), 'detail'), 'message') ?? '');
  const question = `\`${tool}\` failed ${count} times in a row (${message}); what should be done?`;
  const marks = packMarks(carried);
  const rest = (approval: string): Outcome<boolean> => {
    control.failures.delete(tool);
    control.escalated.set(call, { approval, held: content, marks });
    control.ending = { status: 'waiting', reason: question };
    return ok(true);
  };
  if (ports.replay) {
    await ports.replay.asked(place.id);
    return rest('');
  }
  const id = makeApprovalId(ports.random);
  const expires = ports.clock.now() + ports.policies().policy.approvalMs;
  const { owner, hook } = askedFor(place);
  const binding = { action: 'escalate', tool, call, turn: journal.turn, ...hook };
  const requestPreview = { action: 'escalate', question, directive: place.directive.name, tool };
  const request: NewApproval = {
    id,
    kind: 'question',
    binding,
    shown: requestPreview,
    expires,
    ...owner,
  };
  const about = { kind: 'question', state: 'pending', approval: id, action: 'escalate' } as const;
  const data = { ...about, call_id: call, held: content, marks };
  const committed = await journal.commit({ type: 'approval', data }, { ask: [request] });
  return committed.ok ? rest(committed.output.approvals[0]?.id ?? id) : committed;
}

/** Returns the result of an escalated call for the model, and `undefined` while the request is pending. */
export async function escalatedResult(
  { ports, place, control }: ApprovalRequester,
  call: string,
  { approval, held }: EscalatedCall,
): Promise<Outcome<Json | undefined>> {
  const replayed = await ports.replay?.recorded(place.id, call, true);
  if (replayed) return replayed.ok ? ok(replayed.output.data) : ok(failedJson(replayed.error));
  const found = await ports.store.approvals({ id: approval });
  if (!found.ok) return found;
  const [row] = found.output;
  if (row?.state === 'pending') {
    control.ending = { status: 'waiting', reason: plainText(row.shown.question ?? '') };
    return ok(undefined);
  }
  const { decided, state = 'expired', answer = null, why = '', who = '' } = row ?? {};
  const decision = state === 'expired' && decided !== undefined ? 'approved' : state;
  const error = objectAt(held, 'error');
  const escalated = { decision, answer, why, who };
  return ok({
    ok: false,
    error: { ...error, detail: { ...objectAt(error, 'detail'), escalated } },
  });
}

const failedJson = ({ code, detail }: Fault): Json => ({ ok: false, error: { code, detail } });
