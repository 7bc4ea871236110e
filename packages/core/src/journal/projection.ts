// Computes projections. A projection is state that is computed from the events of one journal, in order.
import type { StoredEvent } from '../store/index.ts';
import { type Recorded, readableEvents } from './read-journal.ts';

export interface Projection<State> {
  readonly name: string;
  initial(): State;
  /**
   * Returns the next state, without side effects. Returns the same object if the event does not change the state or
   * was applied before (`seq`).
   */
  apply(state: State, event: Recorded): State;
}

/** Returns the state after these events. `from` is the state before the first of them. */
export function project<State>(
  projection: Projection<State>,
  events: Iterable<Recorded>,
  from = projection.initial(),
): State {
  let state = from;
  for (const event of events) state = projection.apply(state, event);
  return state;
}

/** Returns the state after these events. It skips events that cannot be read. */
export const projectStored = <State>(
  projection: Projection<State>,
  events: readonly StoredEvent[],
  from?: State,
): State => project(projection, readableEvents(events), from);

/** Returns the state with these fields, or the same object if it has them already. */
export const withPart = <State extends object>(state: State, part: Partial<State>): State =>
  Object.entries(part).some(([name, value]) => Reflect.get(state, name) !== value)
    ? { ...state, ...part }
    : state;
