// Records the statements of the store for one whole thread, with their values and in order, as `pg` sends them. pgbench
// repeats them without Node.
import pg from 'pg';
import { must, openAt, serve } from './holder.ts';
import type { BenchInputs } from './work.ts';
import { benchThread, PROJECT, workOn } from './work.ts';

export interface Statement {
  text: string;
  values: readonly unknown[];
  /** Number of the connection. */
  connection: number;
}

/** Placeholder for the name of a thread in the recorded statements. */
export const TEMPLATE = 'recordedthread';

const textOf = (query: unknown): { text: string; values?: readonly unknown[] } | undefined => {
  if (typeof query === 'string') return { text: query };
  if (typeof query === 'object' && query !== null && 'text' in query) {
    const { text, values } = query as { text: unknown; values?: readonly unknown[] };
    return typeof text === 'string' ? { text, ...(values && { values }) } : undefined;
  }
  return undefined;
};

/** Records the statements of every client of this process. Returns a function that ends the recording. */
function listen(into: Statement[]): () => void {
  const proto = pg.Client.prototype as unknown as Record<string, (...args: unknown[]) => unknown>;
  const original = proto['query'];
  if (!original) throw new Error('pg has no query');
  const numbers = new Map<unknown, number>();
  proto['query'] = function heard(this: unknown, ...args: unknown[]): unknown {
    const said = textOf(args[0]);
    if (!numbers.has(this)) numbers.set(this, numbers.size);
    const values = said?.values ?? (Array.isArray(args[1]) ? (args[1] as unknown[]) : []);
    if (said) into.push({ text: said.text, values, connection: numbers.get(this) ?? 0 });
    return original.apply(this, args);
  };
  return () => {
    proto['query'] = original;
  };
}

export interface Recorded {
  /** Statements of the call that queues the thread, and those of the worker that runs it (`life`). */
  enqueue: Statement[];
  life: Statement[];
}

export async function record(address: string, inputs: BenchInputs): Promise<Recorded> {
  const store = await openAt(address);
  const end = new AbortController();
  // Connections and plans exist before the recording starts.
  for (const id of ['warma', 'warmb']) must(await store.createThread(benchThread(id, inputs)));
  const said: Statement[] = [];
  let ended: () => void = () => undefined;
  const over = new Promise<void>((resolve) => {
    ended = resolve;
  });
  const serving = serve({
    store,
    owner: 'w-recorder',
    project: PROJECT,
    slots: 1,
    signal: end.signal,
    work: (grip) => workOn(store, grip, { modelMs: 0 }),
    onLeave: ({ thread }) => {
      if (thread === TEMPLATE) ended();
    },
  });
  const rested = async (id: string): Promise<void> => {
    for (;;) {
      const { status } = must(await store.thread(id));
      if (status === 'completed') return;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  };
  await rested('warmb');
  const enqueue: Statement[] = [];
  let stop = listen(enqueue);
  const made = store.createThread(benchThread(TEMPLATE, inputs));
  must(await made);
  stop();
  stop = listen(said);
  await over;
  stop();
  end.abort();
  await serving;
  await store.close();
  return { enqueue, life: said };
}
