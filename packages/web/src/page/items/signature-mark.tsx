// Shows the state of the signature of an item by shape, word and colour, in lists and in the item view.
import type { DataObject } from '../../model/api.ts';
import { Icon, type IconName } from '../parts/icons.tsx';
import { ForeignText } from '../parts/untrusted-text.tsx';
import { dataWords } from './explained.ts';

const LOOKS: Readonly<Record<string, readonly [string, IconName, string]>> = {
  signed: ['ok', 'seal', 'signed'],
  bundle: ['dim', 'seal', 'shipped'],
  changed: ['bad', 'warn', 'changed since it was signed'],
  untrusted: ['you', 'warn', 'signed by a key that is not trusted'],
  unsigned: ['faint', 'dash', 'not signed'],
};
const UNKNOWN = ['faint', 'dash', ''] as const;

/** Signature in a row: the shape, and its word for screen readers. */
export function SignatureSign({ state }: { state: string }) {
  const [tone, icon, words] = LOOKS[state] ?? UNKNOWN;
  return (
    <span class={tone} title={words}>
      <Icon name={icon} label={words || state} />
    </span>
  );
}

/** Shows the key, and the reason if the signature is not valid. */
export function SignatureMark({ signature }: { signature: DataObject }) {
  const state = dataWords(signature['state']);
  const [tone, icon, words] = LOOKS[state] ?? UNKNOWN;
  const key = dataWords(signature['key']);
  const by = dataWords(signature['by']);
  const reason = dataWords(signature['reason']);
  return (
    <span class={`signature nowrap ${tone}`}>
      <Icon name={icon} /> {words || state}
      {by === '' ? null : <ForeignText text={` by ${by}`} />}
      {key === '' ? null : <ForeignText text={` ${key.slice(0, 8)}`} class="mono" />}
      {reason === '' ? null : <ForeignText text={` · ${reason}`} class="cut" />}
    </span>
  );
}
