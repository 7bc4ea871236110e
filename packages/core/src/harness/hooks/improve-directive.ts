// A hook proposes a better version of the directive that failed. A person looks at the diff (or the
// policy lets small ones through); then the new version is written and signed, and the run begins again
// with it. INVARIANT: what was looked at is what is written: the approval names both texts by hash, and
// a directive that changed in the meantime is not touched.
import { hash } from 'node:crypto';
import { fail, type Outcome, ok, plainText } from '../../base/index.ts';
import { carries, EMPTY, mergeAll } from '../../flow/index.ts';
import { type Directive, parseDirective } from '../../items/index.ts';
import { type Proposal, type Recorded, startOf } from '../../journal/index.ts';
import type { NewApproval } from '../../store/index.ts';
import { unpackMarks } from '../thread/conversation.ts';
import { makeApprovalId, openingEvents } from '../thread/opening.ts';
import { newAttempt } from '../thread/talk.ts';
import type { HarnessPorts, Prepared, Thread } from '../thread/thread.ts';
import { type Decision, MAX_RETRIES } from './action.ts';
import { applyDiff } from './apply-diff.ts';
import { touchedParts } from './touched-parts.ts';

const ANNEAL = 'anneal';

const print = (text: string): string => hash('sha256', text);

interface Change {
  text: string;
  /** Which of the guarded parts are others now. */
  touches: string[];
}

/** The version after this one, when the proposal left it as it was. */
function nextVersion(text: string, { version }: Directive): string {
  const next = version.replace(/\d+(?=\D*$)/, (last) => String(Number(last) + 1));
  return text.replace(`version="${version}"`, `version="${next}"`);
}

function readChange({ ports, place: { item, directive } }: Thread, diff: string): Outcome<Change> {
  if (item.source !== 'project' || !item.directive) {
    return fail('invalid_item', `directive \`${item.id}\` is not of this project; copy it first`);
  }
  const patched = applyDiff(item.body, diff);
  if (!patched.ok) return patched;
  if (patched.output === item.body) return fail('invalid_input', 'the proposal changes nothing');
  const read = parseDirective(patched.output, item.file).directive;
  if (!read || read.name !== directive.name) {
    return fail('invalid_item', 'the proposal is no directive of that name any more');
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
 * Writes and signs the new version; nothing when the directive is not what was looked at. Where nobody
 * looks, what nobody had signed is not signed either.
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
  // A process may be lost between the text and its signature.
  if (isThere && (!isSigning || signature.state === 'signed')) return ok(null);
  if (isSigning) {
    return changeDirective?.(id, text) ?? fail('config_invalid', 'nobody here can sign it');
  }
  const written = library.write('directive', id, text, 'update');
  library.noteChange();
  return written.ok ? ok(null) : written;
}

/** Put off: the run waits until the proposal was looked at, and begins again or ends then. */
async function putOff(
  thread: Thread,
  decision: Decision,
  about: Pick<Proposal, 'state' | 'text' | 'approval' | 'before' | 'signed'>,
  ask: readonly NewApproval[] = [],
): Promise<Decision> {
  const { deed, bounds } = decision;
  if (deed.do !== 'fail') return decision;
  const { id: directive } = thread.place.item;
  const behind = { code: deed.fault.code, reason: deed.fault.detail.message };
  const data: Proposal = { kind: 'call', action: ANNEAL, directive, behind, ...about };
  const noted = await thread.journal.commit(
    { type: 'approval', data },
    ask.length > 0 ? { ask } : {},
  );
  if (!noted.ok) return decision;
  const message = `a change of directive \`${directive}\` was proposed: ${behind.reason}`;
  return {
    ...decision,
    bounds: { ...bounds, retries: bounds.retries + 1 },
    deed: { do: 'wait', fault: { code: behind.code, detail: { message } } },
  };
}

/** What becomes of a decision that ends the run and proposes a change. */
export async function withProposal(thread: Thread, decision: Decision): Promise<Decision> {
  if (thread.rights.rules.given().no_auto_fix) return decision;
  const { deed, notes, bounds, marks = EMPTY } = decision;
  const diff = plainText(notes.proposal);
  if (deed.do !== 'fail' || diff.trim() === '' || bounds.retries >= MAX_RETRIES) return decision;
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
  const isKeptBack = carries(marks, 'untrusted');
  if (ports.policies().policy.anneal === 'auto' && touches.length === 0 && !isKeptBack) {
    const change = { state: 'auto', text, before, ...signed } as const;
    // INVARIANT: it is in the journal before it is in the file; whoever resumes writes what is missing.
    const decided = await putOff(thread, decision, change);
    if (decided.deed.do !== 'wait') return decided;
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
  const asked = { approval, before, state: 'pending', text, ...signed } as const;
  return await putOff(thread, decision, asked, [question]);
}

/** The proposal that a thread waits for and how it stands; undefined when it was answered, or there was none. */
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
  const asked = await store.approvals({ id: open.approval ?? '' });
  return { open, state: asked.ok ? asked.output[0]?.state : undefined };
}

/** Before a thread is made again: an approved change is written now, so that it runs with it. */
export async function applyApproved(
  ports: WritePorts & Pick<HarnessPorts, 'store'>,
  history: readonly Recorded[],
): Promise<Outcome<null>> {
  const { open, state } = (await openProposal(ports, history)) ?? {};
  // Older journals hold what was written already.
  if (state !== 'approved' || open?.before === undefined) return ok(null);
  return write(ports, open);
}

/** After it was made again: begins anew with the changed directive, ends, or waits on. */
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
    const reason = `a change of \`${place.item.id}\` waits for an answer`;
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
  const marks = mergeAll(
    talk.opening.map(({ data }) => ('marks' in data ? unpackMarks(data.marks) : EMPTY)),
  );
  const isReference = talk.references !== undefined;
  const opening = await openingEvents(ports, prepared, message, { marks, isReference });
  if (!opening.ok) {
    const { code, detail } = opening.error;
    control.ending = { status: 'failed', reason: detail.message, code };
    return;
  }
  talk.opening.splice(0, talk.opening.length, ...opening.output);
  const { version } = place.directive;
  newAttempt(thread, { version, opening: opening.output });
}
