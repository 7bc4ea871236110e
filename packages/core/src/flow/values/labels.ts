// Implements the marks of a value. Descriptors are frozen and interned, so equal ones are the same object,
// a comparison is `===`, and a repeated merge is a table look-up.
//
// `replaced` belongs to the guards: an entry says that a guard has already replaced all data with its
// label in that phase. A merge can remove only this part (new labelled data ends it); everything else
// only grows.
import { createRecentPairs, type Failure, type Fault } from '../../base/index.ts';

export interface Descriptor {
  /** Declared labels, and labels inherited from inputs. */
  readonly labels: readonly string[];
  /** The labels first, then the automatic ones (`src:…`, `dir:…`), in order of appearance. */
  readonly taint: readonly string[];
  /** Sources of the value, such as `file:…`, `command:…`, `tool:…@turn` or `guard:name`. */
  readonly sources: readonly string[];
  /** Kind of the operation that made the value. Several kinds are sorted and joined with `|`. */
  readonly capability: string | null;
  /** Policies and rule packs that were in force. */
  readonly policyContext: readonly string[];
  /** Guards that have judged this data, as `phase guard-id label`. */
  readonly replaced: readonly string[];
}

const NONE: readonly string[] = Object.freeze([]);

export const EMPTY: Descriptor = Object.freeze({
  labels: NONE,
  taint: NONE,
  sources: NONE,
  capability: null,
  policyContext: NONE,
  replaced: NONE,
});

const EXEC_SOURCES = new Set(['src:cmd', 'src:sh', 'src:js', 'src:node', 'src:py']);

/** True if a filter names this mark. `src:env` covers `src:env:HOME`; `src:exec` covers all code. */
function matchesLabel(filter: string, mark: string): boolean {
  if (filter === mark) return true;
  if (filter === 'src:exec') return EXEC_SOURCES.has(mark);
  return mark.length > filter.length && mark[filter.length] === ':' && mark.startsWith(filter);
}

export const carries = (descriptor: Descriptor, filter: string): boolean =>
  descriptor.taint.some((mark) => matchesLabel(filter, mark));

/** Returns every filter that could name this mark, for indexes. */
export function filtersFor(mark: string): string[] {
  const filters = [mark];
  for (let at = mark.lastIndexOf(':'); at > 0; at = mark.lastIndexOf(':', at - 1)) {
    filters.push(mark.slice(0, at));
  }
  if (EXEC_SOURCES.has(mark)) filters.push('src:exec');
  return filters;
}

// Weak references: identity lasts while the descriptor is in use, and unused ones are freed.
const interned = new Map<string, WeakRef<Descriptor>>();
const freedKeys = new FinalizationRegistry<string>((key) => {
  if (interned.get(key)?.deref() === undefined) interned.delete(key);
});

function intern(parts: Descriptor): Descriptor {
  const { labels, taint, sources, capability, policyContext, replaced } = parts;
  if (taint.length + sources.length + policyContext.length === 0 && capability === null) {
    return EMPTY;
  }
  const key = JSON.stringify([labels, taint, sources, capability, policyContext, replaced]);
  const existing = interned.get(key)?.deref();
  if (existing) return existing;
  for (const list of [labels, taint, sources, policyContext, replaced]) Object.freeze(list);
  const created = Object.freeze({ labels, taint, sources, capability, policyContext, replaced });
  interned.set(key, new WeakRef(created));
  freedKeys.register(created, key);
  return created;
}

/** Returns both lists without duplicates, in order of appearance. Returns `a` itself if `b` adds nothing. */
function union(a: readonly string[], b: readonly string[]): readonly string[] {
  if (b.length === 0 || a === b) return a;
  if (a.length === 0) return b;
  const set = new Set(a);
  const before = set.size;
  for (const item of b) set.add(item);
  return set.size === before && before === a.length ? a : [...set];
}

/** Returns a list without duplicates, which `intern` freezes. Most lists have one item or none. */
function unique(list: readonly string[]): readonly string[] {
  if (list.length > 1) return [...new Set(list)];
  return list.length === 0 ? NONE : [...list];
}

export function describe(parts: Partial<Descriptor>): Descriptor {
  const labels = unique(parts.labels ?? NONE);
  return intern({
    labels,
    taint: unique([...labels, ...(parts.taint ?? NONE)]),
    sources: unique(parts.sources ?? NONE),
    capability: parts.capability ?? null,
    policyContext: unique(parts.policyContext ?? NONE),
    replaced: unique(parts.replaced ?? NONE),
  });
}

function mergeCapability(a: string | null, b: string | null): string | null {
  if (a === b || b === null) return a;
  if (a === null) return b;
  return unique([...a.split('|'), ...b.split('|')])
    .toSorted()
    .join('|');
}

const labelOf = (entry: string): string =>
  entry.slice(entry.indexOf(' ', entry.indexOf(' ') + 1) + 1);

/** Stands in place of a label if the guard judged an operation and therefore all data. */
export const ANYTHING = '*';

const isUnconcerned = (side: Descriptor, label: string): boolean =>
  label !== ANYTHING && !carries(side, label);

/** Keeps an entry only if the guard has replaced every side that has its label. */
function mergeReplaced(a: Descriptor, b: Descriptor): readonly string[] {
  if (a.replaced.length + b.replaced.length === 0) return NONE;
  const settled = (entry: string, side: Descriptor) =>
    side.replaced.includes(entry) || isUnconcerned(side, labelOf(entry));
  return [...union(a.replaced, b.replaced)]
    .filter((entry) => settled(entry, a) && settled(entry, b))
    .toSorted();
}

const merges = createRecentPairs<Descriptor, Descriptor>(4096);

/** Merges marks. The merge is associative, commutative up to order, and idempotent. It loses no mark. */
export function mergeDescriptors(a: Descriptor, b: Descriptor): Descriptor {
  if (a === b || b === EMPTY) return a;
  if (a === EMPTY) return b;
  return merges.get(a, b) ?? merges.set(a, b, mergeAnew(a, b));
}

function mergeAnew(a: Descriptor, b: Descriptor): Descriptor {
  const labels = union(a.labels, b.labels);
  return intern({
    labels,
    taint: union(union(labels, a.taint), b.taint),
    sources: union(a.sources, b.sources),
    capability: mergeCapability(a.capability, b.capability),
    policyContext: union(a.policyContext, b.policyContext),
    replaced: mergeReplaced(a, b),
  });
}

export function mergeAll(list: Iterable<Descriptor>): Descriptor {
  let merged = EMPTY;
  for (const item of list) merged = mergeDescriptors(merged, item);
  return merged;
}

/** Adds labels. `untrusted` removes `trusted`; `trusted` on untrusted data keeps both. */
export function addLabels(descriptor: Descriptor, labels: readonly string[]): Descriptor {
  if (labels.length === 0) return descriptor;
  const merged = mergeDescriptors(descriptor, describe({ labels }));
  return labels.includes('untrusted') && merged.labels.includes('trusted')
    ? without(merged, (mark) => mark === 'trusted')
    : merged;
}

export function withSources(descriptor: Descriptor, sources: readonly string[]): Descriptor {
  return sources.length === 0 ? descriptor : mergeDescriptors(descriptor, describe({ sources }));
}

const capable = createRecentPairs<Descriptor | string, Descriptor>(1024);

export function withCapability(descriptor: Descriptor, capability: string): Descriptor {
  if (descriptor.capability === capability) return descriptor;
  const cached = capable.get(descriptor, capability);
  return cached ?? capable.set(descriptor, capability, intern({ ...descriptor, capability }));
}

// INVARIANT: marks of origin are never removed.
const isFixed = (mark: string): boolean => /^(src|dir):/.test(mark);

function without(descriptor: Descriptor, isRemoved: (mark: string) => boolean): Descriptor {
  const stays = (mark: string) => isFixed(mark) || !isRemoved(mark);
  // The taint includes the labels, so one check covers both.
  if (descriptor.taint.every(stays)) return descriptor;
  return describe({
    ...descriptor,
    labels: descriptor.labels.filter(stays),
    taint: descriptor.taint.filter(stays),
  });
}

/** Removes labels, for privileged guards only. `src:…` and `dir:…` always stay. */
export const removeLabels = (descriptor: Descriptor, labels: readonly string[]): Descriptor =>
  without(descriptor, (mark) => labels.includes(mark));

/** Records that a label guard has replaced this data in this phase. */
export const markReplaced = (descriptor: Descriptor, entry: string): Descriptor =>
  descriptor.replaced.includes(entry)
    ? descriptor
    : intern({ ...descriptor, replaced: [...descriptor.replaced, entry].toSorted() });

/** Returns the functions and tools that made the values with these marks, in order, each once. */
export function toolsIn(descriptors: readonly Descriptor[]): { name: string }[] {
  const names = new Set<string>();
  for (const { sources } of descriptors) {
    for (const source of sources) {
      const name = /^(?:function|tool):(.+)$/.exec(source)?.[1];
      if (name !== undefined) names.add(name);
    }
  }
  return Array.from(names, (name) => ({ name }));
}

/** A fault carries the descriptor of the values that it quotes, under a symbol that JSON does not contain. */
const MARKS = Symbol('descriptor');

export function descriptorOfFault(fault: Fault): Descriptor {
  return (fault.detail as { [MARKS]?: Descriptor })[MARKS] ?? EMPTY;
}

/** Adds marks to a failure. Existing marks stay. */
export function markFailure(failure: Failure, descriptor: Descriptor): Failure {
  const before = descriptorOfFault(failure.error);
  const merged = mergeDescriptors(before, descriptor);
  if (merged === before) return failure;
  const { code, detail } = failure.error;
  return { ok: false, error: { code, detail: Object.assign({ ...detail }, { [MARKS]: merged }) } };
}
