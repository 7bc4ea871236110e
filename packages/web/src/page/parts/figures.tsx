// Numbers and times with their unit and, if present, their limit.
import { signal } from '@preact/signals';
import type { LimitMeter } from '../../model/api.ts';
import { ago, clockTime, dayTime, limitName, limitValue } from '../../model/format.ts';

/** Current time, updated every second. Readers render again. It stops in a hidden tab. */
export const now = signal(Date.now());
setInterval(() => {
  if (!document.hidden) now.value = Date.now();
}, 1000);
addEventListener('visibilitychange', () => {
  if (!document.hidden) now.value = Date.now();
});

/** Shows an age (`ago`) or the time of day (`clock`, `exact`). The title has the date and the duration `took`. */
export function Time(props: { at: number; form?: 'ago' | 'clock' | 'exact'; took?: string }) {
  const { at, form = 'ago', took } = props;
  const title = took === undefined ? dayTime(at) : `${dayTime(at)}, took ${took}`;
  const text = form === 'ago' ? ago(now.value - at) : clockTime(at, form === 'exact');
  return (
    <time class="time" dateTime={new Date(at).toISOString()} title={title}>
      {text}
    </time>
  );
}

const percent = (part: number, whole: number): number =>
  whole <= 0 ? (part > 0 ? 100 : 0) : Math.max(0, Math.min(100, (part / whole) * 100));

/** Bar of a limit: the used part solid, reservations hatched, and marks at 80 % and at the limit before a raise. */
export function MeterBar({ meter }: { meter: LimitMeter }) {
  const { name, used, reserved, max, raised_from: raised } = meter;
  if (max === undefined) return <span class="meter none" aria-hidden="true" />;
  const [a, b] = [percent(used, max), percent(used + reserved, max)];
  const warm = a >= 80 ? 'warm' : '';
  return (
    <span
      class="meter"
      role="meter"
      aria-label={limitName(name)}
      aria-valuemin={0}
      aria-valuemax={100}
      aria-valuenow={Math.round(a)}
      aria-valuetext={`${limitValue(name, used)} of ${limitValue(name, max)}`}
    >
      <i class={warm} style={{ width: `${a}%` }} />
      {b > a ? <i class={`res ${warm}`} style={{ left: `${a}%`, width: `${b - a}%` }} /> : null}
      <i class="at80" />
      {raised === undefined ? null : (
        <i class="was" style={{ left: `${percent(raised, max)}%` }} title="limit before" />
      )}
    </span>
  );
}

/** Text `0.2955 of 0.50 USD`, or only the number without a limit. `unit` is the last word. */
export function MeterValue({ meter, unit = '' }: { meter: LimitMeter; unit?: string }) {
  const { name, used, max } = meter;
  return (
    <span class="v">
      {limitValue(name, used)}{' '}
      <span>
        {max === undefined ? '' : `of ${limitValue(name, max)}`} {unit}
      </span>
    </span>
  );
}
