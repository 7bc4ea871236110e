// What must hold after the faults, looked up in the journal and in the traces that the workers left
// outside of it.
import { must } from '../../../../bench/fleet/holder.ts';
import type { Store, StoredEvent, ThreadRow } from '../../../core/src/store/port.ts';
import { readTraces, stepOf, type Trace } from './fault-work.ts';

export interface Findings {
  threads: number;
  steps: number;
  effects: number;
  /** Begun, and nobody knows whether they happened: told, never repeated. */
  unknown: number;
  /** Answered as written, and not in the journal; or a step that the thread went past. */
  lost: string[];
  /** The same `write` more than once. */
  repeated: string[];
  /** After another worker had the thread. */
  late: string[];
  /** Not over when everything else was. */
  stuck: string[];
  /** Numbers that are missing or double in a journal. */
  gaps: string[];
  /** Reservations that nobody closed, and books that are not what was settled. */
  books: string[];
}

async function wholeJournal(store: Store, thread: string): Promise<StoredEvent[]> {
  const events: StoredEvent[] = [];
  for (;;) {
    const page = must(await store.read(thread, { after: events.at(-1)?.seq ?? 0, limit: 1000 }));
    events.push(...page);
    if (page.length < 1000) return events;
  }
}

const byThread = (traces: readonly Trace[]): Map<string, Trace[]> =>
  Map.groupBy(traces, ({ thread }) => thread);

function checkSteps(found: Findings, row: ThreadRow, events: readonly StoredEvent[]): void {
  const id = row.id;
  const { steps } = row.inputs as unknown as { steps: number };
  const count = (type: string): Map<number, StoredEvent[]> =>
    Map.groupBy(
      events.filter((event) => event.type === type),
      stepOf,
    );
  const [begun, ended] = [count('tool_call'), count('tool_result')];
  for (let step = 1; step <= steps; step++) {
    if (begun.get(step)?.length !== 1) found.lost.push(`${id} step ${step}: not one intent`);
    if (ended.get(step)?.length !== 1) found.lost.push(`${id} step ${step}: not one result`);
    if (ended.get(step)?.some(({ data }) => data['unknown'] === true)) found.unknown += 1;
  }
  found.steps += ended.size;
}

function checkEffects(
  found: Findings,
  id: string,
  events: readonly StoredEvent[],
  { effects, traces }: { effects: readonly Trace[]; traces: readonly Trace[] },
): void {
  const results = events.filter(({ type }) => type === 'tool_result');
  const certain = new Set(
    results.filter(({ data }) => data['unknown'] !== true).map((event) => stepOf(event)),
  );
  const seen = new Map<number, number>();
  for (const { number } of effects) seen.set(number, (seen.get(number) ?? 0) + 1);
  for (const [step, times] of seen) {
    if (times > 1) found.repeated.push(`${id} step ${step}: ${times} times`);
  }
  for (const step of certain) {
    if (!seen.has(step)) found.lost.push(`${id} step ${step}: a result without its effect`);
  }
  for (const { what, number } of traces) {
    if (what === 'done' && !certain.has(number)) {
      found.lost.push(`${id} step ${number}: was answered as written`);
    }
  }
  // Whoever takes it with a higher epoch was answered: from then on nobody else may act.
  const takes = traces.filter(({ what }) => what === 'take');
  for (const { number, epoch, micros, owner } of effects) {
    const next = takes.find((take) => take.epoch > epoch && take.micros < micros);
    if (next) found.late.push(`${id} step ${number} by ${owner}: ${next.owner} had it`);
  }
}

function checkNumbers(found: Findings, row: ThreadRow, events: readonly StoredEvent[]): void {
  const wrong = events.find(({ seq }, index) => seq !== index + 1);
  if (wrong || events.length !== row.seq) {
    found.gaps.push(`${row.id}: ${events.length} events up to ${row.seq}, at ${wrong?.seq ?? '-'}`);
  }
}

async function checkBooks(
  found: Findings,
  store: Store,
  events: ReadonlyMap<string, readonly StoredEvent[]>,
): Promise<void> {
  for (const state of must(await store.budgets([...events.keys()]))) {
    const results = events.get(state.thread)?.filter(({ type }) => type === 'tool_result') ?? [];
    const certain = results.filter(({ data }) => data['unknown'] !== true);
    const used = BigInt(certain.length * 70);
    if (state.used.tokens !== used || state.reserved.tokens !== 0n) {
      const { used: has, reserved } = state;
      found.books.push(
        `${state.thread}: ${has.tokens} used (${used} settled), ${reserved.tokens} open`,
      );
    }
  }
}

/** After everything has come to rest. */
export async function checkFaults(
  store: Store,
  folder: string,
  ids: readonly string[],
): Promise<Findings> {
  const found: Findings = {
    threads: ids.length,
    steps: 0,
    effects: 0,
    unknown: 0,
    lost: [],
    repeated: [],
    late: [],
    stuck: [],
    gaps: [],
    books: [],
  };
  const effects = byThread(readTraces(folder, 'effects'));
  const traces = byThread(readTraces(folder, 'traces'));
  const journals = new Map<string, StoredEvent[]>();
  for (const id of ids) {
    const row = must(await store.thread(id));
    const events = await wholeJournal(store, id);
    checkNumbers(found, row, events);
    if (row.status === 'completed') checkSteps(found, row, events);
    else found.stuck.push(`${id}: ${row.status}`);
    const own = { effects: effects.get(id) ?? [], traces: traces.get(id) ?? [] };
    found.effects += own.effects.length;
    checkEffects(found, id, events, own);
    if (row.status === 'completed') journals.set(id, events);
  }
  await checkBooks(found, store, journals);
  return found;
}

export const offences = (found: Findings): string[] => [
  ...found.lost.map((text) => `lost: ${text}`),
  ...found.repeated.map((text) => `repeated: ${text}`),
  ...found.late.map((text) => `late: ${text}`),
  ...found.stuck.map((text) => `stuck: ${text}`),
  ...found.gaps.map((text) => `gap: ${text}`),
  ...found.books.map((text) => `books: ${text}`),
];

export interface Hit {
  kind: string;
  owner: string;
  micros: number;
}

interface Recovery {
  kind: string;
  /** From the fault until somebody else had it. */
  ms: number;
  /** Thread, victim, and who had it next. */
  who: string;
}

/** Of each thread that the victim of a fault held. */
export function recoveries(folder: string, hits: readonly Hit[]): Recovery[] {
  const traces = byThread(readTraces(folder, 'traces'));
  const found: Recovery[] = [];
  for (const { kind, owner, micros } of hits) {
    for (const [thread, own] of traces) {
      const before = own.filter((trace) => trace.micros <= micros);
      const last = before.findLast(({ what }) => what === 'take');
      const isHeld = last?.owner === owner;
      const isOver = before.some(
        ({ what, epoch }) => what !== 'take' && what !== 'done' && epoch === last?.epoch,
      );
      if (!isHeld || isOver) continue;
      const next = own.find((trace) => trace.what === 'take' && trace.epoch > last.epoch);
      const who = `${thread} of ${owner}, then ${next?.owner ?? 'nobody'}`;
      if (next) found.push({ kind, ms: (next.micros - micros) / 1000, who });
    }
  }
  return found;
}

export interface CrossingFindings {
  signals: number;
  /** Parks that a signal refused. */
  crossed: number;
  stuck: string[];
  overlapping: string[];
  /** Signals that were not heard exactly once. */
  unheard: string[];
}

export async function checkCrossings(
  store: Store,
  folder: string,
  ids: readonly string[],
  each: number,
): Promise<CrossingFindings> {
  const traces = byThread(readTraces(folder, 'traces'));
  const found: CrossingFindings = {
    signals: ids.length * each,
    crossed: 0,
    stuck: [],
    overlapping: [],
    unheard: [],
  };
  for (const id of ids) {
    const row = must(await store.thread(id));
    if (row.status !== 'completed') found.stuck.push(`${id}: ${row.status}`);
    const own = traces.get(id) ?? [];
    found.crossed += own.filter(({ what }) => what === 'crossed').length;
    const runs = own.filter(({ what }) => what === 'begin').sort((a, b) => a.epoch - b.epoch);
    for (const [index, run] of runs.entries()) {
      const rest = own.find(({ what, epoch }) => what === 'rest' && epoch === run.epoch);
      const next = runs[index + 1];
      if (next && (!rest || rest.micros > next.micros)) {
        found.overlapping.push(`${id}: epochs ${run.epoch} and ${next.epoch}`);
      }
    }
    const heard = (await wholeJournal(store, id))
      .filter(({ type }) => type === 'signal')
      .flatMap(({ data }) => data['numbers'] as number[]);
    const isWhole = heard.length === each && heard.every((number, index) => number === index + 1);
    if (!isWhole) found.unheard.push(`${id}: ${heard.length} of ${each}`);
  }
  return found;
}
