// The primitives and sinks that the kernel brings. Their code is loaded, and what they stand on looked up,
// when a chain first ends in one: most processes need one or two; a start should not pay for the others.
import { type Clock, fail, type Outcome, plainText, suggestion } from '../../base/index.ts';
import type { BuiltinFunction } from '../file-tools/content.ts';
import type { CheckedFetch, CheckedFetchPorts } from '../http/checked-fetch.ts';
import { httpConfig } from '../http/config-shape.ts';
import type { Primitive, PrimitiveCall } from '../primitive.ts';
import { processConfig } from '../process/config-shape.ts';
import type { ProcessPorts } from '../process/environment.ts';
import type { KeptProcess, KeptProcessStart } from '../process/kept-process.ts';
import type { SandboxReport } from '../sandbox/plan.ts';
import type { SinkFactory } from '../sink.ts';
import type { OwnFolder } from '../sinks/file.ts';
import { functionConfig } from './config-shapes.ts';

/** What is made when it is first needed, once; after a making that failed the next one tries again. */
function createOnce<T>(make: () => Promise<T>) {
  let made: Promise<T> | undefined;
  return {
    get: (): Promise<T> =>
      (made ??= make().catch((error: unknown) => {
        made = undefined;
        throw error;
      })),
    made: () => made,
  };
}

/** One that stands on what a policy says now: made anew for every call, which must be cheap. */
const freshPrimitive = (name: string, make: () => Promise<Primitive>): Primitive => ({
  name,
  run: async (call) => (await make()).run(call),
  refuses: async (call) => (await make()).refuses?.(call),
  plan: async (call) => (await make()).plan?.(call) ?? { primitive: name },
});

/**
 * A primitive whose making costs something (code, a probe). A making that fails (too many files are
 * open, say) is that call's failure.
 */
export function lazyPrimitive(name: string, make: () => Promise<Primitive>): Primitive {
  const { get, made } = createOnce(make);
  let there: Primitive | undefined;
  return {
    ...freshPrimitive(name, get),
    run(call) {
      if (there) return there.run(call);
      return get().then((one) => (there = one).run(call));
    },
    loaded: get,
    close: () =>
      void made()?.then(
        (one) => one.close?.(),
        () => {},
      ),
    async ended() {
      const one = await made()?.catch(() => undefined);
      await one?.ended?.();
    },
  };
}

function lazySink(make: () => Promise<SinkFactory>): SinkFactory {
  const { get } = createOnce(make);
  return async (destination, context) => await (await get())(destination, context);
}

/**
 * In-process code: the bundle's own functions and those a program passed to `createRuntime`. A
 * project's files never name code to run here; their modules run in a sandboxed child.
 */
function createFunctionPrimitive(
  bundle: Readonly<Record<string, BuiltinFunction>>,
  program: ReadonlyMap<string, BuiltinFunction>,
): Primitive {
  return {
    name: 'function',
    run(call) {
      const name = plainText(call.config.function);
      // Only a tool defined in the program reaches program code.
      const inBundle = Object.hasOwn(bundle, name) ? bundle[name] : undefined;
      const run = call.tool.source === 'program' ? program.get(call.tool.id) : inBundle;
      if (run) return run(call);
      const hint = suggestion(name, Object.keys(bundle));
      const message = `there is no built-in function \`${name}\`${hint}`;
      const config_path = 'config.function';
      return Promise.resolve(fail('config_invalid', message, { config_path }));
    },
    plan: (call) => ({ function: call.config.function ?? call.tool.id }),
  };
}

/** The code of a shipped primitive is loaded when a chain first ends in it. */
interface ShippedPorts {
  clock: Clock;
  /** Private and loopback targets: has somebody granted this one? */
  isHostAllowed(host: string, address: string, port: number): boolean;
  process: () => Promise<ProcessPorts>;
  /** Functions of the user's own program, by tool id. */
  program: ReadonlyMap<string, BuiltinFunction>;
}

export function shippedPrimitives(ports: ShippedPorts): Primitive[] {
  const { clock, isHostAllowed, program } = ports;
  const fileTools = lazyPrimitive('function', async () => {
    const { fileFunctions } = await import('../file-tools/file-tools.ts');
    return createFunctionPrimitive(fileFunctions, program);
  });
  const http = lazyPrimitive('http_client', async () => {
    const { createHttpPrimitive } = await import('../http/http-client.ts');
    return createHttpPrimitive({ clock, isHostAllowed });
  });
  const subprocess = freshPrimitive('subprocess', async () => {
    const { createProcessPrimitive } = await import('../process/subprocess.ts');
    return createProcessPrimitive(await ports.process());
  });
  return [
    { ...fileTools, config: functionConfig },
    { ...http, config: httpConfig },
    { ...subprocess, config: processConfig },
  ];
}

/** `return` is built in, the others stand behind tools of the bundle. */
export function shippedSinks(
  ports: Pick<ShippedPorts, 'clock' | 'isHostAllowed'> & { ownFolder?: OwnFolder },
): Readonly<Record<'return' | 'file_sink' | 'null_sink' | 'websocket_sink', SinkFactory>> {
  return {
    return: lazySink(async () => (await import('../sinks/return.ts')).createReturnSink),
    file_sink: lazySink(async () =>
      (await import('../sinks/file.ts')).createFileSinkFactory(ports.ownFolder),
    ),
    null_sink: lazySink(async () => (await import('../sinks/return.ts')).createNullSink),
    websocket_sink: lazySink(async () =>
      (await import('../http/websocket-sink.ts')).createWebSocketSinkFactory(ports),
    ),
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

/** A program that is kept and spoken to, in a sandbox of its own. */
export async function startKept(
  start: KeptProcessStart,
  ports: ProcessPorts,
): Promise<Outcome<KeptProcess>> {
  const { startKeptProcess } = await import('../process/kept-process.ts');
  return await startKeptProcess(start, ports);
}

/** `fetch` over checked addresses, for libraries that speak HTTP themselves. */
export async function openFetch(ports: CheckedFetchPorts): Promise<CheckedFetch> {
  const { createCheckedFetch } = await import('../http/checked-fetch.ts');
  return createCheckedFetch(ports);
}

export async function probeSandboxNow(): Promise<SandboxReport> {
  const { probeSandbox } = await import('../sandbox/probe.ts');
  return await probeSandbox();
}
