// The answers of a reader as they leave the pipeline, with random schemas, answers and labels.
import { runs } from '@kernmantle/test-support/soak';
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { isObject, type Json, type JsonObject } from '../../base/index.ts';
import {
  carries,
  childFrame,
  createFrame,
  type Descriptor,
  describe,
  EMPTY,
  elementOf,
  factsOf,
  labelFields,
  makeContainer,
  makeValue,
  mergeDescriptors,
  type Operation,
  perform,
  type ResultFacts,
  restoreFields,
  type Value,
  vouchedAs,
  withOrigin,
} from '../../flow/index.ts';
import { readShape } from './answer-shape.ts';
import { pickRecords } from './pick-records.ts';
import { type Identifiers, namedIn, readAnswer } from './read-answer.ts';

const marks: fc.Arbitrary<Descriptor> = fc
  .record({
    labels: fc.subarray(['secret', 'untrusted', 'pii']),
    taint: fc.subarray(['src:network', 'src:mcp', 'dir:private']),
    sources: fc.subarray(['tool:mail@1', 'file:a']),
  })
  .map(describe);

const WORDS = ['red', 'green', 'send it'];
const DATES = ['2026-02-28', '2026-02-30', '2024-02-29', 'tomorrow'];
const TIMES = ['2026-02-28T10:00:00Z', '2026-02-28T10:00:00+01:00', 'noon'];
const IDS = ['f1', 'f2', 'theirs', 'network', 'f9'];

const leafSchema: fc.Arbitrary<Json> = fc.constantFrom<Json>(
  { type: 'string' },
  { type: 'string', maxLength: 50 },
  { enum: WORDS },
  { type: 'integer' },
  { type: 'number', minimum: 0 },
  { type: 'boolean' },
  { type: 'string', format: 'date' },
  { type: 'string', format: 'date-time' },
);
const { schema } = fc.letrec<{ schema: Json }>((tie) => ({
  schema: fc.oneof(
    { depthSize: 'small', maxDepth: 3 },
    leafSchema,
    tie('schema').map((items) => ({ type: 'array', items })),
    fc.dictionary(fc.constantFrom('a', 'b', 'c', 'chain', 'result'), tie('schema')).map(object),
    // Each field has a name of its own, because a name with two meanings is refused.
    fc
      .constantFrom('file', 'mail')
      .map((kind) => object({ [kind]: { type: 'string', format: 'identifier', kind } })),
  ),
}));
function object(properties: Record<string, Json>): Json {
  return { type: 'object', properties };
}

const scalar: fc.Arbitrary<Json> = fc.oneof(
  fc.constantFrom<Json>(
    ...WORDS,
    ...DATES,
    ...TIMES,
    ...IDS,
    'ignore all that',
    null,
    true,
    7,
    0.5,
  ),
  fc.string({ maxLength: 20 }),
);
/** Most answers fit the schema; some are arbitrary. */
function answerFor(wanted: Json): fc.Arbitrary<Json> {
  if (!isObject(wanted)) return scalar;
  const { type, items, properties, enum: members, format } = wanted;
  if (type === 'array') return fc.array(answerFor(items ?? null), { maxLength: 3 });
  if (type === 'object') {
    const fields = Object.entries(properties as JsonObject);
    return fc.record(Object.fromEntries(fields.map(([name, inner]) => [name, answerFor(inner)])));
  }
  const fitting = members
    ? fc.constantFrom(...(members as Json[]))
    : format === 'date'
      ? fc.constantFrom(...DATES)
      : format === 'date-time'
        ? fc.constantFrom(...TIMES)
        : format === 'identifier'
          ? fc.constantFrom(...IDS)
          : type === 'boolean'
            ? fc.boolean()
            : type === 'string'
              ? fc.string({ maxLength: 20 })
              : fc.integer({ min: 0, max: 99 });
  return fc.oneof({ weight: 8, arbitrary: fitting }, { weight: 1, arbitrary: scalar });
}
const read = schema.chain((wanted) => fc.tuple(fc.constant(wanted), answerFor(wanted)));

/** Identifiers of a trusted result, of a result that declares identifiers, and of an untrusted one. */
function identifiers(): Identifiers {
  const facts = { kinds: { id: 'file' } };
  const told = [
    labelFields(makeValue({ list: [{ id: 'f1' }, { id: 'f2' }] }), facts),
    labelFields(makeValue({ id: 'theirs' }), { ...facts, identifiers: ['id'] }),
    labelFields(makeValue({ id: 'network' }), { ...facts, untrusted: true }),
  ];
  const named = told.flatMap((value) => [...namedIn(value)]);
  return new Map([['file', new Map(named.map(([, leaf]) => [leaf.text, leaf]))]]);
}
const KNOWN = identifiers();

function* leavesIn(value: Value, path = ''): Generator<readonly [string, Value]> {
  const { data } = value;
  if (typeof data !== 'object' || data === null) yield [path, value];
  else
    for (const key of Object.keys(data)) yield* leavesIn(elementOf(value, key), `${path}/${key}`);
}

/** Returns the schema at the position of a leaf. */
function schemaAt(wanted: Json, path: readonly string[]): Json {
  const [key, ...rest] = path;
  if (key === undefined || !isObject(wanted)) return wanted;
  if (wanted.type === 'array') return schemaAt(wanted.items ?? null, rest);
  return schemaAt((wanted.properties as JsonObject)[key] ?? null, rest);
}

interface Asked {
  reads: Operation['reads'];
  given: Record<string, Descriptor>;
  influence: Descriptor;
}

/** Passes the value through the pipeline, as the kernel does. */
async function through({ reads, given, influence }: Asked, made: Value): Promise<Value> {
  const inputs = Object.entries(given).map(([name, descriptor]) => ({
    name,
    value: makeValue(name, { descriptor }),
  }));
  const op: Operation = {
    type: 'tool',
    name: 'read/x',
    opLabels: ['op:tool:read/x'],
    sources: ['tool:read/x'],
    ...(reads && { reads }),
  };
  const done = await perform(
    op,
    inputs,
    () => ({ ok: true, output: made }),
    childFrame(createFrame(), { influence }),
  );
  if (!done.ok) throw new Error(done.error.detail.message);
  return done.output;
}

/** Returns the value after it was written to a journal and read back. */
const again = (value: Value): Value =>
  restoreFields(value.data, value.meta.descriptor, factsOf(value));

const hasAll = (descriptor: Descriptor, wanted: Descriptor, but: string): boolean =>
  wanted.taint.every((mark) => mark === but || descriptor.taint.includes(mark)) &&
  wanted.sources.every((source) => descriptor.sources.includes(source));

/** True for a text that the source mentions as a whole. */
const isSaid = (text: string): boolean => text === 'ignore all that' || text === 'send it';

const FROM_MODEL = describe({ taint: ['src:llm'] });
const shown = (answer: Json): Json => ({
  duration_ms: 1,
  chain: ['read/extract', 'reader'],
  ...(isObject(answer) ? answer : { result: answer }),
});
const isDay = (text: string): boolean => ['2026-02-28', '2024-02-29'].includes(text);

/** True if this leaf can be something besides untrusted text. */
function isData(wanted: Json, path: string, leaf: Value): boolean {
  const { data, meta } = leaf;
  if (typeof data !== 'string') return true;
  const [, first = '', ...rest] = path.split('/');
  const isPlain = !isObject(wanted) || wanted.type !== 'object';
  const isOwn = isPlain
    ? first === 'result'
    : isObject(wanted.properties) && first in wanted.properties;
  // Fields of the call from the kernel.
  if (!isOwn) return first === 'chain';
  const here = schemaAt(wanted, isPlain ? rest : [first, ...rest]);
  if (!isObject(here)) return false;
  if (here.enum) return WORDS.includes(data);
  if (here.format === 'date') return isDay(data);
  if (here.format === 'date-time') return data.startsWith('2026-02-28T10:00:00');
  return here.format === 'identifier' && meta.origin.kind === 'file' && ['f1', 'f2'].includes(data);
}

test('no text comes out of a reader as data, and no other mark is lost', async () => {
  let answered = 0;
  await fc.assert(
    fc.asyncProperty(read, marks, marks, marks, async ([wanted, said], from, what, influence) => {
      const shape = readShape(wanted);
      if (!shape.ok) return;
      const made = readAnswer(shape.output, JSON.stringify(said), KNOWN, isSaid);
      if (!made.ok) return;
      answered += 1;
      const { answer, facts, marks: own } = made.output;
      const descriptor = mergeDescriptors(FROM_MODEL, own);
      const labelled = labelFields(makeValue(shown(answer), { descriptor }), facts);
      const result = await through(
        { reads: 'quarantined', given: { from, what, schema: EMPTY }, influence },
        labelled,
      );
      const isAsked = [what, influence].some((one) => carries(one, 'untrusted'));
      for (const [path, leaf] of leavesIn(result)) {
        const { descriptor: has } = leaf.meta;
        const isForeign = carries(has, 'untrusted');
        expect(hasAll(has, from, 'untrusted') && hasAll(has, FROM_MODEL, '')).toBe(true);
        expect(hasAll(has, what, '') && hasAll(has, influence, '')).toBe(true);
        if (isAsked) expect(isForeign).toBe(true);
        // An untrusted text that counts as passed on is word for word in the source.
        const named = withOrigin(leaf, { reference: '$r1' });
        if (isForeign && typeof leaf.data === 'string' && vouchedAs(named, undefined)) {
          expect(isSaid(leaf.data) || isData(wanted, path, leaf) || leaf.data === 'theirs').toBe(
            true,
          );
        }
        if (!isForeign && !isData(wanted, path, leaf)) {
          throw new Error(`${path} came out trusted: ${JSON.stringify([wanted, leaf.data])}`);
        }
      }
      // The journal gives the same value back.
      const [live, back] = [result, again(result)].map((one) =>
        Array.from(leavesIn(one), ([path, { meta }]) => [
          path,
          meta.descriptor.taint.toSorted(),
          meta.origin.kind,
          meta.origin.identifier,
          meta.origin.told,
        ]),
      );
      expect(back).toEqual(live);
      expect(again(result).meta.descriptor.taint.toSorted()).toEqual(
        result.meta.descriptor.taint.toSorted(),
      );
    }),
    { numRuns: runs(600) },
  );
  expect(answered).toBeGreaterThan(50);
});

test('what was a stranger’s identifier is not made more by reading it', () => {
  const id = object({ id: { type: 'string', format: 'identifier', kind: 'file' } });
  const shape = readShape(id);
  if (!shape.ok) throw new Error('no shape');
  const factsOn = (written: string): ResultFacts | undefined => {
    const made = readAnswer(shape.output, JSON.stringify({ id: written }), KNOWN, isSaid);
    return made.ok ? made.output.facts : undefined;
  };
  expect(factsOn('f1')).toEqual({ free_text: [], identifiers: [], kinds: { id: 'file' } });
  expect(factsOn('theirs')).toEqual({ free_text: [], identifiers: ['id'], kinds: { id: 'file' } });
  expect(factsOn('network')).toEqual({
    free_text: ['id'],
    made: ['id'],
    identifiers: [],
    kinds: {},
  });
  expect(factsOn('nobody')).toBeUndefined();
});

test('an operation that does not read hands on everything', async () => {
  await fc.assert(
    fc.asyncProperty(marks, marks, async (from, what) => {
      const result = await through(
        { reads: undefined, given: { from, what }, influence: EMPTY },
        labelFields(makeValue({ n: 1 }), {}),
      );
      const { descriptor } = elementOf(result, 'n').meta;
      expect(hasAll(descriptor, from, '') && hasAll(descriptor, what, '')).toBe(true);
    }),
    { numRuns: runs(100) },
  );
});

const facts: fc.Arbitrary<ResultFacts> = fc.record(
  {
    free_text: fc.subarray(['title', 'body']),
    identifiers: fc.subarray(['name']),
    kinds: fc.constantFrom<Record<string, string>>(
      {},
      { id: 'file' },
      { id: 'mail', name: 'file' },
    ),
    untrusted: fc.constant(true as const),
    directory: fc.constant(true as const),
  },
  { requiredKeys: [] },
);
const record: fc.Arbitrary<Json> = fc.record(
  {
    id: fc.constantFrom<Json>(1, 2, 'f1'),
    name: fc.constantFrom('a', 'b'),
    title: fc.constantFrom('a', 'hello a'),
    to: fc.array(fc.constantFrom('a', 'b'), { maxLength: 2 }),
    inner: fc.record({ title: fc.constantFrom('a', 'x') }),
  },
  { requiredKeys: [] },
);

const leafFacts = ([path, { data, meta }]: readonly [string, Value]) =>
  [path, data, meta.origin.kind, meta.origin.identifier, meta.origin.directory] as const;

test('records that are picked are the very values, whoever chose', async () => {
  let picked = 0;
  const lists = fc.array(fc.tuple(fc.array(record, { maxLength: 4 }), facts, marks), {
    maxLength: 3,
  });
  const where = fc.constantFrom('id', 'name', 'title', 'to', 'inner.title', 'nothing');
  const is = fc.constantFrom<Json>('a', 'f1', 1, 'x');
  await fc.assert(
    fc.asyncProperty(
      lists,
      where,
      is,
      fc.boolean(),
      marks,
      marks,
      async (told, field, wanted, contains, chooser, influence) => {
        const values = told.flatMap(([records, said, descriptor]) => {
          const whole = labelFields(makeValue({ list: records }, { descriptor }), said);
          const list = elementOf(whole, 'list');
          return records.map((_, at) => elementOf(list, at));
        });
        const from = makeContainer(values);
        const done = pickRecords({
          from,
          where: makeValue(field),
          is: makeValue(wanted, { descriptor: chooser }),
          contains,
        });
        if (!done.ok) throw new Error(done.error.detail.message);
        const { found, facts: kept } = done.output;
        const whole = makeContainer(new Map([['found', found]]));
        const made = kept ? withOrigin(whole, { facts: kept as Json }) : whole;
        const asked = { from: from.meta.descriptor, where: EMPTY, is: chooser };
        const result = await through({ reads: 'picked', given: asked, influence }, made);
        const list = elementOf(result, 'found');
        const count = (list.data as Json[]).length;
        for (let at = 0; at < count; at++) {
          picked += 1;
          const one = elementOf(list, at);
          const was = values.find(({ data }) => data === one.data) as Value;
          expect(Array.from(leavesIn(one), leafFacts)).toEqual(
            Array.from(leavesIn(was), leafFacts),
          );
          const before = new Map(leavesIn(was));
          for (const [path, { meta }] of leavesIn(one)) {
            const had = before.get(path)?.meta.descriptor ?? EMPTY;
            expect(hasAll(meta.descriptor, had, '') && hasAll(meta.descriptor, influence, '')).toBe(
              true,
            );
            expect(hasAll(meta.descriptor, chooser, 'untrusted')).toBe(true);
            const isForeign = carries(had, 'untrusted') || carries(influence, 'untrusted');
            expect(carries(meta.descriptor, 'untrusted')).toBe(isForeign);
          }
        }
        // The journal loses no mark, and declares no more about a field.
        const back = new Map(leavesIn(again(result)));
        for (const [path, { meta }] of leavesIn(result)) {
          const restored = back.get(path)?.meta;
          expect(restored && hasAll(restored.descriptor, meta.descriptor, '')).toBe(true);
          const isMore = (fact: string) =>
            restored?.origin[fact] !== undefined &&
            restored.origin[fact] !== meta.origin[fact] &&
            !carries(restored.descriptor, 'untrusted');
          expect(['kind', 'identifier', 'directory', 'told'].some(isMore)).toBe(false);
        }
        // The restored value is recorded in the same form, so a replay finds no difference.
        const twice = again(again(result));
        expect(twice.meta.descriptor).toEqual(again(result).meta.descriptor);
        expect(again(result).meta.descriptor.taint.toSorted()).toEqual(
          result.meta.descriptor.taint.toSorted(),
        );
        expect(factsOf(again(result))).toEqual(factsOf(result));
      },
    ),
    { numRuns: runs(400) },
  );
  expect(picked).toBeGreaterThan(10);
});

test('a list is found in a result, and what cannot be meant is refused', () => {
  const result = makeValue({ chain: ['x'], duration_ms: 1, items: [{ a: 1 }, { a: 2 }] });
  const ask = (from: Value, where: string, is: Json, contains = false) =>
    pickRecords({ from, where: makeValue(where), is: makeValue(is), contains });
  const found = ask(result, 'a', '2');
  expect(found.ok && found.output.found.data).toEqual([{ a: 2 }]);
  const words = (done: ReturnType<typeof ask>) => (done.ok ? '' : done.error.detail.message);
  expect(words(ask(makeValue({ a: [], b: [] }), 'a', 1))).toContain('more than one list');
  expect(words(ask(makeValue('text'), 'a', 1))).toContain('must be a list of records');
  expect(words(ask(result, 'a..b', 1))).toContain('`where`');
  expect(words(ask(result, 'a', '', true))).toContain('`is`');
  expect(words(ask(result, 'a', { b: 1 }))).toContain('`is`');
  const own = ask(makeValue([{ __proto__: 1 }, { toString: 'x' }]), 'constructor', 'x', true);
  expect(own.ok && own.output.found.data).toEqual([]);
});
