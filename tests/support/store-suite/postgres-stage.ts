// Creates a registry in a separate schema, over connections with controlled faults. The clock is that of the server,
// and every statement carries the test time.
import { systemRandom } from '@kernmantle/core/base';
import pg from 'pg';
import type { Store } from '../../../packages/core/src/store/port.ts';
import { migrateStore } from '../../../packages/fleet/src/postgres/migrate.ts';
import { openPostgresStore } from '../../../packages/fleet/src/postgres/store.ts';
import { type Faults, makeClock, must, type OpenStage, type TestClock } from './stage.ts';

interface Switch {
  next: 'answer' | 'request' | 'all' | undefined;
  isCut: boolean;
  isBusy: boolean;
  step: number | undefined;
  meanwhile: () => Promise<void> | void;
}

const calm = (): Switch => ({
  next: undefined,
  isCut: false,
  isBusy: false,
  step: undefined,
  meanwhile: () => {},
});

const problem = (code: string): Error => Object.assign(new Error(code), { code });
const lost = (): Error => problem('ECONNRESET');
/** Statements that commit by themselves. */
const COMMITS = /km_(write|audit|renew)|^\s*(INSERT|UPDATE|DELETE)/;
const SET = `SELECT set_config('km.now', $1, false), set_config('km.break', $2, false)`;

/** Returns a connection that passes the switch and sends the test time. */
function faultyClient(state: Switch, clock: TestClock): typeof pg.Client {
  return class extends pg.Client {
    constructor(config?: pg.ClientConfig) {
      super(config);
      const query = this.query.bind(this);
      const connect = this.connect.bind(this);
      let isInside = false;
      const cut = (): never => {
        void this.end().catch(() => {});
        throw lost();
      };

      async function through(given: string | pg.QueryConfig, values?: unknown[]) {
        const text = typeof given === 'string' ? given : given.text;
        const isCommit = text === 'COMMIT' || (!isInside && COMMITS.test(text));
        if (state.isCut) return cut();
        if (state.isBusy && (text === 'BEGIN' || isCommit)) throw problem('55P03');
        if (text === 'BEGIN') isInside = true;
        else if (text === 'COMMIT' || text === 'ROLLBACK') isInside = false;
        else await query(SET, [String(clock.now()), String(state.step ?? '')]);
        if (!isCommit || state.next === undefined) return query(given, values);
        const { next } = state;
        state.next = undefined;
        if (next !== 'request') await query(given, values);
        state.isCut = next === 'all';
        await state.meanwhile();
        return cut();
      }

      Object.assign(this, {
        query: through,
        connect(then?: (error: Error) => void) {
          if (!state.isCut) return then ? connect(then) : connect();
          if (!then) return Promise.reject(lost());
          queueMicrotask(() => then(lost()));
          return undefined;
        },
      });
    }
  };
}

// Counts every statement that writes. The selected one fails like a disk.
const BREAKING = `
CREATE OR REPLACE FUNCTION km_now() RETURNS bigint LANGUAGE sql VOLATILE
  AS $$ SELECT current_setting('km.now')::bigint $$;
CREATE OR REPLACE FUNCTION km_break() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE v_step int;
BEGIN
  IF coalesce(current_setting('km.break', true), '') = '' THEN RETURN NULL; END IF;
  v_step := coalesce(nullif(current_setting('km.step', true), ''), '0')::int + 1;
  PERFORM set_config('km.step', v_step::text, true);
  IF v_step = current_setting('km.break')::int THEN
    RAISE EXCEPTION 'the disk reports an error' USING ERRCODE = '58030';
  END IF;
  RETURN NULL;
END $$;
DO $$ DECLARE t regclass; BEGIN
  FOR t IN SELECT c.oid::regclass FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = current_schema() AND c.relkind = 'r' AND c.relname <> 'about'
  LOOP
    EXECUTE format('CREATE TRIGGER km_break BEFORE INSERT OR UPDATE OR DELETE ON %s
      FOR EACH STATEMENT EXECUTE FUNCTION km_break()', t);
  END LOOP;
END $$;`;

const EMPTY = `DO $$ DECLARE t regclass; BEGIN
  FOR t IN SELECT c.oid::regclass FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind = 'r' AND ((n.nspname = 'SCHEMA' AND c.relname <> 'about')
      OR (n.nspname = 'SCHEMA_jobs' AND c.relname = 'job'))
  LOOP EXECUTE format('DELETE FROM %s', t); END LOOP;
END $$;`;

/** Creates one schema for all stages of a file. It is emptied between them. `drop` removes it. */
export function postgresStage(url: string): { open: OpenStage; drop(): Promise<void> } {
  const schema = `t_${Buffer.from(systemRandom(6)).toString('hex')}`;
  const place = { url, schema };
  let isMade = false;

  async function onServer(...texts: string[]): Promise<void> {
    const client = new pg.Client({ connectionString: url, options: `-c search_path=${schema}` });
    await client.connect();
    for (const text of texts) await client.query(text);
    await client.end();
  }

  async function open() {
    const [clock, gone, stores] = [makeClock(), new Set<string>(), [] as Store[]];
    const base = { place, shown: 'the test server', clock, random: systemRandom };
    if (isMade) await onServer(EMPTY.replaceAll('SCHEMA', schema));
    else {
      must(await migrateStore(base));
      await onServer(BREAKING);
      isMade = true;
    }
    const openOne = async (state: Switch): Promise<Store> => {
      const isGone = (name: string): boolean => gone.has(name);
      const Client = faultyClient(state, clock);
      const store = must(await openPostgresStore({ ...base, isGone, Client, maxLeaseMs: 600_000 }));
      stores.push(store);
      return store;
    };
    const state = calm();
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
      store: await openOne(state),
      clock,
      faults,
      gone,
      setSeq: (thread: string, seq: number) =>
        onServer(`UPDATE threads SET seq = ${seq} WHERE id = '${thread}'`),
      another: () => openOne(calm()),
      async close() {
        [state.isCut, state.isBusy] = [false, false];
        for (const store of stores) await store.close();
      },
    };
  }

  return {
    open,
    async drop() {
      if (!isMade) return;
      await onServer(
        `DROP SCHEMA ${schema} CASCADE`,
        `DROP SCHEMA IF EXISTS ${schema}_jobs CASCADE`,
      );
    },
  };
}
