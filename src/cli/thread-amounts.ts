// What a thread has used of each of its limits.
import { getOwn, type JsonObject, plainText } from '../base/index.ts';
import { count, seconds } from './thread-words.ts';

export interface UsedOf {
  name: string;
  used: string;
  max: string;
  /** Who set the limit. */
  from: string;
  /** Between 0 and 1, or above when more was reported than allowed. */
  share: number;
}

const NAMES = ['turns', 'tokens', 'spend', 'tool_calls', 'spawns', 'duration'] as const;

/** In words people read; limits without a value are left out. */
export function amountsOf({ cost, limits }: { cost: JsonObject; limits: JsonObject }): UsedOf[] {
  const currency = plainText(limits.spend_currency) || 'USD';
  return NAMES.flatMap((name) => {
    const max = getOwn(getOwn(limits, name), 'value');
    if (max === undefined || max === null) return [];
    const used = name === 'duration' ? cost.duration_seconds : cost[name];
    const words = (value: unknown): string => {
      if (name === 'spend') return plainText(value ?? '0.00');
      return name === 'duration' ? seconds(value) : count(value);
    };
    const [have, most] = [Number(used ?? 0), Number(max)];
    return [
      {
        name,
        used: words(used),
        max: `${words(max)}${name === 'spend' ? ` ${currency}` : ''}`,
        from: plainText(getOwn(getOwn(limits, name), 'from')),
        share: most > 0 ? have / most : 1,
      },
    ];
  });
}
