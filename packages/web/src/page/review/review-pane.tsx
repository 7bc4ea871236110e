// Review of one approval request: first facts of the runtime, then the reason, the provenance of its
// values, and the rights and cost of the thread. The text of the model is last, in a frame.
import { useEffect, useRef, useState } from 'preact/hooks';
import type {
  ApprovalReview,
  Gate,
  LimitMeter,
  ListedApproval,
  LongText,
} from '../../model/api.ts';
import {
  ago,
  dayTime,
  expiryWords,
  limitName,
  limitOrigin,
  limitValue,
  rightWords,
} from '../../model/format.ts';
import { get, type PageFault } from '../api.ts';
import { ProvenanceGraph } from '../graph/provenance-graph.tsx';
import { MeterBar, MeterValue, now, Time } from '../parts/figures.tsx';
import { Icon } from '../parts/icons.tsx';
import { LabelChips } from '../parts/labels.tsx';
import { ErrorState, LoadingRows, useResource } from '../parts/states.tsx';
import { Facts, Table } from '../parts/table.tsx';
import { ForeignText } from '../parts/untrusted-text.tsx';
import { go, Link, pathOf } from '../router.tsx';
import { decided, pending } from '../state/approvals.ts';
import { me } from '../state/session.ts';
import { DecisionForm } from './decision-form.tsx';
import { type LoadPiece, ReviewedArguments } from './reviewed-arguments.tsx';

const KINDS = { call: 'call', capability: 'right', limit: 'limit', question: 'question' } as const;
export const kindWord = (kind: keyof typeof KINDS): string => KINDS[kind];
/** Word for the state of a request. The review shows a used approval as approved. */
export const stateWord = (state: ListedApproval['state']): string =>
  state === 'used' ? 'approved' : state;

function ReviewFacts({ review }: { review: ApprovalReview }) {
  const { approval, effect, tier, turn } = review;
  const { thread, directive, asked } = approval;
  const to = review.arguments.find(({ role }) => role === 'destination');
  const at = review.seq === undefined ? '' : `?at=${review.seq}`;
  return (
    <Facts
      class="review-facts"
      facts={[
        ['effect', effect && <b>{effect}</b>],
        ['tier', tier && <b>{tier}</b>],
        ['destination', to && <ForeignText text={to.text.slice(0, 200)} class="mono" />],
        [
          'thread',
          thread && (
            <Link to={`${pathOf('t', thread)}${at}`} class="to">
              <ForeignText text={directive ?? thread} />
              {turn === undefined ? '' : `, turn ${turn}`}
            </Link>
          ),
        ],
        ['requested', <span title={dayTime(asked)}>{ago(now.value - asked)}</span>],
      ]}
    />
  );
}

function Grant({ grant }: { grant: NonNullable<ApprovalReview['grant']> }) {
  return (
    <div class="sect">
      <h2>Requested right</h2>
      <p>
        <ForeignText text={grant.name} class="mono" />
      </p>
      <p class="dim">As a line of the directive:</p>
      <ForeignText text={grant.line} class="mono block" />
      {grant.beyond ? (
        <p class="bad strong">
          <Icon name="warn" /> The right goes beyond what the directive declares.
        </p>
      ) : (
        <p class="dim">The directive declares this right.</p>
      )}
    </div>
  );
}

/** Arguments with untrusted sources, each with its source text. */
function Tainted({ tainted }: { tainted: NonNullable<ApprovalReview['tainted']> }) {
  return (
    <div class="sect">
      <h2>Arguments with untrusted sources</h2>
      {tainted.map(({ name, labels, from, place, excerpt }) => (
        <div key={name}>
          <p>
            <ForeignText text={name} class="mono" /> <LabelChips taint={labels} />{' '}
            <span class="dim">
              {place === undefined ? null : (
                <>
                  found in <ForeignText text={place} />,{' '}
                </>
              )}
              from <ForeignText text={from.join(', ')} class="mono" />
            </span>
          </p>
          {excerpt === undefined ? null : <ForeignText text={excerpt} class="mono block" />}
        </div>
      ))}
    </div>
  );
}

function Before({ before }: { before: NonNullable<ApprovalReview['before']> }) {
  return (
    <div class="sect">
      <h2>Earlier calls of this directive</h2>
      {before.length === 0 ? <p class="dim">The directive has never called this tool.</p> : null}
      <ul class="named">
        {before.map(({ at, thread, same, came_to: end }) => (
          <li key={`${thread} ${at}`}>
            {at.slice(0, 16).replace('T', ' ')}{' '}
            {same === undefined ? '' : same ? 'with the same values' : 'with other values'}: {end}{' '}
            <Link to={pathOf('t', thread)} class="mono">
              {thread}
            </Link>
          </li>
        ))}
      </ul>
    </div>
  );
}

function LimitAsked({ limit }: { limit: NonNullable<ApprovalReview['limit']> }) {
  const { name, now: current, asked, ceiling, from } = limit;
  const value = (amount: number): string => limitValue(name, amount);
  const most = `${ceiling === undefined ? 'none' : value(ceiling)}${from === undefined ? '' : ` (${limitOrigin(from)})`}`;
  return (
    <div class="sect">
      <h2>Requested limit</h2>
      <Table
        class="plain"
        columns={[['limit'], ['now'], ['requested'], ['ceiling']]}
        rows={[
          { key: name, cells: [limitName(name), value(current), <b>{value(asked)}</b>, most] },
        ]}
      />
      {ceiling !== undefined && asked > ceiling ? (
        <p class="bad">The request exceeds the ceiling and would be refused.</p>
      ) : null}
    </div>
  );
}

const GATE_LOOK: Readonly<Record<Gate['state'], readonly [string, 'ok' | 'x' | 'dash' | 'ask']>> = {
  passed: ['ok', 'ok'],
  refused: ['bad', 'x'],
  failed: ['bad', 'x'],
  asks: ['you', 'ask'],
  open: ['off', 'ask'],
  unknown: ['bad', 'ask'],
  'not reached': ['off', 'dash'],
};

const Ladder = ({ gates }: { gates: readonly Gate[] }) => (
  <ol class="gates flat">
    {gates.map(({ stage, state, by }) => {
      const [tone, icon] = GATE_LOOK[state];
      return (
        <li key={stage} class={tone === 'off' ? 'off' : ''}>
          <span class={tone}>
            <Icon name={icon} />
            {stage} {state}
          </span>
          <small>
            <ForeignText text={by} />
          </small>
        </li>
      );
    })}
  </ol>
);

/** True if the reason comes from a guard, which is a fact. Other reasons come from the requester. */
const isGuards = ({ approval }: ApprovalReview): boolean => approval.kind === 'call';

function RuleReason({ review }: { review: ApprovalReview }) {
  const { approval } = review;
  const because = isGuards(review) ? review.because : undefined;
  if (approval.rule === undefined && because === undefined) return null;
  return (
    <div class="sect">
      <h2>Reason for the request</h2>
      {approval.rule === undefined ? null : (
        <p>
          Required by <ForeignText text={approval.rule} class="mono" />
        </p>
      )}
      {because === undefined ? null : <ForeignText text={because} />}
    </div>
  );
}

function Behind({ review }: { review: ApprovalReview }) {
  const { rights, meters } = review;
  const words = rights.map(rightWords);
  const unit = me.value?.currency ?? '';
  return (
    <div class="behind">
      <div class="sect">
        <h2>
          Rights of the thread <small>{rights.length}</small>
        </h2>
        <ul class="rights all">
          {rights.map(({ name, state, uses }, index) => (
            <li key={name}>
              <ForeignText text={words[index]?.join(' ').trim() ?? name} class="mono cut" />
              <span class={`n ${state === 'asks' ? 'you' : ''}`}>
                {state === 'used' ? `${uses}×` : state}
              </span>
            </li>
          ))}
        </ul>
        <p class="faint">Everything else is refused.</p>
      </div>
      <div class="sect">
        <h2>Cost so far</h2>
        <div class="meters">
          {meters.map((meter: LimitMeter) => (
            <MeterLine key={meter.name} meter={meter} unit={meter.name === 'spend' ? unit : ''} />
          ))}
        </div>
      </div>
    </div>
  );
}

const MeterLine = ({ meter, unit }: { meter: LimitMeter; unit: string }) => (
  <>
    <span class="dim">{limitName(meter.name)}</span>
    <MeterBar meter={meter} />
    <MeterValue meter={meter} unit={unit} />
  </>
);

/** Result of the decision. It replaces the buttons. */
function Decided({ review }: { review: ApprovalReview }) {
  const { state, who, channel, decided, why, uses, expires } = review.approval;
  const isGood = state === 'approved' || state === 'used';
  return (
    <section class={`decided ${isGood ? 'ok' : 'bad'}`} aria-label="Decision">
      <Icon name={isGood ? 'ok' : 'no'} />
      <div>
        <b>{stateWord(state)}</b>{' '}
        {who === undefined ? null : (
          <>
            by <ForeignText text={who} />
            {channel === undefined || who.includes(`(${channel})`) ? '' : ` (${channel})`}
          </>
        )}{' '}
        {decided === undefined ? null : <Time at={decided} form="clock" />}
        {state === 'used' ? <span class="dim"> · used, no uses left</span> : null}
        {state === 'approved' ? (
          <span class="dim">
            {' '}
            · {uses} {uses === 1 ? 'use' : 'uses'} left
            {expires === undefined ? '' : ` · ${expiryWords(expires, now.value)}`}
          </span>
        ) : null}
        {why === undefined || why === '' ? null : <ForeignText text={why} author="Reason" />}
      </div>
    </section>
  );
}

function Review(props: {
  review: ApprovalReview;
  fault: PageFault | undefined;
  onDone: (fault: PageFault | undefined) => void;
}) {
  const { review, fault, onDone } = props;
  const { approval, provenance, grant, limit, question, diff, because, says, gates } = review;
  const [closed, setClosed] = useState(0);
  const load: LoadPiece = (name, offset) => {
    const query = new URLSearchParams({ name, offset: String(offset) });
    return get<LongText>(`approvals/${encodeURIComponent(approval.id)}/argument?${query}`);
  };
  const select = (seq: number) => {
    if (approval.thread !== undefined) go(`${pathOf('t', approval.thread)}?at=${seq}`);
  };
  return (
    <>
      <div class="scroll">
        {question === undefined ? null : (
          <ForeignText
            text={question}
            {...(approval.shown.action !== 'ask' && { author: 'The model asks' })}
          />
        )}
        <RuleReason review={review} />
        <ReviewFacts review={review} />
        {diff === undefined || diff === '' ? null : (
          <div class="sect">
            <h2>Proposed change</h2>
            <ForeignText text={diff} class="mono" />
          </div>
        )}
        {review.arguments.length > 0 ? (
          <div class="sect">
            <h2>
              Arguments <small>exact, as text</small>
            </h2>
            <ReviewedArguments arguments={review.arguments} load={load} onOpened={setClosed} />
          </div>
        ) : null}
        {review.tainted ? <Tainted tainted={review.tainted} /> : null}
        {review.before ? <Before before={review.before} /> : null}
        {grant ? <Grant grant={grant} /> : null}
        {limit ? <LimitAsked limit={limit} /> : null}
        {gates.length > 0 ? (
          <div class="sect">
            <h2>Checks so far</h2>
            <Ladder gates={gates} />
          </div>
        ) : null}
        {provenance ? (
          <div class="sect">
            <h2>Provenance</h2>
            <ProvenanceGraph provenance={provenance} onSelect={select} />
          </div>
        ) : null}
        <Behind review={review} />
        {because === undefined || isGuards(review) ? null : (
          <ForeignText
            text={because}
            author={
              review.turn === undefined ? 'Reason from the requester' : 'Reason from the model'
            }
          />
        )}
        {says === undefined ? null : <ForeignText text={says} author="The model says" />}
      </div>
      {approval.state === 'pending' ? null : <Decided review={review} />}
      <DecisionForm review={review} closed={closed} fault={fault} onDone={onDone} />
    </>
  );
}

/** Reloads an open review when the list has a newer state. Returns true if its content changed. */
function useFresh(review: ApprovalReview | undefined, again: () => void): boolean {
  const first = useRef<string>(undefined);
  const current = review?.approval;
  const row = [...pending.value, ...decided.value].find(({ id }) => id === current?.id);
  const sum = (one: ListedApproval | undefined) => `${one?.digest} ${one?.state} ${one?.uses}`;
  useEffect(() => {
    if (row && sum(row) !== sum(current)) again();
  }, [sum(row)]);
  first.current ??= current?.digest;
  return current !== undefined && first.current !== current.digest;
}

/** `onDecided` is called once, after a decision from this pane was accepted. */
export function ReviewPane({ id, onDecided }: { id: string; onDecided?: () => void }) {
  const { answer, again } = useResource<ApprovalReview>(`approvals/${encodeURIComponent(id)}`);
  const review = answer?.ok ? answer.output : undefined;
  const hasChanged = useFresh(review, again);
  const [fault, setFault] = useState<PageFault>();
  const onDone = (problem: PageFault | undefined) => {
    setFault(problem);
    if (problem === undefined && onDecided) onDecided();
    again();
  };
  const pane = useRef<HTMLElement>(null);
  // Keys act on the focused review. The focus of a person who types or tabs elsewhere does not move.
  useEffect(() => {
    const { activeElement } = document;
    if (activeElement === null || activeElement === document.body) pane.current?.focus();
  }, [review?.approval.id]);
  const approval = review?.approval;
  return (
    <section ref={pane} tabIndex={-1} class="card pane stack insp review" aria-label="Review">
      <header class="bar flex">
        <Link to="/approvals" class="btn only phone-back" label="Back to the list">
          <Icon name="back" />
        </Link>
        {approval ? (
          <>
            <Icon name="ask" class={approval.state === 'pending' ? 'you' : 'faint'} />
            <h1 class="cut">
              {/* Text of a model must not become a heading of the page. */}
              {approval.kind === 'question' ? (
                <>{approval.directive ?? 'a thread'} asks</>
              ) : (
                <ForeignText text={review?.tool ?? approval.title} class="mono" />
              )}
            </h1>
            <span class="dim">{kindWord(approval.kind)}</span>
            <span class={`due-in ${approval.state === 'pending' ? 'you' : 'dim'}`}>
              {approval.state === 'pending'
                ? expiryWords(approval.expires, now.value)
                : stateWord(approval.state)}
            </span>
          </>
        ) : (
          <h1>Review</h1>
        )}
      </header>
      {answer === undefined ? <LoadingRows /> : null}
      {answer && !answer.ok ? <ErrorState error={answer.error} again={again} /> : null}
      {hasChanged && approval?.state === 'pending' ? (
        <p class="changed" role="status">
          <Icon name="warn" /> The request has changed. Read it again.
        </p>
      ) : null}
      {review ? (
        <Review key={review.approval.digest} review={review} fault={fault} onDone={onDone} />
      ) : null}
    </section>
  );
}
