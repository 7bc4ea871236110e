import { EXIT } from './command.ts';

/** Looks on until it is over or the person has seen enough; leaving is no failure. */
export async function untilInterrupted(
  work: (signal: AbortSignal) => Promise<void>,
): Promise<number> {
  const controller = new AbortController();
  const stop = (): void => controller.abort();
  process.once('SIGINT', stop);
  process.once('SIGTERM', stop);
  try {
    await work(controller.signal);
    return EXIT.done;
  } finally {
    process.off('SIGINT', stop);
    process.off('SIGTERM', stop);
  }
}
