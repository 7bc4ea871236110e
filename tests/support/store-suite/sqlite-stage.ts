// Creates a registry in a separate folder, over a connection with controlled faults.
import { mkdtempSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync, type StatementSync } from 'node:sqlite';
import type { Store } from '../../../packages/core/src/store/port.ts';
import { EVENTS_A_THREAD } from '../../../packages/core/src/store/sqlite/file/schema.ts';
import { openSqliteStore } from '../../../packages/core/src/store/sqlite/store.ts';
import { type Faults, makeClock, must, type OpenStage } from './stage.ts';

interface Switch {
  next: 'answer' | 'request' | 'all' | undefined;
  isCut: boolean;
  isBusy: boolean;
  step: number | undefined;
  count: number;
  meanwhile: () => Promise<void> | void;
}

const ioError = (): Error => Object.assign(new Error('disk I/O error'), { errcode: 10 });
const WRITES = /^\s*(INSERT|UPDATE|DELETE)/;

/** Returns a statement that passes the switch. */
function faulty(statement: StatementSync, sql: string, state: Switch, database: DatabaseSync) {
  const through =
    <Args extends unknown[], T>(call: (...args: Args) => T) =>
    (...args: Args): T => {
      if (state.isCut) throw ioError();
      if (sql === 'BEGIN IMMEDIATE') {
        state.count = 0;
        if (state.isBusy) throw Object.assign(new Error('database is locked'), { errcode: 5 });
      }
      if (WRITES.test(sql) && ++state.count === state.step) throw ioError();
      if (sql !== 'COMMIT' || state.next === undefined) return call(...args);
      const { next } = state;
      state.next = undefined;
      if (next === 'request') database.exec('ROLLBACK');
      else call(...args);
      // Another process commits first.
      state.isBusy = true;
      void Promise.resolve(state.meanwhile()).then(() => void (state.isBusy = false));
      state.isCut = next === 'all';
      throw ioError();
    };
  return {
    get: through((...values: never[]) => statement.get(...values)),
    all: through((...values: never[]) => statement.all(...values)),
    run: through((...values: never[]) => statement.run(...values)),
  };
}

function faultyConnection(state: Switch): (file: string) => DatabaseSync {
  return (file) => {
    const database = new DatabaseSync(file, { timeout: 0 });
    return new Proxy(database, {
      get(target, name) {
        if (name === 'prepare') {
          return (sql: string) => faulty(target.prepare(sql), sql, state, target);
        }
        const value: unknown = Reflect.get(target, name, target);
        return typeof value === 'function' ? value.bind(target) : value;
      },
    });
  };
}

export function sqliteStage(durability: 'commit' | 'flush'): OpenStage {
  return async () => {
    const dir = realpathSync.native(mkdtempSync(join(tmpdir(), 'km-store-')));
    const [clock, gone, stores] = [makeClock(), new Set<string>(), [] as Store[]];
    const state: Switch = {
      next: undefined,
      isCut: false,
      isBusy: false,
      step: undefined,
      count: 0,
      meanwhile: () => {},
    };
    const open = async (
      more: Partial<Parameters<typeof openSqliteStore>[0]> = {},
    ): Promise<Store> => {
      const file = join(dir, 'registry.db');
      const isGone = (name: string): boolean => gone.has(name);
      const store = must(await openSqliteStore({ file, clock, durability, isGone, ...more }));
      stores.push(store);
      return store;
    };
    const faults: Faults = {
      loseAnswer: () => void (state.next = 'answer'),
      loseRequest: () => void (state.next = 'request'),
      disconnect: () => void (state.next = 'all'),
      reconnect: () => void (state.isCut = false),
      busy: (isBusy) => void (state.isBusy = isBusy),
      meanwhile: (step) => void (state.meanwhile = step),
      breakAt: (step) => void (state.step = step),
    };
    return {
      store: await open({ connect: faultyConnection(state) }),
      clock,
      faults,
      gone,
      maxEvents: EVENTS_A_THREAD - 1,
      async setSeq(thread, seq) {
        const database = new DatabaseSync(join(dir, 'registry.db'));
        database.prepare('UPDATE threads SET seq = ? WHERE id = ?').run(seq, thread);
        database.close();
      },
      another: () => open(),
      async close() {
        [state.isCut, state.isBusy] = [false, false];
        for (const store of stores) await store.close();
        rmSync(dir, { recursive: true, force: true });
      },
    };
  };
}
