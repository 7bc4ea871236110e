// The costs of a thread by request, and the costs of its hooks and children. Each charge is counted once.
import { getOwn, type JsonObject, type Outcome, ok } from '@kernmantle/core/base';
import { readRequests } from '@kernmantle/core/journal';
import type { Store, ThreadRow, ThreadSummary } from '@kernmantle/core/store';
import type { ThreadCostView } from '../../model/api.ts';

type Other = ThreadCostView['children'][number];

const PAGE = 500;
const NANO = 1e9;

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
  const paid = await readRequests(store, row.id);
  if (!paid.ok) return paid;
  const turns = paid.output.map(
    ({ turn, seq, ts, model, row: price_row, input, cached, output, spend: nano, estimated }) => {
      const spend = Number(nano) / NANO;
      return { turn, seq, ts, model, price_row, input, cached, output, spend, estimated };
    },
  );
  const summaries = paid.output.reduce((sum, one) => sum + one.summaries, 0n);
  const below = await store.query({ parent: row.id, limit: PAGE, direction: 'asc' });
  if (!below.ok) return below;
  const { rows } = below.output;
  return ok({
    turns,
    hooks: rows.filter(({ kind }) => kind === 'hook').map(otherOf),
    children: rows.filter(({ kind }) => kind === 'thread').map(otherOf),
    total: {
      spend: figure(row.cost, 'spend'),
      tokens: figure(row.cost, 'tokens'),
      ...(summaries > 0n && { summaries: Number(summaries) / NANO }),
    },
  });
}
