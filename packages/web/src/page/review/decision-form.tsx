// Bottom of a review: the scope of the decision and two buttons. A denial is always safe and needs
// no opened argument. An approval needs a deliberate action.
import { useEffect, useId, useRef, useState } from 'preact/hooks';
import type { ApprovalReview, DecisionWord, ListedApproval } from '../../model/api.ts';
import { limitName, limitValue } from '../../model/format.ts';
import { type PageFault, post } from '../api.ts';
import { connection } from '../connection.ts';
import { useKeys } from '../keys.ts';
import { Button } from '../parts/button.tsx';
import { Command, copyText } from '../parts/copy.tsx';
import { now } from '../parts/figures.tsx';
import { ErrorState } from '../parts/states.tsx';
import { ForeignText } from '../parts/untrusted-text.tsx';
import { may } from '../state/session.ts';
import {
  blockersOf,
  commandOf,
  type DecisionDraft,
  decisionWords,
  firstDraft,
  isOfValues,
  requestOf,
} from './decision.ts';

/** Time during which a new decision cannot be approved by accident. */
const CALM_MS = 800;

/** False for a moment after `shown` has changed or the window got the focus. */
function useCalm(content: string): boolean {
  const [isCalm, setCalm] = useState(false);
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout>;
    const begin = () => {
      clearTimeout(timer);
      setCalm(false);
      timer = setTimeout(() => setCalm(true), CALM_MS);
    };
    begin();
    addEventListener('focus', begin);
    document.addEventListener('visibilitychange', begin);
    return () => {
      clearTimeout(timer);
      removeEventListener('focus', begin);
      document.removeEventListener('visibilitychange', begin);
    };
  }, [content]);
  return isCalm;
}

type ChangeDraft = (part: Partial<DecisionDraft>) => void;

function Choice(props: {
  word: DecisionWord;
  draft: DecisionDraft;
  change: ChangeDraft;
  title: string;
  children?: preact.ComponentChildren;
}) {
  const { word, draft, change, title, children } = props;
  const id = useId();
  return (
    <div class="choice">
      <input
        type="radio"
        id={id}
        name="decision"
        checked={draft.word === word}
        onChange={() => change({ word })}
      />
      <div>
        <label for={id}>{title}</label>
        {children}
      </div>
    </div>
  );
}

function Field(props: {
  label: string;
  value: string;
  onInput: (text: string) => void;
  hint?: string;
  isNumber?: boolean;
}) {
  const { label, value, onInput, hint, isNumber = false } = props;
  return (
    <label class="field">
      <span>{label}</span>
      <input
        type="text"
        class={isNumber ? 'short' : ''}
        {...(isNumber ? { inputMode: 'numeric' as const } : {})}
        autoComplete="off"
        value={value}
        {...(hint === undefined ? {} : { placeholder: hint })}
        onInput={(event) => onInput(event.currentTarget.value)}
      />
    </label>
  );
}

/** Argument, value and scope of the approval. */
function NamedValue({ review }: { review: ApprovalReview }) {
  const { named = [], arguments: all } = review;
  return (
    <ul class="named dim">
      {all
        .filter(({ name }) => named.includes(name))
        .map(({ name, text, role }) => (
          <li key={name}>
            <ForeignText text={name} class="mono" /> ={' '}
            <ForeignText text={text.slice(0, 200)} class="mono" /> counts as named by you, for every{' '}
            {role ?? 'argument'} of this kind, in this thread and below it.
          </li>
        ))}
    </ul>
  );
}

function Choices(props: { review: ApprovalReview; draft: DecisionDraft; change: ChangeDraft }) {
  const { review, draft, change } = props;
  const has = (word: DecisionWord): boolean => review.choices.includes(word);
  const { limit, approval } = review;
  const once =
    approval.kind === 'limit' && limit
      ? `Raise ${limitName(limit.name)} to ${limitValue(limit.name, limit.asked)}`
      : 'Once: exactly this, one time';
  return (
    <fieldset class="choices">
      <legend>Approve</legend>
      {has('once') ? <Choice word="once" draft={draft} change={change} title={once} /> : null}
      {has('value') ? (
        <Choice word="value" draft={draft} change={change} title="For this value">
          <NamedValue review={review} />
        </Choice>
      ) : null}
      {has('scope') ? (
        <Choice
          word="scope"
          draft={draft}
          change={change}
          title={isOfValues(review) ? 'For a scope of values' : 'This right, for some time'}
        >
          {draft.word === 'scope' ? (
            <div class="fields">
              {isOfValues(review) ? (
                <Field
                  label="paths or addresses, for this tool, in this thread and below it"
                  value={draft.glob}
                  onInput={(glob) => change({ glob })}
                />
              ) : null}
              <Field
                label="uses"
                isNumber
                value={draft.uses}
                hint="any number"
                onInput={(uses) => change({ uses })}
              />
              <Field
                label="for, minutes"
                isNumber
                value={draft.minutes}
                hint="no end"
                onInput={(minutes) => change({ minutes })}
              />
            </div>
          ) : null}
        </Choice>
      ) : null}
    </fieldset>
  );
}

/** A checkbox, and a second one that is only visible if the first is set. */
function Beyond({ draft, change }: { draft: DecisionDraft; change: ChangeDraft }) {
  return (
    <div class="beyond stack">
      <label class="check">
        <input
          type="checkbox"
          checked={draft.isBeyond}
          onChange={(event) => change({ isBeyond: event.currentTarget.checked, isSure: false })}
        />
        Give more than the directive declares
      </label>
      {draft.isBeyond ? (
        <label class="check">
          <input
            type="checkbox"
            checked={draft.isSure}
            onChange={(event) => change({ isSure: event.currentTarget.checked })}
          />
          I have read the right above; whoever signed the directive did not ask for it
        </label>
      ) : null}
    </div>
  );
}

const FAILURES: Readonly<Record<string, string>> = {
  conflict: 'Nothing was given: it changed or was decided elsewhere.',
  expired: 'Nothing was given: it has expired.',
  approval_expired: 'Nothing was given: it has expired.',
  unreachable: 'It is not known whether this arrived. Look at its state before you try again.',
};

function Fault({ fault, command }: { fault: PageFault; command: string }) {
  return (
    <div class="refused-act stack">
      <b>{FAILURES[fault.code] ?? 'Nothing was given.'}</b>
      <ErrorState error={fault} command={command} />
    </div>
  );
}

function Answer({ draft, change }: { draft: DecisionDraft; change: ChangeDraft }) {
  return (
    <label class="field wide">
      <span>Your answer, framed as yours</span>
      <textarea
        rows={3}
        value={draft.answer}
        onInput={(event) => change({ answer: event.currentTarget.value })}
      />
    </label>
  );
}

/**
 * The keys of a review. `a`, `v` and `s` choose an answer and put the focus on its button, `d` on Deny;
 * `Enter` there decides. Returns the place of the buttons.
 */
function useDecisionKeys(review: ApprovalReview, change: ChangeDraft, command: string) {
  const foot = useRef<HTMLDivElement>(null);
  const focusOn = (name: 'main' | 'deny') =>
    foot.current?.querySelector<HTMLButtonElement>(`.btn.${name}`)?.focus();
  const choosing = (word: DecisionWord, says: string) =>
    review.choices.includes(word)
      ? {
          says,
          run: () => {
            change({ word });
            focusOn('main');
          },
        }
      : undefined;
  const actions = {
    a: choosing('once', 'approve once: go to the button'),
    v: choosing('value', 'approve for this value: go to the button'),
    s: choosing('scope', 'approve for a scope: go to the button'),
  };
  useKeys({
    ...Object.fromEntries(
      Object.entries(actions).flatMap(([key, act]) => (act ? [[key, act]] : [])),
    ),
    d: { says: 'deny: go to the button', run: () => focusOn('deny') },
    c: { says: 'copy the command', run: () => void copyText(command) },
    y: { says: 'copy the id', run: () => void copyText(review.approval.id) },
  });
  return foot;
}

/** Number of folded arguments in `closed`; refusal of the last attempt in `fault`. */
export function DecisionForm(props: {
  review: ApprovalReview;
  closed: number;
  fault: PageFault | undefined;
  onDone: (fault: PageFault | undefined) => void;
}) {
  const { review, closed, fault, onDone } = props;
  const { approval, grant } = review;
  const [draft, setDraft] = useState(() => firstDraft(review));
  const [isBusy, setBusy] = useState(false);
  const isCalm = useCalm(`${approval.digest} ${closed} ${draft.word} ${draft.isSure}`);
  const change: ChangeDraft = (part) => setDraft((last) => ({ ...last, ...part }));
  const around = {
    closed,
    mayApprove: may('approve'),
    isLive: connection.value.state === 'live',
    now: now.value,
  };
  const blockers = blockersOf(review, draft, around);
  const refusal: DecisionDraft = { ...draft, word: 'deny' };
  const denyBlockers = blockersOf(review, refusal, around);
  const command = commandOf(review, draft);
  // A locked button keeps the focus, so that a key that moves there is not lost.
  const isLocked = isBusy || !isCalm || blockers.length > 0;
  const foot = useDecisionKeys(review, change, command);
  const send = async (what: DecisionDraft) => {
    setBusy(true);
    const path = `approvals/${encodeURIComponent(approval.id)}/decision`;
    const answer = await post<ListedApproval>(path, requestOf(review, what));
    setBusy(false);
    onDone(answer.ok ? undefined : answer.error);
  };
  if (approval.state !== 'pending') {
    return fault ? <Fault fault={fault} command="km approvals ls --all" /> : null;
  }
  return (
    <section class="decide" aria-label="Decide">
      <div class="decide-in stack">
        {approval.kind === 'question' ? (
          <Answer draft={draft} change={change} />
        ) : (
          <Choices review={review} draft={draft} change={change} />
        )}
        {grant?.beyond ? <Beyond draft={draft} change={change} /> : null}
        <Field label="why, for the record" value={draft.why} onInput={(why) => change({ why })} />
        {fault ? <Fault fault={fault} command={command} /> : null}
      </div>
      <div class="decide-foot flex" ref={foot}>
        <div class="decide-says flex">
          <span class="dim" title="`km approvals show` prints the same digest">
            digest <span class="mark nowrap">{approval.mark}</span>
          </span>
          <ul class="blockers small" id="blockers" aria-live="polite">
            {blockers.map((text) => (
              <li key={text}>{text}</li>
            ))}
          </ul>
        </div>
        <Button
          text="Deny"
          class="btn deny"
          disabled={isBusy || denyBlockers.length > 0}
          onClick={() => void send(refusal)}
        />
        <Button
          text={isBusy ? 'Sending…' : decisionWords(draft)}
          class="btn main"
          aria-describedby="blockers"
          aria-disabled={isLocked}
          onClick={() => void (isLocked ? undefined : send(draft))}
        />
      </div>
      <div class="decide-hand small flex faint">
        by hand <Command text={command} keyName="c" />
      </div>
    </section>
  );
}
