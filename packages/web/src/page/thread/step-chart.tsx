// Cost per turn as steps: own and children in two tones, the limit dashed, the warning dotted,
// reservations hatched. Drawn at true scale; a table has the same numbers.
import { useEffect, useId, useRef, useState } from 'preact/hooks';
import type { CostPoint } from '../../model/cost-series.ts';
import { count, money } from '../../model/format.ts';

interface StepChartProps {
  readonly points: readonly CostPoint[];
  readonly currency: string;
  readonly reserved?: number;
  readonly limit?: number;
  /** Share of the limit at which a warning line is drawn. */
  readonly warnAt?: number;
  /** Highest number of turns that the limit allows. */
  readonly turns?: number;
  readonly height?: number;
}

interface StreamFrame {
  readonly width: number;
  readonly height: number;
  readonly left: number;
  readonly right: number;
  x(turn: number): number;
  y(amount: number): number;
}

/** Returns the next round amount, at or above the value. */
function roundUp(value: number): number {
  if (value <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  const step =
    [1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10].find((one) => one * power >= value - 1e-12) ?? 10;
  return step * power;
}

function frameOf(width: number, height: number, turns: number, top: number): StreamFrame {
  const [left, right, head, foot] = [34, width - 2, 14, height - 18];
  return {
    width,
    height,
    left,
    right,
    x: (turn) => left + ((right - left) * turn) / Math.max(1, turns),
    y: (amount) => foot - ((foot - head) * Math.min(amount, top)) / top,
  };
}

/** Path of the steps. A step rises at the end of its turn. */
function stepPath(
  points: readonly CostPoint[],
  frame: StreamFrame,
  of: (point: CostPoint) => number,
) {
  const base = frame.y(0);
  const steps = points.map((point) => `H${frame.x(point.turn)}V${frame.y(of(point))}`);
  return { line: `M${frame.left} ${base}${steps.join('')}`, base };
}

function Lines({
  frame,
  top,
  limit,
  warnAt,
}: { frame: StreamFrame; top: number } & Partial<StepChartProps>) {
  const line = (amount: number) => `M${frame.left} ${frame.y(amount)}H${frame.right}`;
  return (
    <>
      {[0, top / 2, top].map((amount) => (
        <g key={amount}>
          <path d={line(amount)} class="grid" />
          <text x={frame.left - 6} y={frame.y(amount) + 3.5} text-anchor="end">
            {amount === 0 ? '0' : money(amount)}
          </text>
        </g>
      ))}
      {limit === undefined ? null : (
        <>
          <path d={line(limit)} class="max" />
          <text class="max" x={frame.right} y={frame.y(limit) - 4} text-anchor="end">
            limit {money(limit)}
          </text>
        </>
      )}
      {limit === undefined || warnAt === undefined || limit * (1 - warnAt) < top * 0.1 ? null : (
        <>
          <path d={line(limit * warnAt)} class="warns" />
          <text class="warns" x={frame.left + 4} y={frame.y(limit * warnAt) - 4}>
            warns at {money(limit * warnAt)}
          </text>
        </>
      )}
    </>
  );
}

/** Labels the parts of the last step, to the right or, without space, to the left. */
function Last({
  frame,
  point,
  reserved,
}: {
  frame: StreamFrame;
  point: CostPoint;
  reserved: number;
}) {
  const pattern = useId();
  const [x, total] = [frame.x(point.turn), point.own + point.children];
  const isRight = x < frame.width - 110;
  const [side, anchor] = isRight ? [x + 8, 'start'] : [x - 8, 'end'];
  const room = Math.min(23, frame.right - x);
  const lines = [
    ...(reserved > 0 ? [`${money(reserved)} reserved`] : []),
    ...(point.children > 0 ? [`children ${money(point.children)}`] : []),
    `own ${money(point.own)}`,
  ];
  // The text is beside the step if it fits, else above the line to the step.
  const first = isRight
    ? Math.min(frame.y(total) + 1, frame.y(0) - 13 * lines.length + 8)
    : Math.max(10, frame.y(total) - 8 - 13 * (lines.length - 1));
  return (
    <>
      <defs>
        <pattern
          id={pattern}
          width="4"
          height="4"
          patternUnits="userSpaceOnUse"
          patternTransform="rotate(45)"
        >
          <rect width="1.6" height="4" class="hatch" />
        </pattern>
      </defs>
      {reserved > 0 && room > 2 ? (
        <rect
          x={x}
          y={frame.y(total + reserved)}
          width={room}
          height={Math.max(2, frame.y(total) - frame.y(total + reserved))}
          fill={`url(#${pattern})`}
          opacity=".75"
        />
      ) : null}
      <circle cx={x} cy={frame.y(total)} r="3.2" class="dot-now" />
      {lines.map((text, index) => (
        <text
          key={text}
          x={isRight && reserved > 0 ? side + room : side}
          y={first + index * 13}
          text-anchor={anchor}
        >
          {text}
        </text>
      ))}
    </>
  );
}

function TurnNumbers({ frame, turns }: { frame: StreamFrame; turns: number }) {
  const every = Math.max(1, Math.ceil(turns / 6));
  const numbers = Array.from({ length: Math.ceil(turns / every) }, (_, at) => at * every + 1);
  return numbers
    .filter((turn) => turn <= turns)
    .map((turn) => (
      <text key={turn} x={frame.x(turn)} y={frame.height - 5} text-anchor="middle">
        {turn}
      </text>
    ));
}

/** The same numbers for screen readers. The cost tab shows them as a visible table. */
const Behind = ({ points, currency }: Pick<StepChartProps, 'points' | 'currency'>) => (
  <table class="unseen">
    <caption>Spend after each turn, {currency}</caption>
    <tbody>
      {points.map(({ turn, own, children }) => (
        <tr key={turn}>
          <th scope="row">turn {turn}</th>
          <td>own {money(own)}</td>
          <td>children {money(children)}</td>
        </tr>
      ))}
    </tbody>
  </table>
);

export function StepChart(props: StepChartProps) {
  const { points, currency, reserved = 0, limit, height = 120 } = props;
  const box = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(306);
  useEffect(() => {
    const element = box.current;
    if (!element) return undefined;
    const watcher = new ResizeObserver(() => setWidth(Math.max(180, element.clientWidth)));
    watcher.observe(element);
    return () => watcher.disconnect();
  }, []);
  const last = points.at(-1) ?? { turn: 0, own: 0, children: 0 };
  const total = last.own + last.children;
  const top = roundUp(Math.max(limit ?? 0, total + reserved));
  // A distant limit would compress the steps, so the axis ends earlier.
  const turns = Math.max(last.turn, Math.min(props.turns ?? 0, Math.max(12, last.turn * 3)), 4);
  const frame = frameOf(width, height, turns, top);
  const all = stepPath(points, frame, (point) => point.own + point.children);
  const own = stepPath(points, frame, (point) => point.own);
  const says = `Spend by turn: ${money(total)}${limit === undefined ? '' : ` of ${money(limit)}`} ${currency} after ${count(last.turn)} turns, ${money(last.children)} of it by children`;
  return (
    <div ref={box} class="chart-box">
      <svg
        class="chart"
        viewBox={`0 0 ${width} ${height}`}
        role="img"
        aria-label={says}
        style={{ height: `${height}px` }}
      >
        <Lines frame={frame} top={top} {...props} />
        {points.length === 0 ? null : (
          <>
            <path class="area-all" d={`${all.line}V${all.base}H${frame.left}Z`} />
            <path class="area-own" d={`${own.line}V${own.base}H${frame.left}Z`} />
            <path class="line-all" d={all.line} />
            <Last frame={frame} point={last} reserved={reserved} />
          </>
        )}
        <TurnNumbers frame={frame} turns={turns} />
      </svg>
      <Behind points={points} currency={currency} />
    </div>
  );
}
