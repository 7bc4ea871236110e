// Ids of threads that nobody named: `deploy_staging_20300131_235959_x7k2`, in UTC. The suffix is short
// enough to type, so of many threads begun in one second two can be alike.
import type { Clock, Outcome, RandomBytes } from '../base/index.ts';

interface Ports {
  clock: Pick<Clock, 'now'>;
  random: RandomBytes;
}

const SUFFIX = 4;
/** With a thousand threads in one second, ten taken ids in a row do not happen. */
const MAX_TRIES = 10;

export function makeThreadId(name: string, { clock, random }: Ports): string {
  const stamp = new Date(clock.now())
    .toISOString()
    .replace(/[-:]/g, '')
    .replace('T', '_')
    .slice(0, 15);
  const suffix = [...random(SUFFIX)].map((byte) => (byte % 36).toString(36)).join('');
  return `${name.slice(0, 59)}_${stamp}_${suffix}`;
}

/** Starts under a new id, and under another when that one is taken; `start` leaves nothing of a refusal. */
export async function withFreshId<T>(
  name: string,
  ports: Ports,
  start: (id: string) => Outcome<T> | Promise<Outcome<T>>,
): Promise<Outcome<T>> {
  for (let tries = 1; ; tries++) {
    const started = await start(makeThreadId(name, ports));
    const isTaken = !started.ok && started.error.code === 'thread_exists';
    if (!isTaken || tries === MAX_TRIES) return started;
  }
}
