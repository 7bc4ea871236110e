// The primitives and sinks that ship with the kernel. Their code is loaded when a chain first ends
// in one of them: most processes use one or two.
import type { Clock } from '../base/index.ts';
import type { BuiltinFunction } from './builtin.ts';
import { createFunctionPrimitive } from './function-primitive.ts';
import { freshPrimitive, lazyPrimitive } from './lazy-primitive.ts';
import type { Primitive, PrimitiveCall } from './primitive.ts';
import type { ProcessPorts } from './process-launch.ts';
import type { SandboxReport } from './sandbox-probe.ts';
import type { SinkFactory } from './sink.ts';

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
      const { fileFunctions } = await import('./builtin-files.ts');
      return createFunctionPrimitive({ bundle: fileFunctions, program });
    }),
    lazyPrimitive('http_client', async () => {
      const { createHttpPrimitive } = await import('./http-client.ts');
      return createHttpPrimitive({ clock, isHostAllowed });
    }),
    freshPrimitive('subprocess', async () => {
      const { createProcessPrimitive } = await import('./process-primitive.ts');
      return createProcessPrimitive(await ports.process());
    }),
  ];
}

export function shippedSinks(
  ports: Pick<ShippedPorts, 'clock' | 'isHostAllowed'>,
): Readonly<Record<string, SinkFactory>> {
  type Factories = ReturnType<typeof import('./sink-factories.ts').createSinkFactories>;
  let made: Promise<Factories> | Factories | undefined;
  const make = async (): Promise<Factories> => {
    try {
      const { createSinkFactories } = await import('./sink-factories.ts');
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
      const { createProcessSink } = await import('./process-sink.ts');
      return await createProcessSink(await ports(), tool)(destination, context);
    };
}

export async function probeSandboxNow(): Promise<SandboxReport> {
  const { probeSandbox } = await import('./sandbox-probe.ts');
  return await probeSandbox();
}
