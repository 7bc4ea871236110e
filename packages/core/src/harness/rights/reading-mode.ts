// How a thread's model reads untrusted text: in full (`show`), or as references, so that the text cannot
// instruct the model (`reference`). INVARIANT: nothing below ever loosens the mode. A directive cannot loosen a
// policy, a child cannot loosen its parent, and a thread keeps the mode of its start.
import type { Directive } from '../../items/index.ts';
import type { PreparePorts, Thread } from '../thread/thread.ts';

type ReadingMode = 'show' | 'reference';

const modeOf = ({ talk: { references } }: Pick<Thread, 'talk'>): ReadingMode =>
  references ? 'reference' : 'show';

export function modeFor(
  { policies }: Pick<PreparePorts, 'policies'>,
  { permissions }: Pick<Directive, 'permissions'>,
  parent?: Pick<Thread, 'talk'>,
): ReadingMode {
  const said = [
    permissions?.untrusted,
    policies().policy.untrusted,
    parent ? modeOf(parent) : undefined,
  ];
  return said.includes('reference') ? 'reference' : 'show';
}
