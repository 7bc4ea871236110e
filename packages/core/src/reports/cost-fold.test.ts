// The fold that the cost projection replaces. It goes with this test.
import { arbitraryJournal, recordedJournals } from '@kernmantle/test-support/journals';
import { runs } from '@kernmantle/test-support/soak';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { getOwn, isObject, type Json, type JsonObject, plainText } from '../base/index.ts';
import {
  addCosts,
  COST_FIELDS,
  cost,
  paidRequest,
  project,
  type Recorded,
} from '../journal/index.ts';
import { parseMoney } from '../llm/index.ts';
import { type EventFields, valuesAt } from '../store/index.ts';

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

test('the projection and the fold over fields have the sums of the old fold', () => {
  let count = 0;
  const compare = (events: readonly Recorded[]): void => {
    const fields = events.flatMap(({ type, data }) => {
      const paths = COST_FIELDS[type];
      return paths ? [{ type, values: valuesAt(data as JsonObject, paths) }] : [];
    });
    const { parts, asked, denied } = factsIn(fields);
    const before = { models: new Map(parts), lastModel: asked, denied };
    expect(addCosts(cost.initial(), fields)).toMatchObject(before);
    const whole = project(cost, events);
    expect(whole).toMatchObject(before);
    expect(whole.models).toEqual(parts);
    count += parts.size;
    // The old list of requests left out requests without a reply, and input that was written to a cache.
    let state = cost.initial();
    for (const event of events) {
      const paid = paidRequest(state, event);
      state = cost.apply(state, event);
      if (event.type !== 'assistant_message' || event.data.injected) continue;
      const { model, price_row: row, usage, spend } = event.data;
      const input = usage.input_tokens + usage.cache_write_tokens;
      const [cached, output] = [usage.cache_read_tokens, usage.output_tokens];
      expect(paid).toMatchObject({ model, row, input, cached, output, estimated: usage.estimated });
      expect(Number(paid?.spend) / 1e9).toBeCloseTo(Number(spend), 9);
    }
  };
  for (const events of recordedJournals().values()) compare(events);
  fc.assert(fc.property(arbitraryJournal, compare), { numRuns: runs(300) });
  expect(count).toBeGreaterThan(100);
});
