// A row of a timeline, and its creation from an event.
import type { SlimEvent } from './api.ts';

type TimelineKind = 'turn' | 'call' | 'child' | 'hook' | 'note';

/** `open`: no result yet. `unknown`: the journal does not show if the effect happened. */
export type TimelineState = 'plain' | 'open' | 'done' | 'waits' | 'denied' | 'failed' | 'unknown';

export interface TimelineEntry {
  /** Seq of the first event. It is unique together with `kind`. */
  readonly seq: number;
  readonly kind: TimelineKind;
  readonly turn: number;
  readonly state: TimelineState;
  /** Name of a tool or directive, or type of an event. Trusted. */
  readonly name: string;
  /** Input of the step, or the text of a note. Untrusted. */
  readonly text: string;
  /** Reason of a denial, failure or wait: a rule or a code. */
  readonly why: string;
  readonly labels: readonly string[];
  readonly start: number;
  /** Only for a turn: time of the reply. */
  readonly end?: number;
  /** Only for a turn: end time of its last step. */
  readonly until?: number;
  /** Seqs of all its refusals, even if a later attempt succeeded. */
  readonly denials: readonly number[];
  readonly result?: number;
  readonly call_id?: string;
  readonly effect?: string;
  readonly target?: string;
  /** Only for a failed request: number of attempts. */
  readonly tries?: number;
  /** Number of bytes that the tool reports as written. */
  readonly wrote?: number;
  /** Only for a child or hook that runs in its own thread. */
  readonly thread?: string;
  readonly approval?: string;
  readonly tone?: SlimEvent['tone'];
  readonly usage?: SlimEvent['usage'];
  readonly spend?: number;
  readonly model?: string;
  /** Only for a child: its final status. */
  readonly status?: string;
  readonly took_ms?: number;
}

const REFUSED_BY: Readonly<Record<string, string>> = {
  capability: 'not granted',
  limits: 'at a limit',
  policy: 'by policy',
  guard: 'by a guard',
  primitive: 'while it ran',
};
/** Readable names of rules that have only an internal name. */
const RULES: Readonly<Record<string, string>> = {
  closed_place: 'a protected path',
  grants: 'not granted',
  place_changed: 'the path changed after the check',
  redirect: 'redirect refused',
};
/** Reason of a refusal in a few words. A guard can have the name of a rule, so its name stays unchanged. */
export function refusalWords({ rule, stage, missing }: SlimEvent): string {
  if (rule !== undefined) return (stage === 'guard' ? undefined : RULES[rule]) ?? rule;
  if (missing !== undefined) {
    return missing === 'fs.absolute' ? 'outside the project' : 'not granted';
  }
  return stage === undefined ? '' : (REFUSED_BY[stage] ?? stage);
}

export type RowChange = Partial<TimelineEntry>;
type Mutable<T> = { -readonly [name in keyof T]: T[name] };

/** Creates the row of an event that starts a step. */
export function rowFrom(event: SlimEvent, kind: TimelineKind, state: TimelineState): TimelineEntry {
  const row: Mutable<TimelineEntry> = {
    seq: event.seq,
    kind,
    turn: event.turn,
    state,
    name: event.tool ?? event.directive ?? event.type,
    text: event.preview ?? event.text ?? '',
    why: '',
    labels: event.labels ?? [],
    start: event.ts,
    denials: [],
  };
  if (event.call_id !== undefined) row.call_id = event.call_id;
  if (event.effect !== undefined) row.effect = event.effect;
  if (event.target !== undefined) row.target = event.target;
  if (event.thread !== undefined) row.thread = event.thread;
  if (event.approval !== undefined) row.approval = event.approval;
  if (event.tone !== undefined) row.tone = event.tone;
  return row;
}

export function mergeLabels(one: readonly string[], other: readonly string[] | undefined) {
  if (!other || other.length === 0) return one;
  return one.length === 0 ? other : [...new Set([...one, ...other])];
}

/** Sums usage and cost over several requests of one turn. */
export function replySums(
  row: TimelineEntry,
  event: SlimEvent,
): Pick<TimelineEntry, 'usage' | 'spend'> {
  const [one, other] = [row.usage, event.usage];
  const usage =
    one && other
      ? {
          input: one.input + other.input,
          cached: one.cached + other.cached,
          output: one.output + other.output,
          tokens: one.tokens + other.tokens,
          estimated: one.estimated || other.estimated,
        }
      : (one ?? other);
  const spend =
    row.spend === undefined && event.spend === undefined
      ? undefined
      : (row.spend ?? 0) + (event.spend ?? 0);
  return { ...(usage && { usage }), ...(spend !== undefined && { spend }) };
}
