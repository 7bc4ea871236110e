// Decides what the due ticks of a schedule become: at most one starts a run, and each gets a row.
import type { NewFire, ScheduleRow } from '../../store/index.ts';
import type { ScheduleSettings } from './signed-schedule.ts';

/** A tick that is handled later than this was missed. A pass takes place every two seconds. */
const LATE_MS = 60_000;

interface DueTicks {
  readonly row: Pick<ScheduleRow, 'waiting'>;
  readonly settings: Pick<ScheduleSettings, 'missed' | 'grace_ms' | 'overlap'>;
  /** Due ticks without a row, oldest first. */
  readonly ticks: readonly number[];
  readonly now: number;
  /** True if an earlier run has not ended. */
  readonly isOpen: boolean;
}

interface FirePlan {
  /** Rows of the ticks that start no run now. */
  readonly fires: NewFire[];
  /** Tick that starts a run. Absent: none. */
  readonly start?: number;
  /** Tick that waits for the end of the earlier run. */
  readonly waiting: number | null;
}

export function decideFires({ row, settings, ticks, now, isOpen }: DueTicks): FirePlan {
  const { missed, grace_ms, overlap } = settings;
  const recorded = (of: readonly number[], outcome: NewFire['outcome'], reason: string) =>
    of.map((tick): NewFire => ({ tick, outcome, reason }));
  if (row.waiting !== null) {
    const fires = recorded(ticks, 'overlap', 'an earlier tick waits for its run');
    return isOpen ? { fires, waiting: row.waiting } : { fires, waiting: null, start: row.waiting };
  }
  const earlier = recorded(ticks.slice(0, -1), 'missed', 'a later tick was due');
  const latest = ticks.slice(-1);
  const [start] = latest;
  if (start === undefined) return { fires: [], waiting: null };
  const late = now - start;
  if (late > LATE_MS && (missed === 'skip' || late > grace_ms)) {
    const why = missed === 'skip' ? 'no server was there' : 'no server was there within the grace';
    return { fires: [...earlier, ...recorded(latest, 'missed', why)], waiting: null };
  }
  if (!isOpen) return { fires: earlier, waiting: null, start };
  const outcome = overlap === 'skip' ? 'overlap' : 'waiting';
  const fires = [...earlier, ...recorded(latest, outcome, 'the earlier run has not ended')];
  return { fires, waiting: overlap === 'skip' ? null : start };
}
