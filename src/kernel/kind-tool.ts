import type { Library } from '../items/index.ts';
import type { createToolRunner } from './execute-tool.ts';
import type { Kind } from './kind.ts';
import { MODIFY_ACTIONS, type Modifier } from './modify.ts';

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
