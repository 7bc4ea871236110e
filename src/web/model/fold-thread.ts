// Events of a thread as the rows of its timeline. One pass, in order, event by event: what comes later
// changes the rows that are there, so that the fold of any split of the events is the fold of the whole.
// What an older journal lacks (no `turn_end`, a denial without its call, an event nobody can read) leaves
// a row less precise, never missing.
import type { SlimEvent } from './api.ts';

export type TimelineKind = 'turn' | 'call' | 'child' | 'hook' | 'note';

/** `open`: nothing came of it yet. `unknown`: nobody can tell any more whether it happened. */
export type TimelineState = 'plain' | 'open' | 'done' | 'waits' | 'denied' | 'failed' | 'unknown';

export interface TimelineRow {
  /** Of its first event; with `kind` it tells rows apart. */
  readonly seq: number;
  readonly kind: TimelineKind;
  readonly turn: number;
  readonly state: TimelineState;
  /** A tool, a directive, the type of an event: ours, a code. */
  readonly name: string;
  /** What it was given, or what a note says. Foreign. */
  readonly text: string;
  /** Why it was denied or failed, or what it waits for: a rule, a code. */
  readonly why: string;
  readonly labels: readonly string[];
  readonly start: number;
  /** Of a turn: when its request was answered. */
  readonly end?: number;
  /** Of a turn: when the last of its steps was over. */
  readonly until?: number;
  /** Seqs of its refusals, also of those that were followed by something better. */
  readonly denials: readonly number[];
  readonly result?: number;
  readonly call_id?: string;
  readonly effect?: string;
  readonly target?: string;
  readonly bytes?: number;
  /** Of a child or a hook that has a thread of its own. */
  readonly thread?: string;
  readonly approval?: string;
  readonly tone?: SlimEvent['tone'];
  readonly usage?: SlimEvent['usage'];
  readonly spend?: number;
  readonly model?: string;
  /** Of a child: how it ended. */
  readonly status?: string;
  readonly took_ms?: number;
}

export interface FoldedThread {
  /** In the order of their first events; a row that changed is another object. */
  readonly rows: readonly TimelineRow[];
  readonly events: number;
  readonly unreadable: number;
  readonly first: number;
  readonly last: number;
  readonly started?: number;
  readonly ended?: number;
  /** What limits were before somebody raised them, the first value of each. */
  readonly raised: ReadonlyMap<string, number>;
}

/** Events that get a row of their own when they have words, and those that get one anyway. */
const NOTES: ReadonlySet<string> = new Set([
  'retry',
  'model_fallback',
  'loop_detected',
  'warning',
  'limit',
  'signal',
  'injected_message',
  'snapshot',
  'stream_error',
  'error',
  'logged',
  'thread_end',
]);

const REFUSED_BY: Readonly<Record<string, string>> = {
  capability: 'not granted',
  limits: 'at a limit',
  policy: 'by policy',
  guard: 'by a guard',
  primitive: 'by the tool',
};
/** The reason is foreign: it is only looked at. */
function wordsOf({ rule, stage, reason = '' }: SlimEvent): string {
  if (rule !== undefined) return rule;
  if (/\b(?:is|are) not granted\b/.test(reason)) return 'not granted';
  return stage === undefined ? '' : (REFUSED_BY[stage] ?? stage);
}

type Change = Partial<TimelineRow>;
type Mutable<T> = { -readonly [name in keyof T]: T[name] };

function blank(event: SlimEvent, kind: TimelineKind, state: TimelineState): TimelineRow {
  const row: Mutable<TimelineRow> = {
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
  if (event.bytes !== undefined) row.bytes = event.bytes;
  if (event.thread !== undefined) row.thread = event.thread;
  if (event.approval !== undefined) row.approval = event.approval;
  if (event.tone !== undefined) row.tone = event.tone;
  return row;
}

function mergeLabels(one: readonly string[], other: readonly string[] | undefined) {
  if (!other || other.length === 0) return one;
  return one.length === 0 ? other : [...new Set([...one, ...other])];
}

/** Takes events in their order, as they come; `read` may be asked at any time. */
export function createThreadFold() {
  const rows: TimelineRow[] = [];
  const raised = new Map<string, number>();
  /** Where the rows are that something may still happen to. */
  const calls = new Map<string, number>();
  const children = new Map<string, number>();
  const hooks = new Map<string, number>();
  const asked = new Map<string, number>();
  /** Calls without a result. */
  const open = new Set<number>();
  /** Those of the current turn, in order; the last ones are in `open`. */
  let recent: number[] = [];
  let turn = -1;
  const seen = { events: 0, unreadable: 0, first: 0, last: 0 };
  const span: { started?: number; ended?: number } = {};

  const push = (row: TimelineRow): number => rows.push(row) - 1;
  function change(at: number | undefined, made: Change): void {
    const row = at === undefined ? undefined : rows[at];
    if (at !== undefined && row) rows[at] = { ...row, ...made };
  }
  const rowAt = (at: number | undefined) => (at === undefined ? undefined : rows[at]);
  const reach = (ts: number): void => change(rowAt(turn) ? turn : undefined, { until: ts });

  function beginTurn(event: SlimEvent): void {
    const now = rowAt(turn);
    // One more try of the same request is the same turn.
    if (now?.turn === event.turn && now.end === undefined) return;
    recent = [];
    turn = push({
      ...blank(event, 'turn', 'open'),
      name: `Turn ${event.turn}`,
      text: '',
      ...(event.model !== undefined && { model: event.model }),
    });
  }

  /** Of a journal whose beginning is not here, or that never wrote `turn_start`. */
  function needTurn(event: SlimEvent): void {
    if (event.turn > 0 && rowAt(turn)?.turn !== event.turn) beginTurn(event);
  }

  function reply(event: SlimEvent): void {
    if (event.usage === undefined && event.spend === undefined) return;
    needTurn(event);
    const now = rowAt(turn);
    if (!now) return;
    const { usage, spend } = sumOf(now, event);
    change(turn, {
      state: 'done',
      end: event.ts,
      until: Math.max(event.ts, now.until ?? 0),
      labels: mergeLabels(now.labels, event.labels),
      text: event.preview ?? now.text,
      result: event.seq,
      ...(usage && { usage }),
      ...(spend !== undefined && { spend }),
      ...(event.model !== undefined && { model: event.model }),
      ...(event.stop === 'refusal' && { state: 'failed' as const, why: 'the model refused' }),
    });
  }

  function beginCall(event: SlimEvent): void {
    needTurn(event);
    const id = event.call_id ?? `#${event.seq}`;
    const again = calls.get(id);
    const before = rowAt(again);
    // Done again under the same name: by a hook, or by the process that took over.
    if (again !== undefined && before && before.turn === event.turn) {
      change(again, { state: 'open' });
      open.add(again);
      recent.push(again);
      return;
    }
    const at = push(blank(event, event.thread === undefined ? 'call' : 'child', 'open'));
    calls.set(id, at);
    open.add(at);
    recent.push(at);
    if (event.thread !== undefined) children.set(event.thread, at);
  }

  /** The last call of the turn that nothing came of yet, and that fits. */
  function lastOpen(fits: (row: TimelineRow) => boolean): number | undefined {
    while (recent.length > 0 && !open.has(recent.at(-1) ?? -1)) recent.pop();
    return recent.findLast((at) => {
      const row = open.has(at) ? rows[at] : undefined;
      return row !== undefined && fits(row);
    });
  }

  /** The call that was refused; a journal that does not name it tells it by the order. */
  function refusedCall({ call_id, tool, turn: number }: SlimEvent): number | undefined {
    if (call_id !== undefined) return calls.get(call_id);
    return lastOpen((row) => row.turn === number && (tool === undefined || row.name === tool));
  }

  function denied(event: SlimEvent): void {
    const at = refusedCall(event);
    const row = rowAt(at);
    const why = wordsOf(event);
    if (at === undefined || !row) {
      needTurn(event);
      const own = blank(event, 'call', 'denied');
      const text = event.preview ?? event.text ?? '';
      const name = event.tool ?? 'denied';
      const made = push({ ...own, name, text, why, end: event.ts, denials: [event.seq] });
      if (event.call_id !== undefined) calls.set(event.call_id, made);
      return;
    }
    open.delete(at);
    change(at, {
      state: 'denied',
      why: why || row.why,
      end: event.ts,
      denials: [...row.denials, event.seq],
      labels: mergeLabels(row.labels, event.labels),
      ...(row.target === undefined && event.target !== undefined && { target: event.target }),
    });
    reach(event.ts);
  }

  function outcomeOf(event: SlimEvent, row: TimelineRow): Change {
    if (event.is_error !== true) return { state: 'done', why: '' };
    if (event.code === 'outcome_unknown') return { state: 'unknown', why: 'outcome unknown' };
    if (event.code === 'permission_denied' || (row.state === 'denied' && row.denials.length > 0)) {
      return { state: 'denied', why: row.why || wordsOf(event) };
    }
    return { state: 'failed', why: event.code ?? event.reason ?? 'failed' };
  }

  function result(event: SlimEvent): void {
    const at = event.call_id === undefined ? undefined : calls.get(event.call_id);
    const row = rowAt(at);
    if (at === undefined || !row) {
      // What opens a conversation has results without calls; only a failure is worth a row.
      if (event.is_error === true) {
        const own = blank(event, 'call', 'failed');
        push({ ...own, ...outcomeOf(event, own), end: event.ts, result: event.seq });
      }
      return;
    }
    open.delete(at);
    const stillRuns = row.kind === 'child' && row.status === undefined && event.is_error !== true;
    const isStarted = row.kind === 'child' && children.get(row.thread ?? '') === at;
    change(at, {
      labels: mergeLabels(row.labels, event.labels),
      result: event.seq,
      ...(stillRuns && isStarted
        ? {}
        : {
            ...(row.kind === 'child' && row.status !== undefined ? {} : outcomeOf(event, row)),
            end: row.state === 'denied' || row.kind === 'child' ? (row.end ?? event.ts) : event.ts,
          }),
    });
    reach(event.ts);
    answered();
  }

  /** Whatever goes on waits no more. */
  function answered(): void {
    for (const at of asked.values()) change(at, { state: 'plain' });
    asked.clear();
  }

  function spawned(event: SlimEvent): void {
    const id = event.thread ?? '';
    const known = children.get(id) ?? startedBy(event);
    if (known === undefined) {
      needTurn(event);
      children.set(id, push(blank(event, 'child', 'open')));
      return;
    }
    children.set(id, known);
    const name = event.directive ?? rowAt(known)?.name ?? event.type;
    change(known, { kind: 'child', name, ...(event.thread !== undefined && { thread: id }) });
  }

  /** A call that names the directive as its target, where the journal does not say which one it was. */
  function startedBy(event: SlimEvent): number | undefined {
    const { directive } = event;
    if (directive === undefined) return undefined;
    return lastOpen((row) => row.kind === 'call' && row.target === directive);
  }

  function childEnded(event: SlimEvent): void {
    const at = children.get(event.thread ?? '');
    const row = rowAt(at);
    const status = event.status ?? 'ended';
    const isGood = status === 'completed';
    const ended = { status, end: event.ts, why: isGood ? '' : status };
    const state = isGood ? ('done' as const) : ('failed' as const);
    const money = event.spend === undefined ? {} : { spend: event.spend };
    if (at === undefined || !row) {
      push({ ...blank(event, 'child', state), ...ended, ...money });
      return;
    }
    change(at, { ...ended, ...money, state });
    reach(event.ts);
  }

  const hookKey = (event: SlimEvent) => event.thread ?? event.directive ?? '';
  function hookAnswered(event: SlimEvent): void {
    const at = hooks.get(hookKey(event)) ?? hooks.get(event.directive ?? '');
    const row = rowAt(at);
    hooks.delete(hookKey(event));
    const end = event.ts;
    // Its name stands before it.
    const words = (event.text ?? event.preview ?? '').replace(`hook ${event.directive ?? ''} `, '');
    const said = { state: 'done' as const, end, text: words };
    const also = {
      ...(event.took_ms !== undefined && { took_ms: event.took_ms }),
      ...(event.deed !== undefined && { why: event.deed }),
      ...(event.spend !== undefined && { spend: event.spend }),
    };
    if (row) change(at, { ...said, ...also, result: event.seq });
    else {
      const start = end - (event.took_ms ?? 0);
      push({ ...blank(event, 'hook', 'done'), ...said, ...also, start });
    }
    reach(end);
  }

  function approval(event: SlimEvent): void {
    const id = event.approval ?? '';
    const at =
      (event.call_id === undefined ? undefined : calls.get(event.call_id)) ?? asked.get(id);
    if (event.state === 'pending') {
      if (at === undefined) asked.set(id, push(blank(event, 'note', 'waits')));
      else change(at, { state: 'waits', why: 'waits for you', approval: id });
      return;
    }
    const row = rowAt(at);
    asked.delete(id);
    if (row?.kind === 'note') change(at, { state: 'plain', end: event.ts, why: event.state ?? '' });
    if (row?.state !== 'waits' || row.kind === 'note') return;
    if (event.state === 'denied' || event.state === 'expired') {
      const why = event.state === 'denied' ? `by ${event.by ?? 'a person'}` : 'nobody answered';
      change(at, { state: 'denied', why, end: event.ts });
    } else change(at, { state: 'open', why: '' });
  }

  function note(event: SlimEvent): void {
    if (!NOTES.has(event.type) || (event.text === undefined && event.type !== 'snapshot')) return;
    const isBad = event.tone === 'bad' || event.type === 'error' || event.type === 'limit';
    const own = blank(event, 'note', isBad ? 'failed' : 'plain');
    push({ ...own, name: event.type, text: event.text ?? event.preview ?? event.reason ?? '' });
  }

  function threadEnded(event: SlimEvent): void {
    span.ended = event.ts;
    for (const at of open) change(at, { state: 'unknown', why: 'was left open' });
    open.clear();
    if (rowAt(turn)?.state === 'open') change(turn, { state: 'done' });
    answered();
    note(event);
  }

  const TAKES: Readonly<Record<string, (event: SlimEvent) => void>> = {
    turn_start(event) {
      answered();
      delete span.ended;
      beginTurn(event);
    },
    assistant_message: reply,
    tool_call: beginCall,
    permission_denied: denied,
    tool_result: result,
    spawn: spawned,
    child_end: childEnded,
    hook_start(event) {
      needTurn(event);
      hooks.set(hookKey(event), push({ ...blank(event, 'hook', 'open'), text: event.event ?? '' }));
    },
    hook: hookAnswered,
    approval,
    thread_end: threadEnded,
  };

  /** The first value counts: what it was before anybody raised it. */
  function keepRaised(event: SlimEvent): void {
    for (const [name, was] of Object.entries(event.raised ?? {})) {
      if (!raised.has(name)) raised.set(name, was);
    }
  }

  return {
    add(events: readonly SlimEvent[], from = 0): void {
      for (let index = from; index < events.length; index++) {
        const event = events[index];
        // What was heard twice is one event.
        if (!event || event.seq <= seen.last) continue;
        if (seen.events === 0) seen.first = event.seq;
        seen.last = event.seq;
        seen.events += 1;
        span.started ??= event.ts;
        if (event.unreadable) {
          seen.unreadable += 1;
          const text = `event ${event.seq} cannot be read`;
          push({ ...blank(event, 'note', 'failed'), name: 'unreadable', text });
          continue;
        }
        if (event.raised) keepRaised(event);
        (TAKES[event.type] ?? note)(event);
      }
    },
    read: (): FoldedThread => ({ rows: [...rows], ...seen, ...span, raised: new Map(raised) }),
  };
}

export type ThreadFold = ReturnType<typeof createThreadFold>;

function sumOf(row: TimelineRow, event: SlimEvent): Pick<TimelineRow, 'usage' | 'spend'> {
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

/** All of them at once. */
export function foldThread(events: readonly SlimEvent[]): FoldedThread {
  const fold = createThreadFold();
  fold.add(events);
  return fold.read();
}
