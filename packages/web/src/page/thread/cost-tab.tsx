// Cost of a thread: a large chart, the numbers of each turn, and separate rows for children and hooks.
import { useEffect, useRef } from 'preact/hooks';
import type { LimitMeter, ThreadCostView, ThreadView } from '../../model/api.ts';
import { costSeries } from '../../model/cost-series.ts';
import {
  count,
  limitName,
  limitOrigin,
  limitValue,
  money,
  shortCount,
} from '../../model/format.ts';
import type { TimelineEntry } from '../../model/timeline-entry.ts';
import { Button } from '../parts/button.tsx';
import { MeterBar } from '../parts/figures.tsx';
import { ErrorState, LoadingRows, useResource } from '../parts/states.tsx';
import { Table } from '../parts/table.tsx';
import { ForeignText } from '../parts/untrusted-text.tsx';
import { Link } from '../router.tsx';
import { orderedMeters } from './answers.tsx';
import { threadPath, threadResource } from './place.ts';
import { StepChart } from './step-chart.tsx';

const SHOWN_TURNS = 500;

function Turns({ cost, onTurn }: { cost: ThreadCostView; onTurn: (seq: number) => void }) {
  const visible = cost.turns.slice(-SHOWN_TURNS);
  const part =
    visible.length < cost.turns.length
      ? `, the last ${count(visible.length)} of ${count(cost.turns.length)}`
      : '';
  return (
    <Table
      class="plain-table"
      caption={`By turn${part}`}
      columns={[
        ['turn'],
        ['model'],
        ['input', 'num'],
        ['cached', 'num'],
        ['output', 'num'],
        ['spend', 'num'],
        ['price row', 'faint'],
      ]}
      rows={visible.map(
        ({ seq, turn, model, input, cached, output, estimated, spend, price_row }) => ({
          key: seq,
          cells: [
            <Button text={count(turn)} class="more-link" onClick={() => onTurn(seq)} />,
            <ForeignText text={model} />,
            count(input),
            count(cached),
            count(output),
            `${estimated ? 'about ' : ''}${money(spend)}`,
            <ForeignText text={price_row} />,
          ],
        }),
      )}
    />
  );
}

function Below(props: { title: string; runs: ThreadCostView['children'] }) {
  const { title, runs } = props;
  if (runs.length === 0) return null;
  return (
    <Table
      class="plain-table"
      caption={title}
      columns={[[''], ['', 'faint'], ['', 'num'], ['', 'num']]}
      rows={runs.map(({ thread, directive, spend, tokens }) => ({
        key: thread,
        cells: [
          <Link to={threadPath(thread)} class="more-link">
            {directive}
          </Link>,
          thread,
          `${shortCount(tokens)} tokens`,
          money(spend),
        ],
      }))}
    />
  );
}

function Limits({ meters, currency }: { meters: readonly LimitMeter[]; currency: string }) {
  return (
    <Table
      class="plain-table"
      caption="Limits"
      columns={[[''], ['', 'bar-cell'], ['', 'num'], ['', 'faint']]}
      rows={orderedMeters(meters).map((meter) => {
        const { name, max, reserved, from, raised_from: before } = meter;
        const value = (amount: number): string => limitValue(name, amount);
        const of = max === undefined ? '' : ` of ${value(max)}`;
        const [apart, was] = [
          reserved > 0 ? `${value(reserved)} reserved · ` : '',
          before === undefined ? '' : `, was ${value(before)}`,
        ];
        return {
          key: name,
          cells: [
            limitName(name),
            <MeterBar meter={meter} />,
            `${value(meter.used)}${of}${name === 'spend' ? ` ${currency}` : ''}`,
            `${apart}${from === undefined ? '' : limitOrigin(from)}${was}`,
          ],
        };
      })}
    />
  );
}

const summariesOf = ({ total: { summaries } }: ThreadCostView, currency: string): string =>
  summaries === undefined ? '' : `, ${money(summaries)} ${currency} for summaries of old turns`;

export function CostTab(props: {
  view: ThreadView;
  rows: readonly TimelineEntry[];
  currency: string;
  onSelect: (seq: number) => void;
}) {
  const { view, rows, currency, onSelect } = props;
  const { thread } = view;
  // The table shows charges of the server, not sums of the page, so it is read after every turn.
  const turns = rows.reduce((sum, { kind, end }) => sum + Number(kind === 'turn' && !!end), 0);
  const { answer, again } = useResource<ThreadCostView>(threadResource(thread.id, '/cost'));
  const read = useRef(turns);
  useEffect(() => {
    if (read.current === turns) return;
    read.current = turns;
    again();
  }, [turns]);
  const spend = thread.meters.find(({ name }) => name === 'spend');
  const most = thread.meters.find(({ name }) => name === 'turns')?.max;
  const series = costSeries(rows, view.children);
  return (
    <div class="sheet-body stack" tabIndex={0} role="region" aria-label="Cost in detail">
      <StepChart
        points={series.points}
        currency={currency}
        height={220}
        reserved={spend?.reserved ?? 0}
        warnAt={0.8}
        {...(spend?.max === undefined ? {} : { limit: spend.max })}
        {...(most === undefined ? {} : { turns: most })}
      />
      <Limits meters={thread.meters} currency={currency} />
      {!answer ? <LoadingRows /> : null}
      {answer && !answer.ok ? <ErrorState error={answer.error} again={again} /> : null}
      {answer?.ok ? (
        <>
          <p>
            <b>
              {money(answer.output.total.spend)} {currency}
            </b>{' '}
            <span class="dim">
              {count(answer.output.total.tokens)} tokens in all
              {summariesOf(answer.output, currency)}
            </span>
          </p>
          <Turns cost={answer.output} onTurn={onSelect} />
          <Below title="Children" runs={answer.output.children} />
          <Below title="Hooks" runs={answer.output.hooks} />
        </>
      ) : null}
    </div>
  );
}
