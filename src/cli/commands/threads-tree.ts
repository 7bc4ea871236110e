// `threads tree`: a thread and everything below it, hooks included.
import { type Outcome, ok, plainText } from '../../base/index.ts';
import type { Store, ThreadSummary } from '../../store/index.ts';
import { asText, type CommandRun } from '../command.ts';
import { type Terminal, visible } from '../terminal.ts';
import { findThread, withRegistry } from '../thread-access.ts';
import { count, statusColour } from '../thread-words.ts';

function everyThread(store: Store, root: string): Outcome<ThreadSummary[]> {
  const rows: ThreadSummary[] = [];
  for (let cursor: string | undefined; ; ) {
    const filter = { root, limit: 500, direction: 'asc' as const };
    const page = store.query(cursor === undefined ? filter : { ...filter, cursor });
    if (!page.ok) return page;
    rows.push(...page.output.rows);
    cursor = page.output.next_cursor;
    if (cursor === undefined) return ok(rows);
  }
}

function draw(rows: readonly ThreadSummary[], root: string, terminal: Terminal): void {
  const below = Map.groupBy(rows, ({ parent }) => parent ?? '');
  const line = (row: ThreadSummary, before: string): void => {
    const kind = row.kind === 'hook' ? ' (hook)' : row.detached ? ' (detached)' : '';
    const figures = `${count(row.cost.turns)} turns, ${plainText(row.cost.spend ?? '0.00')}`;
    terminal.out(
      `${terminal.paint('dim', before)}${visible(row.id)} ${terminal.paint(statusColour(row.status), row.status)}${kind} ${terminal.paint('dim', figures)}`,
    );
  };
  const walk = (id: string, indent: string): void => {
    const children = below.get(id) ?? [];
    for (const [index, child] of children.entries()) {
      const isLast = index === children.length - 1;
      line(child, `${indent}${isLast ? '└─ ' : '├─ '}`);
      walk(child.id, `${indent}${isLast ? '   ' : '│  '}`);
    }
  };
  for (const row of rows) if (row.id === root) line(row, '');
  walk(root, '');
}

export const showTree: CommandRun = (call) =>
  withRegistry(call, async ({ store }) => {
    const { args, terminal } = call;
    const row = findThread(store, asText(args[0]));
    if (!row.ok) return terminal.finish(row, () => {});
    const { root } = row.output;
    return terminal.finish(everyThread(store, root), (rows) => draw(rows, root, terminal));
  });
