// Records the provenance of values. While a trail is recorded, every operation adds its number to its
// results as a source. A merge never loses a source, so the numbers of a value are exactly the operations
// that contributed to it.
import type { Fault } from '../../base/index.ts';
import { operationName } from '../guards/decision.ts';
import type { Operation } from '../operation.ts';
import {
  type Descriptor,
  describe,
  descriptorOfFault,
  EMPTY,
  mergeDescriptors,
} from '../values/labels.ts';

export interface ProvenanceNode {
  readonly id: number;
  readonly operation: string;
  readonly place: { readonly file: string | null; readonly line: number | null };
  readonly labels: readonly string[];
  /** Sources of data that entered here: `file:…`, `command:…`, `guard:name`. */
  readonly sources: readonly string[];
  /** Numbers of the operations whose results it used. */
  readonly from: readonly number[];
}

/** A value or a refusal, with all operations before it. */
export interface Provenance {
  readonly from: readonly number[];
  readonly sources: readonly string[];
  readonly labels: readonly string[];
  readonly nodes: readonly ProvenanceNode[];
}

export interface Trail {
  /** Implements the port `trail`: records an operation and returns its number as a mark. */
  note(op: Operation, used: Descriptor): Descriptor;
  ofMarks(descriptor: Descriptor): Provenance;
  ofFault(fault: Fault): Provenance;
  /** Returns the marks of results from this line, oldest first. */
  atLine(file: string, line: number): readonly Descriptor[];
}

/** Maximum number of recorded operations, because each one costs more than the one before. */
const MAX_OPERATIONS = 5000;
const MARK = /^operation:(\d+)$/;

const numbersIn = ({ sources }: Descriptor): number[] =>
  sources.flatMap((source) => {
    const id = MARK.exec(source)?.[1];
    return id === undefined ? [] : [Number(id)];
  });

/** True for a source that is not an operation. A function is an operation, with its location. */
const isOutside = (source: string): boolean =>
  !MARK.test(source) && !source.startsWith('function:');

interface TracedStep {
  readonly op: Operation;
  readonly used: Descriptor;
  readonly made: Descriptor;
}

export function createTrail(): Trail {
  const steps: TracedStep[] = [];
  const stepOf = (id: number): TracedStep => steps[id] as TracedStep;

  /** Returns the ids of operations whose results no other of these operations used. */
  function nearest(ids: readonly number[]): number[] {
    const further = new Set(ids.flatMap((id) => numbersIn(stepOf(id).used)));
    return ids.filter((id) => !further.has(id));
  }

  /** Returns the sources that no earlier step has. */
  const fresh = (marks: Descriptor, from: readonly number[]): string[] => {
    const earlier = new Set(from.flatMap((id) => stepOf(id).made.sources));
    return marks.sources.filter((source) => isOutside(source) && !earlier.has(source));
  };

  function nodeOf(id: number): ProvenanceNode {
    const { op, used, made: marks } = stepOf(id);
    const from = nearest(numbersIn(used));
    const { file = null, line = null } = op.location ?? {};
    const sources = fresh(marks, from);
    return {
      id,
      operation: operationName(op),
      place: { file, line },
      labels: marks.labels,
      sources,
      from,
    };
  }

  function ofMarks(descriptor: Descriptor): Provenance {
    const ids = numbersIn(descriptor).toSorted((a, b) => a - b);
    const from = nearest(ids);
    const { labels } = descriptor;
    return { from, sources: fresh(descriptor, from), labels, nodes: ids.map(nodeOf) };
  }

  return {
    note(op, used) {
      const id = steps.length;
      if (id >= MAX_OPERATIONS) return EMPTY;
      const mark = describe({ sources: [`operation:${id}`] });
      steps.push({ op, used, made: mergeDescriptors(used, mark) });
      return mark;
    },
    ofMarks,
    ofFault: (fault) => ofMarks(descriptorOfFault(fault)),
    atLine: (file, line) =>
      steps
        .filter(({ op }) => op.location?.file === file && op.location.line === line)
        .map(({ made: marks }) => marks),
  };
}
