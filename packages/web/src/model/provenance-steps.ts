// Computes the boxes of a provenance graph: sources, operations and the end. Runs of operations
// that only pass a value on become one box. `layer-graph.ts` computes positions; the page draws.
import type { ProvenanceStep, ProvenanceView } from './api.ts';

type StepTone = 'hot' | 'warm' | 'cold';

/** A box of the graph. `name` and `detail` are untrusted text. */
export interface StepBox {
  readonly id: number;
  readonly kind: 'source' | 'step' | 'fold' | 'end';
  readonly name: string;
  readonly detail: string;
  readonly labels: readonly string[];
  /** Tone of the edges that leave this box downwards. */
  readonly tone: StepTone;
  readonly from: readonly number[];
  readonly seq?: number;
  /** Only for a fold: number of its first operation, which opens the fold. */
  readonly opens?: number;
}

interface StepChoice {
  /** True to include steps without the label that decided. */
  readonly isWhole: boolean;
  readonly opened: ReadonlySet<number>;
  readonly limit: number;
}

interface StepGraph {
  readonly boxes: readonly StepBox[];
  /** Number of operations in the boxes, and their total. */
  readonly shown: number;
  readonly total: number;
  /** Number of boxes beyond the limit. */
  readonly more: number;
}

/** A graph with at most this many steps has no omitted steps. */
const SMALL = 8;

/** Returns the labels that the refusal mentions. If it mentions none: all except `untrusted`. */
function decidingLabels({ labels, refusal }: ProvenanceView): readonly string[] {
  if (refusal === null || refusal === undefined) return [];
  const words = JSON.stringify(refusal);
  const matches = labels.filter((label) => words.includes(label));
  if (matches.length > 0) return matches;
  const strict = labels.filter((label) => label !== 'untrusted');
  return strict.length > 0 ? strict : labels;
}

const toneOf = (labels: readonly string[], deciding: readonly string[]): StepTone => {
  if (labels.some((label) => deciding.includes(label))) return 'hot';
  return labels.includes('untrusted') ? 'warm' : 'cold';
};

function placeWords({ file, line }: ProvenanceStep['place']): string {
  if (file === null) return line === null ? '' : `line ${line}`;
  if (file === 'turn') return line === null ? 'turn' : `turn ${line}`;
  return line === null ? file : `${file}:${line}`;
}

const wordsOf = (...parts: readonly string[]): string =>
  parts.filter((part) => part !== '').join(', ');

/** Returns the ids of steps that the end depends on, directly or indirectly. */
function reachingEnd(steps: readonly ProvenanceStep[], ends: readonly number[]): Set<number> {
  const reached = new Set(ends);
  for (const { id, from } of steps.toReversed()) {
    if (!reached.has(id)) continue;
    for (const earlier of from) if (earlier < id) reached.add(earlier);
  }
  return reached;
}

/** Returns the steps on paths of the deciding labels to the end. Without such a path: all steps. */
function chosenSteps(view: ProvenanceView, isWhole: boolean): ProvenanceStep[] {
  const ids = new Set<number>();
  const once = view.nodes.filter(({ id }) => !ids.has(id) && ids.add(id));
  const sorted = once.toSorted((a, b) => a.id - b.id);
  const deciding = decidingLabels(view);
  if (isWhole || sorted.length <= SMALL || deciding.length === 0) return sorted;
  const reached = reachingEnd(sorted, view.from);
  const carried = new Set<number>();
  for (const { id, labels, from } of sorted) {
    const isCarrier = labels.some((label) => deciding.includes(label));
    if (isCarrier || from.some((earlier) => carried.has(earlier))) carried.add(id);
  }
  const paths = sorted.filter(({ id }) => reached.has(id) && carried.has(id));
  return paths.length > 0 ? paths : sorted;
}

/** Returns the inputs of the end: the steps that it names, and all steps without a user. */
function endsOf(steps: readonly ProvenanceStep[], endIds: readonly number[]): number[] {
  const used = new Set(steps.flatMap(({ id, from }) => from.filter((earlier) => earlier < id)));
  return steps.filter(({ id }) => endIds.includes(id) || !used.has(id)).map(({ id }) => id);
}

const sameLabels = (one: ProvenanceStep, other: ProvenanceStep): boolean =>
  one.labels.length === other.labels.length &&
  one.labels.every((label) => other.labels.includes(label));

/** Finds runs of two or more steps, each with one input, one output and unchanged labels. Oldest first. */
function runsOf(steps: readonly ProvenanceStep[], last: ReadonlySet<number>): ProvenanceStep[][] {
  const byId = new Map(steps.map((step) => [step.id, step]));
  const inputs = (step: ProvenanceStep) => step.from.filter((id) => id < step.id && byId.has(id));
  const users = new Map<number, number>();
  for (const step of steps) {
    for (const id of new Set(inputs(step))) users.set(id, (users.get(id) ?? 0) + 1);
  }
  const isLink = (step: ProvenanceStep): boolean =>
    new Set(inputs(step)).size === 1 &&
    step.sources.length === 0 &&
    (users.get(step.id) ?? 0) + (last.has(step.id) ? 1 : 0) === 1;
  const runs = new Map<number, ProvenanceStep[]>();
  for (const step of steps.filter(isLink)) {
    const [before = -1] = inputs(step);
    const run = runs.get(before);
    const old = run?.at(-1);
    if (run && old && sameLabels(old, step)) {
      runs.delete(before);
      runs.set(step.id, [...run, step]);
    } else runs.set(step.id, [step]);
  }
  return [...runs.values()].filter((run) => run.length > 1);
}

/** Maps each source to the labels that all steps with this source share. */
function sourceLabels(steps: readonly ProvenanceStep[]): Map<string, readonly string[]> {
  const bySource = new Map<string, readonly string[]>();
  for (const { sources, labels } of steps) {
    for (const source of sources) {
      const old = bySource.get(source);
      bySource.set(source, old ? old.filter((label) => labels.includes(label)) : labels);
    }
  }
  return bySource;
}

/** Maps each source to the first step that names it. */
function entriesOf({ nodes }: ProvenanceView): Map<string, number> {
  const entry = new Map<string, number>();
  for (const { id, sources } of nodes.toSorted((a, b) => a.id - b.id)) {
    for (const source of sources) if (!entry.has(source)) entry.set(source, id);
  }
  return entry;
}

/** Keeps the boxes that are nearest to the end. The order of ids is unchanged. */
function nearestTo(boxes: readonly StepBox[], limit: number): readonly StepBox[] {
  if (boxes.length <= limit) return boxes;
  const byId = new Map(boxes.map((box) => [box.id, box]));
  const nearest = new Set<number>();
  let edge: readonly number[] = boxes.slice(-1).map(({ id }) => id);
  while (edge.length > 0 && nearest.size < limit) {
    for (const id of edge.slice(0, limit - nearest.size)) nearest.add(id);
    const next = edge.flatMap((id) => byId.get(id)?.from ?? []);
    edge = [...new Set(next)].filter((id) => !nearest.has(id));
  }
  return boxes.filter(({ id }) => nearest.has(id));
}

/** Computes the boxes of a graph. A box names only earlier ones. */
export function stepGraph(view: ProvenanceView, choice: StepChoice): StepGraph {
  const deciding = decidingLabels(view);
  const steps = chosenSteps(view, choice.isWhole);
  const ends = endsOf(steps, view.from);
  const folds = runsOf(steps, new Set(ends)).filter(
    ([first]) => !choice.opened.has(first?.id ?? -1),
  );
  const foldOf = new Map(folds.flatMap((run) => run.map((step) => [step.id, run] as const)));
  const end = { ...END, labels: view.labels, sources: view.sources };
  const labelsOf = sourceLabels([...view.nodes, end]);
  const boxes: StepBox[] = [];
  const boxOf = new Map<number | string, number>();
  const add = (key: number | string, box: Omit<StepBox, 'id' | 'tone'>): void => {
    boxOf.set(key, boxes.length);
    boxes.push({ ...box, id: boxes.length, tone: toneOf(box.labels, deciding) });
  };
  const idsOf = (keys: readonly (number | string)[]): number[] =>
    [...new Set(keys)].flatMap((key) => boxOf.get(key) ?? []);
  const entry = entriesOf(view);
  /** Adds the sources that no earlier step names. Each source is drawn once. */
  const addSources = (id: number, sources: readonly string[]): readonly string[] => {
    const fresh = [...new Set(sources)].filter((name) => (entry.get(name) ?? id) === id);
    for (const source of fresh.filter((name) => !boxOf.has(name))) {
      const labels = labelsOf.get(source) ?? [];
      add(source, { kind: 'source', name: source, detail: labels.join(', '), labels, from: [] });
    }
    return fresh;
  };
  for (const step of steps) {
    const run = foldOf.get(step.id);
    const [head = step] = run ?? [];
    if (run && head !== step) {
      boxOf.set(step.id, boxOf.get(head.id) ?? 0);
      continue;
    }
    const fresh = addSources(step.id, step.sources);
    const from = idsOf([...step.from.filter((id) => id < step.id), ...fresh]);
    const { labels } = step;
    if (run) {
      const detail = wordsOf(`${head.operation} …`, ...labels);
      add(step.id, {
        kind: 'fold',
        name: `${run.length} operations`,
        detail,
        labels,
        from,
        opens: head.id,
      });
      continue;
    }
    const detail = wordsOf(placeWords(step.place), ...labels);
    const { operation: name, seq } = step;
    add(step.id, {
      kind: 'step',
      name,
      detail,
      labels,
      from,
      ...(seq === undefined ? {} : { seq }),
    });
  }
  const fresh = addSources(END.id, view.sources);
  const last = { kind: 'end', name: view.subject, detail: view.labels.join(', ') } as const;
  add('\u0000end', { ...last, labels: view.labels, from: idsOf([...ends, ...fresh]) });
  const near = nearestTo(boxes, choice.limit);
  return {
    boxes: near,
    shown: steps.length,
    total: view.nodes.length,
    more: boxes.length - near.length,
  };
}

const END: ProvenanceStep = {
  id: -1,
  operation: '',
  place: { file: null, line: null },
  labels: [],
  sources: [],
  from: [],
};

/** Returns the graph as an indented outline, from the end to the start. The inputs of a step are listed once. */
export function stepLines(view: ProvenanceView, limit: number): { depth: number; text: string }[] {
  const byId = new Map(view.nodes.map((step) => [step.id, step]));
  const visited = new Set<number>();
  const lines = [{ depth: 0, text: wordsOf(view.subject, ...view.labels) }];
  const stack: { id: number | string; depth: number; below: number }[] = [];
  const push = (
    ids: readonly number[],
    sources: readonly string[],
    depth: number,
    below: number,
  ) => {
    for (const source of sources.toReversed()) stack.push({ id: source, depth, below });
    for (const id of ids.toReversed()) stack.push({ id, depth, below });
  };
  push(view.from, view.sources, 1, Infinity);
  for (let next = stack.pop(); next !== undefined && lines.length < limit; next = stack.pop()) {
    const { id, depth, below } = next;
    if (typeof id === 'string') {
      lines.push({ depth, text: id });
      continue;
    }
    const step = byId.get(id);
    if (!step || id >= below) continue;
    const isRepeated = visited.has(id);
    visited.add(id);
    const text = wordsOf(step.operation, placeWords(step.place), ...step.labels);
    lines.push({ depth, text: isRepeated ? `${text} (above)` : text });
    if (!isRepeated) push(step.from, step.sources, depth + 1, id);
  }
  return lines;
}
