// A guard: a filter, a timing, and a decision. Scripts bring the decision as a closure, directives
// and policy files as an expression (guard-expression.ts); the judge does not know the difference.
import { fail, globProblem, type Json, type Outcome, ok } from '../../base/index.ts';
import type { Guard, GuardFilter, GuardTiming, LabelChange, Phase, Verdict } from '../frame.ts';
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

/** A filter as a person wrote it: `op:…` an operation key, `@f` a function, anything else a label. */
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
  /** Its place may make exceptions to policies, where it is privileged. */
  mayLift?: boolean;
  /** Where it stands, for guards without a name. */
  place?: string;
  decide: Guard['decide'];
}

/** An exception is made for an operation, before it happens; data that passes by opens nothing. */
const isLifting = ({ privileged, mayLift, timing }: GuardDefinition, { kind }: GuardFilter) =>
  privileged === true && mayLift === true && timing === 'before' && kind !== 'label';

let serial = 0;

export function defineGuard(definition: GuardDefinition): Outcome<Guard> {
  const filter = parseFilter(definition.on);
  if (!filter.ok) return filter;
  const { name, place } = definition;
  const shown = name ? `@${name.replace(/^@/, '')}` : (place ?? `guard on ${definition.on}`);
  serial += 1;
  return ok({
    id: `${serial}`,
    name: shown,
    on: definition.on.trim(),
    filter: filter.output,
    timing: definition.timing,
    privileged: definition.privileged ?? false,
    locked: definition.locked ?? false,
    lifts: isLifting(definition, filter.output),
    decide: definition.decide,
  });
}

/** A label guard replaces the same data once per phase. The descriptor of the data carries this note. */
interface Replacer {
  readonly guard: Guard;
  readonly phase: Phase;
  /** The label is the operation's: the guard judges all inputs, whatever each of them carries. */
  readonly isOfAll: boolean;
}

/** `guard:NAME` in the sources of what a guard made; one without a name is known by its filter. */
const sourceOf = ({ name, on }: Guard): string =>
  `guard:${name.startsWith('@') ? name.slice(1) : on}`;

/** INVARIANT: a replacement keeps the labels of what it replaces; only privileged guards take any. */
export function replaced(old: Value, value: Value | Json, by: Replacer): Value {
  const given = isValue(value) ? value : makeValue(value);
  const kept = mergeDescriptors(old.meta.descriptor, given.meta.descriptor);
  const named = withSources(kept, [sourceOf(by.guard)]);
  const entry = entryOf(by);
  return relabel(given, entry === undefined ? named : markReplaced(named, entry));
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

/** The same data with other labels, on the whole and on every element. */
export function relabelled(value: Value, change: LabelChange, guard: Guard): Value {
  const { add = [], remove = [], clear = false } = change;
  if (add.length === 0 && remove.length === 0 && !clear) return value;
  const source = [sourceOf(guard)];
  return changeMarks(value, (marks) => {
    const removed = removeLabels(marks, clear ? marks.taint : remove);
    return withSources(addLabels(removed, add), source);
  });
}
