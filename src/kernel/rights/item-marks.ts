// Items are files like any other: what is written into one keeps its marks, and whoever is handed
// its text gets them back. A signature is a person's word for the text, so it ends the suspicion.
import { createHash } from 'node:crypto';
import { fail, type Outcome, ok } from '../../base/index.ts';
import {
  type Descriptor,
  describe,
  EMPTY,
  fileLabels,
  type LabelRecords,
  mergeDescriptors,
} from '../../flow/index.ts';
import type { Item, SignatureState } from '../../items/index.ts';

const FOLDERS = { directive: 'directives', tool: 'tools', knowledge: 'knowledge' } as const;
const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex');

export const isSigned = ({ state }: SignatureState): boolean =>
  state === 'signed' || state === 'bundle';

const REFUSED: { [State in SignatureState['state']]?: readonly [what: string, hint: string] } = {
  changed: ['was changed after it was signed', 'review it and sign it again'],
  untrusted: [
    'is signed by a key that is not trusted',
    'review it, then trust that key or sign it yourself',
  ],
};

/** Refuses an item whose signature is broken or by a key nobody trusts. */
export function checkSignature({ kind, id, signature }: Item): Outcome<null> {
  const { state, reason = '' } = signature;
  const words = REFUSED[state];
  if (!words) return ok(null);
  const what = `${words[0]}${reason && `: ${reason}`}`;
  return fail('signature_invalid', `${kind} \`${id}\` ${what}; ${words[1]}`, { [kind]: id });
}

/** Called with every item whose text goes into an answer. */
export type UsesItem = (item: Item) => void;

export interface ItemMarks {
  /** Marks of an item's text. */
  of(item: Item): Descriptor;
  /** To be called before a text takes its place as an item. */
  willWrite(file: string, content: string, from: readonly Descriptor[]): Outcome<null>;
}

export function createItemMarks(labels: LabelRecords): ItemMarks {
  return {
    of(item) {
      const own = describe({
        taint: fileLabels(labels.root, `.ai/${FOLDERS[item.kind]}/${item.id}`),
        sources: [`${item.kind}:${item.id}`],
      });
      const kept = isSigned(item.signature)
        ? undefined
        : labels.recall(item.file, sha256(item.body));
      return mergeDescriptors(own, kept ?? EMPTY);
    },
    willWrite: (file, content, from) => labels.remember(file, sha256(content), from),
  };
}
