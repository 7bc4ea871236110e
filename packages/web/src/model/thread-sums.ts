// Sums over the rows of a timeline: calls by outcome, and the targets of their effects.
import type { TimelineEntry } from './timeline-entry.ts';

export interface EffectTotals {
  readonly calls: number;
  readonly done: number;
  /** Number of refused rows, including those that succeeded later. */
  readonly denied: number;
  readonly failed: number;
  readonly waits: number;
  readonly unknown: number;
  readonly open: number;
  readonly writes: number;
  readonly hooks: number;
  readonly untrusted: number;
  readonly turns: number;
}

export type EffectKind = 'wrote' | 'sent' | 'read' | 'started';

/** Target of writes, sends or reads. The list starts with the most severe effect. */
export interface EffectTarget {
  readonly verb: EffectKind;
  /** Path, address or command of the effect. Untrusted. */
  readonly target: string;
  readonly times: number;
  readonly bytes: number;
  /** Number of started effects that still run. */
  readonly open: number;
  /** Number of effects with an unknown outcome. */
  readonly unknown: number;
  /** Seq of the last row with this target. */
  readonly seq: number;
}

export type RowFilter = 'denied' | 'failed' | 'writes' | 'hooks' | 'untrusted';

const isCall = ({ kind }: TimelineEntry): boolean => kind === 'call' || kind === 'child';
export const isRefused = (row: TimelineEntry): boolean =>
  row.state === 'denied' || row.denials.length > 0;
/** True for a row that the key `e` selects and the rail marks. */
export const isTrouble = (row: TimelineEntry): boolean =>
  isRefused(row) || row.state === 'failed' || row.state === 'waits' || row.state === 'unknown';

export const FILTERS: Readonly<Record<RowFilter, (row: TimelineEntry) => boolean>> = {
  denied: isRefused,
  failed: (row) => isCall(row) && row.state === 'failed',
  /** Includes idempotent effects: they also change something. */
  writes: ({ kind, effect }) => kind === 'call' && (effect === 'write' || effect === 'idempotent'),
  hooks: ({ kind }) => kind === 'hook',
  untrusted: ({ kind, labels }) => kind !== 'turn' && labels.includes('untrusted'),
};

export function sumRows(rows: readonly TimelineEntry[]): EffectTotals {
  const sums = { calls: 0, done: 0, denied: 0, failed: 0, waits: 0, unknown: 0, open: 0 };
  const kinds = { writes: 0, hooks: 0, untrusted: 0, turns: 0 };
  for (const row of rows) {
    if (row.kind === 'turn') kinds.turns += 1;
    if (FILTERS.writes(row)) kinds.writes += 1;
    if (FILTERS.hooks(row)) kinds.hooks += 1;
    if (FILTERS.untrusted(row)) kinds.untrusted += 1;
    if (isRefused(row)) sums.denied += 1;
    if (!isCall(row)) {
      if (row.state === 'waits') sums.waits += 1;
      continue;
    }
    sums.calls += 1;
    if (row.state !== 'plain' && row.state !== 'denied') sums[row.state] += 1;
  }
  return { ...sums, ...kinds };
}

const ORDER: readonly EffectKind[] = ['wrote', 'sent', 'started', 'read'];
/** Matches a target on the network: `GET status.example.com`, `https://…`, `api.example.com`. */
const OUTSIDE = /^(?:[A-Z]{3,7} |[a-z][a-z0-9+.-]*:\/\/)|^(?:[\w-]+\.)+[a-z]{2,}(?::\d+)?$/;
const NETWORK = /^(?:http|net|mcp)\b/;

function verbOf(row: TimelineEntry): EffectKind | undefined {
  if (row.kind === 'child') return 'started';
  if (row.target === undefined || row.target === '') return undefined;
  const isFile = /^(?:fs|file|git)\b/.test(row.name);
  if (NETWORK.test(row.name) || (!isFile && OUTSIDE.test(row.target))) return 'sent';
  return row.effect === 'write' || row.effect === 'idempotent' ? 'wrote' : 'read';
}

/** Targets of effects that happened or may have happened. */
export function deedTargets(rows: readonly TimelineEntry[]): EffectTarget[] {
  const targets = new Map<string, { -readonly [name in keyof EffectTarget]: EffectTarget[name] }>();
  for (const row of rows) {
    const isOpenChild = row.kind === 'child' && (row.state === 'open' || row.thread !== undefined);
    if (!isCall(row) || !(row.state === 'done' || row.state === 'unknown' || isOpenChild)) continue;
    const verb = verbOf(row);
    if (!verb) continue;
    const target = verb === 'started' ? row.name : (row.target ?? '');
    const key = `${verb} ${target}`;
    const entry = targets.get(key) ?? {
      verb,
      target,
      times: 0,
      bytes: 0,
      open: 0,
      unknown: 0,
      seq: 0,
    };
    entry.times += 1;
    entry.bytes += row.wrote ?? 0;
    if (row.state === 'open') entry.open += 1;
    if (row.state === 'unknown') entry.unknown += 1;
    entry.seq = row.seq;
    targets.set(key, entry);
  }
  return [...targets.values()].sort((a, b) => ORDER.indexOf(a.verb) - ORDER.indexOf(b.verb));
}
