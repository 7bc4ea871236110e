// Finds the file for an id. Files of one kind and id are ordered by their roots. The first file is the item
// and hides the others.
import { fail, lastSegment, nearest, type Outcome, ok } from '../../base/index.ts';
import { type ItemKind, KINDS, type Source } from '../item-kinds.ts';
import type { FileRecord } from './record.ts';

type Stack = FileRecord[];

const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

export function createShelves(rankOf: (record: FileRecord) => number) {
  const stacks: Record<ItemKind, Map<string, Stack>> = {
    directive: new Map(),
    tool: new Map(),
    knowledge: new Map(),
  };
  /** Ids by their last segment, which are computed for the first bare name after a change. */
  let names: Partial<Record<ItemKind, Map<string, string[]>>> = {};
  let ordered: readonly FileRecord[] | undefined;

  function changed(): void {
    names = {};
    ordered = undefined;
  }

  const bareNames = (kind: ItemKind): Map<string, string[]> =>
    (names[kind] ??= Map.groupBy(stacks[kind].keys(), lastSegment));

  function frontOf(stack: Stack | undefined, source: Source | undefined): FileRecord | undefined {
    return source === undefined ? stack?.[0] : stack?.find(({ root }) => root.source === source);
  }

  function notFound(kind: ItemKind, id: string, source: Source | undefined): Outcome<never> {
    const where = source === undefined ? '' : ` in the ${source}`;
    const ids = [...stacks[kind].keys()];
    const near =
      nearest(id, ids) ??
      ids.find((other) => lastSegment(other) === lastSegment(id)) ??
      bareNames(kind).get(nearest(lastSegment(id), bareNames(kind).keys()) ?? '')?.[0];
    const hint = near === undefined || near === id ? '' : `; did you mean \`${near}\``;
    const detail = near === undefined ? {} : { suggestion: near };
    return fail('not_found', `${kind} \`${id}\` not found${where}${hint}`, detail);
  }

  return {
    add(record: FileRecord): void {
      const stack = [...(stacks[record.kind].get(record.id) ?? []), record];
      stack.sort((a, b) => rankOf(a) - rankOf(b) || compare(a.path, b.path));
      stacks[record.kind].set(record.id, stack);
      changed();
    },
    remove(record: FileRecord): void {
      const shelf = stacks[record.kind];
      const rest = (shelf.get(record.id) ?? []).filter((other) => other !== record);
      if (rest.length > 0) shelf.set(record.id, rest);
      else shelf.delete(record.id);
      changed();
    },
    find(kind: ItemKind, id: string, source?: Source): Outcome<FileRecord> {
      const exact = frontOf(stacks[kind].get(id), source);
      if (exact) return ok(exact);
      if (id.includes('/')) return notFound(kind, id, source);
      const ids = (bareNames(kind).get(id) ?? []).filter((full) =>
        frontOf(stacks[kind].get(full), source),
      );
      const [first] = ids;
      if (first === undefined) return notFound(kind, id, source);
      if (ids.length > 1) {
        const list = ids.sort(compare);
        const message = `\`${id}\` is ambiguous: ${list.length} ${kind} items have this name: ${list.slice(0, 10).join(', ')}`;
        return fail('ambiguous', message, { candidates: list });
      }
      return ok(frontOf(stacks[kind].get(first), source) as FileRecord);
    },
    behind(record: FileRecord): readonly FileRecord[] {
      const stack = stacks[record.kind].get(record.id) ?? [];
      return stack.slice(stack.indexOf(record) + 1);
    },
    isFront: (record: Pick<FileRecord, 'kind' | 'id'>): boolean =>
      stacks[record.kind].get(record.id)?.[0] === record,
    /** Returns the first file of every id, ordered by kind and id. */
    fronts(kind?: ItemKind): readonly FileRecord[] {
      ordered ??= KINDS.flatMap((each) =>
        [...stacks[each].values()]
          .map((stack) => stack[0] as FileRecord)
          .sort((a, b) => compare(a.id, b.id)),
      );
      return kind === undefined ? ordered : ordered.filter((record) => record.kind === kind);
    },
    *everything(): Iterable<FileRecord> {
      for (const kind of KINDS) for (const stack of stacks[kind].values()) yield* stack;
    },
  };
}
