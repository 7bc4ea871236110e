// Who asks about a thread or wants something of it, and whether that is within its reach: a thread
// sees and steers itself and those below it; a person or program outside of threads sees the
// registry of the project, as far as the policy for the surface allows.
import type { Outcome } from '../../base/index.ts';
import type { Descriptor } from '../../flow/index.ts';
import type { Verifier } from '../../kernel/index.ts';
import type { ThreadRow } from '../../store/index.ts';
import type { CallIntent, HarnessPorts, Thread } from '../thread/thread.ts';

export interface Asker {
  readonly ports: HarnessPorts;
  /** The thread that asks; undefined for a person or a program. */
  readonly thread: Thread | undefined;
  readonly surface: string;
  /** For the records. */
  readonly by: string;
  readonly verify: Verifier;
  /** What its words carry. */
  readonly given: Descriptor;
  readonly signal: AbortSignal;
  /** The call it asks with, when it is a thread. */
  readonly intent?: CallIntent;
}

/** Finds a thread that the asker may read or control. */
export async function reach(
  { ports, thread, verify }: Asker,
  id: string,
  capability: 'thread.read' | 'thread.control' | 'registry.read',
): Promise<Outcome<ThreadRow>> {
  const row = await ports.store.thread(id);
  const isBelow = !thread || (row.ok && row.output.chain.includes(thread.place.id));
  const isRegistry = capability === 'registry.read';
  const held = verify({ capability, ...(!isRegistry && { scope: { subtree: 'own' } }) });
  if (!held.ok) return held;
  if (isBelow || !row.ok) return row;
  // Before it is told whether there is such a thread: ids of others are none of its business.
  const wider = isRegistry ? 'thread.read' : capability;
  const any = verify({ capability: wider, scope: { subtree: 'any' } });
  return any.ok ? row : any;
}
