// How a thread's model reads what strangers wrote: as it is (`show`), or as references to it, so that what
// stands there cannot speak to the model (`reference`). INVARIANT: nothing below can loosen it. A directive
// cannot loosen a policy, a child cannot loosen its parent, and a thread stays as it began: what its model
// was shown once it has read.
import type { Directive } from '../../items/index.ts';
import type { PreparePorts, Thread } from '../thread/thread.ts';

type ReadingMode = 'show' | 'reference';

/** Of a thread that runs, as its journal has it. */
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
