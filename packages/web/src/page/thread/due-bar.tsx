// Bar with the pending approval requests, above the tabs. A person can deny here, because that is safe. An
// approval needs the review, which shows everything.
import { useState } from 'preact/hooks';
import type { ListedApproval } from '../../model/api.ts';
import { count, expiryWords, seconds } from '../../model/format.ts';
import { type PageFault, post } from '../api.ts';
import { Button } from '../parts/button.tsx';
import { now } from '../parts/figures.tsx';
import { Icon } from '../parts/icons.tsx';
import { ErrorState } from '../parts/states.tsx';
import { ForeignText } from '../parts/untrusted-text.tsx';
import { go, pathOf } from '../router.tsx';
import { may } from '../state/session.ts';

const WORDS: Readonly<Record<ListedApproval['kind'], string>> = {
  call: 'Review call',
  capability: 'Review right',
  limit: 'Review limit',
  question: 'Answer',
};

const askedFor = ({ asked }: ListedApproval): string =>
  seconds(Math.max(0, Math.round((now.value - asked) / 1000)));

export const reviewPath = ({ id }: ListedApproval): string => pathOf('approvals', id);

function DenyForm(props: { approval: ListedApproval; onClose: () => void }) {
  const { approval, onClose } = props;
  const [why, setWhy] = useState('');
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<PageFault>();
  const deny = async () => {
    setBusy(true);
    const answer = await post(`approvals/${encodeURIComponent(approval.id)}/decision`, {
      decision: 'deny',
      digest: approval.digest,
      ...(why === '' ? {} : { why }),
    });
    // The buttons stay busy until the approval is no longer pending.
    if (answer.ok) return;
    setBusy(false);
    setError(answer.error);
  };
  return (
    <form
      class="deny-form"
      onSubmit={(event) => {
        event.preventDefault();
        void deny();
      }}
    >
      <label>
        <span class="unseen">Reason</span>
        <input
          class="field"
          value={why}
          placeholder="reason (optional)"
          maxLength={500}
          onInput={(event) => setWhy(event.currentTarget.value)}
        />
      </label>
      <Button text={isBusy ? 'denying' : 'Deny'} type="submit" class="btn danger" isBusy={isBusy} />
      <Button text="Cancel" onClick={onClose} />
      {error ? <ErrorState error={error} command={`km approvals deny ${approval.id}`} /> : null}
    </form>
  );
}

function Due(props: { approval: ListedApproval; thread: string; isFirst: boolean }) {
  const { approval, thread, isFirst } = props;
  const [isDenying, setDenying] = useState(false);
  const mayDecide = may('approve');
  const { rule } = approval;
  const asks = rule === undefined ? 'approval needed' : `required by ${rule}`;
  const about = [asks, askedFor(approval), expiryWords(approval.expires, now.value)]
    .filter(Boolean)
    .join(' · ');
  return (
    <section class="due-bar flex" aria-label="Waits for you">
      <span class="you">
        <Icon name="ask" />
      </span>
      <div class="what">
        <strong>Waits for you</strong>
        <code class="cut call">
          <ForeignText text={approval.title} class="cut" />
        </code>
        <span class="dim cut rule">
          {about}
          {approval.thread === undefined || approval.thread === thread
            ? ''
            : ` · in ${approval.thread}`}
        </span>
      </div>
      {isDenying ? (
        <DenyForm approval={approval} onClose={() => setDenying(false)} />
      ) : (
        <>
          <Button
            text="Deny"
            disabled={!mayDecide}
            {...(mayDecide ? {} : { title: 'role `approve` is required' })}
            onClick={() => setDenying(true)}
          />
          <Button class="btn main" onClick={() => go(reviewPath(approval))}>
            {WORDS[approval.kind]} {isFirst ? <kbd>a</kbd> : null}
          </Button>
        </>
      )}
    </section>
  );
}

/** Shows at most two requests. The page of approval requests has the rest. */
export function DueBar(props: { approvals: readonly ListedApproval[]; thread: string }) {
  const { approvals, thread } = props;
  const more = approvals.length - 2;
  return (
    <>
      {approvals.slice(0, 2).map((approval, index) => (
        <Due key={approval.id} approval={approval} thread={thread} isFirst={index === 0} />
      ))}
      {more > 0 ? (
        <Button
          text={`Show ${count(more)} more approval requests`}
          class="more-link"
          onClick={() => go('/approvals')}
        />
      ) : null}
    </>
  );
}
