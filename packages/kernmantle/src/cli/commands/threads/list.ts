// Implements `threads ls` and `threads tree`: the registry as a table in pages, newest first, or one tree.
import { compact, fail, type Outcome, ok, plainText } from '@kernmantle/core/base';
import { allThreads } from '@kernmantle/core/runtime';
import type { ThreadFilter, ThreadStatus, ThreadSummary } from '@kernmantle/core/store';
import { asText, type CommandCall, type CommandRun } from '../../command.ts';
import { type Terminal, visible } from '../../terminal/terminal.ts';
import { countOption, withRegistry, withThread } from '../../threads/open-threads.ts';
import { age, count, statusColour } from '../../threads/status-text.ts';

function filterOf({ options }: CommandCall): Outcome<ThreadFilter> {
  const limit = countOption(options, 'limit');
  if (!limit.ok) return limit;
  const { status: statuses, directive: name, within: above, cursor: place, search: text } = options;
  const [status, directive, within, cursor, search] = [statuses, name, above, place, text].map(
    asText,
  );
  const order = asText(options.order) ?? 'created';
  if (order !== 'created' && order !== 'updated') {
    return fail('usage', `\`--order ${order}\` must be \`created\` or \`updated\``);
  }
  const filter = compact<ThreadFilter>({
    order_by: order,
    limit: limit.output ?? 20,
    // The registry refuses an invalid status and lists the valid ones.
    status: status?.split(',') as ThreadStatus[] | undefined,
    directive,
    within,
    search,
    kind: options.hooks === true ? undefined : 'thread',
    cursor,
  });
  return ok(filter);
}

/** Returns the line of one thread. */
function threadLine(row: ThreadSummary, now: number, terminal: Terminal): string {
  const { id, status, cost, created, depth, title } = row;
  const about = title === undefined ? '' : `  ${terminal.paint('dim', visible(title))}`;
  return [
    terminal.paint(statusColour(status), status.padEnd(11)),
    age(now - created).padStart(6),
    count(cost.turns).padStart(5),
    count(cost.tool_calls).padStart(5),
    count(cost.tokens).padStart(9),
    (Number(cost.spend) || 0).toFixed(4).padStart(8),
    ` ${'  '.repeat(Math.min(depth, 5))}${visible(id)}${about}`,
  ].join(' ');
}

const threadHead = (terminal: Terminal): string =>
  terminal.paint(
    'dim',
    `${'status'.padEnd(11)} ${'age'.padStart(6)} turns calls    tokens    spend  thread`,
  );

export const listThreads: CommandRun = async (call) => {
  const { terminal } = call;
  const filter = filterOf(call);
  if (!filter.ok) return filter;
  return await withRegistry(
    call,
    async ({ store, runtime }) => {
      const { directive } = filter.output;
      // The registry contains whole ids, but a person can use the name.
      const item =
        directive === undefined ? undefined : runtime.library.find('directive', directive);
      const named = item?.ok ? { directive: item.output.id } : {};
      const page = await store.query({ ...filter.output, ...named });
      return terminal.finish(page, ({ rows, next_cursor }) => {
        if (rows.length === 0) terminal.note('no threads');
        else terminal.out(threadHead(terminal));
        for (const row of rows) terminal.out(threadLine(row, Date.now(), terminal));
        if (next_cursor !== undefined) terminal.note(`more with --cursor ${next_cursor}`);
      });
    },
    () => ({ rows: [] }),
  );
};

function draw(rows: readonly ThreadSummary[], root: string, terminal: Terminal): void {
  const below = Map.groupBy(rows, ({ parent }) => parent ?? '');
  const line = (row: ThreadSummary, before: string): void => {
    const kind = row.kind === 'hook' ? ' (hook)' : row.detached ? ' (detached)' : '';
    const figures = `${count(row.cost.turns)} turns, ${plainText(row.cost.spend ?? '0.00')}`;
    const status = `${terminal.paint(statusColour(row.status), row.status)}${kind}`;
    const name = `${terminal.paint('dim', before)}${visible(row.id)}`;
    const about = row.title === undefined ? '' : ` ${visible(row.title)}`;
    terminal.out(`${name} ${status} ${terminal.paint('dim', `${figures}${about}`)}`);
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
  withThread(call, async ({ root }, { store }) => {
    const tree = await allThreads(store, { root, direction: 'asc' });
    return call.terminal.finish(tree, (rows) => draw(rows, root, call.terminal));
  });
