// Delays and reorders the answers of a store, for code that must not depend on an immediate answer.
// `KERNMANTLE_LATE_STORE` is the seed of the delays for a whole run of the thread suites.
import { isObject, ok, type RandomBytes } from '@kernmantle/core/base';
import type { RuntimeOptions } from '@kernmantle/core/runtime';
import { openSqliteStore, type SqliteOptions, type Store } from '@kernmantle/core/store';
import { must } from './registry.ts';

/** Each call waits for 0 to 3 turns of the event loop before it is sent, and again before its answer. */
const MAX_TURNS = 3;
/** Methods that return at once: an iterable, or a function that ends it. */
export const DIRECT: ReadonlySet<PropertyKey> = new Set(['watch', 'changes', 'onSignal']);
/** Methods whose calls about one thread keep their order. */
const ORDERED: ReadonlySet<PropertyKey> = new Set(['commit', 'claim', 'release', 'signal']);

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** Returns a small random source. The same seed gives the same delays. */
function seededRandom(seed: number): RandomBytes {
  let state = seed >>> 0 || 1;
  return (count) =>
    Uint8Array.from({ length: count }, () => {
      state ^= state << 13;
      state ^= state >>> 17;
      state ^= state << 5;
      return state & 0xff;
    });
}

function threadOf(name: PropertyKey, [first]: readonly unknown[]): string | undefined {
  if (!ORDERED.has(name)) return undefined;
  const thread: unknown = isObject(first) ? first['thread'] : first;
  return typeof thread === 'string' ? thread : undefined;
}

/** Returns the store with delays that depend on the seed. */
export function delayAnswers(store: Store, seed: number): Store {
  const random = seededRandom(seed);
  const last = new Map<string, Promise<unknown>>();
  const unsent = new Set<Promise<void>>();
  let closing: Promise<void> | undefined;

  async function wait(): Promise<void> {
    const turns = (random(1)[0] ?? 0) % (MAX_TURNS + 1);
    for (let count = 0; count < turns; count++) await turn();
  }

  async function delayed(sent: Promise<void>, send: () => unknown): Promise<unknown> {
    unsent.add(sent);
    await sent;
    unsent.delete(sent);
    const answer = await send();
    await wait();
    return answer;
  }

  function call(thread: string | undefined, send: () => unknown): Promise<unknown> {
    const before = thread === undefined ? undefined : last.get(thread);
    const answer = delayed(Promise.all([before, closing]).then(wait), send);
    if (thread !== undefined) last.set(thread, answer);
    return answer;
  }

  /** Sends all earlier calls and then closes the store. */
  async function close(): Promise<void> {
    await Promise.all(unsent);
    await store.close();
  }

  return new Proxy(store, {
    get(target, name) {
      const method: unknown = Reflect.get(target, name, target);
      if (typeof method !== 'function' || DIRECT.has(name)) return method;
      if (name === 'close') return () => (closing ??= close());
      return (...args: unknown[]) =>
        call(threadOf(name, args), () => Reflect.apply(method, target, args));
    },
  });
}

/** Opens a store in memory. With a seed, its answers are delayed. */
export async function openMemoryStore(
  options: Pick<SqliteOptions, 'clock' | 'isGone'>,
  seed?: number,
): Promise<Store> {
  const store = must(await openSqliteStore({ file: ':memory:', ...options }));
  return seed === undefined ? store : delayAnswers(store, seed);
}

const ofRun = process.env.KERNMANTLE_LATE_STORE;

/** True if answers are delayed. Tests that need an immediate answer or other processes are skipped then. */
export const isLate = ofRun !== undefined;

/** Returns the delayed store if this run delays answers, otherwise nothing. */
export function lateStore(): Pick<RuntimeOptions, 'openStore'> {
  if (ofRun === undefined) return {};
  let opened = 0;
  return {
    async openStore(options) {
      const store = await openSqliteStore(options);
      opened += 1;
      return store.ok ? ok(delayAnswers(store.output, Number(ofRun) * 1000 + opened)) : store;
    },
  };
}
