// Creates, updates and deletes items. The content is checked before anything is written, the file is
// written completely or not at all, and it stays unsigned until a person signs it.
import { fail, getOwn, type Json, type JsonObject, type Outcome, ok } from '../../base/index.ts';
import { makeValue, type Value } from '../../flow/index.ts';
import { contentCategory, type ItemKind, type Library } from '../../items/index.ts';
import type { Authority, ExecuteRequest, PreparedCall } from '../call.ts';
import { leftOut } from '../rights/authority.ts';
import { type ItemMarks, shownDiagnostics, shownFile } from '../rights/item-marks.ts';
import { riskTier } from '../tool/plan.ts';
import { givenValue } from '../tool/run-tool.ts';

export const MODIFY_ACTIONS = ['create', 'update', 'delete'] as const;
type ModifyAction = (typeof MODIFY_ACTIONS)[number];

export type Modifier = (request: ExecuteRequest) => Outcome<PreparedCall>;

const MAX_CONTENT = 1024 * 1024;

/** Returns the content from the request or from its `parameters`. Fails if both differ or none is set. */
function checkContent(request: ExecuteRequest): Outcome<string> {
  const inside = getOwn(request.parameters, 'content');
  if (request.content !== undefined && inside !== undefined && inside !== request.content) {
    return fail('invalid_input', '`content` is in the request and in `parameters`; pass it once');
  }
  const content = request.content ?? inside;
  if (typeof content !== 'string' || content === '') {
    return fail(
      'invalid_input',
      `\`${request.action}\` needs \`content\`: the whole text of the file`,
    );
  }
  return content.length > MAX_CONTENT
    ? fail('invalid_input', `\`content\` is longer than ${MAX_CONTENT} characters`)
    : ok(content);
}

export function mayModify(kind: ItemKind, id: string, authority: Authority): Outcome<null> {
  const effect = authority.allowsEffect('write');
  return effect.ok ? authority.check({ capability: `${kind}.modify`, scope: { id } }) : effect;
}

/** Checks that the caller may see the item. `category`: undefined for an item that does not exist. */
function maySee(
  kind: ItemKind,
  { id, category }: { readonly id: string; readonly category: string | undefined },
  authority: Authority,
): Outcome<null> {
  if (category === undefined || authority.sees(kind, category, id)) return ok(null);
  const message = `${kind} \`${id}\` of category \`${category}\` may not be changed by this thread`;
  return leftOut(authority, kind, { category, id }, message);
}

const unchanged = (request: ExecuteRequest, more?: JsonObject): JsonObject => ({
  dry_run: true,
  would: request.action ?? '',
  item_type: request.item_type,
  item_id: request.item_id,
  ...more,
});

export function createModifier(library: Library, marks: ItemMarks): Modifier {
  /** Returns the category of the present item. Fails if the item must or must not exist. */
  function target(action: ModifyAction, kind: ItemKind, id: string): Outcome<string | undefined> {
    const existing = library.find(kind, id, 'project');
    if (action === 'create') {
      return existing.ok
        ? fail('invalid_input', `${kind} \`${id}\` exists already; use \`update\``)
        : ok(undefined);
    }
    return existing.ok ? ok(existing.output.category) : existing;
  }

  function remove(request: ExecuteRequest, kind: ItemKind): Outcome<Json> {
    const id = request.item_id;
    if (request.dry_run) return ok(unchanged(request));
    const removed = library.remove(kind, id);
    return removed.ok ? ok({ status: 'deleted', item_type: kind, item_id: id }) : removed;
  }

  async function write(
    request: ExecuteRequest,
    kind: ItemKind,
    content: Value,
  ): Promise<Outcome<Json>> {
    const { item_id: id, action } = request;
    const mode = action === 'create' ? 'create' : 'update';
    // The check comes first, so that the marks are recorded before the text is written.
    const checked = library.write(kind, id, content.text, mode, { dryRun: true });
    if (!checked.ok) return checked;
    const { file } = checked.output;
    const diagnostics = shownDiagnostics(library, checked.output.diagnostics);
    const displayFile = shownFile(library, file);
    if (request.dry_run) return ok(unchanged(request, { file: displayFile, diagnostics }));
    const recorded = await marks.willWrite(file, content.text, [content.meta.descriptor]);
    const written = recorded.ok ? library.write(kind, id, content.text, mode) : recorded;
    if (!written.ok) return written;
    const status = mode === 'create' ? 'created' : 'updated';
    return ok({
      status,
      item_type: kind,
      item_id: id,
      file: displayFile,
      signed: false,
      diagnostics,
    });
  }

  return (request) => {
    const action = request.action as ModifyAction;
    const kind = request.item_type as ItemKind;
    const id = request.item_id;
    const content = action === 'delete' ? ok('') : checkContent(request);
    if (!content.ok) return content;
    const present = target(action, kind, id);
    if (!present.ok) return present;
    const seesContent = (authority: Authority, text: string): Outcome<null> => {
      if (action === 'delete') return ok(null);
      const fitting = maySee(kind, { id, category: contentCategory(kind, id, text) }, authority);
      if (fitting.ok) return fitting;
      // An unreadable text has no category, so the refusal lists its mistakes and names no list of categories.
      const checked = library.write(kind, id, text, action, { dryRun: true });
      return checked.ok ? fitting : checked;
    };
    return ok({
      op: {
        type: 'modify',
        subtype: action,
        name: id,
        opLabels: ['op:modify', `op:modify:${kind}`, `op:modify:${kind}:${id}`],
        risk: action === 'delete' ? ['destructive'] : [],
        tier: riskTier([`${kind}.modify`], 'write', library.capabilities().catalog),
      },
      inputs: [
        {
          name: 'content',
          role: 'content',
          value: givenValue(request, 'content') ?? makeValue(content.output),
        },
      ],
      gate(authority) {
        const visible = maySee(kind, { id, category: present.output }, authority);
        if (!visible.ok) return visible;
        const allowed = mayModify(kind, id, authority);
        return allowed.ok ? seesContent(authority, content.output) : allowed;
      },
      async body([passed], { authority }) {
        if (!passed || action === 'delete') return asValue(remove(request, kind));
        // A guard may have replaced the text, so the category of the replacement counts.
        const visible = seesContent(authority, passed.text);
        if (!visible.ok) return visible;
        return asValue(await write(request, kind, passed));
      },
    });
  };
}

const asValue = (outcome: Outcome<Json>): Outcome<Value> =>
  outcome.ok ? ok(makeValue(outcome.output)) : outcome;
