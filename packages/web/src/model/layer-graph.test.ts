import fc from 'fast-check';
import { expect, test } from 'vitest';
import { layerGraph } from './layer-graph.ts';

type LayerNode = Parameters<typeof layerGraph>[0][number];
const SIZES = { maxWidth: 450, nodeHeight: 30, gapX: 10, gapY: 16 };

/** Any numbers at all, so that ids repeat, point forward, to themselves or to nothing. */
const nodes: fc.Arbitrary<LayerNode[]> = fc.array(
  fc.record({
    id: fc.integer({ min: 0, max: 40 }),
    from: fc.array(fc.integer({ min: -2, max: 45 }), { maxLength: 6 }),
    width: fc.oneof(fc.integer({ min: 0, max: 600 }), fc.constant(Number.NaN)),
  }),
  { maxLength: 60 },
);

test('every edge points downwards and every node is placed once', () => {
  fc.assert(
    fc.property(nodes, (list) => {
      const graph = layerGraph(list, SIZES);
      const ids = graph.nodes.map(({ id }) => id);
      expect(new Set(ids)).toEqual(new Set(list.map(({ id }) => id)));
      expect(ids.length).toBe(new Set(ids).size);
      const at = new Map(graph.nodes.map((node) => [node.id, node]));
      for (const { from, to, y1, y2 } of graph.edges) {
        const [upper, lower] = [at.get(from), at.get(to)];
        expect(upper && lower && upper.layer < lower.layer).toBe(true);
        expect(y1).toBeLessThan(y2);
        expect([upper?.y, lower?.y]).toEqual([y1 - SIZES.nodeHeight, y2]);
      }
    }),
  );
});

test('no two boxes overlap and none stands outside', () => {
  fc.assert(
    fc.property(nodes, (list) => {
      const { nodes: placed, width, height } = layerGraph(list, SIZES);
      const rows = Map.groupBy(placed, ({ y }) => y);
      for (const row of rows.values()) {
        let last = -0.2;
        for (const box of row.toSorted((a, b) => a.x - b.x)) {
          expect(box.x).toBeGreaterThanOrEqual(last - 0.2);
          last = box.x + box.width;
        }
        expect(last).toBeLessThanOrEqual(width + 0.2);
      }
      for (const { y } of placed) expect(y + SIZES.nodeHeight).toBeLessThanOrEqual(height);
    }),
  );
});

test('the order in which nodes come does not matter', () => {
  const list = [0, 1, 2, 3, 4].map((id) => ({ id, from: id === 0 ? [] : [id - 1], width: 80 }));
  expect(layerGraph(list.toReversed(), SIZES)).toEqual(layerGraph(list, SIZES));
});

test('a layer wider than its place is broken into rows', () => {
  const list = Array.from({ length: 9 }, (_, id) => ({
    id,
    from: id === 8 ? [0, 1, 2, 3, 4, 5, 6, 7] : [],
    width: 140,
  }));
  const graph = layerGraph(list, SIZES);
  expect(graph.width).toBe(450);
  expect(new Set(graph.nodes.map(({ y }) => y)).size).toBe(4);
  expect(graph.nodes.at(-1)?.y).toBe(graph.height - SIZES.nodeHeight);
});

test('a loop from bad data has no edge upwards', () => {
  const list = [
    { id: 1, from: [2, 1], width: 90 },
    { id: 2, from: [1, 99], width: 90 },
  ];
  expect(layerGraph(list, SIZES).edges.map(({ from, to }) => [from, to])).toEqual([[1, 2]]);
});

test('nothing gives nothing', () => {
  expect(layerGraph([], SIZES)).toEqual({ nodes: [], edges: [], width: 450, height: 0 });
});
