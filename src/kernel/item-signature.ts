import { fail, type Outcome, ok } from '../base/index.ts';
import type { Item } from '../items/index.ts';

/** Refuses an item whose signature is broken or by a key nobody trusts. */
export function checkSignature(item: Item): Outcome<null> {
  const { state, reason = '' } = item.signature;
  if (state === 'changed') {
    return fail(
      'signature_invalid',
      `${item.kind} \`${item.id}\` was changed after it was signed${reason && `: ${reason}`}; review it and sign it again`,
      { [item.kind]: item.id },
    );
  }
  if (state === 'untrusted') {
    return fail(
      'signature_invalid',
      `${item.kind} \`${item.id}\` is signed by a key that is not trusted${reason && `: ${reason}`}; see \`km trust --help\``,
      { [item.kind]: item.id },
    );
  }
  return ok(null);
}
