// In-process code: the bundle's own functions and those a program passed to `createRuntime`. A
// project's files never name code to run here; their modules run in a sandboxed child.
import { fail, nearest, plainText } from '../../base/index.ts';
import type { BuiltinFunction } from '../file-tools/content.ts';
import type { Primitive, PrimitiveCall } from '../primitive.ts';

export interface FunctionTable {
  bundle: Readonly<Record<string, BuiltinFunction>>;
  /** Functions of the user's own program (`defineTool`), by tool id. */
  program: ReadonlyMap<string, BuiltinFunction>;
}

/** Bundle tools name bundle functions; only a tool defined in the program reaches program code. */
function functionOf(table: FunctionTable, call: PrimitiveCall): BuiltinFunction | undefined {
  if (call.tool.source === 'program') return table.program.get(call.tool.id);
  const name = call.config.function;
  return typeof name === 'string' && Object.hasOwn(table.bundle, name)
    ? table.bundle[name]
    : undefined;
}

export function createFunctionPrimitive(table: FunctionTable): Primitive {
  return {
    name: 'function',
    async run(call) {
      const run = functionOf(table, call);
      if (!run) {
        const name = plainText(call.config.function);
        const near = nearest(name, Object.keys(table.bundle));
        const hint = near ? `; did you mean \`${near}\`` : '';
        return fail('config_invalid', `there is no built-in function \`${name}\`${hint}`, {
          failed_at: { tool_id: call.tool.id, config_path: 'config.function' },
        });
      }
      return await run(call);
    },
    plan: (call) => ({ function: call.config.function ?? call.tool.id }),
  };
}
