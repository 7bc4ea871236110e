// What an opened project can do for whoever serves people, clients or programs with it.
import type { Json, JsonObject, Outcome } from '../base/index.ts';
import type { PolicyState } from '../flow/index.ts';
import type { PlainRequest, PlainResult, RunRequest } from '../harness/index.ts';
import type { Catalogs, Library } from '../items/index.ts';
import type { Audit, AuditFilter, Caller, Kernel, SandboxReport, Verb } from '../kernel/index.ts';
import type { KeyFolder, TrustStore } from '../trust/index.ts';
import type { ThreadObserver } from './extension.ts';
import type { CallOptions } from './open-kernel.ts';
import type { Rooms } from './open-project.ts';
import type { ServedItems } from './project-identity.ts';
import type { AuditAnswer } from './read-audit.ts';
import type { RegistryDoor } from './registry.ts';
import type { Threads } from './threads.ts';

export interface Runtime {
  /** The parts of the open project, for extensions. */
  readonly rooms: Rooms;
  readonly project: string;
  /** The user's folder: keys, trust store, own items and policy. */
  readonly home: string;
  readonly library: Library;
  readonly kernel: Kernel;
  /** The policies in force now, and what is wrong with their files; one with errors allows nothing. */
  policies(): PolicyState;
  readonly keys: KeyFolder;
  readonly trustStore: TrustStore;
  readonly catalogs: Catalogs;
  readonly audit: Pick<Audit, 'write'> & {
    /** Of threads and all others, oldest first. */
    read(filter: AuditFilter): Promise<AuditAnswer>;
  };
  readonly registry: RegistryDoor;
  /** Probed once, when first asked. */
  sandbox(): Promise<SandboxReport>;
  caller(options?: CallOptions): Caller;
  /** One verb, plain JSON in and out: what the command line, MCP and programs use. */
  call(verb: Verb, request: JsonObject, options?: CallOptions): Promise<Outcome<Json>>;
  /** The short universal text that tells a model how to use the four tools. */
  instructions(): string;
  /** Would this run be refused before there is a thread? Where nothing ever ran, nothing is made. */
  mayRun(request: RunRequest): Promise<Outcome<null>>;
  /** The loop without a directive, with the program's own prompt and tools. */
  plain(request: PlainRequest, signal?: AbortSignal): Promise<Outcome<PlainResult>>;
  /** Threads of this project; the registry is opened when first asked for. */
  threads(live?: ThreadObserver): Promise<Outcome<Threads>>;
  /** What this project is called and has, where machines share a store; `project_unnamed`. */
  served(): Outcome<ServedItems>;
  /** Ends watches; nothing of the runtime stays behind. */
  close(): Promise<void>;
}
