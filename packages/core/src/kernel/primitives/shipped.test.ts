import { expect, test } from 'vitest';
import { ok } from '../../base/index.ts';
import type { Primitive, PrimitiveCall } from '../primitive.ts';
import { lazyPrimitive } from './shipped.ts';

const call = {} as PrimitiveCall;

/** Fails the first `failures` times it is made. */
function counted(failures: number) {
  let [made, closed] = [0, 0];
  const primitive: Primitive = {
    name: 'test',
    run: async () => ok({ output: 'done' }),
    close() {
      closed += 1;
    },
  };
  const lazy = lazyPrimitive('test', async () => {
    made += 1;
    if (made <= failures) throw new Error('too many open files');
    return primitive;
  });
  return { lazy, made: () => made, closed: () => closed };
}

test('a primitive is made once, when it is first needed, and closed only when it was made', async () => {
  const { lazy, made, closed } = counted(0);
  expect(made()).toBe(0);
  expect(await Promise.all([lazy.run(call), lazy.run(call)])).toEqual([
    ok({ output: 'done' }),
    ok({ output: 'done' }),
  ]);
  expect(made()).toBe(1);
  lazy.close?.();
  await lazy.run(call);
  expect(closed()).toBe(1);
  const never = counted(0);
  never.lazy.close?.();
  expect(never.made()).toBe(0);
});

test('a making that failed is tried again by the next call', async () => {
  const { lazy, made } = counted(1);
  const first = await Promise.allSettled([lazy.run(call), lazy.run(call)]);
  expect(first.map(({ status }) => status)).toEqual(['rejected', 'rejected']);
  expect(made()).toBe(1);
  expect(await lazy.run(call)).toEqual(ok({ output: 'done' }));
});

test('what could not be made is closed without a word', async () => {
  const { lazy } = counted(1);
  const running = lazy.run(call);
  lazy.close?.();
  await expect(running).rejects.toThrow('too many open files');
});
