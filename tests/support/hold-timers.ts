import { onTestFinished, vi } from 'vitest';

/**
 * Lets a test end a deadline: the returned function advances `setTimeout` by this number of milliseconds at once. Until
 * then timers run as usual. Call it first, so that all timers of the test are included.
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
