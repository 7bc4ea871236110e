// Creates limits for tests in the same way as those of a thread.
import type { JsonObject } from '@kernmantle/core/base';
import type { DirectiveLimits } from '@kernmantle/core/items';
import type { Price } from '@kernmantle/core/llm';
import { directiveLimits } from '../../packages/core/src/harness/limits/effective-limits.ts';
import type { EffectiveLimits } from '../../packages/core/src/harness/limits/limit.ts';

export const SHIPPED: { source: 'bundle'; value: JsonObject } = {
  source: 'bundle',
  value: {
    defaults: {
      turns: 25,
      tokens: 200_000,
      spawns: 10,
      duration: 1800,
      spend: '1.00',
      spend_currency: 'USD',
      depth: 3,
      tool_calls: 200,
      context_warn: 0.8,
    },
  },
};

type Directive = Parameters<typeof directiveLimits>[2];
type More = NonNullable<Parameters<typeof directiveLimits>[3]>;

/** Returns the limits of a directive whose project has these layers of `limits.yaml`. */
export function effectiveLimits(
  sources: {
    declared: Directive['limits'];
    layers: readonly { source: 'bundle' | 'user' | 'project'; value: JsonObject }[];
    policy: Parameters<typeof directiveLimits>[1];
  } & More,
) {
  const { declared, policy, layers, ...more } = sources;
  const named = layers.map((layer) => ({ ...layer, file: 'limits.yaml', isNameList: false }));
  const config = () => ({ value: {}, layers: named, diagnostics: [] });
  return directiveLimits(
    { config },
    policy,
    declared === undefined ? {} : { limits: declared },
    more,
  );
}

export function limitsOf(declared: DirectiveLimits = {}): EffectiveLimits {
  const limits = effectiveLimits({ declared, layers: [SHIPPED], policy: {} });
  if (!limits.ok) throw new Error(limits.error.detail.message);
  return limits.output;
}

/** One unit of money per million tokens of input, four of output. */
export const PRICE: Price = {
  model: 'm',
  row: 'test:m',
  input: 1_000_000_000n,
  output: 4_000_000_000n,
  cache_read: 100_000_000n,
  cache_write: 1_250_000_000n,
  free: false,
  currency: 'USD',
};
