// The interface of an opened project for commands, servers and embedding programs.
import type { Json, JsonObject, Outcome } from '../base/index.ts';
import type { PolicyState } from '../flow/index.ts';
import type { RequestSpan, RunRequest } from '../harness/index.ts';
import type { Catalogs, Item, Library } from '../items/index.ts';
import type { Audit, AuditFilter, Caller, Kernel, SandboxReport, Verb } from '../kernel/index.ts';
import type { KeyFolder, TrustStore } from '../trust/index.ts';
import type { ThreadObserver } from './extension.ts';
import type { CallOptions } from './open-kernel.ts';
import type { RuntimeContext } from './open-project.ts';
import type { ServedItems } from './project-identity.ts';
import type { projectModels } from './project-models.ts';
import type { AuditAnswer } from './read-audit.ts';
import type { RegistryAdmin } from './registry.ts';
import type { Threads } from './threads.ts';

export interface Runtime {
  /** The parts of the open project, for extensions. */
  readonly rooms: RuntimeContext;
  readonly project: string;
  /** The user's folder: keys, trust store, own items and policy. */
  readonly home: string;
  readonly library: Library;
  readonly kernel: Kernel;
  /** Returns the policies in force, and the problems of their files. A file with errors allows no action. */
  policies(): PolicyState;
  readonly keys: KeyFolder;
  readonly trustStore: TrustStore;
  readonly catalogs: Catalogs;
  readonly audit: Pick<Audit, 'write'> & {
    /** Returns the rows of threads and of all other callers, oldest first. */
    read(filter: AuditFilter): Promise<AuditAnswer>;
  };
  readonly registry: RegistryAdmin;
  /** Probes the sandbox once, on the first call. */
  sandbox(): Promise<SandboxReport>;
  caller(options?: CallOptions): Caller;
  /** Calls one verb with plain JSON, for the command line, MCP and programs. */
  call(verb: Verb, request: JsonObject, options?: CallOptions): Promise<Outcome<Json>>;
  /** Lists and tests models, and adds those of a server. */
  models(): Promise<ReturnType<typeof projectModels>>;
  /** Runs work in a span below the caller's trace. Without an OpenTelemetry SDK it only runs the work. */
  traced<T>(
    request: RequestSpan,
    work: () => Promise<T>,
    failed: (answer: T) => string | undefined,
  ): Promise<T>;
  /** Returns the short text that tells a model how to use the four tools. */
  instructions(): string;
  /**
   * Checks whether this run would be refused, without creating a thread or a registry. Without `isWhole` a project with
   * a registry passes, because the run itself makes the check.
   */
  mayRun(request: RunRequest, isWhole?: boolean): Promise<Outcome<null>>;
  /**
   * Returns the threads of this project. Opens the registry on the first call. `own`: items of the program that
   * only these threads find.
   */
  threads(live?: ThreadObserver, own?: readonly Item[]): Promise<Outcome<Threads>>;
  /** Returns the project's identity in a shared store. Fails with `project_unnamed`. */
  served(): Outcome<ServedItems>;
  /** Ends all watches and closes the parts of the runtime. */
  close(): Promise<void>;
}
