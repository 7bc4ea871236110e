// Chooses records from a list. An untrusted text can say which records to choose. It adds nothing to them, so
// each keeps its marks and facts. The choice itself can reveal whether a text differs, so the result has the
// marks of all records except `untrusted`.
import { fail, isObject, type Json, type JsonObject, type Outcome, ok } from '../../base/index.ts';
import {
  carries,
  elementOf,
  makeContainer,
  mergeAll,
  type ResultFacts,
  removeLabels,
  type Value,
} from '../../flow/index.ts';
import { OF_KERNEL } from './answer-shape.ts';

interface WantedRecords {
  readonly from: Value;
  /** A field of each record, or a path to one: `sender`, `sender.email`. */
  readonly where: Value;
  readonly is: Value;
  readonly contains: boolean;
}

interface Picked {
  readonly found: Value;
  /** `undefined`: no tool has declared facts about the records. */
  readonly facts: ResultFacts | undefined;
}

const MAX_PATH = 16;

function listIn(from: Value): Outcome<Value> {
  const { data } = from;
  if (Array.isArray(data)) return ok(from);
  const object: JsonObject = isObject(data) ? data : {};
  const lists = Object.keys(object).filter(
    (name) => Array.isArray(object[name]) && !OF_KERNEL.has(name),
  );
  const [only] = lists;
  if (only !== undefined && lists.length === 1) return ok(elementOf(from, only));
  const message =
    lists.length === 0
      ? '`from` must be a list of records, or an object with one'
      : '`from` has more than one list; pass one of its lists';
  return fail('invalid_input', message);
}

function recordsIn(list: Value): Value[] {
  const count = Array.isArray(list.data) ? list.data.length : 0;
  return Array.from({ length: count }, (_, at) => elementOf(list, at));
}

const fieldOf = (record: Json, path: readonly string[]): Json =>
  path.reduce<Json>(
    (at, name) => (isObject(at) && Object.hasOwn(at, name) ? (at[name] ?? null) : null),
    record,
  );

const isPlain = (value: Json): value is string | number | boolean =>
  typeof value !== 'object' || value === null ? value !== null : false;

/** True if the field, or one of its items if it is a list, has the value. */
function fits(field: Json, is: string, contains: boolean): boolean {
  if (Array.isArray(field)) return field.some((item) => isPlain(item) && fits(item, is, contains));
  if (!isPlain(field)) return false;
  const text = String(field);
  return contains ? text.includes(is) : text === is;
}

interface FieldFacts {
  isFree: boolean;
  isMade: boolean;
  isIdentifier: boolean;
  isUnvouched: boolean;
  kind: string | undefined;
  isDirectory: boolean;
}

/** Yields every leaf of a value with the name of its field. */
function* leavesIn(value: Value, name: string): Generator<readonly [string, Value]> {
  const { data } = value;
  const keys = typeof data === 'object' && data !== null ? Object.keys(data) : [];
  if (keys.length === 0) yield [name, value];
  for (const key of keys) {
    yield* leavesIn(elementOf(value, key), Array.isArray(data) ? name : key);
  }
}

const factsOf = ({ meta: { descriptor, origin } }: Value): FieldFacts => {
  const isIdentifier = origin.identifier === true;
  return {
    isFree: carries(descriptor, 'untrusted') && !isIdentifier,
    isMade: origin.told !== true,
    isIdentifier,
    isUnvouched: origin.unvouched === true,
    kind: typeof origin.kind === 'string' ? origin.kind : undefined,
    isDirectory: origin.directory === true,
  };
};

/** Returns the facts that hold for both fields. A field that is untrusted in one record is untrusted in all. */
const both = (a: FieldFacts, b: FieldFacts): FieldFacts => ({
  isFree: a.isFree || b.isFree || a.isIdentifier !== b.isIdentifier,
  isMade: a.isMade || b.isMade,
  isIdentifier: a.isIdentifier && b.isIdentifier,
  isUnvouched: a.isUnvouched || b.isUnvouched,
  kind: a.kind === b.kind ? a.kind : undefined,
  isDirectory: a.isDirectory && b.isDirectory,
});

/**
 * Returns facts by field name, for the journal. INVARIANT: the facts never claim more about a field than the
 * record did. Without facts, all fields count as untrusted if one record is.
 */
function factsOfRecords(records: readonly Value[]): ResultFacts | undefined {
  const named = new Map<string, FieldFacts>();
  let isForeign = false;
  let isTold = true;
  for (const [name, leaf] of records.flatMap((record) => [...leavesIn(record, 'found')])) {
    const facts = factsOf(leaf);
    const before = named.get(name);
    named.set(name, before ? both(before, facts) : facts);
    isForeign ||= facts.isFree || facts.isIdentifier;
    isTold &&= facts.isFree || !facts.isMade;
  }
  const all = [...named];
  const silent = all.flatMap(([name, one]) => (one.isUnvouched ? name : []));
  const unvouched = silent.length > 0 ? { unvouched: silent } : {};
  if (!isTold && isForeign) return { untrusted: true };
  if (!isTold) return silent.length > 0 ? unvouched : undefined;
  const kinds = all.flatMap(([name, { isFree, kind }]) =>
    isFree || kind === undefined ? [] : [[name, kind] as const],
  );
  const isDirectory = all.length > 0 && all.every(([, one]) => one.isFree || one.isDirectory);
  return {
    free_text: all.flatMap(([name, { isFree }]) => (isFree ? name : [])),
    made: all.flatMap(([name, { isFree, isMade }]) => (isFree && isMade ? name : [])),
    identifiers: all.flatMap(([name, one]) => (one.isIdentifier && !one.isFree ? name : [])),
    kinds: Object.fromEntries(kinds),
    ...unvouched,
    ...(isDirectory && { directory: true as const }),
  };
}

export function pickRecords({ from, where, is, contains }: WantedRecords): Outcome<Picked> {
  const list = listIn(from);
  if (!list.ok) return list;
  const path = where.text.split('.');
  if (path.length > MAX_PATH || path.includes('')) {
    return fail('invalid_input', '`where` must be a field, or fields with dots between them');
  }
  if (!isPlain(is.data) || is.text === '') {
    return fail('invalid_input', '`is` must be a text or a number, and not empty');
  }
  const records = recordsIn(list.output).filter(({ data }) =>
    fits(fieldOf(data, path), is.text, contains),
  );
  const all = mergeAll([from, where, is].map(({ meta }) => meta.descriptor));
  const found = makeContainer(records, undefined, removeLabels(all, ['untrusted']));
  return ok({ found, facts: factsOfRecords(records) });
}
