// Ending a thread that nobody is at work on, or that no longer answers: it cannot read a signal, so
// its end is written for it, and its books are closed with it.
import { type JsonObject, type Outcome, ok } from '../base/index.ts';
import type { Change, Store, ThreadRow } from '../store/index.ts';
import { createCostMeter, NO_COST, packCost, unpackCost } from './cost.ts';
import { usageOf } from './turn-account.ts';

const LEASE_MS = 30_000;

/** A request that went out may be on the invoice: it is charged in full. The rest is set free. */
function closeBooks(
  store: Store,
  { id, cost }: ThreadRow,
): Required<Pick<Change, 'cost' | 'settle'>> {
  const open = store.openReservations(id);
  const before = unpackCost(cost);
  const meter = createCostMeter(() => 0, before.ok ? before.output : NO_COST);
  const settle: { key: string; actual: NonNullable<Change['settle']>[number]['actual'] }[] = [];
  for (const { key, amounts } of open.ok ? open.output : []) {
    if (!key.startsWith(`${id}:turn:`)) store.cancel(key);
    else {
      meter.countRequest(usageOf(amounts), amounts.spend ?? 0n);
      settle.push({ key, actual: amounts });
    }
  }
  return { cost: packCost(meter.read()), settle };
}

/**
 * Takes the thread and writes its end. `lease_held` when somebody is at work on it, unless `force`:
 * then whoever it was can no longer append, nor act.
 */
export function endUnattended(
  store: Store,
  id: string,
  status: 'terminated' | 'killed',
  by: string,
  { force = false }: { force?: boolean } = {},
): Outcome<null> {
  const lease = store.claim(id, by, LEASE_MS, { force });
  if (!lease.ok) return lease;
  const row = store.thread(id);
  if (!row.ok) return row;
  const { epoch, seq } = lease.output;
  const { cost, settle } = closeBooks(store, row.output);
  const reason = `${status} by ${by}`;
  const result: JsonObject = { thread_id: id, status, outputs: {}, text: '', reason, cost };
  const events = [
    { type: 'signal', data: { kind: status === 'killed' ? 'kill' : 'terminate', by } },
    { type: 'thread_end', data: { status, reason, cost } },
  ];
  const written = store.append(id, seq, epoch, events, { status, cost, settle, result });
  store.release(id, epoch);
  return written.ok ? ok(null) : written;
}
