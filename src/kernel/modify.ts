// `create`, `update` and `delete` of items. The content is checked before anything is written, the
// file appears whole or not at all, and it stays unsigned until a person signs it.
import { fail, hasErrors, type Json, type Outcome, ok } from '../base/index.ts';
import { childFrame, makeValue, perform, type Value } from '../flow/index.ts';
import type { ItemKind, Library } from '../items/index.ts';
import type { Authority, Caller, ExecuteRequest } from './call.ts';

export const MODIFY_ACTIONS = ['create', 'update', 'delete'] as const;
type ModifyAction = (typeof MODIFY_ACTIONS)[number];

export type Modifier = (
  request: ExecuteRequest,
  caller: Caller,
  authority: Authority,
) => Promise<Outcome<Value>>;

const MAX_CONTENT = 1024 * 1024;

function checkContent(request: ExecuteRequest): Outcome<string> {
  const { content } = request;
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

export function createModifier(library: Library): Modifier {
  /** The rules for names that exist already, or must not. */
  function target(action: ModifyAction, kind: ItemKind, id: string): Outcome<string> {
    const existing = library.find(kind, id, 'project');
    if (action === 'create') {
      return existing.ok
        ? fail('invalid_input', `${kind} \`${id}\` exists already; use \`update\``)
        : ok('uncategorised');
    }
    return existing.ok ? ok(existing.output.category) : existing;
  }

  function write(action: ModifyAction, kind: ItemKind, id: string, content: string): Outcome<Json> {
    if (action === 'delete') {
      const removed = library.remove(kind, id);
      return removed.ok ? ok({ status: 'deleted', item_type: kind, item_id: id }) : removed;
    }
    const written = library.write(kind, id, content);
    if (!written.ok) return written;
    const { file, diagnostics } = written.output;
    if (hasErrors(diagnostics)) {
      return fail('invalid_item', `${kind} \`${id}\` was not written: it has errors`, {
        diagnostics: diagnostics as unknown as Json,
      });
    }
    return ok({
      status: action === 'create' ? 'created' : 'updated',
      item_type: kind,
      item_id: id,
      file,
      signed: false,
      diagnostics: diagnostics as unknown as Json,
    });
  }

  return async (request, caller, authority) => {
    const action = request.action as ModifyAction;
    const kind = request.item_type as ItemKind;
    const id = request.item_id;
    const content = action === 'delete' ? ok('') : checkContent(request);
    if (!content.ok) return content;
    const category = target(action, kind, id);
    if (!category.ok) return category;
    const gate = (): Outcome<null> => {
      if (!authority.sees(kind, category.output, id)) {
        return fail('permission_denied', `${kind} \`${id}\` is on a deny list of this thread`);
      }
      const effect = authority.allowsEffect('write');
      return effect.ok ? authority.check({ capability: `${kind}.modify`, scope: { id } }) : effect;
    };
    return await perform(
      {
        type: 'modify',
        subtype: action,
        name: id,
        opLabels: ['op:modify', `op:modify:${kind}`, `op:modify:${kind}:${id}`],
        risk: action === 'delete' ? ['destructive'] : [],
      },
      [
        {
          name: 'content',
          role: 'content',
          value: request.values?.content ?? makeValue(content.output),
        },
      ],
      (inputs) => {
        const done = write(action, kind, id, inputs[0]?.text ?? '');
        return done.ok ? ok(makeValue(done.output)) : done;
      },
      childFrame(caller.frame, { ports: { gate } }),
    );
  };
}
