// A promise of a js block that fails with nobody waiting is no failure of the program: without this
// it would end the process. Promises of the program itself stay exactly as they are.
import { types } from 'node:util';

/** Runs none of the promise's own code: it may come from a block. */
function isOurs(promise: object): boolean {
  let above: object | null = Object.getPrototypeOf(promise) as object | null;
  for (let steps = 0; above !== null && steps < 1000; steps++) {
    if (above === Promise.prototype) return true;
    if (types.isProxy(above)) return false;
    above = Object.getPrototypeOf(above) as object | null;
  }
  return false;
}

// The process has one place for such promises, so all engines share one listener there.
let users = 0;

function onRejection(reason: unknown, promise: Promise<unknown>): void {
  // Having a listener turns the default off; for the program's own promises it holds all the same.
  if (isOurs(promise) && process.listenerCount('unhandledRejection') === 1) throw reason;
}

/** In force until the returned function is called, and for what was already rejected by then. */
export function keepRejectionsIn(): () => void {
  if (users++ === 0) process.on('unhandledRejection', onRejection);
  return () => {
    setImmediate(() => {
      if (--users === 0) process.off('unhandledRejection', onRejection);
    });
  };
}
