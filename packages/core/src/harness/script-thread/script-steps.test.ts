import fc from 'fast-check';
import { expect, test } from 'vitest';
import { createOrder } from './step-order.ts';

interface Work {
  isShared: boolean;
  inner: Work[];
}

const turns = async (count: number): Promise<void> => {
  for (let turn = 0; turn < count; turn++) await Promise.resolve();
};

test('what is not shared is alone, and nothing overtakes it', async () => {
  const work = fc.record({ isShared: fc.boolean(), length: fc.nat(5), fails: fc.boolean() });
  await fc.assert(
    fc.asyncProperty(fc.array(work, { maxLength: 12 }), async (list) => {
      const inOrder = createOrder();
      const atWork = new Set<number>();
      const begun: number[] = [];
      await Promise.allSettled(
        list.map(({ isShared, length, fails }, at) =>
          inOrder(isShared, async () => {
            begun.push(at);
            const others = [...atWork].map((other) => list[other]?.isShared);
            expect(others.every((shared) => shared && isShared)).toBe(true);
            atWork.add(at);
            await turns(length);
            atWork.delete(at);
            if (fails) throw new Error('no');
          }),
        ),
      ).then((ends) => {
        const broken = ends.filter((end, at) => end.status === 'rejected' && !list[at]?.fails);
        expect(broken).toEqual([]);
      });
      for (const [at, { isShared }] of list.entries()) {
        if (isShared) continue;
        const place = begun.indexOf(at);
        expect(begun.slice(0, place).every((other) => other < at)).toBe(true);
        expect(begun.slice(place + 1).every((other) => other > at)).toBe(true);
      }
    }),
  );
});

test('work that begins inside other work does not wait for it', async () => {
  const tree = fc.letrec<{ work: Work }>((tie) => ({
    work: fc.record({
      isShared: fc.boolean(),
      inner: fc.oneof(
        { maxDepth: 3 },
        fc.constant<Work[]>([]),
        fc.array(tie('work'), { maxLength: 2 }),
      ),
    }),
  })).work;
  await fc.assert(
    fc.asyncProperty(fc.array(tree, { maxLength: 4 }), async (list) => {
      const inOrder = createOrder();
      const run = async ({ isShared, inner }: Work): Promise<number> => {
        const counts = await inOrder(isShared, () => Promise.all(inner.map(run)));
        return counts.reduce((sum, count) => sum + count, 1);
      };
      const size = ({ inner }: Work): number => inner.reduce((sum, one) => sum + size(one), 1);
      expect(await Promise.all(list.map(run))).toEqual(list.map(size));
    }),
  );
});
