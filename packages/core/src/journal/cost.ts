// Computes the costs of a thread by model, from its journal. A charge is counted once: with its reply, or at the end
// of a turn without a reply.
import { getOwn, isObject, type Json, ok, plainText } from '../base/index.ts';
import { parseMoney } from '../llm/index.ts';
import type { Answer, EventFields, Store, WantedFields } from '../store/index.ts';
import { type Projection, withPart } from './projection.ts';
import { ownEvents, type Recorded, readableEvents, readStored } from './read-journal.ts';

/** Costs of one request, or of all requests to one model. */
interface ModelCost {
  readonly requests: number;
  /** Input without the tokens that were read from a cache. */
  readonly input: number;
  readonly cached: number;
  readonly output: number;
  readonly tokens: number;
  /** Money in nano-units of the currency. */
  readonly spend: bigint;
  /** The part of `spend` for summaries that made room in the context window. */
  readonly summaries: bigint;
  /** True if an amount is an estimate that no provider has confirmed. */
  readonly estimated: boolean;
  /** Price row of the last request. '': no price row is recorded. */
  readonly row: string;
}

export interface CostState {
  readonly seq: number;
  readonly models: ReadonlyMap<string, ModelCost>;
  /** Model of the last request. A charge without a model belongs to it. */
  readonly lastModel: string;
  readonly denied: number;
  /** True if the last turn has a reply of its conversation. */
  readonly isAnswered: boolean;
}

/** Fields of a reply before those of its usage. */
const REPLY = ['model', 'spend', 'price_row', 'injected', 'apart', 'compact'];
/** Fields of the usage, in the order in which `addRequest` takes their values. */
const USAGE = [
  'input_tokens',
  'cache_write_tokens',
  'cache_read_tokens',
  'output_tokens',
  'tokens',
  'estimated',
];

/** Fields for denials only, for a thread without requests. */
export const DENIAL_FIELDS: WantedFields = { permission_denied: [], fork: [] };
/** All fields that the projection reads. `Store.fieldsOf` reads them without the rest of the journal. */
export const COST_FIELDS: WantedFields = {
  ...DENIAL_FIELDS,
  turn_start: [['model']],
  assistant_message: [...REPLY.map((name) => [name]), ...USAGE.map((name) => ['usage', name])],
  turn_end: [['charged']],
};

export const NO_COST: ModelCost = {
  requests: 0,
  input: 0,
  cached: 0,
  output: 0,
  tokens: 0,
  spend: 0n,
  summaries: 0n,
  estimated: false,
  row: '',
};

const numberIn = (value: Json | undefined): number => Number(value) || 0;

function moneyIn(value: Json | undefined): bigint {
  const read = parseMoney(plainText(value));
  return read.ok ? read.output : 0n;
}

type Sums = { -readonly [name in keyof ModelCost]: ModelCost[name] };

function addRequest(
  sums: Sums,
  spend: Json | undefined,
  row: Json | undefined,
  usage: readonly (Json | undefined)[],
): void {
  const [input, written, cached, output, tokens, estimated] = usage;
  sums.requests += 1;
  sums.input += numberIn(input) + numberIn(written);
  sums.cached += numberIn(cached);
  sums.output += numberIn(output);
  sums.tokens += numberIn(tokens);
  sums.spend += moneyIn(spend);
  sums.estimated ||= estimated === true;
  sums.row = plainText(row) || sums.row;
}

/** Adds events that were read with `COST_FIELDS`, in the order of their journal. */
export function addCosts(state: CostState, events: Iterable<EventFields>): CostState {
  let models: Map<string, Sums> | undefined;
  let { lastModel, denied, isAnswered } = state;
  // The sums are copied at the first request, because the state is immutable.
  const sumsOf = (model: string): Sums => {
    models ??= new Map(Array.from(state.models, ([name, sums]) => [name, { ...sums }]));
    const sums = models.get(model) ?? { ...NO_COST };
    models.set(model, sums);
    return sums;
  };
  for (const { type, values } of events) {
    const [first, spend, row, injected, apart, compact] = values;
    // The source has paid for the copied events.
    if (type === 'fork') [models, denied] = [new Map(), 0];
    if (type === 'permission_denied') denied += 1;
    if (type === 'turn_start') [lastModel, isAnswered] = [plainText(first), false];
    if (type === 'assistant_message' && injected !== true) {
      const sums = sumsOf(plainText(first));
      addRequest(sums, spend, row, values.slice(REPLY.length));
      if (typeof compact === 'number') sums.summaries += moneyIn(spend);
      isAnswered ||= apart !== true;
    }
    // If the turn has a reply, the reply has the charge.
    if (type !== 'turn_end' || isAnswered || !isObject(first)) continue;
    const sums = sumsOf(plainText(first['model']));
    const usage = USAGE.map((name) => getOwn(first, name));
    addRequest(sums, first['spend'], first['price_row'], usage);
    sums.estimated = true;
  }
  return { ...state, models: models ?? state.models, lastModel, denied, isAnswered };
}

const fieldsIn = ({ type, data }: Recorded): EventFields => {
  const values = (COST_FIELDS[type] ?? []).map(
    ([first = '', ...rest]) => rest.reduce<Json | undefined>(getOwn, getOwn(data, first)) ?? null,
  );
  return { type, values };
};

export const cost: Projection<CostState> = {
  name: 'cost',
  initial: () => ({ seq: 0, models: new Map(), lastModel: '', denied: 0, isAnswered: false }),
  apply(state, event) {
    if (event.seq <= state.seq) return state;
    const next = withPart(state, addCosts(state, [fieldsIn(event)]));
    return next === state ? state : { ...next, seq: event.seq };
  },
};

type PaidEvent = ModelCost & Pick<Recorded, 'turn' | 'seq' | 'ts'> & { readonly model: string };

/** Returns the requests of a thread, each with the position of the event that has its charge. */
export async function readRequests(
  store: Pick<Store, 'read'>,
  thread: string,
): Answer<PaidEvent[]> {
  const types = ['fork', 'turn_start', 'assistant_message', 'turn_end'] as const;
  const stored = await readStored(store, thread, types);
  if (!stored.ok) return stored;
  let { isAnswered } = cost.initial();
  const requests = ownEvents(readableEvents(stored.output)).flatMap((event) => {
    const { turn, seq, ts } = event;
    const one = addCosts({ ...cost.initial(), isAnswered }, [fieldsIn(event)]);
    isAnswered = one.isAnswered;
    return Array.from(one.models, ([model, sums]) => ({ ...sums, model, turn, seq, ts }));
  });
  return ok(requests);
}
