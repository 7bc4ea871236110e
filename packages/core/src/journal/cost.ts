// The costs of a thread by model, from its journal. A charge is counted once: with its reply, or at the end of a turn
// without one.
import { getOwn, isObject, type Json, ok, plainText } from '../base/index.ts';
import { parseMoney } from '../llm/index.ts';
import type { Answer, EventFields, Store, WantedFields } from '../store/index.ts';
import { type Projection, withPart } from './projection.ts';
import { type Recorded, readableEvents, readStored } from './read-journal.ts';

/** Costs of one request, or of all requests to one model. */
interface ModelCost {
  readonly requests: number;
  /** Input without the tokens that were read from a cache. */
  readonly input: number;
  readonly cached: number;
  readonly output: number;
  readonly tokens: number;
  /** Nano-units. */
  readonly spend: bigint;
  /** True if no provider confirmed an amount. */
  readonly estimated: boolean;
  /** The price row of the last request. '': none is recorded. */
  readonly row: string;
}

interface PaidRequest extends ModelCost {
  readonly model: string;
}

export interface CostState {
  readonly seq: number;
  readonly models: ReadonlyMap<string, ModelCost>;
  /** The model of the last request. A charge that no event names belongs to it. */
  readonly lastModel: string;
  readonly denied: number;
  /** The last turn has a reply of its conversation. */
  readonly isAnswered: boolean;
}

/** Fields of a reply before those of its usage. */
const REPLY = ['model', 'spend', 'price_row', 'injected', 'apart'];
/** Fields of the usage, in the order in which `requestOf` takes their values. */
const USAGE = [
  'input_tokens',
  'cache_write_tokens',
  'cache_read_tokens',
  'output_tokens',
  'tokens',
  'estimated',
];

/** Denials alone, for a thread without requests. */
export const DENIAL_FIELDS: WantedFields = { permission_denied: [] };
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
  estimated: false,
  row: '',
};

const numberIn = (value: Json | undefined): number => Number(value) || 0;

function moneyIn(value: Json | undefined): bigint {
  const read = parseMoney(plainText(value));
  return read.ok ? read.output : 0n;
}

function requestOf(
  [model, spend, row]: readonly (Json | undefined)[],
  [input, written, cached, output, tokens, estimated]: readonly (Json | undefined)[],
): PaidRequest {
  return {
    model: plainText(model),
    requests: 1,
    input: numberIn(input) + numberIn(written),
    cached: numberIn(cached),
    output: numberIn(output),
    tokens: numberIn(tokens),
    spend: moneyIn(spend),
    estimated: estimated === true,
    row: plainText(row),
  };
}

/** The request that an event pays. If a turn has no reply, its end has the charge. */
function paidBy(isAnswered: boolean, { type, values }: EventFields): PaidRequest | undefined {
  const [first, , , injected] = values;
  if (type === 'assistant_message') {
    return injected === true ? undefined : requestOf(values, values.slice(REPLY.length));
  }
  if (type !== 'turn_end' || isAnswered || !isObject(first)) return undefined;
  const own = REPLY.map((name) => getOwn(first, name));
  const usage = USAGE.map((name) => getOwn(first, name));
  return { ...requestOf(own, usage), estimated: true };
}

const sumOf = (a: ModelCost, b: ModelCost): ModelCost => ({
  requests: a.requests + b.requests,
  input: a.input + b.input,
  cached: a.cached + b.cached,
  output: a.output + b.output,
  tokens: a.tokens + b.tokens,
  spend: a.spend + b.spend,
  estimated: a.estimated || b.estimated,
  row: b.row || a.row,
});

/** Adds events that were read with `COST_FIELDS`, in the order of their journal. */
export function addCosts(state: CostState, events: Iterable<EventFields>): CostState {
  let { models, lastModel, denied, isAnswered } = state;
  for (const event of events) {
    const { type, values } = event;
    if (type === 'permission_denied') denied += 1;
    if (type === 'turn_start') [lastModel, isAnswered] = [plainText(values[0]), false];
    const paid = paidBy(isAnswered, event);
    if (!paid) continue;
    const { model, ...request } = paid;
    models = new Map(models).set(model, sumOf(models.get(model) ?? NO_COST, request));
    if (type === 'assistant_message') isAnswered ||= values[4] !== true;
  }
  return withPart(state, { models, lastModel, denied, isAnswered });
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
    const next = addCosts(state, [fieldsIn(event)]);
    return next === state ? state : { ...next, seq: event.seq };
  },
};

type PaidEvent = PaidRequest & Pick<Recorded, 'turn' | 'seq' | 'ts'>;

/** The requests of a thread, with the places of the events that pay them. */
export async function readRequests(
  store: Pick<Store, 'read'>,
  thread: string,
): Answer<PaidEvent[]> {
  const types = ['turn_start', 'assistant_message', 'turn_end'] as const;
  const stored = await readStored(store, thread, types);
  if (!stored.ok) return stored;
  let state = cost.initial();
  const requests = readableEvents(stored.output).flatMap((event) => {
    const { turn, seq, ts } = event;
    const paid = paidBy(state.isAnswered, fieldsIn(event));
    state = cost.apply(state, event);
    return paid ? [{ ...paid, turn, seq, ts }] : [];
  });
  return ok(requests);
}
