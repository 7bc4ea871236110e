// `cost`: what threads cost, by directive, model and day, from the budgets of the registry. A budget
// holds what a thread and all below it were charged; without its children's it is the thread's own,
// so every charge is counted once, also one of a request whose answer never came.
import { getOwn, type JsonObject, type Outcome, ok, plainText } from '../../base/index.ts';
import { readStored } from '../../harness/index.ts';
import { formatMoney } from '../../llm/index.ts';
import type { Runtime } from '../../runtime/index.ts';
import type { Store, ThreadSummary } from '../../store/index.ts';
import { asText, type CommandRun } from '../command.ts';
import { type Terminal, visible } from '../terminal/terminal.ts';
import { allThreads, withRegistry } from '../threads/open-threads.ts';
import { count } from '../threads/words.ts';
import { parseAge } from './threads/prune.ts';

interface Charge {
  thread: ThreadSummary;
  spend: bigint;
  tokens: bigint;
  models: string;
}

/** Of the models that were asked, those that were paid; several are paid together. */
async function modelsOf(store: Store, thread: string): Promise<string> {
  const events = await readStored(store, thread);
  const all = events.ok ? events.output : [];
  const paid = all.flatMap(({ type, data }) => {
    if (type === 'turn_end') return [plainText(getOwn(data.charged, 'model'))];
    return type === 'assistant_message' && data.injected !== true ? [plainText(data.model)] : [];
  });
  // Of a request whose answer never came only the question is there.
  const asked = all.flatMap(({ type, data }) =>
    type === 'turn_start' ? [plainText(data.model)] : [],
  );
  const names = paid.some(Boolean) ? paid : asked;
  return [...new Set(names)].filter(Boolean).join(' + ') || 'none';
}

/** A thread's own charges. A child is never older than its parent, so both are in `rows`. */
async function chargesOf(store: Store, rows: readonly ThreadSummary[]): Promise<Outcome<Charge[]>> {
  const budgets = await store.budgets(rows.map(({ id }) => id));
  if (!budgets.ok) return budgets;
  const used = new Map(budgets.output.map((budget) => [budget.thread, budget.used]));
  const own = new Map([...used].map(([id, { spend, tokens }]) => [id, { spend, tokens }]));
  for (const { id, parent } of rows) {
    const [above, below] = [own.get(parent ?? ''), used.get(id)];
    if (!above || !below) continue;
    above.spend -= below.spend;
    above.tokens -= below.tokens;
  }
  const charges: Charge[] = [];
  for (const thread of rows) {
    const { spend, tokens } = own.get(thread.id) ?? { spend: 0n, tokens: 0n };
    const models = tokens > 0n ? await modelsOf(store, thread.id) : 'none';
    charges.push({ thread, spend, tokens, models });
  }
  return ok(charges);
}

const KEYS: Readonly<Record<'directive' | 'model' | 'day', (charge: Charge) => string>> = {
  directive: ({ thread }) => thread.directive,
  model: ({ models }) => models,
  day: ({ thread }) => new Date(thread.created).toISOString().slice(0, 10),
};

function sumOf(charges: readonly Charge[]): JsonObject {
  const [spend, tokens] = charges.reduce(
    ([money, used], charge) => [money + charge.spend, used + charge.tokens],
    [0n, 0n],
  );
  return { threads: charges.length, tokens: Number(tokens), spend: formatMoney(spend) };
}

/** The dearest first; days in their order. */
function groupsOf(charges: readonly Charge[], by: keyof typeof KEYS): JsonObject[] {
  const groups = [...Map.groupBy(charges, KEYS[by])].map(([name, list]) => ({
    [by]: name,
    ...sumOf(list),
  }));
  const key = (group: JsonObject): string => plainText(group[by]);
  return by === 'day'
    ? groups.sort((a, b) => key(a).localeCompare(key(b)))
    : groups.sort((a, b) => Number(b.spend) - Number(a.spend) || key(a).localeCompare(key(b)));
}

type Report = ReturnType<typeof reportOf>;

const reportOf = (list: readonly Charge[], { library }: Runtime) => ({
  currency: plainText(library.config('pricing').value.currency) || 'USD',
  by_directive: groupsOf(list, 'directive'),
  by_model: groupsOf(list, 'model'),
  by_day: groupsOf(list, 'day'),
  total: sumOf(list),
});

function show({ currency, total, ...groups }: Report, terminal: Terminal): void {
  const line = (name: string, { threads, tokens, spend }: JsonObject): string =>
    `${plainText(spend).padStart(14)} ${currency} ${count(tokens).padStart(12)} tokens ${count(threads).padStart(6)} threads  ${visible(name)}`;
  for (const [title, list] of Object.entries(groups)) {
    const by = title.slice(3);
    terminal.out(terminal.paint('bold', `by ${by}`));
    for (const group of list) terminal.out(line(plainText(group[by]), group));
  }
  terminal.out(terminal.paint('bold', line('in all', total)));
}

export const run: CommandRun = async (call) => {
  const { options, terminal } = call;
  const age = parseAge('since', asText(options.since) ?? '30d');
  if (!age.ok) return age;
  return await withRegistry(
    call,
    async ({ store, runtime }) => {
      const since = Date.now() - age.output;
      // Newest first, until they are older.
      const rows = await allThreads(store, {}, ({ created }) => created >= since);
      const charges = rows.ok ? await chargesOf(store, rows.output) : rows;
      if (!charges.ok) return charges;
      return terminal.finish(ok(reportOf(charges.output, runtime)), (shown) =>
        show(shown, terminal),
      );
    },
    (runtime) => reportOf([], runtime),
  );
};
