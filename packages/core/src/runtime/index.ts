// Opens a project: it connects the folders of core with one another and adds the extensions. It runs no code
// of the project, makes no probe and opens no connection.
import { fail, type Outcome, ok, systemRandom } from '../base/index.ts';
import type { HarnessPorts } from '../harness/index.ts';
import { createItemRoots, createLibrary, type Item, KINDS, type Library } from '../items/index.ts';
import { checkConfig, readProgramTools, withProgramItems } from '../kernel/index.ts';
import type { Store } from '../store/index.ts';
import type { ExtendedOptions } from './extension.ts';
import { callerOf, createVerbs, mountPrimitives } from './open-kernel.ts';
import {
  BUNDLE,
  type HostProject,
  type OpenOther,
  type OtherProject,
  openProject,
  type RuntimeContext,
} from './open-project.ts';
import { identify, servedItems } from './project-identity.ts';
import { registerExtensions } from './register-extensions.ts';
import { createRegistryDoor, findServer, openStore, queueDriver } from './registry.ts';
import type { pruneThreads as prune } from './retention.ts';
import type { Runtime } from './runtime.ts';
import type { ProjectSchedules } from './schedules/project-schedules.ts';
import { threadPrimitives } from './thread-primitives.ts';
import {
  checkRun,
  createThreads,
  openPorts,
  openThreadServices,
  type ThreadServices,
  withRooms,
} from './threads.ts';

/** Key under which a registered SDK is found. */
const SDK = Symbol.for('opentelemetry.js.api.1');

/** Opens a project and runs no code of it. Problems of the project appear when it is used. */
export async function createRuntime(options: ExtendedOptions = {}): Promise<Outcome<Runtime>> {
  const refused = await refuseModels(options.models ?? {});
  if (refused) return refused;
  const opened = await wireRuntime(options);
  return opened.ok ? ok(opened.output.runtime) : opened;
}

/** Returns the failure of the first value that is no model object. */
async function refuseModels(models: Readonly<Record<string, unknown>>) {
  const names = Object.keys(models);
  if (names.length === 0) return undefined;
  const { isSdkModel } = await import('../llm/index.ts');
  const wrong = names.find((name) => !isSdkModel(models[name]));
  if (wrong === undefined) return undefined;
  const message = `model \`${wrong}\` must be a language model of the AI SDK with specification v3 or v4`;
  return fail('config_invalid', message, { model: wrong });
}

/** Opens the store and the services that all threads share, on the first request. */
function createWorlds(
  rooms: () => RuntimeContext,
  openFirst: () => Promise<Outcome<Store>>,
  host?: HostProject,
) {
  let opening: Promise<Outcome<Store>> | undefined = host && Promise.resolve(ok(host.store));
  let world: Promise<ThreadServices> | undefined;
  let plain: HarnessPorts | undefined;
  const store = async (): Promise<Outcome<Store>> => {
    opening ??= openFirst();
    const opened = await opening;
    if (!opened.ok) opening = undefined;
    return opened;
  };
  const open = async (): Promise<Outcome<ThreadServices>> => {
    const opened = await store();
    if (!opened.ok) return opened;
    world ??= openThreadServices(rooms(), opened.output);
    return ok(await world);
  };
  return {
    store,
    open,
    async harness(): Promise<Outcome<HarnessPorts>> {
      const opened = await open();
      if (!opened.ok) return opened;
      plain ??= await openPorts(opened.output);
      await opened.output.watch.ready();
      return ok(plain);
    },
    async close(): Promise<void> {
      const opened = await opening;
      if (opened?.ok && !host) await opened.output.close();
    },
  };
}

/** Creates the runtime of one project. `host` is the project whose threads work in this one. */
async function wireRuntime(
  { extensions = [], ...options }: ExtendedOptions,
  host?: HostProject,
): Promise<Outcome<OtherProject & { runtime: Runtime }>> {
  const openOther: OpenOther = (other, from) => wireRuntime({ ...other, extensions }, from);
  const opened = openProject(options, openOther, host);
  if (!opened.ok) return opened;
  const open = opened.output;
  const programs = readProgramTools(options.tools ?? []);
  if (!programs.ok) return programs;
  const items = programs.output;
  const files: Library = createLibrary({
    roots: createItemRoots(open.project, open.home, BUNDLE, open.clock),
    projectRoot: open.project,
    primitives: () => [...open.primitives.keys()],
    trustStore: open.trustStore,
    policies: open.policies.places,
    clock: open.clock,
    extra: items,
    checkConfig: (config, chain) => checkConfig(config, chain, open.primitives, files),
  });
  const library = withProgramItems(files, items);
  open.policies.checkCapabilities(files);
  mountPrimitives(open, library);
  const harness = (): Promise<Outcome<HarnessPorts>> => worlds.harness();
  const reached = threadPrimitives(open, harness);
  for (const primitive of reached.primitives) open.primitives.set(primitive.name, primitive);
  const kindsOfCore = [...KINDS, ...reached.kinds.map(({ name }) => name)];
  const own = { primitives: open.primitives.keys(), kinds: kindsOfCore };
  const registered = registerExtensions(extensions, () => rooms, own);
  if (!registered.ok) return registered;
  const { primitives, kinds, drivers, script, model } = registered.output;
  const server = await findServer(open, drivers);
  if (!server.ok) return server;
  const worlds = createWorlds(
    () => rooms,
    () => openStore(open, server.output),
    host,
  );
  for (const primitive of primitives) open.primitives.set(primitive.name, primitive);
  const kernel = createVerbs(open, library, [...reached.kinds, ...kinds]);
  const rooms: RuntimeContext = { open, library, kernel, script, model };
  const { project, home, keys, trustStore, catalogs, audit } = open;
  open.store = worlds.store;
  /** Returns the services of threads that also find these items of the program, which no other thread finds. */
  async function within(world: ThreadServices, own: readonly Item[]): Promise<ThreadServices> {
    if (own.length === 0) return world;
    const scoped = withProgramItems(library, own);
    const verbs = createVerbs(open, scoped, [...reached.kinds, ...kinds]);
    return await withRooms(world, { ...rooms, library: scoped, kernel: verbs });
  }
  const runtime: Runtime = {
    rooms,
    project,
    home,
    library,
    kernel,
    policies: () => open.policies.current(),
    keys,
    trustStore,
    catalogs,
    audit: {
      write: audit.write,
      read: async (filter) => (await import('./read-audit.ts')).readAudit(open, filter),
    },
    registry: createRegistryDoor(open, server.output, worlds.store),
    sandbox: () => open.sandbox(),
    caller: (call = {}) => callerOf(open, call),
    async call(verb, request, call = {}) {
      // Only programs have labelled values. JSON cannot declare labels, so `values` is dropped.
      const { values: _values, ...plain } = request;
      const idempotencyKey = Buffer.from(systemRandom(18)).toString('base64url');
      const caller = { ...callerOf(open, call), idempotencyKey };
      const answer = await kernel[verb](plain as never, caller);
      return answer.ok ? ok(answer.output.data) : answer;
    },
    models: async () => (await import('./project-models.ts')).projectModels(rooms),
    async traced(request, work, failed) {
      if (!Object.hasOwn(globalThis, SDK)) return await work();
      const { telemetry } = await import('../harness/index.ts');
      return await (await telemetry()).inSpan(request, work, failed);
    },
    instructions() {
      const item = library.find('knowledge', 'system/universal_prompt', 'bundle');
      return item.ok ? item.output.text.trim() : '';
    },
    mayRun: (request, isWhole) => checkRun(rooms, request, isWhole),
    async threads(live = {}, own = []) {
      const opened = await worlds.open();
      if (!opened.ok) return opened;
      const here = await createThreads(await within(opened.output, own), live);
      if (!here.store.fleet) return ok(here);
      const identity = identify(open);
      if (!identity.ok) return identity;
      const driver = queueDriver(server.output, drivers);
      return driver.ok ? ok(await driver.output.threads(here, live, identity.output)) : driver;
    },
    served: () => servedItems(open),
    async close() {
      // Shared services belong to the project in which the threads were started. Threads here are
      // interrupted and can be resumed.
      const end = { status: 'interrupted', reason: 'the runtime was closed' } as const;
      if (!host) await open.live?.close(end);
      library.close();
      for (const other of open.others.known.values()) {
        const there = await other;
        if (there.ok) await there.output.runtime.close();
      }
      await registered.output.close();
      await open.audit.kept?.();
      await worlds.close();
      const memory = await open.userMemory;
      if (memory?.ok) await memory.output.close();
      for (const primitive of open.primitives.values()) {
        primitive.close?.();
        await primitive.ended?.();
      }
      open.audit.close?.();
    },
  };
  return ok({ runtime, harness });
}

export {
  type AskPerson,
  askHere,
  askOutside,
  findAnswer,
  type PersonAnswer,
  putQuestion,
  reasonsText,
} from './ask-person.ts';
export type {
  Extension,
  ProjectIdentity,
  RestoredStore,
  StoreDriver,
  ThreadObserver,
} from './extension.ts';
export type { ShownMemory } from './memory.ts';
export {
  type CallOptions,
  closedPlaces,
  createAuthorize,
  labelRecords,
  throwIfNotRecorded,
} from './open-kernel.ts';
export {
  type Authorizer,
  BUNDLE,
  findProject,
  hostAndPort,
  hostGate,
  type OpenProject,
  ownKey,
  processPorts,
  type RuntimeContext,
  type RuntimeOptions,
  recordsFolder,
} from './open-project.ts';
export { identify, type ServedItems } from './project-identity.ts';
export { resumeAfterApprovals, resumeInProcess } from './resume-after-approval.ts';

/** Removes old trees with their transcripts. The code is loaded with the first call. */
export const pruneThreads = async (...values: Parameters<typeof prune>): ReturnType<typeof prune> =>
  await (await import('./retention.ts')).pruneThreads(...values);
/** Opens the memory of a project for a person. The code is loaded with the first call. */
export const openMemory = async (runtime: Runtime) =>
  (await import('./memory.ts')).memoryOfPeople(runtime);
export type { Runtime } from './runtime.ts';

/** Returns the schedules of a project. The code is loaded with the first call. */
export const openSchedules = async (runtime: Runtime): Promise<ProjectSchedules> =>
  (await import('./schedules/project-schedules.ts')).projectSchedules(runtime);

export type { ProjectSchedules, ScheduleRequest } from './schedules/project-schedules.ts';
export { noted, signFiles } from './sign-files.ts';
export {
  type Actor,
  actorName,
  approvalDigest,
  choicesFor,
  compactThread,
  decideApproval,
  endThread,
  findPerson,
  isFileChanged,
  personAuditRow,
  type SignalResult,
  STANDS_STILL,
  signalThread,
  waitForEnd,
  withdrawAnswer,
} from './thread-signals.ts';
export { allThreads, openModel, registryFile, registryKey, type Threads } from './threads.ts';
export { chatDirective } from './user-settings.ts';
