// What waits for a person, looked at in one question for all. Approvals are asked and decided outside of
// threads too, by other processes, and expire by the clock alone, so nobody says that one changed: the
// difference to the last look does.
import { type Outcome, ok } from '../../../base/index.ts';
import type { Approval, Store } from '../../../store/index.ts';

/** More than a person can look at. */
const MAX_PENDING = 500;

export type AskedApprovals = ReturnType<typeof createAsked>;

export function createAsked(store: Pick<Store, 'approvals'>) {
  let known: ReadonlyMap<string, Approval> = new Map();
  let list: readonly Approval[] = [];

  return {
    /** As of the last look. */
    pending: (): readonly Approval[] => list,

    /** What is new, and what was decided or has expired since. */
    async look(): Promise<Outcome<readonly Approval[]>> {
      const found = await store.approvals({ state: 'pending', limit: MAX_PENDING });
      if (!found.ok) return found;
      list = found.output;
      const now = new Map(list.map((approval) => [approval.id, approval]));
      const changed = list.filter(({ id }) => !known.has(id));
      for (const id of known.keys()) {
        if (now.has(id)) continue;
        const gone = await store.approvals({ id });
        if (!gone.ok) return gone;
        changed.push(...gone.output);
      }
      known = now;
      return ok(changed);
    },
  };
}
