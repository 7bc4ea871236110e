// Leases and the queue, in memory.
import type { Held, Lease, Owner, Wanted } from '../../../packages/core/src/store/port.ts';
import {
  AT_WORK,
  interruption,
  isEnded,
  noThread,
} from '../../../packages/core/src/store/thread-id.ts';
import { addEvents, letGo, MAX_LEASE_MS, toHeld } from './commit.ts';
import { need, refuse, type ThreadRecord, type World } from './world.ts';

const UNCLAIMED_MS = 60_000;

/** Is its lease over, by the clock or because the holder is gone? */
function isOver(world: World, { owner, lease_until = 0 }: ThreadRecord): boolean {
  const now = world.clock.now();
  const isLate = lease_until <= now || lease_until > now + MAX_LEASE_MS;
  return owner !== undefined && (isLate || world.isGone(owner));
}

function hold(world: World, record: ThreadRecord, { owner, ttlMs }: Owner): Held {
  const lease_until = world.clock.now() + Math.min(ttlMs, MAX_LEASE_MS);
  const { queued: _, ...rest } = record;
  world.threads.set(record.id, { ...rest, epoch: record.epoch + 1, owner, lease_until });
  return toHeld(world, record.id);
}

export function claim(
  world: World,
  id: string,
  owner: Owner,
  how: { force?: true; reopen?: true },
): Held {
  const record = need(world.threads.get(id), noThread(id));
  const { status, owner: holder } = record;
  if (isEnded(status) && !how.reopen) {
    refuse('thread_ended', `thread \`${id}\` has ended: ${status}`, { thread: id });
  }
  const isFree = holder === undefined || holder === owner.owner || isOver(world, record);
  if (!isFree && !how.force) {
    refuse('lease_held', `thread \`${id}\` is held`, { thread: id, owner: holder });
  }
  return hold(world, record, owner);
}

const waiting = (world: World, { tenant = '', projects }: Wanted): ThreadRecord[] =>
  world.threads.all().filter((one) => {
    const isTheirs = (one.tenant ?? '') === tenant && projects.includes(one.project);
    return isTheirs && one.queued !== undefined && one.owner === undefined;
  });

/** When the next one is due; undefined when none waits. */
export const nextDue = (world: World, wanted: Wanted): number | undefined =>
  waiting(world, wanted)
    .map(({ queued }) => queued)
    .sort((a, b) => (a ?? 0) - (b ?? 0))[0];

export function take(world: World, owner: Owner, wanted: Wanted): Held[] {
  const now = world.clock.now();
  return waiting(world, wanted)
    .filter(({ queued = 0 }) => queued <= now)
    .sort(
      (a, b) =>
        b.priority - a.priority || (a.queued ?? 0) - (b.queued ?? 0) || (a.id < b.id ? -1 : 1),
    )
    .slice(0, wanted.count)
    .map((record) => hold(world, record, owner));
}

/** True when it is still theirs. */
export function renew(world: World, { thread, epoch }: Lease, ttlMs: number): boolean {
  const record = world.threads.get(thread);
  if (record?.owner === undefined || record.epoch !== epoch) return false;
  const lease_until = world.clock.now() + Math.min(ttlMs, MAX_LEASE_MS);
  world.threads.set(thread, { ...record, lease_until });
  return true;
}

export function release(
  world: World,
  { thread, epoch }: Lease,
  { again, delayMs = 0 }: { again?: true; delayMs?: number },
): void {
  const record = world.threads.get(thread);
  if (record?.owner === undefined || record.epoch !== epoch) return;
  const free = letGo(world, record, undefined);
  const isQueued = again && !isEnded(record.status);
  const queued = isQueued ? { queued: world.clock.now() + delayMs } : {};
  world.threads.set(thread, { ...free, ...queued });
}

function interrupt(world: World, record: ThreadRecord): void {
  const now = world.clock.now();
  const { owner, lease_until: _1, ...free } = record;
  const { id, seq, epoch } = record;
  const status = 'interrupted';
  world.threads.set(id, {
    ...free,
    status,
    seq: seq + 1,
    epoch: epoch + 1,
    queued: now,
    updated: now,
  });
  const text = JSON.stringify(interruption(owner, owner !== undefined && world.isGone(owner)));
  addEvents(world, id, [{ type: 'status', turn: 0, ts: now, text }]);
}

export function sweep(world: World): string[] {
  const now = world.clock.now();
  const interrupted: string[] = [];
  for (const record of world.threads.all()) {
    const { status, owner, queued, updated, epoch, id } = record;
    if (isEnded(status)) continue;
    const isAtWork = AT_WORK.includes(status);
    const isDropped = owner === undefined && queued === undefined && updated <= now - UNCLAIMED_MS;
    if (isAtWork && (isDropped || isOver(world, record))) {
      interrupt(world, record);
      interrupted.push(id);
    } else if (isOver(world, record)) {
      world.threads.set(id, { ...letGo(world, record, now), epoch: epoch + 1 });
    }
  }
  return interrupted;
}

export function unreleased(world: World): (Lease & { seq: number })[] {
  return world.threads
    .all()
    .filter(({ status, owner, lease_until = 0 }) => {
      const isLost =
        owner !== undefined && (lease_until <= world.clock.now() || world.isGone(owner));
      return isEnded(status) && isLost;
    })
    .map(({ id, epoch, seq }) => ({ thread: id, epoch, seq }));
}
