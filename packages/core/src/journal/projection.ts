// A projection is state that is computed from the events of one journal, in order.
import type { Recorded } from './read-journal.ts';

export interface Projection<State> {
  readonly name: string;
  initial(): State;
  /**
   * Pure. Returns the same object if the event does not change the state, also if the event was applied before
   * (`seq`).
   */
  apply(state: State, event: Recorded): State;
}

/** The state after these events. `from` is the state before the first of them. */
export function project<State>(
  projection: Projection<State>,
  events: Iterable<Recorded>,
  from = projection.initial(),
): State {
  let state = from;
  for (const event of events) state = projection.apply(state, event);
  return state;
}

/** The event with this number. The events are in order; some may be missing. No event has the number 0. */
export function eventAt(events: readonly Recorded[], seq = 0): Recorded | undefined {
  let [from, to] = [0, events.length];
  while (from < to) {
    const middle = (from + to) >> 1;
    if ((events[middle]?.seq ?? 0) < seq) from = middle + 1;
    else to = middle;
  }
  const found = events[from];
  return found?.seq === seq ? found : undefined;
}
