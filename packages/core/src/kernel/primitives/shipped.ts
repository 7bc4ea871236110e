// Creates the primitives and sinks of the kernel. Their code is loaded when a chain first ends in one, because
// most processes need only one or two and should start fast.
import { type Clock, fail, type Outcome, ok, plainText, suggestion } from '../../base/index.ts';
import type { BuiltinFunction } from '../file-tools/content.ts';
import type { CheckedFetch, CheckedFetchPorts } from '../http/checked-fetch.ts';
import { httpConfig } from '../http/config-shape.ts';
import type { Primitive, PrimitiveCall } from '../primitive.ts';
import { processConfig } from '../process/config-shape.ts';
import type { ProcessPorts } from '../process/environment.ts';
import type { ResidentProcess, ResidentProcessStart } from '../process/kept-process.ts';
import type { SandboxReport } from '../sandbox/plan.ts';
import type { SinkFactory } from '../sink.ts';
import type { OwnFolder } from '../sinks/file.ts';
import { functionConfig } from './config-shapes.ts';

/** Creates a value once, when it is first needed. After a failure the next request tries again. */
function createOnce<T>(make: () => Promise<T>) {
  let created: Promise<T> | undefined;
  return {
    get: (): Promise<T> =>
      (created ??= make().catch((error: unknown) => {
        created = undefined;
        throw error;
      })),
    made: () => created,
  };
}

/** Returns a primitive that calls `make` for every call, because it may depend on the current policy. */
const freshPrimitive = (name: string, make: () => Promise<Primitive>): Primitive => ({
  name,
  run: async (call) => (await make()).run(call),
  refuses: async (call) => (await make()).refuses?.(call),
  plan: async (call) => (await make()).plan?.(call) ?? { primitive: name },
});

/**
 * Returns a primitive that the first call creates, because its creation is expensive (code, a probe). If the
 * creation fails, for example because too many files are open, the call fails and the next one tries again.
 */
export function lazyPrimitive(name: string, make: () => Promise<Primitive>): Primitive {
  const { get, made: created } = createOnce(make);
  let loadedPrimitive: Primitive | undefined;
  return {
    ...freshPrimitive(name, get),
    run(call) {
      if (loadedPrimitive) return loadedPrimitive.run(call);
      return get().then((one) => (loadedPrimitive = one).run(call));
    },
    loaded: get,
    close: () =>
      void created()?.then(
        (one) => one.close?.(),
        () => {},
      ),
    async ended() {
      const one = await created()?.catch(() => undefined);
      await one?.ended?.();
    },
  };
}

function lazySink(make: () => Promise<SinkFactory>): SinkFactory {
  const { get } = createOnce(make);
  return async (destination, context) => await (await get())(destination, context);
}

/**
 * Creates the primitive that runs code in this process: functions of the bundle, and those of the program's own
 * tools. Files of a project cannot name such code; their modules run in a sandboxed child.
 */
function createFunctionPrimitive(bundle: Readonly<Record<string, BuiltinFunction>>): Primitive {
  return {
    name: 'function',
    run(call) {
      const name = plainText(call.config.function);
      // Only a tool that the program defines reaches program code.
      const inBundle = Object.hasOwn(bundle, name) ? bundle[name] : undefined;
      const run = call.tool.source === 'program' ? call.program : inBundle;
      if (run) return run(call);
      const hint = suggestion(name, Object.keys(bundle));
      const message = `built-in function \`${name}\` not found${hint}`;
      const config_path = 'config.function';
      return Promise.resolve(fail('config_invalid', message, { config_path }));
    },
    plan: (call) => ({ function: call.config.function ?? call.tool.id }),
  };
}

/** Ports that the shipped primitives use. */
interface ShippedPorts {
  clock: Clock;
  /** Returns true if the operator granted this private or loopback address. */
  isHostAllowed(host: string, address: string, port: number): boolean;
  process: () => Promise<ProcessPorts>;
}

export function shippedPrimitives(ports: ShippedPorts): Primitive[] {
  const { clock, isHostAllowed } = ports;
  const fileTools = lazyPrimitive('function', async () => {
    const { fileFunctions } = await import('../file-tools/file-tools.ts');
    return createFunctionPrimitive(fileFunctions);
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

/** Returns the shipped sinks. `return` is built in; the others are tools of the bundle. */
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

/** Creates a sink from a project's module, which gets the events in a sandboxed child. */
export function moduleSink(ports: () => Promise<ProcessPorts>) {
  return (tool: PrimitiveCall['tool']): SinkFactory =>
    async (destination, context) => {
      const { createProcessSink } = await import('../process/module-sink.ts');
      return await createProcessSink(await ports(), tool)(destination, context);
    };
}

/** Starts a long-running program in a sandbox of its own. */
export async function startResident(
  start: ResidentProcessStart,
  ports: ProcessPorts,
): Promise<Outcome<ResidentProcess>> {
  const { startResidentProcess: startKeptProcess } = await import('../process/kept-process.ts');
  return await startKeptProcess(start, ports);
}

/** Opens `fetch` over checked addresses, for libraries that implement a protocol over HTTP. */
export async function openFetch(ports: CheckedFetchPorts): Promise<CheckedFetch> {
  const { createCheckedFetch } = await import('../http/checked-fetch.ts');
  return createCheckedFetch(ports);
}

const LOCAL = new Set(['loopback', 'private', 'unique-local', 'carrier-grade NAT']);

/** Opens `fetch` for an address that a person typed. It may be loopback or private, and `isLocal` tells if it was. */
export async function openLocalFetch(ports: Pick<CheckedFetchPorts, 'clock' | 'maxBytes'>) {
  const { addressKind } = await import('../http/address-kind.ts');
  const { lookup: lookupAll } = await import('node:dns/promises');
  const isLocal = (address: string): boolean => LOCAL.has(addressKind(address) ?? '');
  const reached = new Set<string>();
  const client = await openFetch({
    ...ports,
    verify: () => ok(null),
    async lookup(host) {
      const all = (await lookupAll(host, { all: true })).map(({ address }) => address);
      for (const address of all) reached.add(address);
      return all;
    },
    isHostAllowed: (_host, address) => isLocal(reached.add(address) && address),
  });
  return { ...client, isLocal: () => reached.size > 0 && [...reached].every(isLocal) };
}

export async function probeSandboxNow(): Promise<SandboxReport> {
  const { probeSandbox } = await import('../sandbox/probe.ts');
  return await probeSandbox();
}
