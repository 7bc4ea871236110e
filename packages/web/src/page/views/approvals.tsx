// Pending approval requests, and those decided today. A request is reviewed in the second pane.
import { useEffect, useState } from 'preact/hooks';
import type { ApprovalList, ListedApproval } from '../../model/api.ts';
import { seconds } from '../../model/format.ts';
import { useKeys } from '../keys.ts';
import { now, Time } from '../parts/figures.tsx';
import { Icon } from '../parts/icons.tsx';
import { EmptyState, ErrorState, LoadingRows, useResource } from '../parts/states.tsx';
import { ForeignText } from '../parts/untrusted-text.tsx';
import { kindWord, ReviewPane, stateWord } from '../review/review-pane.tsx';
import { go, Link, pathOf, route } from '../router.tsx';
import { decided, pending, useApprovals } from '../state/approvals.ts';
import { isNarrow } from '../theme.ts';

const startOfDay = (at: number): number => new Date(at).setHours(0, 0, 0, 0);

const leftOf = (expires: number | undefined): string =>
  expires === undefined ? '' : seconds(Math.max(0, Math.round((expires - now.value) / 1000)));

function WaitingRow({ row, current }: { row: ListedApproval; current: boolean }) {
  return (
    <li>
      <Link to={pathOf('approvals', row.id)} class="pick" current={current}>
        <Icon name="ask" class="you" />
        <ForeignText text={row.title} class="mono cut" />
        <span class="dim">{kindWord(row.kind)}</span>
        <span class="faint n" title="expires in">
          {leftOf(row.expires)}
        </span>
        <span class="under faint cut">
          <ForeignText text={row.directive ?? row.thread ?? 'outside of threads'} />
          {row.thread_title === undefined ? null : <ForeignText text={`: ${row.thread_title}`} />}
          {row.rule === undefined ? '' : ' · '}
          {row.rule === undefined ? null : <ForeignText text={row.rule} />}
        </span>
      </Link>
    </li>
  );
}

const isGiven = ({ state }: ListedApproval): boolean => state === 'approved' || state === 'used';

function DecidedRow({ row, current }: { row: ListedApproval; current: boolean }) {
  const { state, uses, who, why } = row;
  return (
    <li>
      <Link to={pathOf('approvals', row.id)} class="pick" current={current}>
        <Icon name={isGiven(row) ? 'ok' : 'no'} class={isGiven(row) ? 'ok' : 'bad'} />
        <ForeignText text={row.title} class="mono cut" />
        <span class="dim">{stateWord(state)}</span>
        <span class="faint n">
          {row.decided === undefined ? null : <Time at={row.decided} form="clock" />}
        </span>
        <span class="under faint cut">
          {who === undefined ? '' : <ForeignText text={`by ${who}`} />}
          {state === 'used' ? ' · used' : ''}
          {state === 'approved' ? ` · ${uses} ${uses === 1 ? 'use' : 'uses'} left` : ''}
          {why === undefined || why === '' ? null : <ForeignText text={` · ${why}`} />}
        </span>
      </Link>
    </li>
  );
}

function Waiting({ current }: { current: string | undefined }) {
  const { error, isLoading, again } = useApprovals();
  const rows = pending.value;
  if (error) return <ErrorState error={error} again={again} />;
  if (isLoading && rows.length === 0) return <LoadingRows rows={3} rowHeight={44} />;
  if (rows.length === 0) {
    return <EmptyState title="No pending approval requests" hint="New requests appear here." />;
  }
  return (
    <ul class="picks">
      {rows.map((row) => (
        <WaitingRow key={row.id} row={row} current={row.id === current} />
      ))}
    </ul>
  );
}

/** Returns requests decided today, before or after the page was opened. Latest first. */
function useDecided(): readonly ListedApproval[] {
  const { answer } = useResource<ApprovalList>('approvals?state=decided');
  const since = startOfDay(now.value);
  const before = answer?.ok ? answer.output.approvals : [];
  const rows = new Map([...before, ...decided.value].map((row) => [row.id, row]));
  return [...rows.values()]
    .filter((row) => row.state !== 'pending' && (row.decided ?? 0) >= since)
    .toSorted((a, b) => (b.decided ?? 0) - (a.decided ?? 0));
}

/** Opens the request before or after the open one. Without an open request it opens the first. */
function step(rows: readonly ListedApproval[], current: string | undefined, by: number): void {
  const at = rows.findIndex(({ id }) => id === current);
  const next = rows[at < 0 ? 0 : Math.max(0, Math.min(rows.length - 1, at + by))];
  if (next) go(pathOf('approvals', next.id), { replace: current !== undefined });
}

/** Opens the oldest request, unless the person closed the review or the screen is too narrow for both. */
function useOldest(current: string | undefined): { close(): void } {
  const [isClosed, setClosed] = useState(false);
  const oldest = pending.value[0]?.id;
  useEffect(() => {
    if (current !== undefined || isClosed || isNarrow.peek() || oldest === undefined) return;
    go(pathOf('approvals', oldest), { replace: true });
  }, [current, isClosed, oldest]);
  return {
    close() {
      setClosed(true);
      go('/approvals');
    },
  };
}

/** Opens the next request after a decision. After the last one its decision stays visible. */
function openNext(decidedId: string): void {
  const next = pending.value.find(({ id }) => id !== decidedId);
  if (next) go(pathOf('approvals', next.id), { replace: true });
}

export function ApprovalsPage() {
  const [, current] = route.value.parts;
  const { close } = useOldest(current);
  const decidedToday = useDecided();
  const rows = [...pending.value, ...decidedToday];
  useKeys({
    j: { says: 'next', run: () => step(rows, current, 1) },
    k: { says: 'previous', run: () => step(rows, current, -1) },
    ArrowDown: { says: 'next', run: () => step(rows, current, 1) },
    ArrowUp: { says: 'previous', run: () => step(rows, current, -1) },
    Escape: { says: 'back to the list', run: close },
  });
  const Title = current === undefined ? 'h1' : 'h2';
  return (
    <main class={`two ${current === undefined ? '' : 'has-one'}`}>
      <section class="card pane stack list" aria-label="Approvals">
        <header class="bar flex">
          <Title>
            Waits for you <span class="count due">{pending.value.length}</span>
          </Title>
        </header>
        <div class="scroll-y">
          <Waiting current={current} />
          {decidedToday.length > 0 ? (
            <>
              <h2 class="list-head small">
                Decided today <small>{decidedToday.length}</small>
              </h2>
              <ul class="picks">
                {decidedToday.map((row) => (
                  <DecidedRow key={row.id} row={row} current={row.id === current} />
                ))}
              </ul>
            </>
          ) : null}
        </div>
      </section>
      {current === undefined ? (
        <section class="card pane stack nothing">
          <EmptyState
            title="No approval request selected"
            hint="Open a request from the list."
            command="km approvals ls"
          />
        </section>
      ) : (
        <ReviewPane key={current} id={current} onDecided={() => openNext(current)} />
      )}
    </main>
  );
}
