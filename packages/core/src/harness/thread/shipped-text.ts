// Reads texts that only the shipped bundle can contain. A project cannot replace them.
import { fail, type Outcome, ok } from '../../base/index.ts';
import type { HarnessPorts } from './thread.ts';

/** Returns the shipped text of a knowledge item. Fails if the bundle's signature does not cover it. */
export function shippedInstruction(
  { library }: Pick<HarnessPorts, 'library'>,
  id: string,
): Outcome<string> {
  const found = library.find('knowledge', id, 'bundle');
  if (!found.ok) return found;
  if (found.output.signature.state === 'bundle') return ok(found.output.text.trim());
  return fail('signature_invalid', `the shipped text \`${id}\` was changed; reinstall kernmantle`);
}
