// Timers of js blocks. None keeps the process alive by itself: a call that waits has a deadline, and
// that does.
import type { Job } from './js-job.ts';

const MAX_TIMERS = 10_000;
const MAX_DELAY = 2 ** 31 - 1;

export function createTimers(fire: (job: Job, id: number) => void) {
  const timers = new Map<number, { handle: NodeJS.Timeout; job: Job }>();

  function stop(id: number): void {
    clearTimeout(timers.get(id)?.handle);
    timers.delete(id);
  }

  return {
    /** `text`: `o` once or `r` again and again, and the milliseconds. Says why it cannot be. */
    start(job: Job, id: number, text: string): string {
      if (timers.size >= MAX_TIMERS) return `a script may have ${MAX_TIMERS} timers at once`;
      const ms = Math.min(Math.max(1, Number(text.slice(1))), MAX_DELAY);
      const repeats = text[0] === 'r';
      const run = (): void => {
        if (!repeats) timers.delete(id);
        fire(job, id);
      };
      const handle = (repeats ? setInterval(run, ms) : setTimeout(run, ms)).unref();
      timers.set(id, { handle, job });
      return '';
    },
    stop,
    /** Those of one job, or all. */
    stopAll(job?: Job): void {
      for (const [id, timer] of timers) if (!job || timer.job === job) stop(id);
    },
  };
}
