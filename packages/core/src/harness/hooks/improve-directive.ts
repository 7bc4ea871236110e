// Handles a hook's proposal of a better version of a failed directive. A person approves the diff, or the policy
// allows small diffs without a person. Then the new version is written and signed, and the run starts again with
// it. INVARIANT: the written text is always the approved text. The approval has the hashes of the old and the new
// text, and a directive that has changed since then is not written.
import { hash } from 'node:crypto';
import { fail, type Outcome, ok, plainText } from '../../base/index.ts';
import { carries, EMPTY, mergeAll } from '../../flow/index.ts';
import { type Directive, parseDirective } from '../../items/index.ts';
import { type Proposal, type Recorded, startOf } from '../../journal/index.ts';
import type { NewApproval } from '../../store/index.ts';
import { unpackMarks } from '../thread/conversation.ts';
import { isAttached, makeApprovalId, openingEvents } from '../thread/opening.ts';
import { newAttempt } from '../thread/talk.ts';
import type { HarnessPorts, Prepared, Thread } from '../thread/thread.ts';
import { type Decision, MAX_RETRIES } from './action.ts';
import { applyDiff } from './apply-diff.ts';
import { touchedParts } from './touched-parts.ts';

const ANNEAL = 'anneal';

const print = (text: string): string => hash('sha256', text);

interface Change {
  text: string;
  /** Names of the guarded parts that the proposal changes. */
  touches: string[];
}

/** Returns the text with the next version number, for a proposal that kept the old number. */
function nextVersion(text: string, { version }: Directive): string {
  const next = version.replace(/\d+(?=\D*$)/, (last) => String(Number(last) + 1));
  return text.replace(`version="${version}"`, `version="${next}"`);
}

function readChange({ ports, place: { item, directive } }: Thread, diff: string): Outcome<Change> {
  if (item.source !== 'project' || !item.directive) {
    return fail('invalid_item', `directive \`${item.id}\` is not in this project; copy it first`);
  }
  const patched = applyDiff(item.body, diff);
  if (!patched.ok) return patched;
  if (patched.output === item.body) return fail('invalid_input', 'the proposal changes nothing');
  const read = parseDirective(patched.output, item.file).directive;
  if (!read || read.name !== directive.name) {
    return fail('invalid_item', 'the proposal must be a directive with the same name');
  }
  const before = item.directive;
  const text =
    read.version === before.version ? nextVersion(patched.output, before) : patched.output;
  const checked = ports.library.write('directive', item.id, text, 'update', { dryRun: true });
  if (!checked.ok) return checked;
  const lookup = (name: string): Directive | undefined => {
    const found = ports.library.find('directive', name);
    return found.ok && found.output.kind === 'directive' ? found.output.directive : undefined;
  };
  return ok({ text, touches: touchedParts(before, read, lookup) });
}

type Writing = Pick<Proposal, 'directive' | 'state' | 'text' | 'before' | 'signed'>;
type WritePorts = Pick<HarnessPorts, 'library' | 'changeDirective'>;

/**
 * Writes and signs the new version. Fails with `conflict` if the directive has changed since the proposal.
 * Without an approval of a person, an unsigned directive stays unsigned.
 */
function write({ library, changeDirective }: WritePorts, change: Writing): Outcome<null> {
  const { directive: id, state, text, before } = change;
  const found = library.find('directive', id);
  if (!found.ok) return found;
  const { body, signature } = found.output;
  const isThere = print(body) === print(text);
  if (!isThere && print(body) !== before) {
    return fail('conflict', `directive \`${id}\` was changed after the proposal was made`);
  }
  const isSigning = state !== 'auto' || change.signed === true;
  // A process can be lost after it wrote the text and before it signed it.
  if (isThere && (!isSigning || signature.state === 'signed')) return ok(null);
  if (isSigning) {
    return changeDirective?.(id, text) ?? fail('config_invalid', 'this process cannot sign items');
  }
  const written = library.write('directive', id, text, 'update');
  library.noteChange();
  return written.ok ? ok(null) : written;
}

/** Records the proposal and parks the run. After the answer, the run starts again or ends. */
async function parkFor(
  thread: Thread,
  decision: Decision,
  about: Pick<Proposal, 'state' | 'text' | 'approval' | 'before' | 'signed'>,
  ask: readonly NewApproval[] = [],
): Promise<Decision> {
  const { instruction, bounds } = decision;
  if (instruction.do !== 'fail') return decision;
  const { id: directive } = thread.place.item;
  const behind = { code: instruction.fault.code, reason: instruction.fault.detail.message };
  const data: Proposal = { kind: 'call', action: ANNEAL, directive, behind, ...about };
  const committed = await thread.journal.commit(
    { type: 'approval', data },
    ask.length > 0 ? { ask } : {},
  );
  if (!committed.ok) return decision;
  const message = `a change of directive \`${directive}\` was proposed: ${behind.reason}`;
  return {
    ...decision,
    bounds: { ...bounds, retries: bounds.retries + 1 },
    instruction: { do: 'wait', fault: { code: behind.code, detail: { message } } },
  };
}

/** Returns the decision, or a decision that parks the run if the hook has proposed a change. */
export async function withProposal(thread: Thread, decision: Decision): Promise<Decision> {
  if (thread.rights.rules.given().no_auto_fix) return decision;
  const { instruction, notes, bounds, marks = EMPTY } = decision;
  const diff = plainText(notes.proposal);
  if (instruction.do !== 'fail' || diff.trim() === '' || bounds.retries >= MAX_RETRIES)
    return decision;
  const change = readChange(thread, diff);
  if (!change.ok) {
    const { detail } = change.error;
    thread.journal.note({ type: 'error', data: { code: 'anneal_refused', detail } });
    return decision;
  }
  const { text, touches } = change.output;
  const { place, ports } = thread;
  const { item } = place;
  const before = print(item.body);
  const signed = item.signature.state === 'signed' && ({ signed: true } as const);
  // A directive is an instruction to the model. Untrusted text never becomes one without a person.
  const needsPerson = carries(marks, 'untrusted');
  if (ports.policies().policy.anneal === 'auto' && touches.length === 0 && !needsPerson) {
    const change = { state: 'auto', text, before, ...signed } as const;
    // INVARIANT: the journal always gets the change before the file. A resume writes the file if necessary.
    const decided = await parkFor(thread, decision, change);
    if (decided.instruction.do !== 'wait') return decided;
    if (write(ports, { directive: item.id, ...change }).ok) return decided;
  }
  const approval = makeApprovalId(ports.random);
  const about = { action: ANNEAL, directive: item.id };
  const question: NewApproval = {
    id: approval,
    kind: 'call',
    binding: { ...about, before, after: print(text) },
    shown: { ...about, why: notes.why ?? '', touches, diff },
  };
  const proposal = { approval, before, state: 'pending', text, ...signed } as const;
  return await parkFor(thread, decision, proposal, [question]);
}

/** Returns the open proposal of a thread and its state. `undefined`: no proposal, or one that took effect. */
async function openProposal(
  { store }: Pick<HarnessPorts, 'store'>,
  history: readonly Recorded[],
): Promise<{ open: Proposal; state: string | undefined } | undefined> {
  let open: Proposal | undefined;
  for (const { type, data } of history) {
    if (type === 'approval' && data.kind === 'call' && data.action === 'anneal') open = data;
    else if (type === 'thread_end' || (type === 'retry' && data.annealed)) open = undefined;
  }
  if (!open) return undefined;
  if (open.state === 'auto') return { open, state: 'approved' };
  const approvals = await store.approvals({ id: open.approval ?? '' });
  return { open, state: approvals.ok ? approvals.output[0]?.state : undefined };
}

/** Writes an approved change before a thread is restored, so that the thread runs with it. */
export async function applyApproved(
  ports: WritePorts & Pick<HarnessPorts, 'store'>,
  history: readonly Recorded[],
): Promise<Outcome<null>> {
  const { open, state } = (await openProposal(ports, history)) ?? {};
  return state === 'approved' && open ? write(ports, open) : ok(null);
}

/** Handles the answer to a proposal in a restored thread: the run starts again, ends, or keeps waiting. */
export async function resumeAfterProposal(
  thread: Thread,
  prepared: Prepared,
  history: readonly Recorded[],
): Promise<void> {
  const { ports, place, control } = thread;
  const found = await openProposal(ports, history);
  if (!found) return;
  const { open, state } = found;
  if (state === 'pending') {
    const reason = `a change of directive \`${place.item.id}\` is pending approval`;
    control.ending = { status: 'waiting', reason };
  } else if (state !== 'approved') control.ending = { status: 'failed', ...open.behind };
  else await beginAnew(thread, prepared, history);
}

async function beginAnew(
  thread: Thread,
  prepared: Prepared,
  history: readonly Recorded[],
): Promise<void> {
  const { ports, talk, control, place } = thread;
  const message = startOf(history)?.message ?? '';
  const attached = talk.opening.filter(isAttached);
  const others = talk.opening.filter((event) => !isAttached(event));
  const marks = mergeAll(
    others.map(({ data }) => ('marks' in data ? unpackMarks(data.marks) : EMPTY)),
  );
  const isReference = talk.references !== undefined;
  const opening = await openingEvents(ports, prepared, message, {
    marks,
    isReference,
    attached,
  });
  if (!opening.ok) {
    const { code, detail } = opening.error;
    control.ending = { status: 'failed', reason: detail.message, code };
    return;
  }
  talk.opening.splice(0, talk.opening.length, ...opening.output);
  const { version } = place.directive;
  newAttempt(thread, { version, opening: opening.output });
}
