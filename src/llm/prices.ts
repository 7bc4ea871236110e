// Which price a model has: the row of that very id in the price files, then the longest alias that
// somebody declared, then the price package. A name that is only similar has no price: a guess here
// would be a wrong invoice.
import {
  type Clock,
  fail,
  getOwn,
  isObject,
  type Json,
  type JsonObject,
  matchGlob,
  nearest,
  type Outcome,
  ok,
  systemClock,
} from '../base/index.ts';
import { textsAt } from './fields.ts';
import { rateOf } from './money.ts';
import { type Price, presumedWrite } from './price.ts';
import { packagedPrice } from './price-package.ts';

export interface Prices {
  find(model: string): Outcome<Price>;
  /** For a model without a price where no spend limit was declared; marked by its row. */
  default(): Price | undefined;
}

export interface PricePorts {
  clock?: Clock;
  /** The last place to look; prices may depend on the time. */
  packaged?: (model: string, now: number) => Price | undefined;
}

const FREE = { input: 0n, output: 0n, cache_read: 0n, cache_write: 0n };

/** A row as a price; undefined when it lacks one, because a cost from it would be too small. */
function priceOf(model: string, row: string, value: Json, currency: string): Price | undefined {
  const context = getOwn(value, 'context');
  const about = { model, row, currency, ...(typeof context === 'number' && { context }) };
  if (getOwn(value, 'free') === true) return { ...about, ...FREE, free: true };
  const input = rateOf(getOwn(value, 'input_per_million'));
  const output = rateOf(getOwn(value, 'output_per_million'));
  if (input === undefined || output === undefined) return undefined;
  return {
    ...about,
    input,
    output,
    cache_read: rateOf(getOwn(value, 'cache_read_per_million')) ?? input,
    cache_write: rateOf(getOwn(value, 'cache_write_per_million')) ?? presumedWrite(input),
    free: false,
  };
}

/** An alias names one id, or many when its author wrote a `*`. */
const fits = (alias: string, model: string): boolean =>
  alias === model || (alias.includes('*') && matchGlob(alias, model));

function longestAlias(rows: JsonObject, model: string): { id: string; alias: string } | undefined {
  let best: { id: string; alias: string } | undefined;
  for (const [id, row] of Object.entries(rows)) {
    for (const alias of textsAt(row, 'aliases')) {
      if (fits(alias, model) && alias.length > (best?.alias.length ?? 0)) best = { id, alias };
    }
  }
  return best;
}

export function createPrices(config: JsonObject, ports: PricePorts = {}): Prices {
  const { clock = systemClock, packaged = packagedPrice } = ports;
  const models = getOwn(config, 'models');
  const rows = isObject(models) ? models : {};
  const declared = getOwn(config, 'currency');
  const currency = typeof declared === 'string' ? declared : 'USD';

  function declaredPrice(model: string): Price | undefined {
    const own = getOwn(rows, model);
    if (own !== undefined) return priceOf(model, `pricing.yaml:${model}`, own, currency);
    const found = longestAlias(rows, model);
    if (!found) return undefined;
    const row = `pricing.yaml:${found.id} (alias ${found.alias})`;
    return priceOf(model, row, rows[found.id] as Json, currency);
  }

  return {
    find(model) {
      const price = declaredPrice(model) ?? packaged(model, clock.now());
      if (price) return ok(price);
      const near = nearest(model, Object.keys(rows));
      return fail('not_found', `model \`${model.slice(0, 200)}\` has no price`, {
        model: model.slice(0, 200),
        hint:
          `${near === undefined ? '' : `did you mean \`${near}\`? Otherwise `}add a row for it under ` +
          '`models` in `.ai/config/pricing.yaml`, with `free: true` when it costs nothing',
      });
    },
    default() {
      const value = getOwn(config, 'default');
      return value === undefined
        ? undefined
        : priceOf('default', 'pricing.yaml:default', value, currency);
    },
  };
}
