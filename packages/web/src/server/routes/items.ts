// `GET items` and `items/KIND/ID`: the items, their rights, and their runs. No item is run or
// expanded here. An item with errors is listed with them.
import {
  compact,
  fail,
  getOwn,
  isObject,
  type Json,
  type JsonObject,
  listAt,
  type Outcome,
  ok,
  pathWithin,
  plainText,
} from '@kernmantle/core/base';
import { canSpawn, type Item } from '@kernmantle/core/items';
import { meterName } from '@kernmantle/core/journal';
import { reports } from '@kernmantle/core/reports';
import { allThreads } from '@kernmantle/core/runtime';
import type {
  ItemInput,
  ItemList,
  ItemView,
  LimitMeter,
  ListedItem,
  LongText,
} from '../../model/api.ts';
import { answer } from '../answer.ts';
import type { AddRoutes, WebCaller, WebParts } from '../context.ts';
import { needs } from '../roles.ts';

const KINDS = ['directive', 'tool', 'knowledge'] as const;
type ShownItemKind = (typeof KINDS)[number];
const kindOf = (word: string): ShownItemKind | undefined => KINDS.find((kind) => kind === word);
const unknownKind = (): Outcome<never> =>
  fail('invalid_input', `\`kind\` must be one of ${KINDS.join(', ')}`);

const PAGE = 100;
const MAX_QUERY = 500;
const MAX_ID = 300;
const MAX_PIECE = 64 * 1024;

interface Query {
  readonly q?: string;
  readonly kind?: string;
  readonly cursor?: string;
}

/** Actor of runtime calls, so that policies of the web surface apply. */
const actorOf = ({ who }: WebCaller) => ({ surface: 'web', name: who });

async function listItems(
  { runtime }: WebParts,
  { q = '', kind, cursor }: Query,
  by: WebCaller,
): Promise<Outcome<ItemList>> {
  if (q.length > MAX_QUERY) {
    return fail('invalid_input', `\`q\` can have at most ${MAX_QUERY} characters`);
  }
  if (kind !== undefined && !kindOf(kind)) return unknownKind();
  const request = compact<JsonObject>({ query: q, item_type: kind, cursor, limit: PAGE });
  const result = await runtime.call('search', request, actorOf(by));
  if (!result.ok) return result;
  const next_cursor = getOwn(result.output, 'next_cursor');
  const items = listAt(result.output, 'items').filter(isObject);
  return ok({
    items: items.map((item) => listedItem(runtime, item)),
    has_more: next_cursor !== undefined,
    ...(next_cursor !== undefined && { next_cursor: plainText(next_cursor) }),
    total: Number(getOwn(result.output, 'total') ?? items.length),
  });
}

function listedItem({ library }: WebParts['runtime'], item: JsonObject): ListedItem {
  const item_type = kindOf(plainText(item.item_type)) ?? 'knowledge';
  const item_id = plainText(item.item_id);
  const match = library.find(item_type, item_id);
  const state = match.ok ? match.output.signature.state : plainText(item.source);
  const texts = ['title', 'summary', 'version', 'source', 'unavailable'] as const;
  return {
    item_type,
    item_id,
    signature: state,
    ...Object.fromEntries(
      texts.flatMap((name) => (item[name] === undefined ? [] : [[name, plainText(item[name])]])),
    ),
  };
}

/** Returns the inputs for the form, for every kind of item. */
function inputsOf(item: Item, metadata: Json | undefined): ItemInput[] {
  if (item.kind === 'directive')
    return (item.directive?.inputs ?? []).map((input) => ({ ...input }));
  const schema = getOwn(metadata, 'input_schema');
  const properties = getOwn(schema, 'properties');
  const required = listAt(schema ?? {}, 'required');
  return Object.entries(isObject(properties) ? properties : {}).map(([name, about]) => ({
    name,
    type: plainText(getOwn(about, 'type') ?? 'any'),
    required: required.includes(name),
    description: plainText(getOwn(about, 'description')),
    ...compact({ default: getOwn(about, 'default') }),
    ...(Array.isArray(getOwn(about, 'enum')) && { enum: listAt(about ?? {}, 'enum') }),
  }));
}

function limitsOf(explained: JsonObject | undefined): LimitMeter[] {
  const limits = getOwn(explained, 'limits');
  return Object.entries(isObject(limits) ? limits : {}).flatMap(([name, limit]) => {
    const max = Number(getOwn(limit, 'value') ?? Number.NaN);
    const from = plainText(getOwn(limit, 'from'));
    if (Number.isNaN(max)) return [];
    return [{ name: meterName(name), used: 0, reserved: 0, max, ...(from !== '' && { from }) }];
  });
}

/** Returns the reasons why the page cannot start an item, one line each. Empty: it can. */
function missingOf(item: Item, { runtime }: WebParts): string[] {
  const errors = item.diagnostics.filter(({ severity }) => severity === 'error');
  const wrong = errors.map(({ line, message }) => `line ${line}: ${message}`);
  if (item.kind !== 'directive') return wrong;
  if (!item.directive) return wrong.length > 0 ? wrong : ['the directive cannot be read'];
  const { missing } = canSpawn(item.directive);
  const access = runtime.policies().policy.directives('web');
  const isSigned = item.signature.state === 'signed' || item.signature.state === 'bundle';
  const closed =
    access === 'none'
      ? ['the policy does not allow the page to start directives (`surfaces.web`)']
      : access === 'signed' && !isSigned
        ? [`the directive is not signed; run \`km sign ${pathWithin(runtime.project, item.file)}\``]
        : [];
  return [...wrong, ...missing.map((part) => `the directive declares no <${part}>`), ...closed];
}

/** Counts the runs of a directive, and the refusals in them. */
async function historyOf(
  { store }: WebParts,
  item: Item,
): Promise<Outcome<{ runs: number; denied: number }>> {
  const none = ok({ runs: 0, denied: 0 });
  if (item.kind !== 'directive') return none;
  const opened = await store();
  if (!opened.ok) return opened.error.code === 'not_found' ? none : opened;
  const rows = await allThreads(opened.output, { directive: item.id });
  if (!rows.ok) return rows;
  const ids = rows.output.map(({ id }) => id);
  const denied = await opened.output.countEvents(ids, 'permission_denied');
  return denied.ok ? ok({ runs: ids.length, denied: denied.output }) : denied;
}

/** Returns a piece of a text. It starts and ends at the boundary of a character. */
function pieceOf(text: string, offset: number): LongText {
  const bytes = Buffer.from(text, 'utf8');
  const isMiddle = (at: number): boolean => ((bytes[at] ?? 0) & 0xc0) === 0x80;
  let [from, end] = [Math.min(offset, bytes.length), Math.min(offset + MAX_PIECE, bytes.length)];
  while (from > 0 && isMiddle(from)) from -= 1;
  while (end > from && end < bytes.length && isMiddle(end)) end -= 1;
  const piece = { text: bytes.toString('utf8', from, end), bytes: bytes.length, offset: from };
  return end < bytes.length ? { ...piece, next: end } : piece;
}

/** Names of tiers, then model ids, from the model configuration. */
const modelNames = (models: Json): string[] =>
  ['tiers', 'models'].flatMap((table) => {
    const rows = getOwn(models, table);
    return isObject(rows) ? Object.keys(rows) : [];
  });

async function viewItem(
  parts: WebParts,
  kind: ShownItemKind,
  id: string,
  offset: number,
  by: WebCaller,
): Promise<Outcome<ItemView>> {
  const { runtime } = parts;
  const request = { item_type: kind, item_id: id, part: 'metadata' };
  const loaded = await runtime.call('load', request, actorOf(by));
  if (!loaded.ok) return loaded;
  const match = runtime.library.find(kind, id);
  if (!match.ok) return match;
  const item: Item = match.output;
  const meta = getOwn(loaded.output, 'item');
  const { explainItem } = await reports.explain();
  // A directive or tool with errors has no rights to explain.
  const explained = kind === 'knowledge' ? undefined : await explainItem(runtime, kind, item.id);
  const history = await historyOf(parts, item);
  if (!history.ok) return history;
  const missing = missingOf(item, parts);
  const explanation = explained?.ok ? explained.output : undefined;
  return ok({
    item: isObject(meta) ? meta : {},
    signature: { ...item.signature },
    body: pieceOf(item.body, offset),
    file: pathWithin(runtime.project, item.file),
    inputs: inputsOf(item, meta),
    ...(explanation && { explained: explanation }),
    can_run: kind === 'directive' && missing.length === 0,
    missing:
      explained && !explained.ok && missing.length === 0
        ? [explained.error.detail.message]
        : missing,
    steps:
      item.kind === 'directive'
        ? (item.directive?.process.steps ?? []).map(({ name }) => name)
        : [],
    ...history.output,
    limits: limitsOf(explanation),
    models: kind === 'directive' ? modelNames(runtime.library.config('models').value) : [],
  });
}

export const addItemsRoutes: AddRoutes = (api, parts) => {
  api.get('/items', needs('view'), async (context) =>
    answer(context, await listItems(parts, context.req.query(), context.get('asker'))),
  );
  api.get('/items/:kind/:id{.+}', needs('view'), async (context) => {
    const { kind: word, id } = context.req.param();
    const kind = kindOf(word);
    if (!kind) return answer(context, unknownKind());
    const offset = context.req.query('offset') ?? '0';
    if (id.length > MAX_ID || !/^\d{1,9}$/.test(offset)) {
      const message = `an id can have at most ${MAX_ID} characters, and \`offset\` must be a number`;
      return answer(context, fail('invalid_input', message));
    }
    const by = context.get('asker');
    return answer(context, await viewItem(parts, kind, id, Number(offset), by));
  });
};
