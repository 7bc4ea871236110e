// State of the fleet: one snapshot, then changes from the stream. Without a fleet store the page
// requests nothing.
import { computed, signal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import type { FleetState, FleetView, StreamFrame } from '../../model/api.ts';
import { unservedQueues } from '../../model/fleet.ts';
import { get, type PageAnswer, type PageFault } from '../api.ts';
import { listen } from '../connection.ts';
import { now } from '../parts/figures.tsx';
import { me } from './session.ts';
import { createSnapshot } from './snapshot.ts';

interface FleetNow {
  readonly state?: FleetState;
  /** Arrival time of `state`, by the clock of the browser. */
  readonly at: number;
  readonly error?: PageFault;
}

const latest = signal<FleetNow>({ at: 0 });
/** Keys of queues without a worker. */
export const unserved = computed<ReadonlySet<string>>(() => {
  const { state } = latest.value;
  return state ? unservedQueues(state) : new Set<string>();
});

const RETRY_MS = 3000;
let isListening = false;
const snapshot = createSnapshot(takeFrame);

const load = (): Promise<void> => snapshot.read((signal) => get<FleetView>('fleet', signal), show);

function show(answer: PageAnswer<FleetView>): void {
  if (!answer.ok) {
    latest.value = { ...latest.peek(), error: answer.error };
    return;
  }
  const { fleet, position } = answer.output;
  latest.value = { ...(fleet ? { state: fleet } : {}), at: Date.now() };
  if (isListening || !fleet) return;
  isListening = true;
  listen('fleet', position, { take: snapshot.take, reset: () => void load() });
}

function takeFrame(frame: Exclude<StreamFrame, { kind: 'reset' }>): void {
  if (frame.kind !== 'batch' || !frame.fleet) return;
  latest.value = { state: frame.fleet, at: Date.now() };
}

/** Keeps `unserved` up to date. It repeats the request until the store returns a fleet. */
export function useFleetFeed(): void {
  const isShared = me.value?.fleet === true;
  useEffect(() => {
    if (!isShared || isListening) return;
    void load();
    const timer = setInterval(() => {
      if (isListening) clearInterval(timer);
      else if (!snapshot.isReading()) void load();
    }, RETRY_MS);
    return () => clearInterval(timer);
  }, [isShared]);
}

/** Returns the state of the fleet. `clock` estimates the current time of the store. */
export function useFleet(): FleetNow & { readonly clock: number; again(): void } {
  useFleetFeed();
  const { state, at } = latest.value;
  const clock = state === undefined ? now.value : state.now + Math.max(0, now.value - at);
  return { ...latest.value, clock, again: () => void load() };
}
