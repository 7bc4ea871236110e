// Details of one step: the decision about a call, the numbers and the reply of a turn, the answer
// of a hook, and the event in the journal.
import { useState } from 'preact/hooks';
import type { Data, EventDetail, SlimEvent } from '../../model/api.ts';
import { clockTime, count, money, seconds } from '../../model/format.ts';
import { isTrouble } from '../../model/thread-sums.ts';
import type { TimelineEntry } from '../../model/timeline-entry.ts';
import { Button } from '../parts/button.tsx';
import { Command } from '../parts/copy.tsx';
import { Time } from '../parts/figures.tsx';
import { Icon } from '../parts/icons.tsx';
import { JsonView, PiecesView } from '../parts/json-view.tsx';
import { LabelChips } from '../parts/labels.tsx';
import { ErrorState, LoadingRows, useResource } from '../parts/states.tsx';
import { Facts } from '../parts/table.tsx';
import { ForeignText } from '../parts/untrusted-text.tsx';
import { Link } from '../router.tsx';
import { Decision, loadPiece } from './decision.tsx';
import { textAt } from './header.tsx';
import { threadPath, threadResource } from './place.ts';
import { iconOf } from './timeline-row.tsx';

function Turn(props: {
  id: string;
  row: TimelineEntry;
  detail: EventDetail;
  reply: SlimEvent | undefined;
  currency: string;
}) {
  const { id, row, detail, reply, currency } = props;
  const { usage, spend } = row;
  const about = usage?.estimated ? 'about ' : '';
  const tokens = (value: number) => `${about}${count(value)}`;
  return (
    <>
      <Facts
        facts={[
          ['model', row.model === undefined ? '' : <ForeignText text={row.model} />],
          ['requested', <Time at={row.start} form="exact" />],
          ['answered after', row.end === undefined ? '' : seconds((row.end - row.start) / 1000)],
          ['input', usage ? `${tokens(usage.input)} tokens` : ''],
          ['from the cache', usage && usage.cached > 0 ? `${tokens(usage.cached)} tokens` : ''],
          ['output', usage ? `${tokens(usage.output)} tokens` : ''],
          ['spend', spend === undefined ? '' : `${money(spend)} ${currency}`],
          ['price row', reply?.price_row ?? ''],
          ['stop reason', reply?.stop?.replaceAll('_', ' ') ?? ''],
          ['labels', row.labels.length > 0 ? <LabelChips taint={row.labels} /> : ''],
        ]}
      />
      <div class="sect">
        <h3>Reply</h3>
        {detail.content && reply ? (
          <PiecesView
            first={detail.content}
            load={loadPiece(id, reply.seq, 'content')}
            author="The model says"
            labels={row.labels}
          />
        ) : (
          <p class="faint">{row.state === 'open' ? 'in progress' : 'no text, only calls'}</p>
        )}
      </div>
    </>
  );
}

const at = (value: Data | undefined, name: string): Data | undefined =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
    ? (value as { readonly [name: string]: Data })[name]
    : undefined;

function Hook({ row, detail }: { row: TimelineEntry; detail: EventDetail }) {
  const data = at(detail.event, 'data') ?? detail.event;
  const changed = (['limits', 'model', 'notes'] as const)
    .map((name) => [name, at(data, name)] as const)
    .filter(([, value]) => value !== undefined && JSON.stringify(value) !== '{}');
  return (
    <>
      <Facts
        facts={[
          ['fired at', textAt(data, 'event').replaceAll('_', ' ')],
          ['step', <ForeignText text={textAt(data, 'step')} />],
          ['when', <ForeignText text={detail.when ?? ''} class="mono" />],
          ['answer', <ForeignText text={row.text.replace(/^at [a-z_ ]+: /, '')} />],
          ['took', row.took_ms === undefined ? '' : seconds(row.took_ms / 1000)],
          [
            'thread of the hook',
            row.thread === undefined ? (
              ''
            ) : (
              <Link to={threadPath(row.thread)} class="more-link">
                {row.thread}
              </Link>
            ),
          ],
        ]}
      />
      <div class="sect">
        <h3>Changes</h3>
        {changed.length === 0 ? <p class="faint">No changes.</p> : null}
        {changed.map(([name, value]) => (
          <div key={name}>
            <small class="faint">{name}</small>
            <JsonView value={value ?? null} />
          </div>
        ))}
      </div>
    </>
  );
}

function Note(props: {
  id: string;
  seq: number;
  row: TimelineEntry | undefined;
  detail: EventDetail;
}) {
  const { id, seq, row, detail } = props;
  return (
    <>
      {row && row.text !== '' ? <ForeignText text={row.text} /> : null}
      {detail.content ? (
        <PiecesView first={detail.content} load={loadPiece(id, seq, 'content')} author="Text" />
      ) : null}
    </>
  );
}

/** Lists steps that were denied, failed or wait, while no step is selected. */
function Overview(props: { rows: readonly TimelineEntry[]; onSelect: (seq: number) => void }) {
  const troubles = props.rows.filter(isTrouble).slice(0, 100);
  return (
    <section class="card pane stack insp" aria-label="Needs attention">
      <div class="bar flex">
        <b>Needs attention</b>
        <span class="faint">{count(troubles.length)}</span>
      </div>
      <div class="scroll">
        {troubles.length === 0 ? (
          <p class="faint">
            No step failed, was denied or waits. Select a step to see why it was allowed.
          </p>
        ) : (
          <ul class="troubles">
            {troubles.map((row) => (
              <li key={row.seq}>
                <Button
                  icon={iconOf(row)}
                  class={row.state === 'waits' || row.state === 'unknown' ? 'is-you' : 'is-bad'}
                  onClick={() => props.onSelect(row.denials.at(-1) ?? row.seq)}
                >
                  <code>{row.name}</code>
                  <ForeignText text={row.target ?? row.text} class="cut mono dim" />
                  <span class="why">
                    {row.state === 'denied'
                      ? ['denied', row.why].filter(Boolean).join(', ')
                      : row.why || (row.kind === 'note' ? '' : row.state)}
                  </span>
                </Button>
              </li>
            ))}
          </ul>
        )}
      </div>
    </section>
  );
}

type Side = 'decision' | 'raw';

function Body(props: InspectorProps & { seq: number; side: Side; detail: EventDetail }) {
  const { thread, row, detail, seq, side, currency, events, onSelect } = props;
  if (side === 'raw') {
    return <PiecesView first={detail.raw} load={loadPiece(thread, seq, 'raw')} />;
  }
  if (!row || row.kind === 'note') {
    return <Note id={thread} seq={seq} row={row} detail={detail} />;
  }
  if (row.kind === 'turn') {
    const reply = events.find((event) => event.seq === row.result);
    return <Turn id={thread} row={row} detail={detail} reply={reply} currency={currency} />;
  }
  if (row.kind === 'hook') return <Hook row={row} detail={detail} />;
  return (
    <>
      {row.thread === undefined ? null : (
        <Link to={threadPath(row.thread)} class="btn">
          <Icon name="child" /> Open {row.thread}
        </Link>
      )}
      <Decision
        key={`${thread} ${seq}`}
        id={thread}
        row={row}
        detail={detail}
        onSelect={onSelect}
      />
    </>
  );
}

interface InspectorProps {
  /** Id of the thread that the event belongs to. */
  readonly thread: string;
  readonly seq: number | undefined;
  readonly row: TimelineEntry | undefined;
  readonly rows: readonly TimelineEntry[];
  readonly events: readonly SlimEvent[];
  readonly currency: string;
  onSelect(seq: number | undefined): void;
}

const SIDES: Readonly<Record<TimelineEntry['kind'], string>> = {
  call: 'Decision',
  child: 'Decision',
  turn: 'Turn',
  hook: 'Answer',
  note: 'Text',
};

/** Seq of the main event of a row: the refusal of a call, the reply of a turn, the decision of a hook. */
const mainEventOf = (row: TimelineEntry | undefined, seq: number): number =>
  row?.kind === 'turn' || row?.kind === 'hook'
    ? (row.result ?? row.seq)
    : (row?.denials.at(-1) ?? row?.seq ?? seq);

export function Inspector(props: InspectorProps) {
  const { thread, seq, row, events, onSelect } = props;
  const [selectedSide, setSide] = useState<Side>();
  // An event without a row opens with its raw JSON.
  const side = selectedSide ?? (row ? 'decision' : 'raw');
  const eventSeq = seq === undefined ? undefined : mainEventOf(row, seq);
  const { answer, again } = useResource<EventDetail>(
    eventSeq === undefined ? undefined : threadResource(thread, `/events/${eventSeq}`),
  );
  if (seq === undefined || eventSeq === undefined) {
    return <Overview rows={props.rows} onSelect={onSelect} />;
  }
  const event = events.find((one) => one.seq === eventSeq);
  const title = row?.name ?? event?.type ?? 'event';
  const tone = row?.state === 'denied' || row?.state === 'failed' ? 'bad' : '';
  const [first, second] = [row ? SIDES[row.kind] : 'Text', 'Raw'];
  const tab = (name: Side, word: string) => (
    <button type="button" role="tab" aria-selected={side === name} onClick={() => setSide(name)}>
      {word}
    </button>
  );
  return (
    <section class="card pane stack insp is-open" aria-label="Selected step">
      <div class="bar flex">
        <Button
          icon="back"
          class="btn only back"
          aria-label="Back to the steps"
          onClick={() => onSelect(undefined)}
        />
        {row ? (
          <span class={tone}>
            <Icon name={row.kind === 'turn' ? 'model' : iconOf(row)} />
          </span>
        ) : null}
        <code class="name cut">{title}</code>
        <span class="faint cut">
          event {count(eventSeq)}
          {event ? ` · turn ${event.turn} · ${clockTime(event.ts, true)}` : ''}
        </span>
        <div class="tabs" role="tablist" aria-label="Step">
          {tab('decision', first)}
          {tab('raw', second)}
        </div>
      </div>
      <div class="scroll" tabIndex={0} role="region" aria-label="Step in detail">
        {!answer ? (
          <LoadingRows rows={5} />
        ) : answer.ok ? (
          <Body {...props} seq={eventSeq} side={side} detail={answer.output} />
        ) : (
          <ErrorState error={answer.error} again={again} />
        )}
      </div>
      <div class="foot faint nowrap small flex">
        {answer?.ok ? <Command text={answer.output.command} keyName="c" /> : null}
      </div>
    </section>
  );
}
