import {
  didYouMean,
  fail,
  type Json,
  type JsonObject,
  type Outcome,
  ok,
} from '../../base/index.ts';
import type { Item, ItemKind, Library, Source } from '../../items/index.ts';
import type { Authority, SearchRequest } from '../call.ts';
import { PROGRAM } from '../primitives/program-tools.ts';
import { isFromStranger, type UsesItem } from '../rights/item-marks.ts';
import { type PlannedTool, resolvePlan } from '../tool/plan.ts';

const KINDS = ['directive', 'tool', 'knowledge'];
const SOURCES = ['project', 'user', 'installed', 'bundle', 'catalog', 'registry', 'local', 'all'];
/** Sources outside of this machine, where bundles are published. */
export const IN_CATALOGS: ReadonlySet<string> = new Set(['catalog', 'registry']);
const SIGNED: ReadonlySet<string> = new Set(['signed', 'bundle']);
const MAX_LIMIT = 100;
const MAX_QUERY = 1000;

export const firstLine = (text: string, length = 160): string => {
  const line = text.trim().split('\n', 1)[0] ?? '';
  return line.length > length ? `${line.slice(0, length - 1)}…` : line;
};

/** Returns the level that a request names. Undefined for all levels. */
export const levelOf = (source: string | undefined): Source | undefined =>
  source === undefined || source === 'all' || source === 'local' ? undefined : (source as Source);

/** Returns why a tool cannot be used: its file, its chain, or its config. */
function unavailable(item: Item, library: Library): string | undefined {
  const wrong = item.diagnostics.find(({ severity }) => severity === 'error');
  if (wrong || item.kind !== 'tool') return wrong?.message;
  const effective = library.chain(item.id);
  const isOther = effective.ok && effective.output.links[0] !== item;
  const chain = isOther ? library.chainOf(item) : effective;
  if (!chain.ok) return chain.error.detail.message;
  const [fault] = library.configFaults(chain.output);
  if (!fault) return undefined;
  return fault.link.id === item.id ? fault.message : `${fault.message} (in \`${fault.link.id}\`)`;
}

/** Returns one hit with the detail that the caller requested. */
export function summarise(
  item: Item,
  library: Library,
  detail: SearchRequest['detail'],
): JsonObject {
  const short: JsonObject = { item_type: item.kind, item_id: item.id };
  if (detail === 'name') return short;
  const tool = item.kind === 'tool' ? item.tool : undefined;
  const plan =
    tool && detail === 'schema' ? resolvePlan(library, item as PlannedTool, {}) : undefined;
  const broken = unavailable(item, library);
  return {
    ...short,
    title: item.title,
    summary: firstLine(item.description),
    version: item.version,
    // The program vouches for its own code, so its tools have no signature.
    ...(item.file.startsWith(PROGRAM)
      ? { source: 'program', signed: false }
      : { source: item.source, signed: SIGNED.has(item.signature.state) }),
    requires: tool?.requires ?? [],
    ...(item.shadows.length > 0 ? { shadowed: item.shadows.map(({ source }) => source) } : {}),
    ...(broken === undefined ? {} : { unavailable: broken }),
    ...(plan?.ok ? { input_schema: plan.output.schema, effect: plan.output.effect } : {}),
  };
}

/** Checks the arguments of a search. An invalid word is answered with the valid ones. */
function checkSearch(request: SearchRequest): Outcome<null> {
  const { query, item_type, source, limit, detail } = request;
  const oneOf = (name: string, value: string | undefined, allowed: readonly string[]) => {
    if (value === undefined || allowed.includes(value)) return undefined;
    const hint = didYouMean(value, allowed) ?? `use one of: ${allowed.join(', ')}`;
    return fail('invalid_input', `unknown ${name} \`${value}\`; ${hint}`);
  };
  if (typeof query !== 'string' || query.length > MAX_QUERY) {
    return fail('invalid_input', `\`query\` must be text of at most ${MAX_QUERY} characters`);
  }
  if (limit !== undefined && (!Number.isInteger(limit) || limit < 1 || limit > MAX_LIMIT)) {
    return fail('invalid_input', `\`limit\` must be a whole number from 1 to ${MAX_LIMIT}`);
  }
  return (
    oneOf('item_type', item_type, KINDS) ??
    oneOf('source', source, SOURCES) ??
    oneOf('detail', detail, ['name', 'summary', 'schema']) ??
    ok(null)
  );
}

/** Searches the full text of all items that the caller may see. Returns ranked hits. */
export function searchLibrary(
  library: Library,
  request: SearchRequest,
  authority: Authority,
  uses: UsesItem,
): Outcome<Json> {
  const checked = checkSearch(request);
  if (!checked.ok) return checked;
  const { query, item_type, source, limit = 10, cursor, category, detail = 'summary' } = request;
  const level = levelOf(source);
  const results = library.search({
    text: query,
    limit,
    ...(item_type ? { kind: item_type as ItemKind } : {}),
    ...(level ? { source: level } : {}),
    ...(cursor ? { cursor } : {}),
    ...(category ? { category } : {}),
    categories: (kind, itsCategory, id) => authority.sees(kind, itsCategory, id),
  });
  for (const { item } of results.hits) {
    // The answer contains untrusted text if it describes a tool of a server or an unsigned item.
    const hasUntrustedText = item.tags.includes('mcp_tool') || !SIGNED.has(item.signature.state);
    if (isFromStranger(item) || (detail !== 'name' && hasUntrustedText)) uses(item);
  }
  return ok({
    items: results.hits.map(({ item, score }) => ({
      ...summarise(item, library, detail),
      score: Math.round(score * 1000) / 1000,
    })),
    total: results.total,
    ...(results.next_cursor ? { next_cursor: results.next_cursor } : {}),
  });
}
