import { compact, fail, getOwn, isObject, type JsonObject, plainText } from '@kernmantle/core/base';
import { asList, asText } from '../command.ts';
import { commandActor, inProject } from '../project.ts';
import { type Terminal, valueText, visible } from '../terminal/terminal.ts';

export const searchItems = inProject(async (runtime, call) => {
  const { args, options, terminal } = call;
  const limit = asText(options.limit);
  if (limit !== undefined && !/^\d+$/.test(limit)) {
    return fail('usage', `\`--limit ${limit}\` must be a number`);
  }
  const request = compact<JsonObject>({
    query: asList(args[0]).join(' '),
    item_type: asText(options.type),
    source: asText(options.source),
    category: asText(options.category),
    cursor: asText(options.cursor),
    detail: asText(options.detail),
    limit: limit === undefined ? undefined : Number(limit),
  });
  const result = await runtime.call('search', request, {
    surface: 'cli',
    name: commandActor(call).who,
  });
  return terminal.finish(result, (output) => {
    const listed = getOwn(output, 'items');
    const items = Array.isArray(listed) ? listed.filter((item) => isObject(item)) : [];
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

function showItem(item: JsonObject, terminal: Terminal): void {
  const line = (name: string, value: unknown): void => {
    if (value === undefined || value === '' || (Array.isArray(value) && value.length === 0)) return;
    terminal.out(`${terminal.paint('dim', name.padEnd(11))} ${valueText(value)}`);
  };
  terminal.out(terminal.paint('bold', `${plainText(item.item_type)} ${plainText(item.item_id)}`));
  line('title', item.title === item.item_id ? '' : item.title);
  line('about', item.description);
  for (const name of ['version', 'category', 'tags', 'source']) line(name, item[name]);
  const signature = isObject(item.signature) ? item.signature : {};
  const signed = [signature.state, signature.key, signature.reason].map(plainText);
  line('signature', signed.join(' ').trim());
  const shadows = Array.isArray(item.shadows) ? item.shadows : [];
  line(
    'shadows',
    shadows.map((below) => getOwn(below, 'file')),
  );
  line('chain', Array.isArray(item.chain) ? item.chain.map(plainText).join(' -> ') : '');
  line('requires', item.requires);
  line('effect', item.effect);
  line('broken', item.unavailable);
  const properties = getOwn(getOwn(item, 'input_schema'), 'properties');
  const required = getOwn(getOwn(item, 'input_schema'), 'required');
  for (const [name, schema] of Object.entries(isObject(properties) ? properties : {})) {
    const type = plainText(getOwn(schema, 'type') ?? 'any');
    const must = Array.isArray(required) && required.includes(name) ? ' (required)' : '';
    line(`  ${name}`, `${type}${must} ${plainText(getOwn(schema, 'description'))}`);
  }
}

export const showOneItem = inProject(async (runtime, call) => {
  const { args, options, terminal } = call;
  const part = asText(options.part);
  const request = compact<JsonObject>({
    item_type: asText(args[0]) ?? '',
    item_id: asText(args[1]) ?? '',
    source: asText(options.source),
    part,
    destination: asText(options.copy),
  });
  const loaded = await runtime.call('load', request, {
    surface: 'cli',
    name: commandActor(call).who,
  });
  return terminal.finish(loaded, (output) => {
    const [item, body] = [getOwn(output, 'item'), getOwn(output, 'body')];
    if (part !== 'body' && isObject(item)) showItem(item, terminal);
    if (typeof body === 'string')
      terminal.out(`${part === 'body' ? '' : '\n'}${visible(body.trimEnd())}`);
    const copied = getOwn(output, 'copied_to');
    if (copied) terminal.note(`copied to ${plainText(copied)}`);
  });
});
