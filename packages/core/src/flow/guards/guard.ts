// Defines guards. A guard has a filter, a timing, and a decision. A script supplies the decision as a closure,
// a directive or policy file as an expression (guard-expression.ts). Both are called in the same way.
import { fail, globProblem, type Json, type Outcome, ok } from '../../base/index.ts';
import type {
  ClosedFiles,
  Guard,
  GuardFilter,
  GuardTiming,
  LabelChange,
  Phase,
  Verdict,
} from '../frame.ts';
import { normalizePattern } from '../operation.ts';
import {
  ANYTHING,
  addLabels,
  markReplaced,
  mergeDescriptors,
  removeLabels,
  withSources,
} from '../values/labels.ts';
import { changeMarks, isValue, makeValue, relabel, type Value } from '../values/value.ts';

export const ALLOW: Verdict = Object.freeze({ kind: 'allow' });

/** Parses a filter: `op:…` is an operation key, `@f` a function, anything else a label. */
export function parseFilter(on: string): Outcome<GuardFilter> {
  const text = on.trim();
  if (text === '')
    return fail('invalid_input', 'a guard needs a filter: a label, `op:…` or `@function`');
  if (text.startsWith('op:')) {
    const problem = text === 'op:' ? 'names no operation' : globProblem(text);
    if (problem) return fail('invalid_input', `filter \`${text}\` ${problem}`);
    return ok({ kind: 'operation', pattern: normalizePattern(text) });
  }
  if (/^@[A-Za-z_][\w-]*$/.test(text)) return ok({ kind: 'function', name: text.slice(1) });
  if (/^[\p{L}\p{N}_][^\s,"'`*?]*$/u.test(text)) return ok({ kind: 'label', label: text });
  return fail('invalid_input', `filter \`${text}\` is neither a label, \`op:…\` nor \`@function\``);
}

interface GuardDefinition {
  name?: string;
  on: string;
  timing: GuardTiming;
  privileged?: boolean;
  locked?: boolean;
  /** True if a privileged guard from this source may make exceptions to policies. */
  mayLift?: boolean;
  /** Location of the guard, for guards without a name. */
  place?: string;
  closes?: ClosedFiles;
  decide: Guard['decide'];
}

/**
 * True if the guard can make exceptions. They are about operations before they happen, and never about data.
 */
const isLifting = ({ privileged, mayLift, timing }: GuardDefinition, { kind }: GuardFilter) =>
  privileged === true && mayLift === true && timing === 'before' && kind !== 'label';

let serial = 0;

export function defineGuard(definition: GuardDefinition): Outcome<Guard> {
  const filter = parseFilter(definition.on);
  if (!filter.ok) return filter;
  const { name, place } = definition;
  const displayName = name ? `@${name.replace(/^@/, '')}` : (place ?? `guard on ${definition.on}`);
  serial += 1;
  return ok({
    id: `${serial}`,
    name: displayName,
    on: definition.on.trim(),
    filter: filter.output,
    timing: definition.timing,
    privileged: definition.privileged ?? false,
    locked: definition.locked ?? false,
    lifts: isLifting(definition, filter.output),
    ...(definition.closes && { closes: definition.closes }),
    decide: definition.decide,
  });
}

/** A label guard replaces the same data once per phase. The descriptor of the data records it. */
interface Replacer {
  readonly guard: Guard;
  readonly phase: Phase;
  /** True if the operation has the label, so that the guard judges all inputs. */
  readonly isOfAll: boolean;
}

/** Returns the source `guard:NAME` of replaced data. A guard without a name has its filter there. */
const sourceOf = ({ name, on }: Guard): string =>
  `guard:${name.startsWith('@') ? name.slice(1) : on}`;

/**
 * INVARIANT: a replacement always keeps the labels of the replaced value; only privileged guards remove labels.
 */
export function replaced(old: Value, value: Value | Json, by: Replacer): Value {
  const replacement = isValue(value) ? value : makeValue(value);
  const marks = mergeDescriptors(old.meta.descriptor, replacement.meta.descriptor);
  const named = withSources(marks, [sourceOf(by.guard)]);
  const entry = entryOf(by);
  return relabel(replacement, entry === undefined ? named : markReplaced(named, entry));
}

const entryOf = ({ guard, phase, isOfAll }: Replacer): string | undefined => {
  const { filter, id } = guard;
  if (filter.kind !== 'label') return undefined;
  return `${phase} ${id} ${isOfAll ? ANYTHING : filter.label}`;
};

export function wasReplaced(value: Value, by: Replacer): boolean {
  const entry = entryOf(by);
  return entry !== undefined && value.meta.descriptor.replaced.includes(entry);
}

/** Returns the same data with other labels, on the whole and on every element. */
export function relabelled(value: Value, change: LabelChange, guard: Guard): Value {
  const { add = [], remove = [], clear = false } = change;
  if (add.length === 0 && remove.length === 0 && !clear) return value;
  const source = [sourceOf(guard)];
  return changeMarks(value, (marks) => {
    const removed = removeLabels(marks, clear ? marks.taint : remove);
    return withSources(addLabels(removed, add), source);
  });
}
