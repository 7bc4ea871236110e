import fc from 'fast-check';
import { expect, test } from 'vitest';
import { ok } from '../../base/index.ts';
import type { BudgetState } from '../../store/port.ts';
import { NO_COST } from '../limits/cost.ts';
import type { Thread } from '../thread/thread.ts';
import { limitsLeft, shared } from './limits-left.ts';

const NOTHING = { tokens: 0n, spend: 0n, spawns: 0n, input_tokens: 0n, output_tokens: 0n };
const budget = (max: bigint, used: bigint, reserved: bigint): BudgetState => ({
  thread: '',
  limits: { tokens: max },
  used: { ...NOTHING, tokens: used },
  reserved: { ...NOTHING, tokens: reserved },
});

function parentWith(budgets: readonly BudgetState[], durationMs: number, passedMs: number) {
  const limit = (value: number) => ({ value: BigInt(value), from: 'directive', declared: true });
  return {
    place: { chain: budgets.map((_, at) => String(at)) },
    ports: { store: { budgets: async () => ok(budgets) } },
    budget: {
      limits: { duration: limit(durationMs), depth: limit(3), tokens: limit(1) },
      meter: { read: () => ({ ...NO_COST, duration_ms: passedMs }) },
    },
  } as unknown as Thread;
}

const amount = fc.bigInt({ min: 0n, max: 10_000n });

test('a child gets no more than any ancestor has left', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.tuple(amount, amount, amount), { minLength: 1 }),
      async (chain) => {
        const budgets = chain.map(([max, used, reserved]) => budget(max, used, reserved));
        const left = await limitsLeft(parentWith(budgets, 1000, 0));
        const value = left.ok ? (left.output.tokens?.value ?? 0n) : 0n;
        const rooms = chain.map(([max, used, reserved]) => max - used - reserved);
        for (const room of rooms) expect(value <= room).toBe(true);
        expect(rooms).toContain(value);
      },
    ),
  );
});

test('a child has no more time than its parent, and the same depth', async () => {
  const left = await limitsLeft(parentWith([budget(1n, 0n, 0n)], 10_000, 4000));
  expect(left).toMatchObject({
    ok: true,
    output: { duration: { value: 6000n, declared: true }, depth: { value: 3n } },
  });
});

test('a detached child takes half of what it does not ask for', () => {
  const left = { tokens: { value: 11n, declared: false }, spend: { value: 10n, declared: true } };
  const half = shared(
    { ...left, duration: { value: 8n, declared: false } },
    (name) => name === 'spend',
  );
  expect(half).toEqual({
    tokens: { value: 5n, declared: false },
    spend: { value: 10n, declared: true },
    duration: { value: 8n, declared: false },
  });
});
