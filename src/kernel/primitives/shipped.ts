import { type Clock, fail, nearest, plainText } from '../../base/index.ts';
import type { BuiltinFunction } from '../file-tools/content.ts';
import type { Primitive, PrimitiveCall } from '../primitive.ts';
import type { ProcessPorts } from '../process/environment.ts';
import type { SandboxReport } from '../sandbox/plan.ts';
import type { SinkFactory } from '../sink.ts';

// In-process code: the bundle's own functions and those a program passed to `createRuntime`. A
// project's files never name code to run here; their modules run in a sandboxed child.

interface FunctionTable {
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

function createFunctionPrimitive(table: FunctionTable): Primitive {
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

/** One that stands on what a policy says now: made anew for every call, which must be cheap. */
export const freshPrimitive = (name: string, make: () => Promise<Primitive>): Primitive => ({
  name,
  run: async (call) => (await make()).run(call),
  plan: async (call) => (await make()).plan?.(call) ?? { primitive: name },
});

/**
 * A primitive whose making costs something (code, a probe): made when it is first needed, once. A making
 * that fails (too many files are open, say) is that call's failure; the next call tries again.
 */
export function lazyPrimitive(name: string, make: () => Promise<Primitive>): Primitive {
  let made: Promise<Primitive> | undefined;
  const primitive = async (): Promise<Primitive> => {
    const making = (made ??= make());
    try {
      return await making;
    } catch (error) {
      if (made === making) made = undefined;
      throw error;
    }
  };
  return {
    name,
    run: async (call) => (await primitive()).run(call),
    plan: async (call) => (await primitive()).plan?.(call) ?? { primitive: name },
    close: () =>
      void made?.then(
        (there) => there.close?.(),
        () => {},
      ),
  };
}

// The primitives and sinks that ship with the kernel. Their code is loaded when a chain first ends
// in one of them: most processes use one or two.

export interface ShippedPorts {
  clock: Clock;
  /** Private and loopback targets: has somebody granted this one? */
  isHostAllowed(host: string, address: string, port: number): boolean;
  process: () => Promise<ProcessPorts>;
  /** Functions of the user's own program, by tool id. */
  program: ReadonlyMap<string, BuiltinFunction>;
}

export function shippedPrimitives(ports: ShippedPorts): Primitive[] {
  const { clock, isHostAllowed, program } = ports;
  return [
    lazyPrimitive('function', async () => {
      const { fileFunctions } = await import('../file-tools/file-tools.ts');
      return createFunctionPrimitive({ bundle: fileFunctions, program });
    }),
    lazyPrimitive('http_client', async () => {
      const { createHttpPrimitive } = await import('../http/http-client.ts');
      return createHttpPrimitive({ clock, isHostAllowed });
    }),
    freshPrimitive('subprocess', async () => {
      const { createProcessPrimitive } = await import('../process/subprocess.ts');
      return createProcessPrimitive(await ports.process());
    }),
  ];
}

export function shippedSinks(
  ports: Pick<ShippedPorts, 'clock' | 'isHostAllowed'>,
): Readonly<Record<string, SinkFactory>> {
  type Factories = ReturnType<typeof import('../sinks/factories.ts').createSinkFactories>;
  let made: Promise<Factories> | Factories | undefined;
  const make = async (): Promise<Factories> => {
    try {
      const { createSinkFactories } = await import('../sinks/factories.ts');
      made = createSinkFactories(ports);
      return made;
    } catch (error) {
      // Whoever comes next tries again.
      made = undefined;
      throw error;
    }
  };
  const lazy =
    (name: 'return' | 'file_sink' | 'null_sink' | 'websocket_sink'): SinkFactory =>
    async (destination, context) => {
      made ??= make();
      return await (await made)[name](destination, context);
    };
  return {
    return: lazy('return'),
    file_sink: lazy('file_sink'),
    null_sink: lazy('null_sink'),
    websocket_sink: lazy('websocket_sink'),
  };
}

/** A sink from a project's module, fed through a sandboxed child. */
export function moduleSink(ports: () => Promise<ProcessPorts>) {
  return (tool: PrimitiveCall['tool']): SinkFactory =>
    async (destination, context) => {
      const { createProcessSink } = await import('../process/module-sink.ts');
      return await createProcessSink(await ports(), tool)(destination, context);
    };
}

export async function probeSandboxNow(): Promise<SandboxReport> {
  const { probeSandbox } = await import('../sandbox/probe.ts');
  return await probeSandbox();
}
