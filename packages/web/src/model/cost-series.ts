// Sums the cost of a thread per turn. A step has two parts: the replies of the thread, and its
// children.
import type { ListedRun } from './api.ts';
import type { TimelineEntry } from './timeline-entry.ts';

/** Highest number of steps of a chart. A longer thread shows every n-th turn. */
const MOST_POINTS = 200;

/** Sums up to and including this turn. */
export interface CostPoint {
  readonly turn: number;
  readonly own: number;
  readonly children: number;
}

interface CostSeries {
  readonly points: readonly CostPoint[];
  readonly own: number;
  readonly children: number;
  readonly total: number;
}

const spendOf = ({ cost }: ListedRun): number => Number(cost['spend'] ?? 0) || 0;

/** `below`: the listed children. A running child counts with its cost so far. */
export function costSeries(
  rows: readonly TimelineEntry[],
  below: readonly ListedRun[] = [],
): CostSeries {
  const points: CostPoint[] = [];
  let [own, children] = [0, 0];
  const ended = new Set<string>();
  let turn = 0;
  const put = (): void => {
    const point = { turn, own, children };
    if (points.at(-1)?.turn === turn) points[points.length - 1] = point;
    else points.push(point);
  };
  for (const row of rows) {
    // The source has paid for the turns before the fork.
    if (row.name === 'fork') {
      [own, children] = [0, 0];
      points.length = 0;
    } else if (row.kind === 'turn') {
      turn = row.turn;
      own += row.spend ?? 0;
      put();
    } else if (row.spend !== undefined) {
      children += row.spend;
      if (row.thread !== undefined) ended.add(row.thread);
      put();
    }
  }
  const running = below
    .filter(({ id }) => !ended.has(id))
    .reduce((sum, run) => sum + spendOf(run), 0);
  if (running > 0) {
    children += running;
    put();
  }
  return { points: thinned(points), own, children, total: own + children };
}

/** Keeps every n-th point, and always the last point. */
function thinned(points: readonly CostPoint[]): readonly CostPoint[] {
  if (points.length <= MOST_POINTS) return points;
  const every = Math.ceil(points.length / MOST_POINTS);
  const last = points.length - 1;
  return points.filter((_, index) => (last - index) % every === 0);
}
