// Chart of the cost per day, as bars stacked by model. A table has the same numbers.
import { useMemo } from 'preact/hooks';
import type { CostReport } from '../../model/api.ts';
import { type DayBar, type DaySeries, daySeries } from '../../model/day-series.ts';
import { count, money, shortCount } from '../../model/format.ts';
import { now } from '../parts/figures.tsx';
import { Table } from '../parts/table.tsx';
import { ForeignText } from '../parts/untrusted-text.tsx';
import { BehindDrawing, usePlaceWidth } from './drawing.tsx';

const [HEIGHT, LEFT, FOOT, HEAD] = [170, 44, 18, 8];
const DAY_MS = 86_400_000;

/** Formats a day without its year: `11-15`. The table has the whole date. */
const shortDay = (day: string): string => day.slice(5);

function Axis({
  series,
  y,
  width,
}: {
  series: DaySeries;
  y: (v: number) => number;
  width: number;
}) {
  return (
    <>
      {series.ticks.map((tick) => (
        <g key={tick}>
          <path class="grid" d={`M${LEFT} ${y(tick)}H${width}`} />
          <text x={LEFT - 6} y={y(tick) + 3.5} text-anchor="end">
            {tick === 0 ? '0' : money(tick)}
          </text>
        </g>
      ))}
    </>
  );
}

function Bar({
  bar,
  x,
  size,
  y,
}: {
  bar: DayBar;
  x: number;
  size: number;
  y: (v: number) => number;
}) {
  return (
    <g>
      <title>{`${bar.day}: ${money(bar.spend)}`}</title>
      <rect class="hit" x={x} y={HEAD} width={size} height={HEIGHT - FOOT - HEAD} />
      {bar.parts.map(({ series, from, to }) => (
        <rect
          key={series}
          class={`series s${series}`}
          x={x + size * 0.12}
          y={y(to)}
          width={Math.max(1, size * 0.76)}
          height={Math.max(0, y(from) - y(to))}
        />
      ))}
    </g>
  );
}

function DayTable({ series, currency }: { series: DaySeries; currency: string }) {
  return (
    <div class="wide-table">
      <Table
        class="plain"
        columns={[['day'], ['threads'], ['tokens'], [currency]]}
        rows={series.days.toReversed().flatMap(({ day, spend, group }) =>
          group === undefined
            ? []
            : {
                key: day,
                cells: [
                  day,
                  count(group.threads),
                  shortCount(group.tokens),
                  `${group.estimated ? 'about ' : ''}${money(spend)}`,
                ],
              },
        )}
      />
    </div>
  );
}

export function DayBars({ report }: { report: CostReport }) {
  const [place, width] = usePlaceWidth(900);
  const today = Math.floor(now.value / DAY_MS) * DAY_MS;
  const series = useMemo(() => daySeries(report, today), [report, today]);
  const { days, top, models } = series;
  const y = (value: number): number =>
    HEIGHT - FOOT - ((HEIGHT - FOOT - HEAD) * value) / (top > 0 ? top : 1);
  const size = (width - LEFT) / Math.max(1, days.length);
  const every = Math.max(1, Math.ceil(54 / size));
  return (
    <figure class="day-bars">
      <div ref={place}>
        <svg
          class="chart days"
          viewBox={`0 0 ${width} ${HEIGHT}`}
          style={{ height: `${HEIGHT}px` }}
          role="img"
          aria-label={`Cost by day, ${days.length} days; the table below has the numbers`}
        >
          <Axis series={series} y={y} width={width} />
          {days.map((bar, index) => (
            <Bar key={bar.day} bar={bar} x={LEFT + index * size} size={size} y={y} />
          ))}
          {days.map(({ day }, index) =>
            (days.length - 1 - index) % every === 0 ? (
              <text
                key={day}
                x={LEFT + (index + 0.5) * size}
                y={HEIGHT - 4}
                text-anchor={index === days.length - 1 && size < 40 ? 'end' : 'middle'}
              >
                {shortDay(day)}
              </text>
            ) : null,
          )}
        </svg>
      </div>
      <figcaption class="key dim small">
        {models.map((name, index) => (
          <span key={name} class="k">
            <i class={`series s${index}`} />
            <ForeignText text={name} />
          </span>
        ))}
      </figcaption>
      <BehindDrawing title="Show as a table" class="behind-chart small">
        {() => <DayTable series={series} currency={report.currency} />}
      </BehindDrawing>
    </figure>
  );
}
