// Cost of the project by day, directive and model. A charge counts once, for the thread that caused
// it. Hooks have their own row.
import type { ComponentChildren } from 'preact';
import type { CostGroup, CostReport } from '../../model/api.ts';
import { count, money, shortCount } from '../../model/format.ts';
import { DayBars } from '../graph/day-bars.tsx';
import { Command } from '../parts/copy.tsx';
import { EmptyState, ErrorState, LoadingRows, useResource } from '../parts/states.tsx';
import { Table } from '../parts/table.tsx';
import { ForeignText } from '../parts/untrusted-text.tsx';
import { Link, route, setQuery } from '../router.tsx';

const RANGES = { '1d': 'today', '7d': '7 days', '30d': '30 days', '90d': '90 days' } as const;
const isRange = (text: string | null): text is keyof typeof RANGES =>
  text !== null && Object.hasOwn(RANGES, text);

/** An estimated amount starts with `about`. */
const spendOf = ({ spend, estimated }: CostGroup): string =>
  `${estimated ? 'about ' : ''}${money(spend)}`;

const perRun = ({ spend, threads }: CostGroup): string =>
  threads > 0 ? money(Number(spend) / threads) : '–';

/** Share of input tokens that came from the cache. `input` does not include them. */
const cachedShare = ({ cached, input }: CostGroup): string =>
  cached === undefined || input === undefined || cached + input === 0
    ? '–'
    : `${Math.round((cached / (cached + input)) * 100)} %`;

function Totals({ report }: { report: CostReport }) {
  const { total, currency } = report;
  const figures: [string, string][] = [
    [spendOf(total), currency],
    [count(total.threads), total.threads === 1 ? 'thread' : 'threads'],
    [shortCount(total.tokens), 'tokens'],
  ];
  if (total.summaries !== undefined) figures.push([money(total.summaries), 'for summaries']);
  if (total.input !== undefined) figures.push([cachedShare(total), 'of input cached']);
  return (
    <div class="sums totals">
      {figures.map(([value, unit]) => (
        <div key={unit}>
          <b>{value}</b> {unit}
        </div>
      ))}
      {total.denied ? (
        <div>
          <b class="bad">{count(total.denied)}</b> denied
        </div>
      ) : null}
    </div>
  );
}

interface Column {
  readonly name: string;
  show(group: CostGroup): ComponentChildren;
}

function GroupTable(props: {
  title: string;
  groups: readonly CostGroup[];
  first: (group: CostGroup) => ComponentChildren;
  columns: readonly Column[];
}) {
  const { title, groups, first, columns } = props;
  if (groups.length === 0) return null;
  return (
    <section class="card cost-table">
      <h2>{title}</h2>
      <div class="wide-table">
        <Table
          class="plain"
          columns={[title.replace('By ', ''), ...columns.map(({ name }) => name)].map((name) => [
            name,
          ])}
          rows={groups.map((group, index) => ({
            key: index,
            cells: [first(group), ...columns.map(({ show }) => show(group))],
          }))}
        />
      </div>
    </section>
  );
}

const numbered = (value: number | undefined): string => (value === undefined ? '–' : count(value));
const shortened = (value: number | undefined): string =>
  value === undefined ? '–' : shortCount(value);

const DIRECTIVE_COLUMNS = (currency: string): readonly Column[] => [
  { name: 'runs', show: ({ threads }) => count(threads) },
  {
    name: 'denied',
    show: ({ denied }) => (denied ? <span class="bad">{count(denied)}</span> : numbered(denied)),
  },
  { name: 'tokens', show: ({ tokens }) => shortCount(tokens) },
  { name: currency, show: spendOf },
  { name: 'per run', show: perRun },
  { name: 'summaries', show: ({ summaries }) => (summaries ? money(summaries) : '–') },
  {
    name: 'at a limit',
    show: ({ at_limit: ends }) =>
      ends ? <span class="limit">{count(ends)}</span> : numbered(ends),
  },
];

const MODEL_COLUMNS = (currency: string): readonly Column[] => [
  { name: 'requests', show: ({ requests }) => numbered(requests) },
  { name: 'input', show: ({ input }) => shortened(input) },
  { name: 'cached', show: (group) => `${shortened(group.cached)} (${cachedShare(group)})` },
  { name: 'output', show: ({ output }) => shortened(output) },
  { name: currency, show: spendOf },
  {
    name: 'price row',
    show: ({ price_row: row }) => <ForeignText text={row ?? '–'} class="mono" />,
  },
];

function Report({ report }: { report: CostReport }) {
  const { currency, by_directive, by_model, total } = report;
  if (total.threads === 0 && by_directive.length === 0) {
    return (
      <EmptyState
        title="No costs in this time range"
        hint="Select a longer range, or run a directive."
        command="km run hello"
      />
    );
  }
  return (
    <>
      <section class="card cost-chart">
        <h2>
          By day <small>stacked by model</small>
        </h2>
        <DayBars report={report} />
      </section>
      <GroupTable
        title="By directive"
        groups={by_directive}
        first={({ name, kind }) => (
          <>
            <Link to={`/?directive=${encodeURIComponent(name)}`} class="to">
              <ForeignText text={name} />
            </Link>
            {kind === 'hook' ? <span class="faint"> as a hook</span> : null}
          </>
        )}
        columns={DIRECTIVE_COLUMNS(currency)}
      />
      <GroupTable
        title="By model"
        groups={by_model}
        first={({ name }) => <ForeignText text={name} class="mono" />}
        columns={MODEL_COLUMNS(currency)}
      />
    </>
  );
}

export function CostPage() {
  const since = route.value.query.get('since');
  const range = isRange(since) ? since : '30d';
  const { answer, again } = useResource<CostReport>(`cost?since=${range}`);
  return (
    <main class="scroll-page cost">
      <header class="head">
        <div class="title flex">
          <h1>Cost</h1>
          <label class="field">
            <span class="skip">Range</span>
            <select
              aria-label="Range"
              value={range}
              onChange={(event) => setQuery({ since: event.currentTarget.value })}
            >
              {Object.entries(RANGES).map(([age, words]) => (
                <option key={age} value={age}>
                  {words}
                </option>
              ))}
            </select>
          </label>
          {answer?.ok ? <Totals report={answer.output} /> : null}
        </div>
        <Command text={`km cost --since ${range}`} />
      </header>
      {answer === undefined ? <LoadingRows rows={10} /> : null}
      {answer && !answer.ok ? <ErrorState error={answer.error} again={again} /> : null}
      {answer?.ok ? <Report report={answer.output} /> : null}
    </main>
  );
}
