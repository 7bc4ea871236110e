// The methods of lists. What they take out of a list keeps exactly its marks; none changes the list.
import { addMarks, makeContainer, mergeAll, type Value, withOrigin } from '../flow/index.ts';
import type { Arguments } from './methods-text.ts';
import { isEqual } from './operators.ts';
import { textOf } from './text-of.ts';
import { fieldOf } from './value-access.ts';
import { computed, elementsOf, isFileList, listFrom, marksOf, ownMarks } from './value-kinds.ts';

type ListMethod = (list: Value, args: Arguments, values: readonly Value[]) => Value;

export const LIST_METHODS: ReadonlyMap<string, ListMethod> = new Map<string, ListMethod>([
  ['length', (list) => computed(elementsOf(list).length, [list])],
  ['includes', (list, _args, values) => computed(positionIn(list, values) >= 0, [list, ...values])],
  ['indexOf', (list, _args, values) => computed(positionIn(list, values), [list, ...values])],
  ['join', join],
  [
    'slice',
    (list, args, values) =>
      listFrom(
        list,
        elementsOf(list).slice(args.optionalNumber(0), args.optionalNumber(1)),
        values,
      ),
  ],
  ['concat', (list, _args, values) => concat([list, ...values])],
  ['reverse', (list) => listFrom(list, elementsOf(list).toReversed(), [])],
  ['sort', sortList],
  ['flat', (list, args, values) => flat(list, args.optionalNumber(0) ?? 1, values)],
  [
    'at',
    (list, args, values) =>
      addMarks(
        fieldOf(list, String(Math.trunc(args.optionalNumber(0) ?? 0)), 'strict'),
        marksOf(values),
      ),
  ],
]);

function positionIn(list: Value, values: readonly Value[]): number {
  const [wanted] = values;
  return wanted ? elementsOf(list).findIndex((element) => isEqual(element, wanted)) : -1;
}

/** Nothing for null, as everywhere in JavaScript. */
function join(list: Value, args: Arguments, values: readonly Value[]): Value {
  const texts = elementsOf(list).map((item) => (item.data === null ? '' : textOf(item)));
  return computed(texts.join(args.optionalText(0) ?? ','), [list, ...values]);
}

/** Elements bring their marks along; how many each list has decides where those of the next stand. */
function concat(lists: readonly Value[]): Value {
  const parts = lists.flatMap((each) => (Array.isArray(each.data) ? elementsOf(each) : [each]));
  const own = lists.filter(({ data }) => Array.isArray(data)).map(ownMarks);
  const list = makeContainer(parts, mergeAll(own));
  return lists.every(isFileList) ? withOrigin(list, { files: true }) : list;
}

const byCodeUnit = (a: string, b: string): number => (a < b ? -1 : Number(a > b));

/** By text, code unit by code unit; null last. Every element has a say in where the others stand. */
export function sortList(list: Value): Value {
  const keyed = elementsOf(list).map((item) => ({ item, text: textOf(item) }));
  const sorted = keyed.toSorted(
    (a, b) =>
      Number(a.item.data === null) - Number(b.item.data === null) || byCodeUnit(a.text, b.text),
  );
  return listFrom(
    list,
    sorted.map(({ item }) => item),
    [list],
  );
}

function flat(list: Value, depth: number, values: readonly Value[]): Value {
  let parts = elementsOf(list);
  const own = [ownMarks(list), ...values.map(({ meta }) => meta.descriptor)];
  for (let level = 0; level < depth; level++) {
    if (!parts.some(({ data }) => Array.isArray(data))) break;
    own.push(...parts.filter(({ data }) => Array.isArray(data)).map(ownMarks));
    parts = parts.flatMap((part) => (Array.isArray(part.data) ? elementsOf(part) : [part]));
  }
  return makeContainer(parts, mergeAll(own));
}
