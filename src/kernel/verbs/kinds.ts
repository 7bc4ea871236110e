import { fail, ok } from '../../base/index.ts';
import { makeValue, perform } from '../../flow/index.ts';
import type { Library } from '../../items/index.ts';
import type { Kind } from '../call.ts';
import type { ItemMarks } from '../rights/item-marks.ts';
import type { createToolRunner } from '../tool/run-tool.ts';
import { checkSignature } from '../tool/tool-rights.ts';
import { MODIFY_ACTIONS, type Modifier } from './modify.ts';

/** Running knowledge means reading it: its text, labelled with the file it came from. */
export function knowledgeKind(library: Library, modify: Modifier, marks: ItemMarks): Kind {
  return {
    name: 'knowledge',
    actions: ['run', ...MODIFY_ACTIONS],
    async execute(request, caller, authority) {
      if (request.action !== 'run') return modify(request, caller, authority);
      const found = library.find('knowledge', request.item_id);
      if (!found.ok) return found;
      const item = found.output;
      const gate = () => {
        const signature = checkSignature(item);
        if (!signature.ok) return signature;
        return authority.sees('knowledge', item.category, item.id)
          ? authority.check({ capability: 'knowledge.read' })
          : fail(
              'permission_denied',
              `knowledge \`${item.id}\` is in a category this thread may not read`,
            );
      };
      const descriptor = marks.of(item);
      return await perform(
        { type: 'knowledge', name: item.id, opLabels: ['op:knowledge', `op:knowledge:${item.id}`] },
        [],
        () =>
          ok(
            makeValue(
              { item_id: item.id, title: item.title, text: item.body, source: item.source },
              { descriptor },
            ),
          ),
        caller.frame,
        { ...caller.act, gate },
      );
    },
  };
}

export function toolKind(
  library: Library,
  runner: ReturnType<typeof createToolRunner>,
  modify: Modifier,
): Kind {
  return {
    name: 'tool',
    actions: ['run', ...MODIFY_ACTIONS],
    async execute(request, caller, authority) {
      if (request.action !== 'run') return modify(request, caller, authority);
      const found = library.find('tool', request.item_id);
      if (!found.ok) return found;
      return await runner.run(found.output, request, caller, authority);
    },
  };
}
