// What a guard may do to a value it lets pass. A label guard replaces the same data once per phase;
// the note about it travels in the descriptor, so it holds for everything derived from that data.
import type { Json } from '../base/index.ts';
import {
  addLabels,
  markReplaced,
  mergeDescriptors,
  removeLabels,
  withSources,
} from './descriptor.ts';
import type { Guard, LabelChange, Phase } from './guard.ts';
import { isValue, makeValue, relabel, type Value } from './value.ts';

/** INVARIANT: a replacement keeps the labels of what it replaces; only privileged guards take any. */
export function replaced(old: Value, value: Value | Json, guard: Guard, phase: Phase): Value {
  const given = isValue(value) ? value : makeValue(value);
  const kept = mergeDescriptors(old.meta.descriptor, given.meta.descriptor);
  const named = withSources(kept, [`guard:${guard.name}`]);
  const { filter } = guard;
  const marked =
    filter.kind === 'label' ? markReplaced(named, entryOf(guard, filter.label, phase)) : named;
  return relabel(given, marked);
}

const entryOf = (guard: Guard, label: string, phase: Phase): string =>
  `${phase} ${guard.id} ${label}`;

export const wasReplaced = (value: Value, guard: Guard, phase: Phase): boolean =>
  guard.filter.kind === 'label' &&
  value.meta.descriptor.replaced.includes(entryOf(guard, guard.filter.label, phase));

export function relabelled(value: Value, change: LabelChange | undefined, guard: Guard): Value {
  if (!change?.add?.length && !change?.remove?.length && !change?.clear) return value;
  const { descriptor } = value.meta;
  const removed = removeLabels(descriptor, change.clear ? descriptor.taint : (change.remove ?? []));
  const added = addLabels(removed, change.add ?? []);
  return relabel(value, withSources(added, [`guard:${guard.name}`]));
}
