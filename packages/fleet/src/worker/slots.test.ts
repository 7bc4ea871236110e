import fc from 'fast-check';
import { expect, test } from 'vitest';
import { createSlots, defaultSlots } from './slots.ts';

const never = new AbortController().signal;

test('never more places than there are, and none is lost', () => {
  const step = fc.oneof(
    fc.constant({ act: 'enter' as const, count: 1 }),
    fc.record({ act: fc.constant('more' as const), count: fc.nat(5) }),
    fc.record({ act: fc.constant('leave' as const), count: fc.nat(3) }),
  );
  return fc.assert(
    fc.asyncProperty(fc.integer({ min: 1, max: 6 }), fc.array(step), async (size, steps) => {
      const slots = createSlots(size);
      let [inside, asked] = [0, 0];
      for (const { act, count } of steps) {
        if (act === 'enter') {
          asked += 1;
          void slots.enter(never).then(() => {
            inside += 1;
            asked -= 1;
          });
        } else if (act === 'more') inside += slots.more(count);
        else {
          const left = Math.min(inside, count);
          inside -= left;
          slots.leave(left);
        }
        await Promise.resolve();
        expect(inside).toBeLessThanOrEqual(size);
        if (asked > 0) expect(inside).toBe(size);
      }
    }),
  );
});

test('who asked first is first, and who is called off takes no place', async () => {
  const slots = createSlots(1);
  const order: string[] = [];
  const off = new AbortController();
  await slots.enter(never);
  const asked = [
    slots.enter(never).then(() => order.push('a')),
    slots.enter(off.signal).then((isIn) => order.push(`b ${isIn}`)),
    slots.enter(never).then(() => order.push('c')),
  ];
  expect(slots.more(1)).toBe(0);
  off.abort();
  slots.leave(1);
  await Promise.all(asked.slice(0, 2));
  slots.leave(1);
  await asked[2];
  expect(order).toEqual(['b false', 'a', 'c']);
  expect(await slots.enter(off.signal)).toBe(false);
});

test('a machine carries as many as its cores and its memory allow, and at least one', () => {
  const GB = 1024 ** 3;
  expect(defaultSlots(2, 64 * GB)).toBe(32);
  expect(defaultSlots(64, 4 * GB)).toBe(42);
  expect(defaultSlots(1, 0)).toBe(1);
  expect(defaultSlots()).toBeGreaterThan(0);
});
