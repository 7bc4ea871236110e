import { onTestFinished, vi } from 'vitest';

/**
 * Lets a test end a deadline when it wants to: the function that is returned makes so many milliseconds pass at once
 * for `setTimeout`. Until then timers run as usual. Call it first, so that all timers of the test are held.
 */
export function holdTimers(): (ms: number) => void {
  vi.useFakeTimers({
    toFake: ['setTimeout', 'clearTimeout'],
    shouldAdvanceTime: true,
    shouldClearNativeTimers: true,
  });
  onTestFinished(() => void vi.useRealTimers());
  return (ms) => void vi.advanceTimersByTime(ms);
}
