// Determines how the model of a thread reads untrusted text: in full (`show`), or as references, so that the text
// cannot instruct the model (`reference`). INVARIANT: the mode never becomes less strict. A directive cannot relax
// a policy, a child cannot relax the mode of its parent, and a thread keeps the mode of its start.
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
  const modes = [
    permissions?.untrusted,
    policies().policy.untrusted,
    parent ? modeOf(parent) : undefined,
  ];
  return modes.includes('reference') ? 'reference' : 'show';
}
