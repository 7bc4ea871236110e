// Computes a chart of cost per day: one bar for every day of the range, also without cost, stacked
// by model, and an axis with few round numbers.
import type { CostGroup, CostReport } from './api.ts';

interface DayPart {
  readonly model: string;
  readonly from: number;
  readonly to: number;
  /** Index of the series, which selects its colour. */
  readonly series: number;
}
export interface DayBar {
  readonly day: string;
  readonly spend: number;
  readonly parts: readonly DayPart[];
  readonly group?: CostGroup;
}
export interface DaySeries {
  readonly days: readonly DayBar[];
  /** Most expensive model first. The last entry sums all others if there are many. */
  readonly models: readonly string[];
  readonly top: number;
  readonly ticks: readonly number[];
}

const DAY_MS = 86_400_000;
const MAX_DAYS = 90;
const MAX_MODELS = 5;
const OTHERS = 'others';

const amountOf = ({ spend }: { readonly spend: string }): number => Math.max(0, Number(spend) || 0);

const dayOf = (at: number): string => new Date(at).toISOString().slice(0, 10);

/** Returns 1, 2 or 5 times a power of ten, for about four ticks. */
function tickStep(top: number): number {
  const rough = top / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const factor = [1, 2, 5].find((one) => one * power >= rough) ?? 10;
  return factor * power;
}

function modelsOf(days: readonly CostGroup[]): string[] {
  const sums = new Map<string, number>();
  for (const { models = [] } of days) {
    for (const one of models) sums.set(one.name, (sums.get(one.name) ?? 0) + amountOf(one));
  }
  const names = [...sums].toSorted((a, b) => b[1] - a[1]).map(([name]) => name);
  return names.length > MAX_MODELS ? [...names.slice(0, MAX_MODELS - 1), OTHERS] : names;
}

/** Splits the cost of a day by model. The last part is the cost without a model. */
function partsOf(group: CostGroup, models: readonly string[]): DayPart[] {
  const amounts = new Map<number, number>();
  for (const one of group.models ?? []) {
    const at = models.indexOf(one.name);
    const series = at < 0 ? models.length - 1 : at;
    amounts.set(series, (amounts.get(series) ?? 0) + amountOf(one));
  }
  const namedSum = [...amounts.values()].reduce((sum, amount) => sum + amount, 0);
  const rest = amountOf(group) - namedSum;
  if (rest > 1e-9) amounts.set(models.length, rest);
  let from = 0;
  return [...amounts]
    .toSorted((a, b) => a[0] - b[0])
    .map(([series, amount]) => {
      const part = { model: models[series] ?? OTHERS, from, to: from + amount, series };
      from += amount;
      return part;
    });
}

/** Returns the days from `since` to `now`, at most the last 90. */
export function daySeries(report: CostReport, now: number): DaySeries {
  const { by_day: groups, since } = report;
  const byDay = new Map(groups.map((group) => [group.name, group]));
  const models = modelsOf(groups);
  const last = Math.floor(now / DAY_MS);
  const sinceDay = Number.isFinite(since) ? Math.floor(since / DAY_MS) : last;
  const first = Math.max(last - MAX_DAYS + 1, Math.min(last, sinceDay));
  const days = Array.from({ length: last - first + 1 }, (_, index): DayBar => {
    const day = dayOf((first + index) * DAY_MS);
    const group = byDay.get(day);
    if (!group) return { day, spend: 0, parts: [] };
    return { day, spend: amountOf(group), parts: partsOf(group, models), group };
  });
  const highest = days.reduce(
    (most, { spend, parts }) => Math.max(most, spend, parts.at(-1)?.to ?? 0),
    0,
  );
  // A cost under a millionth is drawn as zero.
  const reach = highest > 1e-6 ? highest : 1;
  const step = tickStep(reach);
  const count = Math.max(1, Math.ceil(reach / step - 1e-9));
  const ticks = Array.from({ length: count + 1 }, (_, index) => index * step);
  return { days, models, top: count * step, ticks };
}
