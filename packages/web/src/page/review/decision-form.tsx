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

/** Time after a change during which the button is locked, so that nobody approves by accident. */
const CALM_MS = 800;

/** Returns false for a moment after `content` has changed or the window got the focus. */
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

/** Lists each argument whose value the approval trusts. */
function NamedValue({ review }: { review: ApprovalReview }) {
  const { named = [], arguments: all } = review;
  return (
    <ul class="named dim">
      {all
        .filter(({ name }) => named.includes(name))
        .map(({ name, text, role }) => (
          <li key={name}>
            <ForeignText text={name} class="mono" /> ={' '}
            <ForeignText text={text.slice(0, 200)} class="mono" /> is trusted like a value from you,
            for every {role ?? 'argument'} of this kind, in this thread and its descendants.
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
      : 'Once: this request only';
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
                  label="paths or addresses, for this tool, in this thread and its descendants"
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
                label="minutes"
                isNumber
                value={draft.minutes}
                hint="no limit"
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
        Approve a right that the directive does not declare
      </label>
      {draft.isBeyond ? (
        <label class="check">
          <input
            type="checkbox"
            checked={draft.isSure}
            onChange={(event) => change({ isSure: event.currentTarget.checked })}
          />
          I have read the right above; the signed directive does not declare it
        </label>
      ) : null}
    </div>
  );
}

const FAILURES: Readonly<Record<string, string>> = {
  conflict: 'Not decided: the request changed or was decided elsewhere.',
  expired: 'Not decided: the request has expired.',
  approval_expired: 'Not decided: the request has expired.',
  unreachable: 'No answer from the server. Check the state of the request before you try again.',
};

function Fault({ fault, command }: { fault: PageFault; command: string }) {
  return (
    <div class="refused-act stack">
      <b>{FAILURES[fault.code] ?? 'Not decided.'}</b>
      <ErrorState error={fault} command={command} />
    </div>
  );
}

function Answer({ draft, change }: { draft: DecisionDraft; change: ChangeDraft }) {
  return (
    <label class="field wide">
      <span>Your answer</span>
      <textarea
        rows={3}
        value={draft.answer}
        onInput={(event) => change({ answer: event.currentTarget.value })}
      />
    </label>
  );
}

/**
 * Registers the keys of a review. `a`, `v` and `s` choose an answer and focus its button, `d` focuses
 * Deny. `Enter` on a button decides. Returns the ref of the element with the buttons.
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
    a: choosing('once', 'select: approve once'),
    v: choosing('value', 'select: approve for this value'),
    s: choosing('scope', 'select: approve for a scope'),
  };
  useKeys({
    ...Object.fromEntries(
      Object.entries(actions).flatMap(([key, act]) => (act ? [[key, act]] : [])),
    ),
    d: { says: 'select: deny', run: () => focusOn('deny') },
    c: { says: 'copy the command', run: () => void copyText(command) },
    y: { says: 'copy the id', run: () => void copyText(review.approval.id) },
  });
  return foot;
}

/** `closed`: number of folded arguments. `fault`: error of the last attempt. */
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
        <Field label="reason (optional)" value={draft.why} onInput={(why) => change({ why })} />
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
        in a terminal <Command text={command} keyName="c" />
      </div>
    </section>
  );
}
