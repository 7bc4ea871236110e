// Defines the ports that the pool needs. The runtime implements them.
import type { Clock, JsonObject, Outcome } from '@kernmantle/core/base';
import type { LabelRecords } from '@kernmantle/core/flow';
import type { ProcessPorts, Verifier } from '@kernmantle/core/kernel';
import type { Authorizer } from '@kernmantle/core/runtime';

/** Fields of W3C Trace Context, which each request carries. */
export interface TraceContext {
  readonly traceparent?: string;
  readonly tracestate?: string;
}

/** Runs `work` inside one trace span (semantic conventions for MCP) and returns its result. */
export type SpanAround = <T>(
  name: string,
  attributes: Readonly<Record<string, string | number>>,
  work: (context: TraceContext) => Promise<Outcome<T>>,
) => Promise<Outcome<T>>;

export interface PoolLimits {
  /** Idle time after which a connection is closed. */
  readonly idleMs: number;
  /** Maximum time from the start to a usable server. */
  readonly connectMs: number;
  /** Maximum size of one message of a server. */
  readonly maxBytes: number;
  /** Maximum age of a cached tool list. */
  readonly listAgeMs: number;
  readonly maxTools: number;
}

export const POOL_LIMITS: PoolLimits = {
  idleMs: 300_000,
  connectMs: 30_000,
  maxBytes: 4 * 1024 * 1024,
  listAgeMs: 60_000,
  maxTools: 2000,
};

export interface McpPoolPorts {
  readonly clock: Clock;
  /** Name and version that this program reports to servers. */
  readonly client: { readonly name: string; readonly version: string };
  /** Real path of the project. Processes run in it. */
  readonly projectRoot: string;
  /** Folder of the user's settings and logins. */
  readonly home: string;
  /** Returns the sandbox, environment and folders for a process that starts now. */
  process(): Promise<ProcessPorts>;
  /** Returns the verifier. It is the same function until the rules change. */
  verify(): Verifier;
  /** True if the operator allowed this private address under this host name. */
  isHostAllowed(host: string, address: string, port: number): boolean;
  readonly labels: LabelRecords;
  /** Returns the `dir:` labels that a rule mentions. */
  namedFolders(): readonly string[];
  /** Called with protected files that a process created, and their quarantine folder. */
  onSetAside?(paths: readonly string[], folder: string): void;
  readonly authorize?: Authorizer | undefined;
  /**
   * Returns the person's answer to a question of a server. Absent: servers cannot ask questions.
   */
  readonly elicit?: ((request: JsonObject) => Promise<JsonObject>) | undefined;
  readonly span?: SpanAround | undefined;
  readonly limits?: Partial<PoolLimits> | undefined;
}
