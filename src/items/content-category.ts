// The category that a text would have as an item, before it is one.
import { parseDirective } from './directive-parse.ts';
import { toolFacts } from './item-facts.ts';
import type { ItemKind } from './item-kinds.ts';
import { knowledgeFacts } from './knowledge.ts';

/** Never throws; a text that cannot be read has the category that an item without one has. */
export function contentCategory(kind: ItemKind, id: string, text: string): string {
  if (kind === 'tool') return toolFacts(text, id).category;
  if (kind === 'knowledge') return knowledgeFacts(text, id).category;
  const { directive, draft } = parseDirective(text, id);
  return (directive ?? draft)?.category ?? '';
}
