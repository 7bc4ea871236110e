// Where the money went: the chart large, each turn with its numbers, children and hooks apart.
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
import type { TimelineRow } from '../../model/timeline-entry.ts';
import { MeterBar } from '../parts/figures.tsx';
import { ErrorState, LoadingRows, useResource } from '../parts/states.tsx';
import { ForeignText } from '../parts/untrusted-text.tsx';
import { Link } from '../router.tsx';
import { orderedMeters } from './answers.tsx';
import { threadPath, threadResource } from './place.ts';
import { StepChart } from './step-chart.tsx';

const SHOWN_TURNS = 500;

const about = (isEstimated: boolean): string => (isEstimated ? 'about ' : '');

function Turns({ cost, onTurn }: { cost: ThreadCostView; onTurn: (seq: number) => void }) {
  const shown = cost.turns.slice(-SHOWN_TURNS);
  return (
    <table class="plain-table">
      <caption>
        By turn
        {shown.length < cost.turns.length
          ? `, the last ${count(shown.length)} of ${count(cost.turns.length)}`
          : ''}
      </caption>
      <thead>
        <tr>
          <th scope="col">turn</th>
          <th scope="col">model</th>
          <th scope="col" class="num">
            input
          </th>
          <th scope="col" class="num">
            cached
          </th>
          <th scope="col" class="num">
            output
          </th>
          <th scope="col" class="num">
            spend
          </th>
          <th scope="col">price row</th>
        </tr>
      </thead>
      <tbody>
        {shown.map((turn) => (
          <tr key={turn.seq}>
            <th scope="row">
              <button type="button" class="more-link" onClick={() => onTurn(turn.seq)}>
                {count(turn.turn)}
              </button>
            </th>
            <td>
              <ForeignText text={turn.model} />
            </td>
            <td class="num">{count(turn.input)}</td>
            <td class="num">{count(turn.cached)}</td>
            <td class="num">{count(turn.output)}</td>
            <td class="num">
              {about(turn.estimated)}
              {money(turn.spend)}
            </td>
            <td class="faint">
              <ForeignText text={turn.price_row} />
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Below(props: { title: string; runs: ThreadCostView['children'] }) {
  const { title, runs } = props;
  if (runs.length === 0) return null;
  return (
    <table class="plain-table">
      <caption>{title}</caption>
      <tbody>
        {runs.map(({ thread, directive, spend, tokens }) => (
          <tr key={thread}>
            <th scope="row">
              <Link to={threadPath(thread)} class="more-link">
                {directive}
              </Link>
            </th>
            <td class="faint">{thread}</td>
            <td class="num">{shortCount(tokens)} tokens</td>
            <td class="num">{money(spend)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Limits({ meters, currency }: { meters: readonly LimitMeter[]; currency: string }) {
  return (
    <table class="plain-table">
      <caption>Limits</caption>
      <tbody>
        {orderedMeters(meters).map((meter) => (
          <tr key={meter.name}>
            <th scope="row">{limitName(meter.name)}</th>
            <td class="bar-cell">
              <MeterBar meter={meter} />
            </td>
            <td class="num">
              {limitValue(meter.name, meter.used)}
              {meter.max === undefined ? '' : ` of ${limitValue(meter.name, meter.max)}`}
              {meter.name === 'spend' ? ` ${currency}` : ''}
            </td>
            <td class="faint">
              {meter.reserved > 0 ? `${limitValue(meter.name, meter.reserved)} reserved · ` : ''}
              {meter.from === undefined ? '' : limitOrigin(meter.from)}
              {meter.raised_from === undefined
                ? ''
                : `, was ${limitValue(meter.name, meter.raised_from)}`}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

export function CostTab(props: {
  view: ThreadView;
  rows: readonly TimelineRow[];
  currency: string;
  onSelect: (seq: number) => void;
}) {
  const { view, rows, currency, onSelect } = props;
  const { thread } = view;
  // Read again with every turn: the table is what was charged, not what the page adds up.
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
    <div class="sheet-body" tabIndex={0} role="region" aria-label="Cost in detail">
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
            <span class="dim">{count(answer.output.total.tokens)} tokens in all</span>
          </p>
          <Turns cost={answer.output} onTurn={onSelect} />
          <Below title="Children" runs={answer.output.children} />
          <Below title="Hooks" runs={answer.output.hooks} />
        </>
      ) : null}
    </div>
  );
}
