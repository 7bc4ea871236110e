// The report against a plain one that reads every row, budget and event whole.
import { runs } from '@kernmantle/test-support/soak';
import { sqliteStage } from '@kernmantle/test-support/store-suite/sqlite-stage';
import {
  bear,
  begin,
  must,
  owner,
  type Writer,
  writerOf,
} from '@kernmantle/test-support/store-suite/stage';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { getOwn, isObject, type Json, type JsonObject, plainText } from '../base/index.ts';
import { formatMoney, parseMoney } from '../llm/index.ts';
import type { Runtime } from '../runtime/runtime.ts';
import type { NewEvent, Store, StoredEvent, ThreadSummary } from '../store/index.ts';
import { type CostFigures, costReport } from './cost-report.ts';

interface Part extends Record<'requests' | 'input' | 'cached' | 'output' | 'tokens', number> {
  spend: bigint;
  estimated: boolean;
  row: string;
}

interface Paid {
  thread: ThreadSummary;
  spend: bigint;
  tokens: number;
  denied: number;
  parts: Map<string, Part>;
}

const COUNTS = { requests: 0, input: 0, cached: 0, output: 0, tokens: 0 };
const emptyPart = (): Part => ({ ...COUNTS, spend: 0n, estimated: false, row: '' });

function addRequest(parts: Map<string, Part>, data: JsonObject, usage: Json | undefined): Part {
  const model = plainText(data.model);
  const part = parts.get(model) ?? emptyPart();
  parts.set(model, part);
  const count = (name: string): number => Number(getOwn(usage, name)) || 0;
  const money = parseMoney(plainText(data.spend));
  part.requests += 1;
  part.input += count('input_tokens') + count('cache_write_tokens');
  part.cached += count('cache_read_tokens');
  part.output += count('output_tokens');
  part.tokens += count('tokens');
  part.spend += money.ok ? money.output : 0n;
  part.estimated ||= getOwn(usage, 'estimated') === true;
  part.row = plainText(data.price_row) || part.row;
  return part;
}

function partsOf(events: readonly StoredEvent[], spend: bigint, tokens: number): Map<string, Part> {
  const parts = new Map<string, Part>();
  if (spend === 0n && tokens === 0) return parts;
  let [asked, isAnswered] = ['', false];
  // A thread without tokens of its own asked no model.
  for (const { type, data } of tokens > 0 ? events : []) {
    if (type === 'turn_start') [asked, isAnswered] = [plainText(data.model), false];
    if (type === 'assistant_message' && data.injected !== true) {
      addRequest(parts, data, data.usage);
      isAnswered ||= data.apart !== true;
    }
    if (type === 'turn_end' && !isAnswered && isObject(data.charged)) {
      addRequest(parts, data.charged, data.charged).estimated = true;
    }
  }
  let [leftSpend, leftTokens] = [spend, tokens];
  for (const part of parts.values()) {
    leftSpend -= part.spend;
    leftTokens -= part.tokens;
  }
  if (leftSpend === 0n && leftTokens === 0) return parts;
  const model = asked || [...parts.keys()].at(-1) || 'not recorded';
  const part = parts.get(model) ?? emptyPart();
  parts.set(model, part);
  part.spend += leftSpend;
  part.tokens += leftTokens;
  if (leftTokens > 0) part.requests += 1;
  part.estimated = true;
  return parts;
}

async function everyPaid(store: Store, since: number): Promise<Paid[]> {
  const rows: ThreadSummary[] = [];
  let cursor: string | undefined;
  do {
    const page = must(await store.query({ limit: 3, ...(cursor && { cursor }) }));
    rows.push(...page.rows.filter(({ created }) => created >= since));
    cursor = page.next_cursor;
  } while (cursor);
  const paid: Paid[] = [];
  for (const thread of rows) {
    const below = rows.filter(({ parent }) => parent === thread.id).map(({ id }) => id);
    const [own, ...children] = must(await store.budgets([thread.id, ...below]));
    let [spend, tokens] = [own?.used.spend ?? 0n, own?.used.tokens ?? 0n];
    for (const { used } of children) [spend, tokens] = [spend - used.spend, tokens - used.tokens];
    const events = must(await store.read(thread.id));
    const denied = events.filter(({ type }) => type === 'permission_denied').length;
    const parts = partsOf(events, spend, Number(tokens));
    paid.push({ thread, spend, tokens: Number(tokens), denied, parts });
  }
  return paid;
}

function sumOf(list: readonly Paid[]) {
  const parts = list.flatMap((one) => [...one.parts.values()]);
  const total = (numbers: readonly number[]): number => numbers.reduce((sum, one) => sum + one, 0);
  return {
    threads: list.length,
    tokens: total(list.map(({ tokens }) => tokens)),
    spend: formatMoney(list.reduce((sum, { spend }) => sum + spend, 0n)),
    denied: total(list.map(({ denied }) => denied)),
    at_limit: list.filter(({ thread }) => thread.status === 'limit').length,
    requests: total(parts.map(({ requests }) => requests)),
    input: total(parts.map(({ input }) => input)),
    cached: total(parts.map(({ cached }) => cached)),
    output: total(parts.map(({ output }) => output)),
    ...(parts.some(({ estimated }) => estimated) && { estimated: true as const }),
  };
}

const dearestFirst = <T extends { spend: string }>(list: T[], nameOf: (one: T) => string): T[] =>
  list.sort((a, b) => Number(b.spend) - Number(a.spend) || nameOf(a).localeCompare(nameOf(b)));

function modelsOf(paid: readonly Paid[]) {
  const models = new Set(paid.flatMap(({ parts }) => [...parts.keys()]));
  const rows = [...models].map((model) => {
    const list = paid.flatMap((one) => {
      const part = one.parts.get(model);
      const { spend = 0n, tokens = 0 } = part ?? {};
      return part ? [{ ...one, spend, tokens, parts: new Map([[model, part]]) }] : [];
    });
    const price_row = list.map(({ parts }) => parts.get(model)?.row).find((row) => row);
    return { model, ...sumOf(list), ...(price_row && { price_row }) };
  });
  return dearestFirst(rows, ({ model }) => model);
}

async function plainReport(store: Store, since: number): Promise<CostFigures> {
  const paid = await everyPaid(store, since);
  const byDirective = Map.groupBy(paid, ({ thread }) => `${thread.kind} ${thread.directive}`);
  const directives = [...byDirective].map(([key, list]) => ({
    directive: key.slice(key.indexOf(' ') + 1),
    ...(key.startsWith('hook ') && { kind: 'hook' as const }),
    ...sumOf(list),
  }));
  const dayOf = ({ thread }: Paid): string => new Date(thread.created).toISOString().slice(0, 10);
  const days = [...Map.groupBy(paid, dayOf)].map(([day, list]) => ({
    day,
    ...sumOf(list),
    models: modelsOf(list).map(({ model: name, spend }) => ({ name, spend })),
  }));
  return {
    currency: 'EUR',
    since,
    by_directive: dearestFirst(directives, ({ directive }) => directive),
    by_model: modelsOf(paid),
    by_day: days.sort((a, b) => a.day.localeCompare(b.day)),
    total: sumOf(paid),
  };
}

const odd: fc.Arbitrary<Json> = fc.constantFrom<Json[]>(null, true, 'x', '7', -1, 2.5, [3], {});
const mostly = (usual: fc.Arbitrary<Json>): fc.Arbitrary<Json> =>
  fc.oneof({ weight: 9, arbitrary: usual }, { weight: 1, arbitrary: odd });
const count = mostly(fc.nat(9));
const model = mostly(fc.constantFrom('m', 'n', ''));
const money = mostly(fc.constantFrom('0', '0.001', '0.000000001', '1.5', 'much'));
const usage = {
  input_tokens: count,
  output_tokens: count,
  cache_read_tokens: count,
  cache_write_tokens: count,
  tokens: count,
  estimated: mostly(fc.boolean()),
};
const priced = { model, spend: money, price_row: mostly(fc.constantFrom('row 1', 'row 2')) };
const some = (parts: Record<string, fc.Arbitrary<Json>>): fc.Arbitrary<JsonObject> =>
  fc.record(parts, { requiredKeys: [] }).map((made) => JSON.parse(JSON.stringify(made)));
const ofType = (type: string, data: fc.Arbitrary<JsonObject>): fc.Arbitrary<NewEvent> =>
  data.map((made) => ({ type, data: made }));
const someEvent: fc.Arbitrary<NewEvent> = fc.oneof(
  ofType('turn_start', some({ model })),
  ofType(
    'assistant_message',
    some({ ...priced, usage: mostly(some(usage)), injected: odd, apart: odd, content: odd }),
  ),
  ofType('turn_end', some({ charged: mostly(some({ ...priced, ...usage })), failed: odd })),
  ofType('permission_denied', some({ model })),
  ofType('tool_result', some({ model, usage: odd, charged: odd })),
);
const step = fc.record({
  /** Which of the threads so far is its parent. */
  parent: fc.option(fc.nat(9), { nil: undefined }),
  kind: fc.constantFrom('thread' as const, 'hook' as const),
  directive: fc.constantFrom('a', 'b', 'B'),
  events: fc.array(someEvent, { maxLength: 8 }),
  tokens: fc.nat(30),
  spend: fc.constantFrom(0n, 1n, 1_000_000n, 9_007_199_254_740_993n),
  end: fc.constantFrom('completed' as const, 'limit' as const, undefined),
  pass: fc.constantFrom(0, 1, 50_000_000),
});

const runtime = {
  library: { config: () => ({ value: { currency: 'EUR' } }) },
} as unknown as Runtime;

test('the report is the one that whole rows, budgets and events make', async () => {
  const open = sqliteStage('commit');
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 10 }), fc.nat(9), async (steps, from) => {
      const { store, clock, close } = await open();
      try {
        // Time passes, so each write needs a lease of its own.
        const claim = async (at: number): Promise<Writer> =>
          writerOf(store, must(await store.claim(`t${at}`, owner(), { force: true })));
        const begun: number[] = [];
        for (const [at, made] of steps.entries()) {
          const { kind, directive, events, tokens, spend, parent = at } = made;
          const writer =
            parent < at
              ? await bear(store, await claim(parent), `t${at}`, { kind, directive })
              : await begin(store, `t${at}`, { directive });
          const first: NewEvent = { type: 'note', data: {} };
          const charge = { tokens: BigInt(tokens), spend };
          await writer.must({ events: [first, ...events], charge });
          begun.push(clock.now());
          clock.pass(made.pass);
        }
        for (const [at, { end }] of steps.entries()) {
          if (end) await (await claim(at)).must({ status: end });
        }
        for (const since of [0, begun[from] ?? 1]) {
          const expected = await plainReport(store, since);
          expect(must(await costReport(runtime, store, since))).toEqual(expected);
          // The second report takes from memory what has ended.
          expect(must(await costReport(runtime, store, since))).toEqual(expected);
        }
      } finally {
        await close();
      }
    }),
    { numRuns: runs(25) },
  );
});
