// The costs of a thread by request, and the costs of its hooks and children. Each charge is counted once.
import { getOwn, type JsonObject, type Outcome, ok } from '@kernmantle/core/base';
import { cost, paidRequest, readableEvents, readStored } from '@kernmantle/core/journal';
import { formatMoney } from '@kernmantle/core/llm';
import type { Store, ThreadRow, ThreadSummary } from '@kernmantle/core/store';
import type { ThreadCostView } from '../../model/api.ts';

type Turn = ThreadCostView['turns'][number];
type Other = ThreadCostView['children'][number];

const PAGE = 500;

const figure = (cost: JsonObject, name: string): number => {
  const value = Number(getOwn(cost, name) ?? 0);
  return Number.isFinite(value) ? value : 0;
};

const otherOf = ({ id, directive, cost }: ThreadSummary): Other => ({
  thread: id,
  directive,
  spend: figure(cost, 'spend'),
  tokens: figure(cost, 'tokens'),
});

export async function threadCost(store: Store, row: ThreadRow): Promise<Outcome<ThreadCostView>> {
  const stored = await readStored(store, row.id, ['turn_start', 'assistant_message', 'turn_end']);
  if (!stored.ok) return stored;
  const turns: Turn[] = [];
  let state = cost.initial();
  for (const event of readableEvents(stored.output)) {
    const paid = paidRequest(state, event);
    state = cost.apply(state, event);
    if (!paid) continue;
    const { model, row: price_row, input, cached, output, estimated } = paid;
    const { turn, seq, ts } = event;
    const spend = Number(formatMoney(paid.spend));
    turns.push({ turn, seq, ts, model, price_row, input, cached, output, spend, estimated });
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
