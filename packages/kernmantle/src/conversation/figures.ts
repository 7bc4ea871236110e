// Reads the filled part of the context window and the cost of a conversation, for the person who holds it.
import { getOwn, plainText } from '@kernmantle/core/base';
import type { Library } from '@kernmantle/core/items';
import type { ThreadRow } from '@kernmantle/core/store';

interface Figures {
  /** Number of tokens in the last request. */
  readonly used: number;
  /** Size of the context window. 0: it is not known. */
  readonly size: number;
  readonly spent: number;
  readonly currency: string;
}

/** Returns a reader of the figures. It looks the window of a model up once for each model. */
export function createFigures(library: Library) {
  let windowOf: { model: string; size: number } = { model: '', size: 0 };
  return async ({ cost, limits }: ThreadRow, model: string): Promise<Figures> => {
    if (windowOf.model !== model) {
      const { createPrices } = await import('@kernmantle/core/llm');
      const price = createPrices(library.config('pricing').layers).find(model);
      windowOf = { model, size: (price.ok && price.output.context) || 0 };
    }
    const own = Number(getOwn(limits.context, 'value') ?? windowOf.size);
    return {
      used: Number(cost.context_tokens ?? 0),
      size: Math.min(own, windowOf.size || own),
      spent: Number(plainText(cost.spend ?? '0')),
      currency: plainText(limits.spend_currency) || 'USD',
    };
  };
}
