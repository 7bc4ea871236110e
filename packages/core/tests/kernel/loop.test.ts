// The generic loop: it needs nothing but its ports.
import { runLoop } from '@kernmantle/kernmantle';
import { expect, test } from 'vitest';

test('the loop itself knows nothing but its ports', async () => {
  const said: string[] = [];
  const ending = await runLoop({
    between: async () => undefined,
    turn: async () => {
      said.push('turn');
      return said.length < 3 ? { again: true } : { ending: { status: 'completed', reason: 'x' } };
    },
    pending: () => [],
    perform: async () => undefined,
    final: async () => undefined,
  });
  expect(ending).toEqual({ status: 'completed', reason: 'x' });
  expect(said).toHaveLength(3);
});
