// State of approval requests: the pending ones, and those that were decided while the page is open.
import { signal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import type { ApprovalList, ListedApproval, StreamFrame } from '../../model/api.ts';
import { get, type PageAnswer, type PageFault } from '../api.ts';
import { listen } from '../connection.ts';
import { createSnapshot } from './snapshot.ts';

export const pending = signal<readonly ListedApproval[]>([]);
/** Requests that were decided, used up or expired since the page was opened. Latest first. */
export const decided = signal<readonly ListedApproval[]>([]);
const fault = signal<PageFault | undefined>(undefined);
const isLoaded = signal(false);

const KEPT = 200;
let isListening = false;
const snapshot = createSnapshot(takeFrame);

type ApprovalReader = (approvals: readonly ListedApproval[]) => void;
const readers = new Set<ApprovalReader>();

/** Subscribes to changed approval requests. Returns the function that ends the subscription. */
export function onApprovals(reader: ApprovalReader): () => void {
  readers.add(reader);
  return () => void readers.delete(reader);
}

const load = (): Promise<void> =>
  snapshot.read((signal) => get<ApprovalList>('approvals?state=pending', signal), show);

function show(answer: PageAnswer<ApprovalList>): void {
  fault.value = answer.ok ? undefined : answer.error;
  if (!answer.ok) return;
  const { approvals, position } = answer.output;
  pending.value = approvals;
  isLoaded.value = true;
  for (const reader of readers) reader(approvals);
  if (isListening) return;
  isListening = true;
  listen('approvals', position, { take: snapshot.take, reset: () => void load() });
}

function takeFrame(frame: Exclude<StreamFrame, { kind: 'reset' }>): void {
  if (frame.kind !== 'batch' || !frame.approvals) return;
  // A failed read after a reset is repeated here.
  if (fault.peek() && !snapshot.isReading()) void load();
  const pendingById = new Map(pending.peek().map((one) => [one.id, one]));
  const decidedById = new Map(decided.peek().map((one) => [one.id, one]));
  for (const one of frame.approvals) {
    if (one.state === 'pending') pendingById.set(one.id, one);
    else {
      pendingById.delete(one.id);
      decidedById.set(one.id, one);
    }
  }
  pending.value = [...pendingById.values()].toSorted((a, b) => a.asked - b.asked);
  decided.value = [...decidedById.values()]
    .toSorted((a, b) => (b.decided ?? b.expires ?? 0) - (a.decided ?? a.expires ?? 0))
    .slice(0, KEPT);
  for (const reader of readers) reader(frame.approvals);
}

/** Returns pending and decided approval requests, up to date while the page is open. */
export function useApprovals(): {
  readonly pending: readonly ListedApproval[];
  readonly decided: readonly ListedApproval[];
  readonly isLoading: boolean;
  readonly error?: PageFault;
  again(): void;
} {
  useEffect(() => {
    if (!isListening && !snapshot.isReading()) void load();
  }, []);
  const error = fault.value;
  return {
    pending: pending.value,
    decided: decided.value,
    isLoading: !isLoaded.value && error === undefined,
    ...(error === undefined ? {} : { error }),
    again: () => void load(),
  };
}
