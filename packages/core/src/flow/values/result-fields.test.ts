import { runs } from '@kernmantle/test-support/soak';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { isObject, type Json } from '../../base/index.ts';
import { carries, describe, EMPTY } from './labels.ts';
import {
  factsOf,
  labelFields,
  type ResultFacts,
  restoreFields,
  singlesOf,
  vouchedAs,
  vouchedInAll,
} from './result-fields.ts';
import { addMarks, elementOf, makeContainer, makeValue, type Value } from './value.ts';

const at = (value: Value, ...path: (string | number)[]): Value =>
  path.reduce<Value>((found, key) => elementOf(found, key), value);
const isForeign = ({ meta }: Value): boolean => carries(meta.descriptor, 'untrusted');
const stranger = describe({ labels: ['untrusted'], taint: ['src:network'] });

const MAIL: Json = {
  mails: [
    { id: 7, from: 'ann@a.example', body: 'hello', to: { name: 'Bo', address: 'bo@b.example' } },
    { id: 8, from: 'eve@e.example', body: { text: 'send it', id: 9 } },
  ],
  channels: ['general', 'random'],
  count: 2,
};
const FACTS: ResultFacts = {
  free_text: ['body'],
  identifiers: ['channels'],
  kinds: { id: 'mail', channels: 'channel' },
};

test('a field is meant by its name at any depth, with all that is below it', () => {
  const value = labelFields(makeValue(MAIL), FACTS);
  expect(value.data).toEqual(MAIL);
  expect(isForeign(value)).toBe(true);
  expect(isForeign(at(value, 'mails', 0, 'body'))).toBe(true);
  expect(isForeign(at(value, 'mails', 1, 'body', 'text'))).toBe(true);
  expect(isForeign(at(value, 'mails', 1, 'body', 'id'))).toBe(true);
  expect(at(value, 'mails', 1, 'body', 'id').meta.origin).not.toHaveProperty('kind');
  expect(isForeign(at(value, 'mails', 0, 'from'))).toBe(false);
  expect(isForeign(at(value, 'count'))).toBe(false);
  expect(at(value, 'mails', 0, 'id').meta.origin).toMatchObject({ kind: 'mail' });
  expect(isForeign(at(value, 'mails', 0, 'id'))).toBe(false);
  const channel = at(value, 'channels', 1);
  expect(isForeign(channel)).toBe(true);
  expect(channel.meta.origin).toMatchObject({ identifier: true, kind: 'channel' });
  expect(carries(at(value, 'mails', 0).meta.descriptor, 'untrusted')).toBe(true);
});

test.each(['result', '*', '$'])(
  '`%s` names a plain answer and the elements of a plain list',
  (name) => {
    for (const wrap of [(data: Json) => data, (data: Json) => ({ result: data })]) {
      const under = (value: Value) => (isObject(value.data) ? elementOf(value, 'result') : value);
      const text = under(labelFields(makeValue(wrap('hello')), { free_text: [name] }));
      expect(isForeign(text)).toBe(true);
      const list = under(labelFields(makeValue(wrap(['a', 'b'])), { identifiers: [name] }));
      expect(at(list, 1).meta.origin).toMatchObject({ identifier: true, of: 'b' });
    }
  },
);

test('what the result carries anyway stays on every field', () => {
  const value = labelFields(
    makeValue(MAIL, { descriptor: describe({ taint: ['src:mcp'] }) }),
    FACTS,
  );
  expect(at(value, 'count').meta.descriptor.taint).toEqual(['src:mcp']);
  expect(at(value, 'mails', 0, 'body').meta.descriptor.taint).toEqual(['untrusted', 'src:mcp']);
});

test('a directory says of each of its fields that it is from there, but not of free text', () => {
  const book = labelFields(makeValue({ people: [{ name: 'Ann', mail: 'a@a', note: 'x' }] }), {
    directory: true,
    free_text: ['note'],
    kinds: { mail: 'address' },
  });
  const ann = at(book, 'people', 0);
  expect(vouchedAs(at(ann, 'mail'), 'address')).toBe('directory');
  expect(vouchedAs(at(ann, 'mail'), undefined)).toBe('reference');
  expect(vouchedAs(at(ann, 'name'), undefined)).toBe('directory');
  expect(vouchedAs(at(ann, 'note'), undefined)).toBe('reference');
});

test('a fact is one of the data it was said of: nothing that is made of it has any', () => {
  const value = labelFields(makeValue({ channels: ['["evil"]'] }), FACTS);
  const channel = at(value, 'channels', 0);
  expect(vouchedAs(channel, 'channel')).toBe('identifier');
  const parsed = makeValue(['evil'], channel.meta);
  expect(vouchedAs(at(parsed, 0), 'channel')).toBe('reference');
  expect(vouchedAs(makeValue('evil', channel.meta), 'channel')).toBe('reference');
  expect(vouchedAs(makeValue('["evil"]', { descriptor: stranger }), 'channel')).toBeUndefined();
});

test('in a list each part must be vouched for', () => {
  const value = labelFields(makeValue({ channels: ['a', 'b'], body: 'c' }), FACTS);
  const [a, b, body] = [at(value, 'channels', 0), at(value, 'channels', 1), at(value, 'body')];
  const own = makeValue('general');
  expect(vouchedInAll(at(value, 'channels'), 'channel')).toBe('identifier');
  expect(vouchedInAll(makeContainer([a, b, own]), 'channel')).toBe('identifier');
  expect(vouchedInAll(makeContainer([a, b, body]), 'channel')).toBeUndefined();
  expect(vouchedInAll(makeContainer([body]), 'channel')).toBeUndefined();
  expect(vouchedInAll(makeContainer([a], stranger), 'channel')).toBe('identifier');
  expect(vouchedInAll(makeContainer(new Map([['x', a]])), 'channel')).toBe('identifier');
  expect(vouchedInAll(makeContainer(new Map([['x', a]]), stranger), 'channel')).toBeUndefined();
  expect(vouchedInAll(body, 'channel')).toBe('reference');
});

test('data nested 100,000 deep is labelled without a crash, and what nobody looks at is strangers’', () => {
  let data: Json = { id: 'x' };
  for (let depth = 0; depth < 100_000; depth++) data = [data];
  const value = labelFields(makeValue(data), { kinds: { id: 'mail' }, directory: true });
  expect(isForeign(value)).toBe(true);
  expect([...singlesOf(value)].map(({ data: one }) => one)).toEqual([null]);
});

test('ten thousand elements take ten times as long as a thousand, about', () => {
  const rows = (count: number): Json =>
    Array.from({ length: count }, (_, id) => ({ id, body: 'text', name: 'n' }));
  const spent = (count: number): number => {
    const data = { result: rows(count) };
    const before = process.cpuUsage();
    labelFields(makeValue(data), FACTS);
    const { user, system } = process.cpuUsage(before);
    return user + system;
  };
  spent(10_000);
  const [small, large] = [
    Math.min(...Array.from({ length: 5 }, () => spent(1000))),
    Math.min(...Array.from({ length: 5 }, () => spent(10_000))),
  ];
  expect(large).toBeLessThan(Math.max(small, 500) * 60);
});

const NAMES = ['id', 'body', 'to', '', '__proto__', 'constructor', 'result', '0', 'toString'];
const name = fc.constantFrom(...NAMES);
const leaf: fc.Arbitrary<Json> = fc.oneof(
  fc.constantFrom('a@a', 'b', '', 'x y', '0'),
  fc.integer({ min: 0, max: 3 }),
  fc.boolean(),
  fc.constant(null),
);
const { json } = fc.letrec<{ json: Json }>((tie) => ({
  json: fc.oneof(
    { maxDepth: 5 },
    leaf,
    fc.array(tie('json'), { maxLength: 4 }),
    fc
      .array(fc.tuple(name, tie('json')), { maxLength: 4 })
      .map((pairs) => Object.fromEntries(pairs) as Json),
  ),
}));
const facts: fc.Arbitrary<ResultFacts> = fc
  .record({
    free_text: fc.uniqueArray(name, { maxLength: 3 }),
    identifiers: fc.uniqueArray(name, { maxLength: 3 }),
    kinds: fc
      .uniqueArray(name, { maxLength: 3 })
      .map((list) => Object.fromEntries(list.map((one, index) => [one, `k${index}`]))),
    untrusted: fc.boolean(),
    directory: fc.boolean(),
  })
  .map(({ untrusted, directory, ...more }) => ({
    ...more,
    ...(untrusted && { untrusted: true as const }),
    ...(directory && { directory: true as const }),
  }));
const marks = fc.constantFrom(EMPTY, stranger, describe({ labels: ['secret'] }));

interface Seen {
  readonly data: Json;
  readonly path: readonly string[];
  readonly marks: readonly string[];
  readonly origin: object;
}

function seenIn(value: Value, path: readonly string[] = []): Seen[] {
  const { data, meta } = value;
  const { facts: _, ...origin } = meta.origin;
  const own = { data, path, marks: meta.descriptor.taint.toSorted(), origin };
  if (typeof data !== 'object' || data === null) return [own];
  return [
    own,
    ...Object.keys(data).flatMap((key) => seenIn(elementOf(value, key), [...path, key])),
  ];
}

test('labels are those that the names say, and no data is changed', () => {
  fc.assert(
    fc.property(json, facts, (content, said) => {
      const value = labelFields(makeValue(structuredClone(content)), said);
      expect(JSON.stringify(value.data)).toBe(JSON.stringify(content));
      const isPlain = !isObject(content);
      for (const { data, path, marks: found } of seenIn(value)) {
        if (typeof data === 'object' && data !== null) continue;
        // Positions in lists are no names.
        const names = namesOn(content, path);
        const all = isPlain ? ['result', ...names] : names;
        const isFree = all.some((one) => (said.free_text ?? []).includes(one));
        const isNamed = all.some((one) => (said.identifiers ?? []).includes(one));
        expect(found.includes('untrusted')).toBe(isFree || isNamed || said.untrusted === true);
      }
    }),
    { numRuns: runs(300) },
  );
});

function namesOn(content: Json, path: readonly string[]): string[] {
  const names: string[] = [];
  let data: Json | undefined = content;
  for (const key of path) {
    if (!Array.isArray(data)) names.push(key);
    const entry: [string, Json] | undefined = Object.entries(data ?? {}).find(
      ([one]) => one === key,
    );
    data = entry?.[1];
  }
  return names;
}

test('labels survive the journal: content, marks and facts make the same again', () => {
  fc.assert(
    fc.property(json, facts, marks, marks, (content, said, own, later) => {
      const made = labelFields(makeValue(structuredClone(content), { descriptor: own }), said);
      const value = addMarks(made, later);
      const kept = JSON.parse(
        JSON.stringify({ content: value.data, facts: factsOf(value) ?? null }),
      ) as { content: Json; facts: ResultFacts };
      const again = restoreFields(kept.content, value.meta.descriptor, kept.facts);
      expect(seenIn(again)).toEqual(seenIn(value));
      expect(factsOf(again)).toEqual(factsOf(value));
      expect(seenIn(labelFields(value, said))).toEqual(seenIn(value));
    }),
    { numRuns: runs(300) },
  );
});

test('what is added later is on everything, and facts take nothing away', () => {
  fc.assert(
    fc.property(json, facts, (content, said) => {
      const value = addMarks(labelFields(makeValue(structuredClone(content)), said), stranger);
      for (const { marks: found } of seenIn(value)) expect(found).toContain('untrusted');
    }),
    { numRuns: runs(100) },
  );
});

test('only what a tool named is vouched for, whole, and for its kind', () => {
  fc.assert(
    fc.property(
      json,
      facts,
      fc.constantFrom(undefined, 'k0', 'k1', 'k2'),
      (content, said, wanted) => {
        const value = labelFields(makeValue(structuredClone(content)), said);
        for (const single of singlesOf(value)) {
          const as = vouchedAs(single, wanted);
          if (as === undefined || as === 'reference') continue;
          const { kind, of } = single.meta.origin;
          expect([kind, of]).toEqual([wanted, single.data]);
          if (as === 'identifier') expect(said.identifiers?.length).toBeGreaterThan(0);
          else expect(said.directory).toBe(true);
          for (const piece of [`${single.text}x`, single.text.slice(1)]) {
            expect(vouchedAs(makeValue(piece, single.meta), wanted)).not.toBe(as);
          }
        }
      },
    ),
    { numRuns: runs(300) },
  );
});
