// Strangers' text behind names: whatever comes in, nothing of it is shown, and what is named is the thing.
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { type Json, type JsonObject, plainText } from '../../base/index.ts';
import {
  carries,
  type Descriptor,
  describe as descriptor,
  EMPTY,
  elementOf,
  makeContainer,
  makeValue,
  type Value,
} from '../../flow/index.ts';
import { createReferences, type References } from './references.ts';

const STRANGER = descriptor({ labels: ['untrusted'], sources: ['tool:page@1'] });
const SECRET = descriptor({ labels: ['secret'] });
const OWN = descriptor({ taint: ['src:llm'] });
const foreign = (data: Json): Value => makeValue(data, { descriptor: STRANGER });

const leaf: fc.Arbitrary<Json> = fc.oneof(
  fc.string(),
  fc.constantFrom('$r1', '$r2.a', 'see $r1.', '$$r1', '{"reference":"$r1"}', '__proto__'),
  fc.integer(),
  fc.boolean(),
  fc.constant(null),
);
const marks: fc.Arbitrary<Descriptor> = fc.constantFrom(
  EMPTY,
  STRANGER,
  SECRET,
  descriptor({ labels: ['untrusted', 'secret'] }),
  descriptor({ taint: ['untrusted', 'src:network'] }),
  descriptor({ labels: ['trusted'], taint: ['dir:notes'] }),
);
const name = fc.oneof(fc.constantFrom('a', 'b', 'id', 'subject', '__proto__'), fc.string());
const whole = fc
  .tuple(fc.jsonValue({ maxDepth: 3 }) as fc.Arbitrary<Json>, marks)
  .map(([data, of]) => makeValue(data, { descriptor: of }));
const { value } = fc.letrec<{ value: Value }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 4 },
    fc.tuple(leaf, marks).map(([data, of]) => makeValue(data, { descriptor: of })),
    whole,
    fc
      .tuple(fc.array(tie('value'), { maxLength: 4 }), marks, marks)
      .map(([parts, own, shape]) => makeContainer(parts, own, shape)),
    fc
      .tuple(fc.array(fc.tuple(name, tie('value')), { maxLength: 4 }), marks, marks)
      .map(([parts, own, shape]) => makeContainer(new Map(parts), own, shape)),
  ),
}));

/** Every plain value with exactly its marks, and every name of a field with those of its container. */
function* leavesOf(of: Value): Generator<{ data: Json; marks: Descriptor }> {
  const { data, meta } = of;
  if (typeof data !== 'object' || data === null) yield { data, marks: meta.descriptor };
  else {
    for (const key of Object.keys(data)) {
      if (!Array.isArray(data)) {
        const { own, shape } = meta.elements ?? { own: meta.descriptor, shape: meta.descriptor };
        yield { data: key, marks: descriptor({ taint: [...own.taint, ...shape.taint] }) };
      }
      yield* leavesOf(elementOf(of, key));
    }
  }
}

const isNamed = (data: Json): data is JsonObject =>
  typeof data === 'object' && data !== null && Object.hasOwn(data, 'reference');

const LOOKS_NAMED = /\$r(?=\d+(?![\p{L}\p{N}_]))/gu;

/** What is written to get back what was shown: each named part by its name. */
function written(of: Value, content: Json): Json {
  if (carries(of.meta.descriptor, 'untrusted') && isNamed(content) && !isNamed(of.data)) {
    return content.reference as Json;
  }
  const { data } = of;
  if (Array.isArray(data)) {
    return data.map((_, at) => written(elementOf(of, at), (content as Json[])[at] as Json));
  }
  if (typeof data === 'object' && data !== null) {
    return Object.fromEntries(
      Object.keys(data).map((key) => [
        key,
        written(elementOf(of, key), (content as JsonObject)[key] as Json),
      ]),
    );
  }
  // What a model writes that is no name, although it looks like one.
  return typeof data === 'string' ? data.replace(LOOKS_NAMED, (text) => `$${text}`) : content;
}

const MARKER = 'zq7XwStrangersWordsw9';

test('nothing that a stranger wrote is shown, whatever its form', () => {
  const marked = value.map((of) => of);
  fc.assert(
    fc.property(marked, (of) => {
      const { content, marks: shown } = createReferences().show(of);
      expect(carries(shown, 'untrusted')).toBe(false);
      const visible = new Set<Json>();
      const look = (part: Json): void => {
        if (isNamed(part)) return;
        if (typeof part !== 'object' || part === null) visible.add(part);
        else
          for (const [key, item] of Object.entries(part)) {
            visible.add(key);
            look(item);
          }
      };
      look(content);
      const own = [...leavesOf(of)].filter(({ marks: has }) => !carries(has, 'untrusted'));
      const said = new Set<Json>(own.map(({ data }) => data));
      // Places in lists are nobody's words.
      for (const seen of visible) if (!/^\d+$/.test(plainText(seen))) expect(said).toContain(seen);
    }),
    { numRuns: 500 },
  );
});

test('a marker in every foreign place is nowhere in what is shown', () => {
  const spoil = (of: Value): Value => {
    const { data, meta } = of;
    if (carries(meta.descriptor, 'untrusted') && !meta.elements) {
      return makeValue({ [MARKER]: [MARKER, data] }, { descriptor: meta.descriptor });
    }
    if (!meta.elements || typeof data !== 'object' || data === null) return of;
    const parts = Object.keys(data).map((key) => [key, spoil(elementOf(of, key))] as const);
    return Array.isArray(data)
      ? makeContainer(parts.map(([, part]) => part))
      : makeContainer(new Map(parts));
  };
  fc.assert(
    fc.property(value.map(spoil), (of) => {
      expect(JSON.stringify(createReferences().show(of).content)).not.toContain(MARKER);
    }),
    { numRuns: 500 },
  );
});

test('what is written as it was shown is the same value with the same marks', () => {
  fc.assert(
    fc.property(value, (of) => {
      const references = createReferences();
      const { content } = references.show(of);
      const back = references.resolve(written(of, content), EMPTY);
      expect(back.ok).toBe(true);
      if (!back.ok) return;
      expect(back.output.data).toEqual(of.data);
      const [was, is] = [[...leavesOf(of)], [...leavesOf(back.output)]];
      for (const [at, one] of was.entries()) {
        if (!carries(one.marks, 'untrusted')) continue;
        const taint = is[at]?.marks.taint ?? [];
        for (const mark of one.marks.taint) expect(taint).toContain(mark);
      }
    }),
    { numRuns: 500 },
  );
});

test('numbers are given in order, and the same things get the same ones', () => {
  fc.assert(
    fc.property(fc.array(value, { maxLength: 5 }), (list) => {
      const shown = (references: References) => list.map((one) => references.show(one).content);
      const [one, two] = [createReferences(), createReferences()];
      expect(shown(one)).toEqual(shown(two));
      expect(one.values().map(({ data }) => data)).toEqual(two.values().map(({ data }) => data));
    }),
  );
});

test('a stranger’s text that looks like a reference is just text', () => {
  fc.assert(
    fc.property(
      fc.array(fc.constantFrom('$r1', '$r2', ' ', 'x', '$$r1', '.a'), { minLength: 1 }),
      (words) => {
        const text = words.join('');
        const references = createReferences();
        references.show(foreign('first'));
        references.show(foreign(text));
        const alone = references.resolve('$r2', OWN);
        expect(alone.ok && alone.output.data).toBe(text);
        const inside = references.resolve('<$r2>', OWN);
        expect(inside.ok && inside.output.data).toBe(`<${text}>`);
      },
    ),
  );
});

test('what the model wrote besides keeps its own marks, and every part its own', () => {
  const references = createReferences();
  references.show(foreign({ mails: [{ from: 'eve', 'content type': 'x' }] }));
  const resolved = references.resolve(
    { to: 'bob', body: '$r1.mails[0].from', note: 'Mail by $r1.mails[0].from.', all: ['$r1'] },
    OWN,
  );
  if (!resolved.ok) throw new Error(resolved.error.detail.message);
  const of = (key: string) => elementOf(resolved.output, key);
  expect(of('to').meta.descriptor.taint).toEqual(['src:llm']);
  expect([of('body').data, of('body').meta.origin.reference]).toEqual(['eve', '$r1.mails[0].from']);
  expect(of('body').meta.descriptor.taint.toSorted()).toEqual(['src:llm', 'untrusted']);
  expect([of('note').data, of('note').meta.origin.reference]).toEqual(['Mail by eve.', undefined]);
  expect(carries(of('note').meta.descriptor, 'untrusted')).toBe(true);
  expect(of('all').data).toEqual([{ mails: [{ from: 'eve', 'content type': 'x' }] }]);
  const named = references.resolve('$r1.mails[0]["content type"]', OWN);
  expect(named.ok && named.output.data).toBe('x');
});

test('behind the name of a text comes text', () => {
  const references = createReferences();
  references.show(foreign('report'));
  const said = (text: string) => {
    const found = references.resolve(text, OWN);
    return found.ok ? found.output.data : found.error.detail.message;
  };
  expect(said('$r1.pdf')).toBe('report.pdf');
  expect(said('the $r1[0]')).toBe('the report[0]');
  expect(said('$$r1 costs $5, $r')).toBe('$r1 costs $5, $r');
  expect(said('$r1x')).toBe('$r1x');
});

test('an unknown reference is refused with those there are, and no word of a stranger', () => {
  const references = createReferences();
  const message = (text: Json) => {
    const found = references.resolve(text, OWN);
    return found.ok ? '' : found.error.detail.message;
  };
  expect(message('$r1')).toContain('none exists yet');
  references.show(foreign({ [MARKER]: [MARKER] }));
  references.show(foreign([1, 2]));
  expect(message('$r3')).toContain('`$r1` to `$r2` exist');
  expect(message({ a: ['x $r0 y'] })).toContain('reference `$r0` not found');
  for (const path of ['.nothing', '[0]', `.${MARKER}[4]`, '["a b"]']) {
    expect(message(`$r1${path}`).replaceAll(path, '')).not.toContain(MARKER);
  }
  expect(message('$r2[2]')).toContain('list with 2 items');
  expect(message('$r2.length')).not.toBe('');
});

test('nothing is nested too deep and nothing grows without end', () => {
  const references = createReferences();
  references.show(foreign('x'.repeat(1_000_000)));
  let deep: Json = '$r1';
  for (let at = 0; at < 10_000; at++) deep = [deep];
  expect(references.resolve(deep, OWN).ok).toBe(false);
  expect(references.resolve('$r1 '.repeat(10_000), OWN).ok).toBe(false);
  expect(
    references.resolve(
      Array.from({ length: 10_000 }, () => '$r1'),
      OWN,
    ).ok,
  ).toBe(false);
});

test('a failure is told by a word of ours, and what it says is named', () => {
  const references = createReferences();
  const failed = (code: string) => ({ ok: false, error: { code, detail: { message: MARKER } } });
  const kept = (code: string) => ({ content: failed(code), marks: STRANGER, isError: true });
  const shown = references.result(kept('timeout'));
  expect(shown.content).toEqual({
    ok: false,
    error: { code: 'timeout', detail: { reference: '$r1', type: 'object', fields: 1 } },
  });
  expect(JSON.stringify(references.result(kept(MARKER)).content)).not.toContain(MARKER);
  const own = { content: failed('timeout'), marks: EMPTY, isError: true };
  expect(references.result(own).content).toEqual(failed('timeout'));
});
