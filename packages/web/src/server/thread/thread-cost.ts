// What a thread cost, request by request, and what its hooks and children did: each charge once, with the
// one that caused it.
import { getOwn, type JsonObject, type Outcome, ok } from '@kernmantle/core/base';
import { decode } from '@kernmantle/core/journal';
import type { Store, StoredEvent, ThreadRow, ThreadSummary } from '@kernmantle/core/store';
import type { ThreadCostView } from '../../model/api.ts';

type Turn = ThreadCostView['turns'][number];
type Other = ThreadCostView['children'][number];

const PAGE = 500;
const EVENTS = 2000;

const figure = (cost: JsonObject, name: string): number => {
  const value = Number(getOwn(cost, name) ?? 0);
  return Number.isFinite(value) ? value : 0;
};

/** A request that was answered; what the harness put in is none. */
function turnOf(stored: StoredEvent): Turn[] {
  const read = decode(stored);
  const event = read.ok ? read.output : undefined;
  if (event?.type !== 'assistant_message' || event.data.injected) return [];
  const { turn, seq, ts, data } = event;
  const { model, price_row, usage, spend } = data;
  return [
    {
      turn,
      seq,
      ts,
      model,
      price_row,
      input: usage.input_tokens,
      cached: usage.cache_read_tokens,
      output: usage.output_tokens,
      spend: Number(spend),
      estimated: usage.estimated,
    },
  ];
}

const otherOf = ({ id, directive, cost }: ThreadSummary): Other => ({
  thread: id,
  directive,
  spend: figure(cost, 'spend'),
  tokens: figure(cost, 'tokens'),
});

export async function threadCost(store: Store, row: ThreadRow): Promise<Outcome<ThreadCostView>> {
  const turns: Turn[] = [];
  for (let after = 0; ; ) {
    const page = await store.read(row.id, { after, limit: EVENTS, types: ['assistant_message'] });
    if (!page.ok) return page;
    const last = page.output.at(-1);
    if (!last) break;
    turns.push(...page.output.flatMap(turnOf));
    after = last.seq;
  }
  const below = await store.query({ parent: row.id, limit: PAGE, direction: 'asc' });
  if (!below.ok) return below;
  const { rows } = below.output;
  return ok({
    turns,
    hooks: rows.filter(({ kind }) => kind === 'hook').map(otherOf),
    children: rows.filter(({ kind }) => kind === 'thread').map(otherOf),
    total: { spend: figure(row.cost, 'spend'), tokens: figure(row.cost, 'tokens') },
  });
}
