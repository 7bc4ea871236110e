// How a value came to be: source -> operations -> here. While a trail is kept, every operation puts its
// number on what it makes, as one more source; since no merge ever loses a source, the numbers a value
// carries are exactly the operations that had a part in it.
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
  /** Where data came in here: `file:…`, `command:…`, `guard:name`. */
  readonly sources: readonly string[];
  /** The operations whose results it worked on. */
  readonly from: readonly number[];
}

/** A value or a refusal, and everything before it. */
export interface Provenance {
  readonly from: readonly number[];
  readonly sources: readonly string[];
  readonly labels: readonly string[];
  /** Oldest first. */
  readonly nodes: readonly ProvenanceNode[];
}

export interface Trail {
  /** For the port of the same name: notes an operation and gives its number as a mark. */
  note(op: Operation, used: Descriptor): Descriptor;
  ofMarks(descriptor: Descriptor): Provenance;
  ofFault(fault: Fault): Provenance;
  /** What was made at this line, oldest first. */
  atLine(file: string, line: number): readonly Descriptor[];
}

/** A trail costs more with every step; who needs to go further back starts closer. */
const MAX_OPERATIONS = 5000;
const MARK = /^operation:(\d+)$/;

const numbersIn = ({ sources }: Descriptor): number[] =>
  sources.flatMap((source) => {
    const id = MARK.exec(source)?.[1];
    return id === undefined ? [] : [Number(id)];
  });

/** A function is an operation of its own, with its place. */
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

  /** Those that no other one stands between. */
  function nearest(ids: readonly number[]): number[] {
    const further = new Set(ids.flatMap((id) => numbersIn(stepOf(id).used)));
    return ids.filter((id) => !further.has(id));
  }

  /** Sources that none of the steps before has brought in. */
  const fresh = (marks: Descriptor, from: readonly number[]): string[] => {
    const known = new Set(from.flatMap((id) => stepOf(id).made.sources));
    return marks.sources.filter((source) => isOutside(source) && !known.has(source));
  };

  function nodeOf(id: number): ProvenanceNode {
    const { op, used, made } = stepOf(id);
    const from = nearest(numbersIn(used));
    const { file = null, line = null } = op.location ?? {};
    const sources = fresh(made, from);
    return {
      id,
      operation: operationName(op),
      place: { file, line },
      labels: made.labels,
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
        .map(({ made }) => made),
  };
}
