import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { ProvenanceStep, ProvenanceView } from './api.ts';
import { stepGraph, stepLines } from './provenance-steps.ts';

const step = (
  id: number,
  from: readonly number[],
  labels: readonly string[] = [],
  sources: readonly string[] = [],
): ProvenanceStep => ({
  id,
  operation: `op ${id}`,
  place: { file: 'a.mld', line: id },
  labels,
  sources,
  from,
});
const view = (nodes: readonly ProvenanceStep[], rest: Partial<ProvenanceView> = {}) => ({
  subject: 'show',
  refusal: null,
  labels: [],
  sources: [],
  from: nodes.slice(-1).map(({ id }) => id),
  nodes,
  ...rest,
});
const ALL = { isWhole: true, opened: new Set<number>(), limit: 60 };

test('runs with one input and one output are folded, and can be opened', () => {
  const chain = [step(0, [], [], ['file:a']), step(1, [0]), step(2, [1]), step(3, [2])];
  const { boxes, shown, total } = stepGraph(view(chain), ALL);
  expect(boxes.map(({ name }) => name)).toEqual(['file:a', 'op 0', '3 operations', 'show']);
  expect([shown, total]).toEqual([4, 4]);
  const opened = stepGraph(view(chain), { ...ALL, opened: new Set([1]) });
  expect(opened.boxes.map(({ name }) => name)).toEqual([
    'file:a',
    'op 0',
    'op 1',
    'op 2',
    'op 3',
    'show',
  ]);
});

test('a step that changes a label is not folded away', () => {
  const chain = [step(0, []), step(1, [0]), step(2, [1], ['secret']), step(3, [2], ['secret'])];
  const names = stepGraph(view(chain), ALL).boxes.map(({ name }) => name);
  expect(names).toEqual(['op 0', 'op 1', '2 operations', 'show']);
});

test('what the refusal names is hot, other untrusted things are warm', () => {
  const nodes = [step(0, [], ['secret'], ['env:KEY']), step(1, [], ['untrusted']), step(2, [0, 1])];
  const refused = view(nodes, {
    labels: ['secret', 'untrusted'],
    refusal: { code: 'permission_denied', reasons: ['body carries secret'] },
  });
  const tones = stepGraph(refused, ALL).boxes.map(({ name, tone }) => `${name} ${tone}`);
  expect(tones).toEqual(['env:KEY hot', 'op 0 hot', 'op 1 warm', 'op 2 cold', 'show hot']);
});

test('a large graph shows the paths of the label that decided', () => {
  const nodes = [
    ...Array.from({ length: 20 }, (_, id) => step(id, id === 0 ? [] : [id - 1])),
    ...Array.from({ length: 9 }, (_, id) => step(20 + id, id === 0 ? [] : [19 + id], ['secret'])),
    step(29, [19, 28], ['secret']),
    step(30, [], ['secret']),
  ];
  const refused = view(nodes, { labels: ['secret'], refusal: { reasons: ['secret'] }, from: [29] });
  // The tenth is where both meet; the last one did not lead there.
  expect(stepGraph(refused, { ...ALL, isWhole: false }).shown).toBe(10);
  expect(stepGraph(refused, ALL).shown).toBe(31);
});

test('everything leads to the end', () => {
  const { boxes } = stepGraph(view([step(0, []), step(1, [])], { from: [] }), ALL);
  expect(boxes.at(-1)?.from).toEqual([0, 1]);
});

const graphs = fc
  .array(
    fc.record({
      id: fc.integer({ min: 0, max: 50 }),
      from: fc.array(fc.integer({ min: -1, max: 60 }), { maxLength: 4 }),
      labels: fc.subarray(['secret', 'untrusted']),
      sources: fc.subarray(['file:a', 'env:B', '0']),
    }),
    { maxLength: 80 },
  )
  .map((nodes) => nodes.map(({ id, from, labels, sources }) => step(id, from, labels, sources)));

test('boxes name earlier ones only, and never more than the limit', () => {
  fc.assert(
    fc.property(graphs, fc.integer({ min: 1, max: 80 }), fc.boolean(), (nodes, limit, isWhole) => {
      const shown = view(nodes, { labels: ['secret'], refusal: 'secret', sources: ['file:a'] });
      const { boxes, more } = stepGraph(shown, { isWhole, limit, opened: new Set([3]) });
      expect(boxes.length).toBeLessThanOrEqual(limit);
      expect(boxes.at(-1)?.kind).toBe('end');
      if (more === 0) expect(boxes.every(({ id }, index) => id === index)).toBe(true);
      for (const { id, from } of boxes) expect(from.every((earlier) => earlier < id)).toBe(true);
      expect(stepLines(shown, 200).length).toBeLessThanOrEqual(200);
    }),
  );
});

test('the outline says each operation once', () => {
  const nodes = [step(0, [], ['secret'], ['env:KEY']), step(1, [0]), step(2, [0, 1])];
  expect(
    stepLines(view(nodes), 50).map(({ depth, text }) => `${'  '.repeat(depth)}${text}`),
  ).toEqual([
    'show',
    '  op 2, a.mld:2',
    '    op 0, a.mld:0, secret',
    '      env:KEY',
    '    op 1, a.mld:1',
    '      op 0, a.mld:0, secret (above)',
  ]);
});

test('a source is drawn once, above the step where it came in', () => {
  const nodes = [
    step(0, [], [], ['file:a']),
    step(1, [], [], ['file:a', 'file:b']),
    step(2, [0, 1], [], ['file:a', 'file:b']),
  ];
  const { boxes } = stepGraph(view(nodes, { sources: ['file:a', 'file:b'] }), ALL);
  const names = new Map(boxes.map(({ id, name }) => [id, name]));
  const below = boxes.filter(({ from }) => from.some((id) => names.get(id)?.startsWith('file:')));
  expect(below.map(({ name, from }) => [name, from.map((id) => names.get(id))])).toEqual([
    ['op 0', ['file:a']],
    ['op 1', ['file:b']],
  ]);
});
