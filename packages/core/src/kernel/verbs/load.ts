import { fail, type Json, type JsonObject, type Outcome, ok } from '../../base/index.ts';
import type { Catalogs, Item, ItemKind, Library } from '../../items/index.ts';
import type { Authority, LoadRequest } from '../call.ts';
import { PROGRAM } from '../primitives/program-tools.ts';
import { leftOut } from '../rights/authority.ts';
import { shownDiagnostics, shownFile, type UsesItem } from '../rights/item-marks.ts';
import { resolvePlan } from '../tool/plan.ts';
import { mayModify } from './modify.ts';
import { IN_CATALOGS, levelOf, summarise } from './search.ts';

const PARTS = ['all', 'body', 'metadata', 'schema', 'diagnostics'];
const MAX_BODY = 256 * 1024;

type CatalogCopy = Awaited<ReturnType<Catalogs['copy']>>;
type CopyLevel = 'project' | 'user';

/** Copies items between levels and from catalogs. Both check signatures and run nothing. */
export interface CopyPort {
  copy(item: Item, level: CopyLevel): Outcome<string>;
  /** Returns the item that a name means, because rights are judged by its full id. */
  inCatalog: Catalogs['resolve'];
  fromCatalog(kind: ItemKind, id: string, level?: CopyLevel): Promise<CatalogCopy>;
}

/** Returns the facts about an item without running it or expanding its placeholders. */
function metadata(item: Item, library: Library): JsonObject {
  const plan = item.kind === 'tool' ? resolvePlan(library, item, {}) : undefined;
  return {
    ...summarise(item, library, 'schema'),
    category: item.category,
    tags: [...item.tags],
    description: item.description,
    signature: item.file.startsWith(PROGRAM) ? { state: 'program' } : { ...item.signature },
    shadows: item.shadows.map(({ source, file }) => ({ source, file: shownFile(library, file) })),
    diagnostics: shownDiagnostics(library, item.diagnostics),
    ...(plan?.ok ? { chain: [...plan.output.chain] } : {}),
  };
}

async function copyFromCatalog(
  kind: ItemKind,
  id: string,
  level: CopyLevel | undefined,
  authority: Authority,
  copies: CopyPort,
): Promise<Outcome<Json>> {
  if (level === undefined) {
    return fail(
      'invalid_input',
      `loading ${kind} \`${id}\` from a catalog needs \`destination\`; set it to project or user`,
    );
  }
  const resolved = copies.inCatalog(kind, id);
  // A missing item is judged by its name, so that a refusal comes before `not_found`.
  const named = resolved.ok ? resolved.output.id : id.slice(id.indexOf(':') + 1);
  const right = mayModify(kind, named, authority);
  if (!right.ok) return right;
  if (!resolved.ok) return resolved;
  const copied = await copies.fromCatalog(kind, `${resolved.output.catalog}:${named}`, level);
  if (!copied.ok) return copied;
  const { copied_to, ...item } = copied.output;
  return ok({ item: { item_type: kind, item_id: item.id, ...item }, copied_to });
}

export async function loadItem(
  library: Library,
  request: LoadRequest,
  authority: Authority,
  copies: CopyPort,
  uses: UsesItem,
): Promise<Outcome<Json>> {
  const kind = request.item_type as ItemKind;
  const { part = 'all', destination } = request;
  if (!PARTS.includes(part)) {
    return fail('invalid_input', `unknown part \`${part}\`; use one of: ${PARTS.join(', ')}`);
  }
  if (destination !== undefined && destination !== 'project' && destination !== 'user') {
    const message = `unknown destination \`${destination}\`; use one of: project, user`;
    return fail('invalid_input', message);
  }
  const need = kind === 'knowledge' ? 'knowledge.read' : 'kernel.load';
  const allowed = authority.check({ capability: need });
  if (!allowed.ok) return allowed;
  if (IN_CATALOGS.has(request.source ?? '')) {
    return await copyFromCatalog(kind, request.item_id, destination, authority, copies);
  }
  const resolved = library.find(kind, request.item_id, levelOf(request.source));
  if (!resolved.ok) return resolved;
  const item = resolved.output;
  if (!authority.sees(kind, item.category, item.id)) {
    const message = `${kind} \`${item.id}\` is not among those this thread may load`;
    return leftOut(authority, kind, item, message);
  }
  const answer: JsonObject = {
    item: part === 'body' ? summarise(item, library, 'name') : metadata(item, library),
  };
  uses(item);
  if (part === 'all' || part === 'body') {
    answer.body = item.body.slice(0, MAX_BODY);
    if (item.body.length > MAX_BODY) answer.truncated = true;
  }
  if (destination !== undefined) {
    // Copying adds an item, so it needs the same right as creating one.
    const right = mayModify(kind, item.id, authority);
    if (!right.ok) return right;
    const copied = copies.copy(item, destination);
    if (!copied.ok) return copied;
    answer.copied_to = shownFile(library, copied.output);
  }
  return ok(answer);
}
