import { ok } from '../../base/index.ts';
import { makeValue } from '../../flow/index.ts';
import type { Library } from '../../items/index.ts';
import type { Kind } from '../call.ts';
import { leftOut } from '../rights/authority.ts';
import { checkSignature, type ItemMarks } from '../rights/item-marks.ts';
import type { PrepareTool } from '../tool/run-tool.ts';
import { MODIFY_ACTIONS, type Modifier } from './modify.ts';

/** Executing knowledge returns its text, labelled with its file. */
export function knowledgeKind(library: Library, modify: Modifier, marks: ItemMarks): Kind {
  return {
    name: 'knowledge',
    actions: ['run', ...MODIFY_ACTIONS],
    prepare(request) {
      if (request.action !== 'run') return modify(request);
      const resolved = library.find('knowledge', request.item_id);
      if (!resolved.ok) return resolved;
      const item = resolved.output;
      const { id, title, body: text, source } = item;
      return ok({
        op: { type: 'knowledge', name: id, opLabels: ['op:knowledge', `op:knowledge:${id}`] },
        gate(authority) {
          const signature = checkSignature(item);
          if (!signature.ok) return signature;
          return authority.sees('knowledge', item.category, id)
            ? authority.check({ capability: 'knowledge.read' })
            : leftOut(
                authority,
                'knowledge',
                item,
                `knowledge \`${id}\` is in a category this thread may not read`,
              );
        },
        body: () =>
          ok(makeValue({ item_id: id, title, text, source }, { descriptor: marks.of(item) })),
      });
    },
  };
}

export function toolKind(library: Library, prepareTool: PrepareTool, modify: Modifier): Kind {
  return {
    name: 'tool',
    actions: ['run', ...MODIFY_ACTIONS],
    prepare(request) {
      if (request.action !== 'run') return modify(request);
      const resolved = library.find('tool', request.item_id);
      return resolved.ok ? prepareTool(resolved.output, request) : resolved;
    },
  };
}
