// The inside of one engine: a realm, what was compiled in it, and the way in. Every entry has a time
// limit unless one is running already or none is needed.
import { types } from 'node:util';
import { constants, createContext, Script } from 'node:vm';
import { type Failure, fail, type Outcome, ok } from '../base/index.ts';
import { type Job, slowFault } from './js-job.ts';
import { type Realm, realmText } from './js-realm.ts';
import { extrasText } from './js-realm-extras.ts';
import type { AskHost } from './js-realm-globals.ts';
import { keepRejectionsIn } from './js-rejections.ts';
import { createUnits, type Units } from './js-units.ts';

/** Known to blocks, and of no use to them: with nothing prepared it does nothing. */
const ENTRY = '__enter';

/**
 * Why an entry was broken off from outside; undefined: it was not. Everything a block throws stays
 * inside; this comes from V8. Looked at without running any code.
 */
function brokenOff(thrown: unknown, job: Job): Failure | undefined {
  if (!types.isNativeError(thrown)) return undefined;
  switch (Object.getOwnPropertyDescriptor(thrown, 'code')?.value) {
    case 'ERR_SCRIPT_EXECUTION_TIMEOUT':
      return slowFault(job);
    case 'ERR_SCRIPT_EXECUTION_INTERRUPTED':
      return fail('cancelled', 'the js block was interrupted');
    default:
      return undefined;
  }
}

export interface Inside {
  readonly realm: Realm;
  readonly units: Units;
  /** The job on whose behalf something runs now. */
  current(): Job | undefined;
  isEntered(): boolean;
  enter(job: Job, limitMs: number, isFree?: boolean): Outcome<string>;
  /** Nothing was replaced that blocks without loops rely on. */
  isIntact(): boolean;
  loadExtras(): void;
  leave(): void;
}

/** `onStuck`: the realm holds something endless and is of no use any more. */
export function openInside(answer: AskHost, onStuck: (why: Failure) => void): Inside {
  const context = createContext(constants.DONT_CONTEXTIFY, {
    codeGeneration: { strings: false, wasm: false },
    // Promises of blocks go on inside of entries only, so every step has its time limit.
    microtaskMode: 'afterEvaluate',
  });
  type MakeRealm = (host: AskHost, entry: string) => Realm;
  const realm = (new Script(realmText()).runInContext(context) as MakeRealm)(answer, ENTRY);
  const script = new Script(`${ENTRY}()`);
  const leave = keepRejectionsIn();
  let current: Job | undefined;
  let depth = 0;
  /** A block that may have replaced something ran since the realm was last looked at. */
  let isChanged = false;

  function enter(job: Job, limitMs: number, isFree = false): Outcome<string> {
    const [outer, before] = [current, depth];
    current = job;
    depth += 1;
    try {
      if (before > 0 || isFree) return ok(realm.enter());
      isChanged = true;
      // While a block computes, nothing else would hear that a person wants it to end.
      const limits = { timeout: limitMs, breakOnSigint: true, displayErrors: false };
      return ok(script.runInContext(context, limits) as string);
    } catch (thrown) {
      const why = brokenOff(thrown, job);
      if (!why) {
        return fail('internal_error', 'a js block could not be run: no stack or memory is left');
      }
      if (before === 0) onStuck(why);
      return why;
    } finally {
      current = outer;
      depth = before;
    }
  }

  return {
    realm,
    units: createUnits(context, realm.addUnit),
    current: () => current,
    isEntered: () => depth > 0,
    enter,
    isIntact() {
      if (isChanged && realm.isIntact()) isChanged = false;
      return !isChanged;
    },
    loadExtras() {
      realm.setExtras(new Script(extrasText()).runInContext(context));
    },
    leave,
  };
}
