// `threads ls`: the registry as a table, newest first, a page at a time.
import { fail, type Outcome, ok, plainText } from '../../../base/index.ts';
import type { Store, ThreadFilter, ThreadStatus, ThreadSummary } from '../../../store/index.ts';
import { asText, type CommandCall, type CommandRun } from '../../command.ts';
import { type Terminal, visible } from '../../terminal/terminal.ts';
import { countOption, findThread, withRegistry } from '../../threads/open-threads.ts';
import { age, count, statusColour } from '../../threads/words.ts';

function filterOf({ options }: CommandCall): Outcome<ThreadFilter> {
  const limit = countOption(options, 'limit');
  if (!limit.ok) return limit;
  const given = [options.status, options.directive, options.within, options.cursor];
  const [status, directive, within, cursor] = given.map(asText);
  const order = asText(options.order) ?? 'created';
  if (order !== 'created' && order !== 'updated') {
    return fail('usage', `\`--order ${order}\` is neither \`created\` nor \`updated\``);
  }
  return ok({
    order_by: order,
    limit: limit.output ?? 20,
    // The registry says what a status can be when it is none.
    ...(status === undefined ? {} : { status: status.split(',') as ThreadStatus[] }),
    ...(directive === undefined ? {} : { directive }),
    ...(within === undefined ? {} : { within }),
    ...(options.hooks === true ? {} : { kind: 'thread' as const }),
    ...(cursor === undefined ? {} : { cursor }),
  });
}

/** One line a thread; also what `top` shows. */
export function threadLine(row: ThreadSummary, now: number, terminal: Terminal): string {
  const { id, status, cost, created, depth } = row;
  return [
    terminal.paint(statusColour(status), status.padEnd(11)),
    age(now - created).padStart(6),
    count(cost.turns).padStart(5),
    count(cost.tool_calls).padStart(5),
    count(cost.tokens).padStart(9),
    (Number(cost.spend) || 0).toFixed(4).padStart(8),
    ` ${'  '.repeat(Math.min(depth, 5))}${visible(id)}`,
  ].join(' ');
}

export const threadHead = (terminal: Terminal): string =>
  terminal.paint(
    'dim',
    `${'status'.padEnd(11)} ${'age'.padStart(6)} turns calls    tokens    spend  thread`,
  );

export const listThreads: CommandRun = async (call) => {
  const { terminal } = call;
  const filter = filterOf(call);
  if (!filter.ok) return terminal.finish(filter, () => {});
  return await withRegistry(
    call,
    async ({ store, runtime }) => {
      const { directive } = filter.output;
      const found =
        directive === undefined ? undefined : runtime.library.find('directive', directive);
      const page = await store.query({
        ...filter.output,
        // The registry knows the whole id; people may type the name.
        ...(found?.ok ? { directive: found.output.id } : {}),
      });
      return terminal.finish(page, ({ rows, next_cursor }) => {
        if (rows.length === 0) terminal.note('no threads');
        else terminal.out(threadHead(terminal));
        for (const row of rows) terminal.out(threadLine(row, Date.now(), terminal));
        if (next_cursor !== undefined) {
          terminal.note(`more with --cursor ${plainText(next_cursor)}`);
        }
      });
    },
    { nothing: () => ({ rows: [] }) },
  );
};

// `threads tree`: a thread and everything below it, hooks included.

async function everyThread(store: Store, root: string): Promise<Outcome<ThreadSummary[]>> {
  const rows: ThreadSummary[] = [];
  for (let cursor: string | undefined; ; ) {
    const filter = { root, limit: 500, direction: 'asc' as const };
    const page = await store.query(cursor === undefined ? filter : { ...filter, cursor });
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
    const row = await findThread(store, asText(args[0]));
    if (!row.ok) return terminal.finish(row, () => {});
    const { root } = row.output;
    return terminal.finish(await everyThread(store, root), (rows) => draw(rows, root, terminal));
  });
