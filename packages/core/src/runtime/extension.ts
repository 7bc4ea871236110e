// Defines how a package adds itself to a runtime. Core uses this interface and imports no such package. An
// extension is data and functions that return objects. Registration does no I/O and starts no process: each
// function loads its own code with `import()` when a call needs it.
import type { Clock, Outcome } from '../base/index.ts';
import type { ModelPort, RunObserver, ScriptPort } from '../harness/index.ts';
import type { Kind, Primitive } from '../kernel/index.ts';
import type { Store } from '../store/index.ts';
import type { ProjectOptions, RuntimeContext } from './open-project.ts';
import type { Threads } from './threads.ts';

export interface Extension {
  /** A unique name, which error messages use. */
  readonly name: string;
  /**
   * Returns primitives for the ends of tool chains. It is called once per project, before the library is read,
   * so only `run` may call `rooms()`. Two extensions that return the same primitive name are an error
   * (`config_invalid`).
   */
  primitives?(rooms: () => RuntimeContext): readonly Primitive[];
  /** Returns item kinds that `execute` accepts besides directive, tool and knowledge. */
  kinds?(rooms: () => RuntimeContext): readonly Kind[];
  /**
   * Runs scripts of directives and hooks. At most one extension provides it. Without it a directive with
   * a script fails with `script_unavailable`.
   */
  script?(rooms: RuntimeContext): ScriptPort;
  /** Store drivers by URL scheme, with the colon: `postgres:`. */
  readonly stores?: Readonly<Record<string, StoreDriver>>;
  /**
   * Wraps the model port, for example to share rate limits between machines. Wrappers apply in registration
   * order.
   */
  model?(rooms: RuntimeContext, store: Store, model: ModelPort): ModelPort;
  /** The runtime calls it once when it closes, after all threads have stopped. */
  close?(rooms: RuntimeContext): Promise<void>;
}

/** Options of `createRuntime`. An embedding program gets `RuntimeOptions`, without the extensions. */
export interface ExtendedOptions extends ProjectOptions {
  extensions?: readonly Extension[];
}

export interface StoreOptions {
  readonly clock: Clock;
  /** Key that proves that the registry belongs to this user, and that decrypts its sealed values. */
  readonly identity: Uint8Array;
}

/** A registry that is not a file of the project. */
export interface StoreDriver {
  /** Returns the address without its password. Fails with `invalid_input`. Opens no connection. */
  describe(address: string): Promise<Outcome<string>>;
  open(address: string, options: StoreOptions): Promise<Outcome<Store>>;
  /** Creates the tables, or updates them to this version. */
  migrate(address: string, options: StoreOptions): Promise<Outcome<{ from: number; to: number }>>;
  /** Invalidates all leases after a restore from a backup. */
  restored(address: string, options: StoreOptions): Promise<Outcome<RestoredStore>>;
  /** Returns the threads of a shared store: a run is queued, and a worker executes it. */
  threads(local: Threads, observer: ThreadObserver, identity: ProjectIdentity): Promise<Threads>;
}

export interface RestoredStore {
  /** Number of all threads. Their epochs are raised. */
  readonly threads: number;
  /** Number of threads that were running. */
  readonly interrupted: number;
  /** Number of threads that wait for a worker, or for their time. */
  readonly queued: number;
  /** Time of the last change in the backup, in milliseconds since 1970. */
  readonly until: number;
}

/** Id of this project in a store that machines share, and the digest of its items. */
export interface ProjectIdentity {
  readonly project: string;
  readonly items: string;
}

/** Receives events and text of threads that run in this process. `onQueued`: a run was queued instead. */
export interface ThreadObserver extends RunObserver {
  onQueued?(thread: string): void;
}
