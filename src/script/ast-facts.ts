// Questions about a tree that do not need it to run.
import type { Action, Stage } from './ast.ts';

type Tree = Action | Stage;

const isNode = (thing: unknown): thing is Tree =>
  typeof thing === 'object' &&
  thing !== null &&
  typeof (thing as { kind?: unknown }).kind === 'string';

/** Visits a node and everything inside it; functions are not entered. */
export function visit(node: unknown, see: (node: Tree) => void): void {
  const open: unknown[] = [node];
  // What is absent in a node is on the list too: only an empty list is the end.
  while (open.length > 0) {
    const item = open.pop();
    if (Array.isArray(item)) open.push(...(item as unknown[]));
    else if (item instanceof Map) open.push(...item.values());
    else if (typeof item === 'object' && item !== null) {
      if (isNode(item)) see(item);
      if ((item as { kind?: string }).kind === 'exe') continue;
      open.push(...Object.values(item));
    }
  }
}

const names = new WeakMap<object, readonly string[]>();

/** Names that `+=` rebinds somewhere inside. */
export function augmentedNames(node: Action): readonly string[] {
  const known = names.get(node);
  if (known) return known;
  const found = new Set<string>();
  visit(node, (inner) => {
    if (inner.kind === 'augment') found.add(inner.name);
  });
  const list = [...found];
  names.set(node, list);
  return list;
}

const leaves = new WeakMap<object, boolean>();

/** Could what stands here end the function, the loop or the script it stands in? */
export function mayLeave(node: Action): boolean {
  const known = leaves.get(node);
  if (known !== undefined) return known;
  let found = false;
  visit(node, ({ kind }) => {
    if (kind === 'return' || kind === 'leave' || kind === 'bail') found = true;
  });
  leaves.set(node, found);
  return found;
}
