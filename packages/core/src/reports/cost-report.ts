// Sums the costs of threads by directive, model and day. The budgets of the registry have the amounts: the budget
// of a thread minus the budgets of its children is its own cost, so each charge is counted once, even without a
// reply. The journal has the models. The journal of an ended thread is read once.
import { type Outcome, ok, plainText } from '../base/index.ts';
import {
  addCosts,
  COST_FIELDS,
  type CostState,
  cost,
  DENIAL_FIELDS,
  NO_COST,
} from '../journal/index.ts';
import { formatMoney } from '../llm/index.ts';
import type { Runtime } from '../runtime/index.ts';
import { isEnded, type SpentThread, type Store } from '../store/index.ts';

/** Sums of a group of threads. `estimated`: a provider did not confirm all amounts. */
export interface CostSum {
  readonly threads: number;
  readonly tokens: number;
  readonly spend: string;
  readonly denied: number;
  /** Threads that ended at a limit. */
  readonly at_limit: number;
  readonly requests: number;
  /** Input without the tokens that were read from a cache. */
  readonly input: number;
  readonly cached: number;
  readonly output: number;
  /** The part of `spend` for summaries of long conversations. Absent: none. */
  readonly summaries?: string;
  readonly estimated?: true;
}

export interface CostFigures {
  readonly currency: string;
  /** Start of the report in milliseconds since 1970. */
  readonly since: number;
  /** Sums by directive, highest spend first. `kind`: runs of the directive as a hook are a separate entry. */
  readonly by_directive: readonly (CostSum & {
    readonly directive: string;
    readonly kind?: 'hook';
  })[];
  readonly by_model: readonly (CostSum & { readonly model: string; readonly price_row?: string })[];
  readonly by_day: readonly (CostSum & {
    readonly day: string;
    readonly models: readonly { readonly name: string; readonly spend: string }[];
  })[];
  readonly total: CostSum;
}

interface Charge {
  readonly thread: SpentThread;
  readonly spend: bigint;
  readonly tokens: number;
  readonly denied: number;
  readonly parts: CostState['models'];
}

/** Name for charges without a model in the journal. */
const UNKNOWN = 'not recorded';
const NO_FACTS = cost.initial();
const DAY_MS = 24 * 60 * 60 * 1000;
/** Number of journals that one query reads. */
const PAGE = 200;

/** Cache of the costs of ended threads. The oldest entry is dropped first. */
const caches = new WeakMap<
  Store,
  Map<string, { readonly seq: number; readonly facts: CostState }>
>();
const MAX_CACHED = 50_000;

/** Returns the costs in the journals of these threads, by thread. */
async function readFacts(
  store: Store,
  threads: readonly SpentThread[],
  wanted: Parameters<Store['fieldsOf']>[1],
): Promise<Outcome<Map<string, CostState>>> {
  const cache = caches.get(store) ?? new Map<string, { seq: number; facts: CostState }>();
  caches.set(store, cache);
  const results = new Map<string, CostState>();
  const unread = threads.filter(({ id, seq }) => {
    const entry = cache.get(id);
    if (entry?.seq === seq) results.set(id, entry.facts);
    return entry?.seq !== seq;
  });
  for (let from = 0; from < unread.length; from += PAGE) {
    const some = unread.slice(from, from + PAGE);
    const read = await store.fieldsOf(
      some.map(({ id }) => id),
      wanted,
    );
    if (!read.ok) return read;
    for (const [at, { id, seq, status }] of some.entries()) {
      const facts = addCosts(NO_FACTS, read.output[at] ?? []);
      results.set(id, facts);
      if (!isEnded(status)) continue;
      if (cache.size >= MAX_CACHED) cache.delete(cache.keys().next().value ?? '');
      cache.set(id, { seq, facts });
    }
  }
  return ok(results);
}

/** Returns costs by model. Charges without an event belong to the last model, so the sum is complete. */
function wholeParts(
  { models: parts, lastModel }: CostState,
  own: { spend: bigint; tokens: number },
): Charge['parts'] {
  // The thread ran a script, or its provider refused all requests.
  if (own.tokens === 0 && own.spend === 0n) return NO_FACTS.models;
  const sums = [...parts.values()];
  const spend = sums.reduce((amount, part) => amount - part.spend, own.spend);
  const tokens = sums.reduce((amount, part) => amount - part.tokens, own.tokens);
  if (spend === 0n && tokens === 0) return parts;
  const model = lastModel || [...parts.keys()].at(-1) || UNKNOWN;
  const part = parts.get(model) ?? NO_COST;
  const rest = { ...part, spend: part.spend + spend, tokens: part.tokens + tokens };
  // A request without a reply is charged its worst case.
  const requests = tokens > 0 ? part.requests + 1 : part.requests;
  return new Map([...parts, [model, { ...rest, requests, estimated: true }]]);
}

/** Returns the own charges of each thread. A child is not older than its parent, so `rows` has both. */
async function chargesOf(store: Store, rows: readonly SpentThread[]): Promise<Outcome<Charge[]>> {
  const own = new Map(rows.map(({ id, used }) => [id, { ...used }]));
  for (const { parent, used } of rows) {
    const above = own.get(parent ?? '');
    if (!above) continue;
    above.spend -= used.spend;
    above.tokens -= used.tokens;
  }
  const isPaid = ({ id }: SpentThread): boolean => (own.get(id)?.tokens ?? 0n) > 0n;
  const paid = await readFacts(store, rows.filter(isPaid), COST_FIELDS);
  if (!paid.ok) return paid;
  const free = rows.filter((row) => !isPaid(row));
  // A thread without charges made no request, but it can have denied calls.
  const unpaid = await readFacts(store, free, DENIAL_FIELDS);
  if (!unpaid.ok) return unpaid;
  return ok(
    rows.map((thread): Charge => {
      const { id } = thread;
      const { spend, tokens } = own.get(id) ?? { spend: 0n, tokens: 0n };
      const facts = paid.output.get(id) ?? unpaid.output.get(id) ?? NO_FACTS;
      const amounts = { spend, tokens: Number(tokens) };
      return { thread, ...amounts, denied: facts.denied, parts: wholeParts(facts, amounts) };
    }),
  );
}

function sumOf(charges: readonly Charge[]): CostSum {
  const sum = { tokens: 0, denied: 0, at_limit: 0, requests: 0, input: 0, cached: 0, output: 0 };
  let [spend, summaries, estimated] = [0n, 0n, false];
  for (const charge of charges) {
    spend += charge.spend;
    sum.tokens += charge.tokens;
    sum.denied += charge.denied;
    if (charge.thread.status === 'limit') sum.at_limit += 1;
    for (const part of charge.parts.values()) {
      for (const name of ['requests', 'input', 'cached', 'output'] as const)
        sum[name] += part[name];
      summaries += part.summaries;
      estimated ||= part.estimated;
    }
  }
  const rest = {
    ...(summaries > 0n && { summaries: formatMoney(summaries) }),
    ...(estimated && { estimated }),
  };
  return { threads: charges.length, ...sum, spend: formatMoney(spend), ...rest };
}

const byPrice = (a: { spend: string }, b: { spend: string }): number =>
  Number(b.spend) - Number(a.spend);

/** Sums charges by model. Each model of a thread is a separate charge. */
function byModel(charges: readonly Charge[]): CostFigures['by_model'] {
  const split = charges.flatMap((charge) =>
    [...charge.parts].map(([model, part]) => ({ model, row: part.row, charge, part })),
  );
  return [...Map.groupBy(split, ({ model }) => model)]
    .map(([model, list]) => {
      const sum = sumOf(
        list.map(({ charge, part: { spend, tokens }, part }) => {
          return { ...charge, spend, tokens, parts: new Map([[model, part]]) };
        }),
      );
      // The newest thread is first, so this is the latest price.
      const price_row = list.find(({ row }) => row !== '')?.row;
      return { model, ...sum, ...(price_row !== undefined && { price_row }) };
    })
    .sort((a, b) => byPrice(a, b) || a.model.localeCompare(b.model));
}

function byDirective(charges: readonly Charge[]): CostFigures['by_directive'] {
  const groups = Map.groupBy(charges, ({ thread }) => `${thread.kind} ${thread.directive}`);
  return [...groups.values()]
    .map((list) => {
      const { directive = '', kind } = list[0]?.thread ?? {};
      return { directive, ...(kind === 'hook' && { kind }), ...sumOf(list) };
    })
    .sort((a, b) => byPrice(a, b) || a.directive.localeCompare(b.directive));
}

function byDay(charges: readonly Charge[]): CostFigures['by_day'] {
  return [...Map.groupBy(charges, ({ thread }) => Math.floor(thread.created / DAY_MS))]
    .map(([number, list]) => {
      const day = new Date(number * DAY_MS).toISOString().slice(0, 10);
      const models = byModel(list).map(({ model: name, spend }) => ({ name, spend }));
      return { day, ...sumOf(list), models };
    })
    .sort((a, b) => a.day.localeCompare(b.day));
}

/** Returns the costs of threads that started since a time. Without a store the report is empty. */
export async function costReport(
  { library }: Pick<Runtime, 'library'>,
  store: Store | undefined,
  since: number,
): Promise<Outcome<CostFigures>> {
  const rows = store ? await store.spent(since) : ok([]);
  const list = rows.ok && store ? await chargesOf(store, rows.output) : rows.ok ? ok([]) : rows;
  if (!list.ok) return list;
  return ok({
    currency: plainText(library.config('pricing').value.currency) || 'USD',
    since,
    by_directive: byDirective(list.output),
    by_model: byModel(list.output),
    by_day: byDay(list.output),
    total: sumOf(list.output),
  });
}
