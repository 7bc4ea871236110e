// Summary at the top of every thread: its rights, its effects, and its cost against its limits.
import { useMemo } from 'preact/hooks';
import type { LimitMeter, ListedRun, RightUse } from '../../model/api.ts';
import { costSeries } from '../../model/cost-series.ts';
import { bytes, count, counted, limitName, rightWords } from '../../model/format.ts';
import {
  deedTargets,
  type EffectKind,
  type EffectTarget,
  type EffectTotals,
} from '../../model/thread-sums.ts';
import type { TimelineEntry } from '../../model/timeline-entry.ts';
import { Button } from '../parts/button.tsx';
import { MeterBar, MeterValue } from '../parts/figures.tsx';
import { Icon, type IconName } from '../parts/icons.tsx';
import { ForeignText } from '../parts/untrusted-text.tsx';
import { StepChart } from './step-chart.tsx';

const SHOWN_RIGHTS = 6;
const SHOWN_EFFECTS = 4;

/** Describes the use of a right in one or two words. */
export function usesText({ state, uses, refused, left }: RightUse): [text: string, tone: string] {
  if (state === 'asks') return ['asks', 'you'];
  if (refused > 0)
    return [`${uses > 0 ? `${count(uses)}×, ` : ''}${count(refused)} refused`, 'bad'];
  if (state === 'approved') {
    return [left === undefined ? 'approved' : `approved, ${count(left)} left`, 'ok'];
  }
  return uses > 0 ? [`${count(uses)}×`, ''] : ['unused', ''];
}

const isUsed = ({ uses, state }: RightUse): boolean => uses > 0 || state === 'asks';

const Opens = (props: { text: string; onOpen: () => void }) => (
  <Button text={props.text} class="more-link" onClick={props.onOpen} />
);

export function RightsCard(props: { rights: readonly RightUse[]; onAll: () => void }) {
  const { rights, onAll } = props;
  const used = rights.filter(isUsed);
  const ordered = [...used, ...rights.filter((right) => !isUsed(right))];
  const isMore = rights.length > SHOWN_RIGHTS;
  const visible = ordered.slice(0, isMore ? SHOWN_RIGHTS - 1 : SHOWN_RIGHTS);
  return (
    <section class="card" aria-label="Rights">
      <h2>
        Rights{' '}
        <small class="wide">
          {counted(rights.length, 'right')}, {count(used.length)} used
        </small>
        <Opens text="Show all rights" onOpen={onAll} />
      </h2>
      <div class="sums phone">
        <div>
          <b>{count(rights.length)}</b> rights
        </div>
        <div>
          <b>{count(used.length)}</b> used
        </div>
      </div>
      <ul class="rights">
        {visible.map((right) => {
          const [text, tone] = usesText(right);
          const [name, of] = rightWords(right);
          return (
            <li key={`${name} ${of}`} class={isUsed(right) ? '' : 'unused'}>
              <code class="cut">{name}</code>
              <code class="scope cut">
                <ForeignText text={of} />
              </code>
              <span class={`n ${tone}`}>{text}</span>
            </li>
          );
        })}
        {rights.length < SHOWN_RIGHTS ? (
          <li class="faint">everything else is refused</li>
        ) : isMore ? (
          <li class="faint">and {count(rights.length - visible.length)} more</li>
        ) : null}
      </ul>
    </section>
  );
}

const VERB_ICONS: Readonly<Record<EffectKind, IconName>> = {
  wrote: 'write',
  sent: 'net',
  read: 'read',
  started: 'child',
};

function effectNote({ verb, times, bytes: size, open, unknown }: EffectTarget): string {
  const parts: string[] = [];
  if (verb === 'started') parts.push(count(times));
  else if (times > 1) parts.push(`${count(times)}×`);
  if (verb === 'wrote' && size > 0) parts.push(bytes(size));
  if (open > 0) parts.push(`${count(open)} running`);
  if (unknown > 0) parts.push('outcome unknown');
  return parts.join(', ');
}

function Sums({ sums }: { sums: EffectTotals }) {
  const figures: readonly (readonly [number, string, string])[] = [
    [sums.done, 'done', ''],
    [sums.denied, 'denied', 'bad'],
    [sums.waits, sums.waits === 1 ? 'waits' : 'wait', 'you'],
    [sums.failed, 'failed', 'bad'],
    [sums.open, sums.open === 1 ? 'runs' : 'run', 'run'],
    [sums.unknown, 'unknown', 'you'],
  ];
  return (
    <div class="sums">
      {figures
        .filter(([amount], index) => index === 0 || amount > 0)
        .map(([amount, word, tone]) => (
          <div key={word}>
            <b class={tone}>{count(amount)}</b> {word}
          </div>
        ))}
    </div>
  );
}

export function DeedsCard(props: {
  rows: readonly TimelineEntry[];
  sums: EffectTotals;
  onTarget: (seq: number) => void;
  onAll: () => void;
}) {
  const { rows, sums, onTarget, onAll } = props;
  const targets = useMemo(() => deedTargets(rows), [rows]);
  return (
    <section class="card" aria-label="Effects">
      <h2>
        Effects <small class="wide">{counted(sums.calls, 'call')}</small>
        <Opens text="Show all steps" onOpen={onAll} />
      </h2>
      <Sums sums={sums} />
      <ul class="did">
        {targets.slice(0, SHOWN_EFFECTS).map((effect) => (
          <li key={`${effect.verb} ${effect.target}`}>
            <Icon name={VERB_ICONS[effect.verb]} />
            <span>{effect.verb}</span>
            <Button class="plain cut" onClick={() => onTarget(effect.seq)}>
              <code>
                <ForeignText text={effect.target} />
              </code>
            </Button>
            <span class={effect.unknown > 0 ? 'you' : 'faint'}>{effectNote(effect)}</span>
          </li>
        ))}
        {targets.length > SHOWN_EFFECTS ? (
          <li class="faint">and {count(targets.length - SHOWN_EFFECTS)} more targets</li>
        ) : null}
      </ul>
    </section>
  );
}

const ORDER = ['spend', 'turns', 'tokens', 'duration_seconds', 'duration', 'tool_calls', 'spawns'];
const rank = ({ name }: LimitMeter): number => (ORDER.indexOf(name) + 1 || 99) - 1;
/** Sorts limits by importance, in the order of `ORDER`. */
export const orderedMeters = (meters: readonly LimitMeter[]): LimitMeter[] =>
  meters.toSorted((a, b) => rank(a) - rank(b));

function MeterRows(props: { meters: readonly LimitMeter[]; currency: string; most?: number }) {
  const { meters, currency, most = 6 } = props;
  return (
    <div class="meters">
      {orderedMeters(meters)
        .filter(({ used, max }) => used > 0 || max !== 0)
        .slice(0, most)
        .map((meter, index) => (
          <div key={meter.name} class={index < 3 ? 'meter-row' : 'meter-row opt'}>
            <span class="dim">{limitName(meter.name)}</span>
            <MeterBar meter={meter} />
            <MeterValue meter={meter} unit={meter.name === 'spend' ? currency : ''} />
          </div>
        ))}
    </div>
  );
}

export function CostCard(props: {
  thread: ListedRun;
  rows: readonly TimelineEntry[];
  below: readonly ListedRun[];
  currency: string;
  onRaise: () => void;
}) {
  const { thread, rows, below, currency } = props;
  const spend = thread.meters.find(({ name }) => name === 'spend');
  const turns = thread.meters.find(({ name }) => name === 'turns')?.max;
  const series = useMemo(() => costSeries(rows, below), [rows, below]);
  return (
    <section class="card" aria-label="Cost against limits">
      <h2>
        Cost against limits <small class="wide">{below.length > 0 ? 'with children' : ''}</small>
        <Opens text="Raise a limit" onOpen={props.onRaise} />
      </h2>
      <div class="money">
        <MeterRows meters={thread.meters} currency={currency} />
        <StepChart
          points={series.points}
          currency={currency}
          reserved={spend?.reserved ?? 0}
          warnAt={0.8}
          {...(spend?.max === undefined ? {} : { limit: spend.max })}
          {...(turns === undefined ? {} : { turns })}
        />
      </div>
    </section>
  );
}
