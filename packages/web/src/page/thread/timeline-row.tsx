// One row of the timeline: time, name, labels, duration, and position on the time axis.
import type { ComponentChildren } from 'preact';
import type { ListedRun } from '../../model/api.ts';
import { count, money, seconds } from '../../model/format.ts';
import type { TimelineEntry, TimelineState } from '../../model/timeline-entry.ts';
import type { TimelineScale } from '../../model/timeline-scale.ts';
import { Button } from '../parts/button.tsx';
import { Icon, type IconName } from '../parts/icons.tsx';
import { LabelChips } from '../parts/labels.tsx';
import { statusWord } from '../parts/status.tsx';
import { ForeignText } from '../parts/untrusted-text.tsx';
import type { ShownRow } from './use-fold.ts';

export interface RowScene {
  readonly scale: TimelineScale;
  /** End of the time axis: now, or the last event that was received. */
  readonly until: number;
  readonly isAlive: boolean;
  readonly currency: string;
  readonly children: ReadonlyMap<string, ListedRun>;
  onToggle(entry: ShownRow): void;
}

const STATE_ICONS: Readonly<Partial<Record<TimelineState, IconName>>> = {
  denied: 'no',
  failed: 'x',
  waits: 'ask',
  unknown: 'warn',
};
const NOTE_ICONS: Readonly<Record<string, IconName>> = {
  limit: 'stop',
  warning: 'warn',
  injected_message: 'say',
  signal: 'way',
  plan: 'list',
  snapshot: 'copy',
  thread_end: 'dash',
  unreadable: 'warn',
};
const KIND_ICONS = { turn: 'chev', call: 'tool', child: 'child', hook: 'hook' } as const;

export function iconOf(row: TimelineEntry): IconName {
  const own = STATE_ICONS[row.state];
  if (row.kind === 'note') return row.state === 'waits' ? 'ask' : (NOTE_ICONS[row.name] ?? 'dash');
  return row.kind === 'turn' ? 'chev' : (own ?? KIND_ICONS[row.kind]);
}

const STATE_CLASSES: Readonly<Partial<Record<TimelineState, string>>> = {
  denied: 'is-bad',
  failed: 'is-bad',
  waits: 'is-you',
  unknown: 'is-you',
};

export function rowClass(entry: ShownRow, isAlive: boolean): string {
  if (entry.kind === 'live') return 'text';
  const { row } = entry;
  if (row.kind === 'turn') return `turn ${row.state === 'failed' ? 'is-bad' : ''}`;
  const own = STATE_CLASSES[row.state];
  if (own !== undefined) return own;
  if (row.kind === 'hook') return 'is-hook';
  return row.state === 'open' && isAlive ? 'is-run' : '';
}

/** Formats the time since the start: `52.0`, or `1:07:20` for a long thread. */
function sinceStart(ms: number, whole: number): string {
  const total = Math.max(0, ms) / 1000;
  if (whole < 1_000_000) return total.toFixed(1);
  const [hours, minutes] = [Math.floor(total / 3600), Math.floor(total / 60) % 60];
  const rest = String(Math.floor(total) % 60).padStart(2, '0');
  return hours > 0 ? `${hours}:${String(minutes).padStart(2, '0')}:${rest}` : `${minutes}:${rest}`;
}

function tookText(row: TimelineEntry, { until, isAlive }: RowScene): string {
  if (row.kind === 'note' && row.state !== 'waits') return '';
  if (row.state === 'denied') return '–';
  if (row.took_ms !== undefined) return seconds(row.took_ms / 1000);
  const end = row.end ?? (isAlive || row.state === 'waits' ? until : undefined);
  if (end === undefined) return '–';
  const ms = end - row.start;
  return ms <= 0 ? '0 ms' : seconds(ms / 1000);
}

/** Text after the name: reason of a refusal, pending request, progress of a child. */
function whyText(row: TimelineEntry, { children, isAlive }: RowScene): string {
  const { state, why, denials } = row;
  if (state === 'denied') return why === '' ? 'denied' : `denied, ${why}`;
  if (row.kind === 'child' && state === 'open') {
    const run = children.get(row.thread ?? '');
    if (!run) return isAlive ? 'running' : '';
    const turns = run.meters.find(({ name }) => name === 'turns');
    const word = statusWord(run.status, run.due > 0);
    if (!turns) return word;
    return `${word}, turn ${count(turns.used)}${turns.max === undefined ? '' : ` of ${count(turns.max)}`}`;
  }
  if (state === 'failed') return row.kind === 'note' ? why : `failed, ${why}`;
  if (state === 'waits' || state === 'unknown') return why;
  if (denials.length > 0) return 'denied at first';
  return state === 'open' && isAlive && row.kind !== 'turn' ? 'running' : '';
}

function turnText({ usage, spend, state }: TimelineEntry, { currency, isAlive }: RowScene): string {
  const parts: string[] = [];
  if (usage) {
    const about = usage.estimated ? 'about ' : '';
    parts.push(`${about}${count(usage.input + usage.cached)} in`, `${count(usage.output)} out`);
  }
  if (spend !== undefined) parts.push(`${money(spend)} ${currency}`);
  if (parts.length === 0) return state === 'open' && isAlive ? 'reply in progress' : 'no reply';
  return parts.join(' · ');
}

function What({ shown, scene }: { shown: ShownRow & { kind: 'row' }; scene: RowScene }) {
  const { row, isOpen } = shown;
  const why = whyText(row, scene);
  const canOpen = row.kind === 'turn' || (row.kind === 'child' && row.thread !== undefined);
  const name = row.kind === 'turn' ? row.name : <code>{row.name}</code>;
  return (
    <span class="w" role="gridcell">
      {canOpen ? (
        <Button
          icon={row.kind === 'turn' ? 'chev' : iconOf(row)}
          class={`fold ${isOpen ? '' : 'is-closed'}`}
          tabIndex={-1}
          aria-expanded={isOpen}
          aria-label={`${isOpen ? 'Fold' : 'Unfold'} ${row.name}`}
          onClick={(event) => {
            event.stopPropagation();
            scene.onToggle(shown);
          }}
        />
      ) : (
        <Icon name={iconOf(row)} />
      )}
      {row.kind === 'note' ? null : name}
      {row.kind === 'turn' ? (
        <span class="dim cut">{turnText(row, scene)}</span>
      ) : (
        <ForeignText
          text={row.text}
          class={`args cut ${row.kind === 'note' || row.kind === 'hook' ? '' : 'mono'}`}
        />
      )}
      {why === '' ? null : <span class="why cut">{why}</span>}
      {shown.inside === undefined ? null : <span class="why bad">{shown.inside}</span>}
    </span>
  );
}

function Bar(props: { kind: string; from: number; to: number; scale: TimelineScale }) {
  const { scale } = props;
  const left = scale.at(props.from);
  const width = Math.max(0, scale.at(props.to) - left);
  return <i class={props.kind} style={{ left: `${left}%`, width: `${width}%` }} />;
}

function bars(row: TimelineEntry, scene: RowScene): ComponentChildren {
  const { scale, until, isAlive } = scene;
  const end = row.end ?? (isAlive || row.state === 'waits' ? until : row.start);
  const bar = (kind: string, to = end) => (
    <Bar kind={kind} from={row.start} to={to} scale={scale} />
  );
  if (row.kind === 'turn') {
    const last = row.state === 'open' ? end : Math.max(end, row.until ?? end);
    return (
      <>
        {bar('span', last)}
        {bar(row.state === 'open' && isAlive ? 'going' : 'model')}
      </>
    );
  }
  if (row.state === 'denied') return bar('no', row.start);
  if (row.state === 'waits') return bar('wait', until);
  if (row.kind === 'note')
    return bar(row.state === 'failed' ? 'point bad-bar' : 'point', row.start);
  if (row.state === 'open' && isAlive) return bar('going');
  if (row.state === 'failed' || row.state === 'unknown') return bar('bad-bar');
  return bar(row.kind === 'call' ? '' : row.kind);
}

export function TimelineCells({ shown, scene }: { shown: ShownRow; scene: RowScene }) {
  const { scale } = scene;
  if (shown.kind === 'live') {
    return (
      <>
        <span class="t" role="gridcell" />
        <span class="w" role="gridcell">
          <span class="said cut">
            {/* New text arrives at the end. */}
            <ForeignText text={shown.text.slice(-160)} />
          </span>
        </span>
        <span class="labels" role="gridcell">
          <span class="label">model text, live</span>
        </span>
        <span class="d" role="gridcell" />
        <span class="lane" role="gridcell" />
      </>
    );
  }
  const { row } = shown;
  return (
    <>
      <span class="t" role="gridcell">
        {sinceStart(row.start - scale.from, scale.to - scale.from)}
      </span>
      <What shown={shown} scene={scene} />
      <span class="labels" role="gridcell">
        {row.kind === 'turn' ? null : <LabelChips taint={row.labels} max={2} />}
      </span>
      <span class="d" role="gridcell">
        {tookText(row, scene)}
      </span>
      <span class="lane" role="gridcell">
        {bars(row, scene)}
      </span>
    </>
  );
}
