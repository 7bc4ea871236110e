// Indexes the guards in force by label and by operation key. An operation that no guard is about costs
// two look-ups.
import type { Guard, GuardSelection, GuardSet, Phase } from '../frame.ts';
import { createKeyIndex, eachKey, isEffect, type Operation } from '../operation.ts';
import { type Descriptor, filtersFor } from '../values/labels.ts';

const NOBODY: readonly Guard[] = Object.freeze([]);

function createIndex(list: readonly Guard[]) {
  const byLabel = new Map<string, Guard[]>();
  const byName = new Map<string, Guard[]>();
  const keys: [string, Guard][] = [];
  const put = (map: Map<string, Guard[]>, key: string, guard: Guard) =>
    map.set(key, [...(map.get(key) ?? []), guard]);
  for (const guard of list) {
    const { filter } = guard;
    if (filter.kind === 'label') put(byLabel, filter.label, guard);
    else if (filter.kind === 'function') put(byName, filter.name, guard);
    else keys.push([filter.pattern, guard]);
  }
  const byKey = createKeyIndex(keys);
  const cache = new WeakMap<Descriptor, readonly Guard[]>();
  const inOrder = (guards: ReadonlySet<Guard>): readonly Guard[] =>
    guards.size === 0 ? NOBODY : list.filter((guard) => guards.has(guard));

  const forLabels = (labels: readonly string[]): readonly Guard[] => {
    if (byLabel.size === 0 || labels.length === 0) return NOBODY;
    const filters = labels.flatMap(filtersFor);
    return inOrder(new Set(filters.flatMap((filter) => byLabel.get(filter) ?? [])));
  };

  const forMarks = (descriptor: Descriptor): readonly Guard[] => {
    if (byLabel.size === 0 || descriptor.taint.length === 0) return NOBODY;
    const cached = cache.get(descriptor);
    if (cached) return cached;
    const guards = forLabels(descriptor.taint);
    cache.set(descriptor, guards);
    return guards;
  };

  const collect = (op: Operation, outerLabels: readonly string[]): readonly Guard[] => {
    const names = op.type === 'exe' ? [op.name] : (op.called ?? []);
    const named = byName.size > 0 ? names.flatMap((name) => byName.get(name) ?? []) : [];
    let found: Set<Guard> | undefined = named.length > 0 ? new Set(named) : undefined;
    const add = (key: string) => {
      const matching = byKey.find(key);
      if (matching.length > 0) found = new Set([...(found ?? []), ...matching]);
    };
    if (!byKey.isEmpty) eachKey(op, outerLabels, add);
    return found ? inOrder(found) : NOBODY;
  };

  // Independent stages look up the same operation several times in a row.
  let last: { op: Operation; held: readonly string[]; found: readonly Guard[] } | undefined;
  const forOperation = (op: Operation, outerLabels: readonly string[]): readonly Guard[] => {
    if (byKey.isEmpty && byName.size === 0) return NOBODY;
    if (last?.op !== op || last.held !== outerLabels)
      last = { op, held: outerLabels, found: collect(op, outerLabels) };
    return last.found;
  };

  return { forLabels, forMarks, forOperation, hasLabels: byLabel.size > 0 };
}

export function createGuardSet(list: readonly Guard[]): GuardSet {
  const locked = list.filter((guard) => guard.locked);
  let ofPolicies: GuardSet | undefined;
  const of = (phase: Phase) =>
    createIndex(list.filter(({ timing }) => timing === phase || timing === 'always'));
  const index = { before: of('before'), after: of('after') };
  const set: GuardSet = {
    list,
    get locked() {
      ofPolicies ??= locked.length === list.length ? set : createGuardSet(locked);
      return ofPolicies;
    },
    forMarks: (descriptor, phase) => index[phase].forMarks(descriptor),
    forResult: (op, descriptor) => (isEffect(op) ? NOBODY : index.after.forMarks(descriptor)),
    forLabels: (labels) => index.before.forLabels(labels),
    forOperation: (op, outerLabels, phase) => index[phase].forOperation(op, outerLabels),
    mayObjectAfter: (op, outerLabels) =>
      (index.after.hasLabels && !isEffect(op)) ||
      index.after.forOperation(op, outerLabels).length > 0,
  };
  return set;
}

export const NO_GUARDS: GuardSet = createGuardSet([]);

/** Cache of combined sets. The same two sets are combined for every call of a thread. */
const combined = new WeakMap<GuardSet, WeakMap<GuardSet, GuardSet>>();

/** Returns the guards of `first`, then those of `second`. A guard in both is called once. */
export function combineGuards(first: GuardSet, second: GuardSet): GuardSet {
  if (second.list.length === 0 || first === second) return first;
  if (first.list.length === 0) return second;
  const partners = combined.get(first) ?? new WeakMap<GuardSet, GuardSet>();
  combined.set(first, partners);
  const cached = partners.get(second);
  if (cached) return cached;
  const both = createGuardSet([...new Set([...first.list, ...second.list])]);
  partners.set(second, both);
  return both;
}

/** INVARIANT: privileged guards and those of a policy can never be deselected. */
export function isSelected(guard: Guard, selection: GuardSelection | undefined): boolean {
  if (!selection || guard.privileged || guard.locked) return true;
  if (selection.only) return selection.only.includes(guard.name);
  return !selection.except?.includes(guard.name);
}
