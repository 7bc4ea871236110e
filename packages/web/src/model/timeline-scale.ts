// Maps times to positions in the lane of a timeline. Busy time is linear; idle time is folded to a
// few pixels. The result depends on the width. Positions are per cent of it.

/** A stretch without events is folded if it is longer than this time and this share of the whole. */
const IDLE_MS = 10_000;
const IDLE_SHARE = 0.05;
const FOLD_PX = 12;
/** Time on each side of a folded stretch that stays visible, as a share of the busy time. */
const MARGIN = 0.035;

interface Stretch {
  readonly from: number;
  readonly to: number;
  /** Edges in per cent of the width. */
  readonly left: number;
  readonly right: number;
  readonly isFolded: boolean;
}

export interface TimelineScale {
  readonly from: number;
  readonly to: number;
  readonly stretches: readonly Stretch[];
  /** Position in per cent of the width, 0 to 100. It never decreases with time. */
  at(ms: number): number;
}

interface Idle {
  readonly from: number;
  readonly to: number;
}

/** Finds the idle stretches. `times` must be in ascending order. */
function idleStretches(times: readonly number[], from: number, to: number): Idle[] {
  const least = Math.max(IDLE_MS, (to - from) * IDLE_SHARE);
  const idle: Idle[] = [];
  let last = from;
  for (const time of [...times, to]) {
    if (time - last > least) idle.push({ from: last, to: Math.min(time, to) });
    if (time > last) last = Math.min(time, to);
  }
  return idle;
}

export function createScale(
  times: readonly number[],
  span: { readonly from: number; readonly to: number },
  options: { readonly width?: number; readonly unfolded?: boolean } = {},
): TimelineScale {
  const { width = 236, unfolded = false } = options;
  const { from } = span;
  const to = Math.max(from, span.to);
  const idle = unfolded ? [] : idleStretches(times, from, to);
  const idleSum = idle.reduce((sum, one) => sum + one.to - one.from, 0);
  const margin = Math.max(500, (to - from - idleSum) * MARGIN);
  const folded = idle
    .map((one) => ({ from: one.from + margin, to: one.to - margin }))
    .filter((one) => one.to - one.from > margin);
  const share = folded.length === 0 ? 0 : Math.min(FOLD_PX / width, 0.5 / folded.length) * 100;
  const busy = to - from - folded.reduce((sum, one) => sum + one.to - one.from, 0);
  const perMs = busy > 0 ? (100 - share * folded.length) / busy : 0;

  const stretches: Stretch[] = [];
  let [place, left] = [from, 0];
  const add = (end: number, right: number, isFolded: boolean): void => {
    stretches.push({ from: place, to: end, left, right: Math.min(100, right), isFolded });
    [place, left] = [end, Math.min(100, right)];
  };
  for (const one of folded) {
    add(one.from, left + (one.from - place) * perMs, false);
    add(one.to, left + share, true);
  }
  add(to, busy > 0 ? 100 : left, false);
  return { from, to, stretches, at: (ms) => placeIn(stretches, ms) };
}

function placeIn(stretches: readonly Stretch[], ms: number): number {
  let [low, high] = [0, stretches.length - 1];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (ms > (stretches[middle]?.to ?? 0)) low = middle + 1;
    else high = middle;
  }
  const one = stretches[low];
  if (!one || ms <= one.from) return one?.left ?? 0;
  if (ms >= one.to) return one.right;
  return one.left + ((ms - one.from) / (one.to - one.from)) * (one.right - one.left);
}

const STEPS_MS = [
  1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 30_000, 60_000, 120_000,
  300_000, 600_000, 1_200_000, 1_800_000, 3_600_000, 7_200_000, 21_600_000, 43_200_000, 86_400_000,
];

interface ScaleMark {
  readonly left: number;
  readonly ms: number;
}

/** The last mark must leave space for its text. */
const LAST_MARK = 80;

/** Returns marks at round times, at least `apart` per cent of the width apart. A folded stretch has none. */
export function scaleMarks(scale: TimelineScale, apart = 19): ScaleMark[] {
  const busy = scale.stretches.reduce(
    (sum, one) => sum + (one.isFolded ? 0 : one.to - one.from),
    0,
  );
  const step = STEPS_MS.find((ms) => (ms / Math.max(busy, 1)) * 100 >= apart) ?? 86_400_000;
  const marks: ScaleMark[] = [{ left: 0, ms: 0 }];
  for (const one of scale.stretches) {
    if (one.isFolded) continue;
    const first = Math.ceil((one.from - scale.from) / step) * step;
    for (let ms = first; ms <= one.to - scale.from && marks.length < 12; ms += step) {
      const left = scale.at(scale.from + ms);
      if (left - (marks.at(-1)?.left ?? 0) >= apart && left <= LAST_MARK) {
        marks.push({ left, ms });
      }
    }
  }
  return marks;
}
