// Draft of a decision: the problems that prevent sending it, and the equivalent command. Pure. The
// form renders it; the server checks it again.
import type {
  ApprovalReview,
  ArgumentView,
  DecisionRequest,
  DecisionWord,
} from '../../model/api.ts';
import { shellWord } from '../../model/format.ts';

/** A longer argument is folded and must be opened before an approval. */
const FOLD_SIGNS = 400;
const FOLD_LINES = 8;

export const isFolded = ({ text, is_cut: isCut }: ArgumentView): boolean =>
  isCut || text.length > FOLD_SIGNS || text.split('\n', FOLD_LINES + 1).length > FOLD_LINES;

export interface DecisionDraft {
  readonly word: DecisionWord;
  /** Only for a call: the scope to approve. */
  readonly glob: string;
  readonly uses: string;
  readonly minutes: string;
  readonly isBeyond: boolean;
  /** Second confirmation for rights beyond the directive. */
  readonly isSure: boolean;
  readonly why: string;
  readonly answer: string;
}

/** Starts with the narrowest offered choice, and never with a denial. */
export function firstDraft(review: ApprovalReview): DecisionDraft {
  const { choices, approval } = review;
  const word = choices.find((choice) => choice !== 'deny') ?? 'once';
  const uses = isOfValues(review) ? '' : String(Math.max(1, approval.uses));
  const glob = scopeFor(review);
  return { word, glob, uses, minutes: '', isBeyond: false, isSure: false, why: '', answer: '' };
}

/** True if a scope is about values of a call. A right is approved for some time instead. */
export const isOfValues = ({ approval, grant }: ApprovalReview): boolean =>
  approval.kind === 'call' && grant === undefined;

/** Suggests the narrowest scope around the value: its folder, its host or its domain. */
function scopeFor({ arguments: all }: ApprovalReview): string {
  const scoped = all.filter(({ role }) => role === 'path' || role === 'destination');
  const [first] = scoped;
  if (!first) return '';
  const { name, text } = first;
  const prefix = scoped.length > 1 ? `${name}=` : '';
  const url = URL.canParse(text) ? new URL(text).hostname : '';
  if (url !== '') return `${prefix}${url}`;
  const at = text.lastIndexOf(first.role === 'path' ? '/' : '@');
  if (at <= 0) return `${prefix}${text}`;
  return first.role === 'path' ? `${prefix}${text.slice(0, at)}/*` : `${prefix}*${text.slice(at)}`;
}

const wholeNumber = (text: string): number | undefined =>
  /^[1-9]\d{0,6}$/.test(text.trim()) ? Number(text) : undefined;

interface Around {
  /** Number of arguments that are still folded. */
  readonly closed: number;
  readonly mayApprove: boolean;
  readonly isLive: boolean;
  readonly now: number;
}

/** Reasons that prevent sending, in the order in which a person can resolve them. */
export function blockersOf(review: ApprovalReview, draft: DecisionDraft, around: Around): string[] {
  const { approval, grant } = review;
  const blockers: string[] = [];
  if (approval.state !== 'pending') return [`The request is already ${approval.state}.`];
  if (approval.expires !== undefined && approval.expires <= around.now) return ['It has expired.'];
  if (!around.mayApprove) blockers.push('Your session cannot decide; role `approve` is required.');
  if (!around.isLive) blockers.push('Not connected: the data can be out of date.');
  if (draft.word === 'deny') return blockers;
  const { closed } = around;
  if (closed === 1) blockers.push('Open the folded argument first.');
  if (closed > 1) blockers.push(`Open the ${closed} folded arguments first.`);
  if (draft.word === 'scope') {
    const isCall = isOfValues(review);
    if (isCall && draft.glob.trim() === '') blockers.push('Enter paths or addresses.');
    const isOpen = isCall && draft.uses.trim() === '';
    if (!isOpen && wholeNumber(draft.uses) === undefined) blockers.push('Enter a number of uses.');
    const isTimed = draft.minutes.trim() === '' || wholeNumber(draft.minutes) !== undefined;
    if (!isTimed) blockers.push('Enter a number of minutes, or leave the field empty.');
  }
  if (draft.word === 'answer' && draft.answer.trim() === '') blockers.push('Write an answer.');
  if (grant?.beyond && !(draft.isBeyond && draft.isSure)) {
    blockers.push('The right goes beyond the directive: confirm this first.');
  }
  return blockers;
}

/** Builds the request. It contains the digest of the review, so that no other content can be decided. */
export function requestOf(review: ApprovalReview, draft: DecisionDraft): DecisionRequest {
  const { approval } = review;
  const { word } = draft;
  const uses = wholeNumber(draft.uses);
  const minutes = wholeNumber(draft.minutes);
  const why = draft.why.trim();
  return {
    decision: word,
    digest: approval.digest,
    ...(word === 'scope' && isOfValues(review) ? { glob: draft.glob.trim() } : {}),
    ...(word === 'scope' && uses !== undefined ? { uses } : {}),
    ...(word === 'scope' && minutes !== undefined ? { for_seconds: minutes * 60 } : {}),
    ...(word !== 'deny' && draft.isBeyond && draft.isSure ? { beyond: true } : {}),
    ...(word === 'answer' ? { answer: draft.answer } : {}),
    ...(why === '' ? {} : { why }),
  };
}

export function commandOf(review: ApprovalReview, draft: DecisionDraft): string {
  const { decision, glob, uses, for_seconds: time, beyond, why, answer } = requestOf(review, draft);
  const id = shellWord(review.approval.id);
  if (decision === 'answer') return `km approvals answer ${id} ${shellWord(answer ?? '')}`;
  const words = [
    `km approvals ${decision === 'deny' ? 'deny' : 'approve'} ${id}`,
    decision === 'value' ? '--value' : '',
    glob === undefined ? '' : `--scope ${shellWord(glob)}`,
    uses === undefined ? '' : `--uses ${uses}`,
    time === undefined ? '' : `--for ${time / 60}m`,
    beyond ? '--beyond' : '',
    why === undefined ? '' : `--why ${shellWord(why)}`,
  ];
  return words.filter((word) => word !== '').join(' ');
}

const WORDS: Readonly<Record<DecisionWord, string>> = {
  once: 'Approve once',
  value: 'Approve this value',
  scope: 'Approve this scope',
  deny: 'Deny',
  answer: 'Send the answer',
};
export const decisionWords = ({ word, isBeyond }: DecisionDraft): string =>
  isBeyond && word !== 'deny' ? `${WORDS[word]}, beyond the directive` : WORDS[word];
