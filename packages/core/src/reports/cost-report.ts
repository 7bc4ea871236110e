// What threads cost, by directive, model and day. How much is told by the budgets of the registry: a budget
// holds what a thread and all below it were charged; without its children's it is the thread's own, so
// every charge is counted once, also one of a request whose answer never came. Whom it was paid to is told
// by the journal, read once for every thread that has ended.
import { getOwn, isObject, type Json, type Outcome, ok, plainText } from '../base/index.ts';
import { formatMoney, parseMoney } from '../llm/index.ts';
import type { Runtime } from '../runtime/index.ts';
import { type EventFields, isEnded, type SpentThread, type Store } from '../store/index.ts';

/** What a group came to. Amounts that were not told by a provider are `estimated`. */
export interface CostSum {
  readonly threads: number;
  readonly tokens: number;
  readonly spend: string;
  readonly denied: number;
  /** Threads that ended at a limit. */
  readonly at_limit: number;
  readonly requests: number;
  /** Without what was read from a cache. */
  readonly input: number;
  readonly cached: number;
  readonly output: number;
  readonly estimated?: true;
}

export interface CostFigures {
  readonly currency: string;
  /** Milliseconds since 1970. */
  readonly since: number;
  /** The dearest first. `kind`: runs of it as a hook stand by themselves. */
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

interface ModelCost {
  requests: number;
  input: number;
  cached: number;
  output: number;
  tokens: number;
  /** Nano-units. */
  spend: bigint;
  estimated: boolean;
  row: string;
}

/** What a journal tells of a thread's own requests. */
interface Facts {
  readonly parts: ReadonlyMap<string, Readonly<ModelCost>>;
  /** The model that was asked last: what nobody answered was asked of it. */
  readonly asked: string;
  readonly denied: number;
}

interface Charge {
  readonly thread: SpentThread;
  readonly spend: bigint;
  readonly tokens: number;
  readonly denied: number;
  readonly parts: ReadonlyMap<string, Readonly<ModelCost>>;
}

/** Charges of a journal that names no model. */
const UNKNOWN = 'not recorded';
const NO_PARTS: ReadonlyMap<string, Readonly<ModelCost>> = new Map();
const NO_FACTS: Facts = { parts: NO_PARTS, asked: '', denied: 0 };
const DAY_MS = 24 * 60 * 60 * 1000;
/** So many journals are read at a time. */
const PAGE = 200;
const emptyPart = (): ModelCost => ({
  requests: 0,
  input: 0,
  cached: 0,
  output: 0,
  tokens: 0,
  spend: 0n,
  estimated: false,
  row: '',
});

const numberIn = (value: Json | undefined): number => Number(value) || 0;

function moneyIn(value: Json | undefined): bigint {
  const read = parseMoney(plainText(value));
  return read.ok ? read.output : 0n;
}

/** Fields of the usage of a request, in the order in which `countRequest` takes their values. */
const USAGE = [
  'input_tokens',
  'cache_write_tokens',
  'cache_read_tokens',
  'output_tokens',
  'tokens',
  'estimated',
];

/** Adds a reply, or the charge for a request without one. */
function countRequest(
  part: ModelCost,
  spend: Json | undefined,
  row: Json | undefined,
  usage: readonly (Json | undefined)[],
): void {
  const [input, written, cached, output, tokens, estimated] = usage;
  part.requests += 1;
  part.input += numberIn(input) + numberIn(written);
  part.cached += numberIn(cached);
  part.output += numberIn(output);
  part.tokens += numberIn(tokens);
  part.spend += moneyIn(spend);
  part.estimated ||= estimated === true;
  part.row = plainText(row) || part.row;
}

/** Fields of a reply before those of its usage. */
const REPLY = ['model', 'spend', 'price_row', 'injected', 'apart'];
/** All that is asked of a journal; what was said and done is not read. */
const UNPAID = { permission_denied: [] };
const PAID = {
  ...UNPAID,
  turn_start: [['model']],
  assistant_message: [...REPLY.map((name) => [name]), ...USAGE.map((name) => ['usage', name])],
  turn_end: [['charged']],
};

function factsIn(events: readonly EventFields[]): Facts {
  const parts = new Map<string, ModelCost>();
  const partOf = (model: string): ModelCost => {
    const part = parts.get(model) ?? emptyPart();
    parts.set(model, part);
    return part;
  };
  let [asked, denied, isAnswered] = ['', 0, false];
  for (const { type, values } of events) {
    const [first, spend, row, injected, apart] = values;
    if (type === 'permission_denied') denied += 1;
    if (type === 'turn_start') [asked, isAnswered] = [plainText(first), false];
    if (type === 'assistant_message' && injected !== true) {
      countRequest(partOf(plainText(first)), spend, row, values.slice(REPLY.length));
      isAnswered ||= apart !== true;
    }
    // Of a reply that stands there the reply tells it.
    if (type !== 'turn_end' || isAnswered || !isObject(first)) continue;
    const part = partOf(plainText(first.model));
    const usage = USAGE.map((name) => getOwn(first, name));
    countRequest(part, first.spend, first.price_row, usage);
    part.estimated = true;
  }
  return { parts, asked, denied };
}

/** Journals that do not change any more; the oldest entry goes first. */
const known = new WeakMap<Store, Map<string, { readonly seq: number; readonly facts: Facts }>>();
const MAX_KNOWN = 50_000;

/** The facts of these threads, in their order. Those without charges asked no model: their denials count. */
async function readFacts(
  store: Store,
  threads: readonly SpentThread[],
  wanted: Parameters<Store['fieldsOf']>[1],
): Promise<Outcome<Map<string, Facts>>> {
  const cache = known.get(store) ?? new Map<string, { seq: number; facts: Facts }>();
  known.set(store, cache);
  const found = new Map<string, Facts>();
  const unread = threads.filter(({ id, seq }) => {
    const kept = cache.get(id);
    if (kept?.seq === seq) found.set(id, kept.facts);
    return kept?.seq !== seq;
  });
  for (let from = 0; from < unread.length; from += PAGE) {
    const some = unread.slice(from, from + PAGE);
    const read = await store.fieldsOf(
      some.map(({ id }) => id),
      wanted,
    );
    if (!read.ok) return read;
    for (const [at, { id, seq, status }] of some.entries()) {
      const facts = factsIn(read.output[at] ?? []);
      found.set(id, facts);
      if (!isEnded(status)) continue;
      if (cache.size >= MAX_KNOWN) cache.delete(cache.keys().next().value ?? '');
      cache.set(id, { seq, facts });
    }
  }
  return ok(found);
}

/** What no event tells of was paid to the model that was asked last; so the parts make up the whole. */
function wholeParts(
  { parts, asked }: Facts,
  own: { spend: bigint; tokens: number },
): ReadonlyMap<string, Readonly<ModelCost>> {
  // A script, or a provider that refused: no model took anything.
  if (own.tokens === 0 && own.spend === 0n) return NO_PARTS;
  const told = [...parts.values()];
  const spend = told.reduce((left, part) => left - part.spend, own.spend);
  const tokens = told.reduce((left, part) => left - part.tokens, own.tokens);
  if (spend === 0n && tokens === 0) return parts;
  const model = asked || [...parts.keys()].at(-1) || UNKNOWN;
  const part = parts.get(model) ?? emptyPart();
  const rest = { ...part, spend: part.spend + spend, tokens: part.tokens + tokens };
  // A request that nobody answered is charged its worst case.
  const requests = tokens > 0 ? part.requests + 1 : part.requests;
  return new Map([...parts, [model, { ...rest, requests, estimated: true }]]);
}

/** A thread's own charges. A child is never older than its parent, so both are in `rows`. */
async function chargesOf(store: Store, rows: readonly SpentThread[]): Promise<Outcome<Charge[]>> {
  const own = new Map(rows.map(({ id, used }) => [id, { ...used }]));
  for (const { parent, used } of rows) {
    const above = own.get(parent ?? '');
    if (!above) continue;
    above.spend -= used.spend;
    above.tokens -= used.tokens;
  }
  const isPaid = ({ id }: SpentThread): boolean => (own.get(id)?.tokens ?? 0n) > 0n;
  const paid = await readFacts(store, rows.filter(isPaid), PAID);
  if (!paid.ok) return paid;
  const free = rows.filter((row) => !isPaid(row));
  const unpaid = await readFacts(store, free, UNPAID);
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
  let [spend, estimated] = [0n, false];
  for (const charge of charges) {
    spend += charge.spend;
    sum.tokens += charge.tokens;
    sum.denied += charge.denied;
    if (charge.thread.status === 'limit') sum.at_limit += 1;
    for (const part of charge.parts.values()) {
      for (const name of ['requests', 'input', 'cached', 'output'] as const)
        sum[name] += part[name];
      estimated ||= part.estimated;
    }
  }
  const rest = estimated ? { estimated } : {};
  return { threads: charges.length, ...sum, spend: formatMoney(spend), ...rest };
}

const byPrice = (a: { spend: string }, b: { spend: string }): number =>
  Number(b.spend) - Number(a.spend);

/** The part of each thread that one model had, as a charge of its own. */
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
      // Newest first: the price of today.
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

/** What threads that began since then cost; without a store nothing ran. */
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
