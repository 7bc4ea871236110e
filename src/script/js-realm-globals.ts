// Console, timers and the other globals of the realm of js blocks.
import type { RealmCodec } from './js-realm-values.ts';

type Bag = Record<PropertyKey, unknown>;
/** A kind of question, a number and a text; the answer is text. */
export type AskHost = (kind: string, id: number, text: string) => string;

export interface RealmGlobals {
  fire(timer: number): void;
  setExtras(make: unknown): void;
}

export function addConsole(ask: AskHost, encode: RealmCodec['encode']): void {
  const { apply } = Reflect;
  const { slice } = String.prototype;
  const [Error_, String_] = [Error, String];
  const shown = (value: unknown): string => {
    if (typeof value === 'function') return '[function]';
    if (typeof value !== 'object' || value === null || value instanceof Error_) {
      return String_(value);
    }
    try {
      return apply(slice, encode(value), [1]);
    } catch {
      return String_(value);
    }
  };
  const printer =
    (kind: string) =>
    (...values: unknown[]): void => {
      let line = '';
      for (let at = 0; at < values.length; at++) line += (at === 0 ? '' : ' ') + shown(values[at]);
      ask(kind, 0, line);
    };
  const [log, warn] = [printer('log'), printer('warn')];
  const value = { log, info: log, debug: log, warn, error: warn, trace: warn };
  Reflect.defineProperty(globalThis, 'console', {
    value,
    writable: true,
    configurable: true,
    enumerable: false,
  });
}

export function addTimers(ask: AskHost): RealmGlobals['fire'] {
  type Timer = { run: unknown; args: unknown[]; repeats: boolean };
  const { apply, defineProperty } = Reflect;
  const { get, set, delete: remove } = Map.prototype;
  const [TypeError_, Error_] = [TypeError, Error];
  const timers = new Map<number, Timer>();
  let made = 0;
  const start =
    (repeats: boolean) =>
    (run: unknown, ms: unknown, ...args: unknown[]): number => {
      if (typeof run !== 'function') throw new TypeError_('a timer needs a function');
      const id = ++made;
      const refused = ask('timer', id, `${repeats ? 'r' : 'o'}${+(ms as number) || 0}`);
      if (refused !== '') throw new Error_(refused);
      apply(set, timers, [id, { run, args, repeats }]);
      return id;
    };
  const stop = (id: unknown): void => {
    if (apply(remove, timers, [id])) ask('clear', id as number, '');
  };
  const queueMicrotask = (run: () => void): void => {
    const later = async (): Promise<void> => {
      await Promise.resolve();
      run();
    };
    void later();
  };
  const added = {
    setTimeout: start(false),
    setInterval: start(true),
    clearTimeout: stop,
    clearInterval: stop,
    queueMicrotask,
  };
  for (const [key, value] of Object.entries(added)) {
    defineProperty(globalThis, key, {
      value,
      writable: true,
      configurable: true,
      enumerable: false,
    });
  }
  return (id) => {
    const timer = apply(get, timers, [id]) as Timer | undefined;
    if (!timer) return;
    if (!timer.repeats) apply(remove, timers, [id]);
    apply(timer.run as () => void, undefined, timer.args);
  };
}

/** Made when first used: most blocks never touch them. */
export function addExtras(ask: AskHost): RealmGlobals['setExtras'] {
  const { defineProperty } = Reflect;
  let extras: Bag = {};
  const put = (key: string, value: unknown): void => {
    defineProperty(globalThis, key, {
      value,
      writable: true,
      configurable: true,
      enumerable: false,
    });
  };
  for (const key of ['URL', 'URLSearchParams', 'TextEncoder', 'TextDecoder', 'structuredClone']) {
    defineProperty(globalThis, key, {
      configurable: true,
      enumerable: false,
      get() {
        if (!extras[key]) ask('extras', 0, '');
        put(key, extras[key]);
        return extras[key];
      },
      set: (value: unknown) => put(key, value),
    });
  }
  return (make) => {
    extras = (make as (ask: AskHost) => Bag)(ask);
  };
}
