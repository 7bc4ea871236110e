import { setImmediate as nextRound } from 'node:timers/promises';
import { MessageChannel } from 'node:worker_threads';
import { expect, test } from 'vitest';
import { fail, ok } from '../../base/index.ts';
import { systemTimer, TimeWatch, timeoutsOf } from './time-limits.ts';

/** A clock and a timer that move only when told to. */
function manual() {
  let now = 0;
  const timers = new Set<{ at: number; callback: () => void }>();
  return {
    clock: { now: () => now, monotonic: () => now },
    timer(ms: number, callback: () => void) {
      const entry = { at: now + ms, callback };
      timers.add(entry);
      return () => void timers.delete(entry);
    },
    advance(ms: number): void {
      now += ms;
      for (const entry of timers) {
        if (entry.at > now || !timers.delete(entry)) continue;
        entry.callback();
      }
    },
    timers,
  };
}

const timeouts = { connect: 10, first_byte: 20, idle: 30, total: 1000 };
const never = new AbortController().signal;

test('each phase has its own limit', () => {
  for (const phase of ['connect', 'first_byte', 'idle'] as const) {
    const world = manual();
    const watch = new TimeWatch(timeouts, never, world);
    const heard: unknown[] = [];
    watch.onStop((failure) => heard.push(failure));
    const forget = watch.onStop((failure) => heard.push(failure));
    forget();
    watch.enter(phase);
    world.advance(timeouts[phase] - 1);
    expect(watch.failure).toBeUndefined();
    world.advance(1);
    expect(watch.failure).toMatchObject({ error: { code: 'timeout', detail: { phase } } });
    expect(heard).toEqual([watch.failure]);
    expect(world.timers.size).toBe(0);
  }
});

test('what arrives begins the idle time anew, but not the total', () => {
  const world = manual();
  const watch = new TimeWatch(timeouts, never, world);
  watch.enter('idle');
  for (let passed = 0; passed < 980; passed += 20) {
    world.advance(20);
    watch.touch();
  }
  expect(watch.failure).toBeUndefined();
  world.advance(20);
  expect(watch.failure).toMatchObject({ error: { detail: { phase: 'total' } } });
});

test('while held only the total runs', () => {
  const world = manual();
  const watch = new TimeWatch(timeouts, never, world);
  watch.enter('idle');
  watch.hold();
  world.advance(500);
  expect(watch.failure).toBeUndefined();
});

test('the first reason to stop is the one that is told', async () => {
  const world = manual();
  const controller = new AbortController();
  const watch = new TimeWatch(timeouts, controller.signal, world);
  watch.stop(fail('first', 'x'));
  controller.abort();
  world.advance(5000);
  expect(watch.failure?.error.code).toBe('first');
  expect(await watch.race(Promise.resolve(ok(1)))).toMatchObject({ error: { code: 'first' } });
});

test('an ended watch leaves no timer and hears no abort', () => {
  const world = manual();
  const controller = new AbortController();
  const watch = new TimeWatch(timeouts, controller.signal, world);
  watch.enter('connect');
  watch.end();
  controller.abort();
  expect(world.timers.size).toBe(0);
  expect(watch.failure).toBeUndefined();
});

test('limits are given in seconds, and the call itself bounds the total', () => {
  expect(timeoutsOf({ timeouts: { idle: 0.5, total: 60 } }, 5000)).toMatchObject({
    output: { idle: 500, total: 5000 },
  });
  expect(timeoutsOf({ timeouts: { total: 2 } }, 5000)).toMatchObject({ output: { total: 2000 } });
  expect(timeoutsOf({}, 0)).toMatchObject({ output: { total: 600_000 } });
  expect(timeoutsOf({ timeouts: 5 }, 0)).toMatchObject({ error: { code: 'config_invalid' } });
});

test('a time limit is not served before what arrived in time', async () => {
  const { port1, port2 } = new MessageChannel();
  // From here on timers come next, and then what arrived.
  await nextRound();
  let isLate = false;
  const cancel = systemTimer(1, () => {
    isLate = true;
  });
  const arrived = new Promise<void>((resolve) => {
    port1.once('message', () => {
      cancel();
      resolve();
    });
  });
  port2.postMessage('here');
  // Busy for so long that the limit is over.
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 20);
  await arrived;
  await nextRound();
  expect(isLate).toBe(false);
  port1.close();
});

test('a time limit that nothing arrived within is served', async () => {
  await new Promise<void>((resolve) => {
    systemTimer(1, resolve);
  });
});

test('what was let in until then is not sent later', () => {
  for (const [passed, isSent] of [
    [5, true],
    [6, false],
  ] as const) {
    const world = manual();
    const watch = new TimeWatch(timeouts, never, world, 5);
    world.advance(passed);
    watch.enter('first_byte');
    const late = { error: { code: 'timeout', detail: { sent: false, late: true } } };
    if (isSent) expect(watch.failure).toBeUndefined();
    else expect(watch.failure).toMatchObject(late);
  }
});
