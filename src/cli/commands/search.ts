import { fail, getOwn, type JsonObject, plainText } from '../../base/index.ts';
import { asList, asText, type CommandRun } from '../command.ts';
import { withRuntime } from '../project.ts';
import { visible } from '../terminal.ts';

export const searchItems: CommandRun = (call) =>
  withRuntime(call, async (runtime) => {
    const { options, terminal } = call;
    const limit = asText(options.limit);
    if (limit !== undefined && !/^\d+$/.test(limit)) {
      return terminal.finish(fail('usage', `\`--limit ${limit}\` is not a number`), () => {});
    }
    const request: JsonObject = { query: asList(call.args[0]).join(' ') };
    const fields = {
      type: 'item_type',
      source: 'source',
      category: 'category',
      cursor: 'cursor',
      detail: 'detail',
    };
    for (const [option, field] of Object.entries(fields)) {
      const value = asText(options[option]);
      if (value !== undefined) request[field] = value;
    }
    if (limit !== undefined) request.limit = Number(limit);
    const found = await runtime.call('search', request, { surface: 'cli' });
    return terminal.finish(found, (output) => {
      const items = (getOwn(output, 'items') ?? []) as JsonObject[];
      for (const item of items) {
        const state = item.unavailable
          ? terminal.paint('red', ' (broken)')
          : item.signed === false
            ? terminal.paint('yellow', ' (unsigned)')
            : '';
        const kind = terminal.paint('dim', plainText(item.item_type).padEnd(9));
        terminal.out(`${kind} ${terminal.paint('bold', plainText(item.item_id))}${state}`);
        if (item.summary) terminal.out(`          ${visible(plainText(item.summary))}`);
      }
      const total = Number(getOwn(output, 'total') ?? 0);
      const next = getOwn(output, 'next_cursor');
      if (total === 0) terminal.note('nothing found; try fewer or other words');
      else if (next)
        terminal.note(`${items.length} of ${total}; more with --cursor ${plainText(next)}`);
    });
  });
