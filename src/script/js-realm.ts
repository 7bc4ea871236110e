// The realm of js blocks: a global object of its own, with our code in it before any block runs. The
// functions of the `js-realm` files are never called in the host's realm; their text is compiled in
// the other one, so that every name in them means what it means there.
//
// INVARIANT: nothing of the host's realm is reachable from blocks. Strings, numbers and booleans cross
// the border, and functions of the realm itself; data is built inside from JSON text. Therefore
// - the one host function is known only to `ask`, which drops whatever comes out of it but text: with
//   the stack used up even a host function that never throws throws an error of the host's realm;
// - errors have no stack of V8's making, since making one runs code of the host (same reason);
// - code is not made from text inside and `import(…)` is refused (`js-body.ts`), since the error it
//   rejects with is the host's;
// - registered symbols are kept apart, since the host gives some of them a meaning;
// - WebAssembly (host code behind its streaming functions) and FinalizationRegistry (runs outside of
//   every time limit) do not exist.
import { createCalls, createHelpers, type RealmCalls } from './js-realm-calls.ts';
import { fenceRealm, watchRealm } from './js-realm-fence.ts';
import {
  type AskHost,
  addConsole,
  addExtras,
  addTimers,
  type RealmGlobals,
} from './js-realm-globals.ts';
import { createDecoder, createEncoder, createTextual } from './js-realm-values.ts';

export interface Realm extends RealmCalls {
  /** Nothing that blocks without loops rely on was replaced. */
  isIntact(): boolean;
  setExtras: RealmGlobals['setExtras'];
}

const PARTS = {
  fenceRealm,
  watchRealm,
  createEncoder,
  createDecoder,
  createTextual,
  addConsole,
  addTimers,
  addExtras,
  createHelpers,
  createCalls,
};

/** Compiled in the new realm, with the texts of the parts beside it. */
function assemble(parts: typeof PARTS) {
  return (host: AskHost, entry: string): Realm => {
    const { defineProperty } = Reflect;
    const Error_ = Error;
    const ask: AskHost = (kind, id, text) => {
      let answer: string;
      try {
        answer = host(kind, id, text);
      } catch {
        throw new Error_('the runtime could not answer');
      }
      return answer;
    };
    parts.fenceRealm();
    const codec = {
      encode: parts.createEncoder(),
      decode: parts.createDecoder(),
      textual: parts.createTextual(),
    };
    parts.addConsole(ask, codec.encode);
    const fire = parts.addTimers(ask);
    const setExtras = parts.addExtras(ask);
    const calls = parts.createCalls(ask, codec, parts.createHelpers(ask, codec), fire);
    const value = calls.enter;
    defineProperty(globalThis, entry, {
      value,
      writable: false,
      configurable: false,
      enumerable: false,
    });
    return { ...calls, setExtras, isIntact: parts.watchRealm() };
  };
}

/** A script whose value is a function that makes a `Realm` of the global object it is run in. */
export function realmText(): string {
  const parts = Object.entries(PARTS).map(([name, part]) => `${name}: ${part.toString()}`);
  return `'use strict';(${assemble.toString()})({ ${parts.join(',\n')} })`;
}
