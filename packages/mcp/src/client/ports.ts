// What the pool needs of the world. The runtime makes it.
import type { Clock, JsonObject, Outcome } from '@kernmantle/core/base';
import type { LabelRecords } from '@kernmantle/core/flow';
import type { ProcessPorts, Verifier } from '@kernmantle/core/kernel';
import type { Authorizer } from '@kernmantle/core/runtime';

/** As W3C Trace Context writes it. */
export interface TraceContext {
  readonly traceparent?: string;
  readonly tracestate?: string;
}

/**
 * One span around one request. The names of attributes are those of the semantic conventions for MCP;
 * values are names and numbers only. What the work answers is what it is.
 */
export type SpanAround = <T>(
  name: string,
  attributes: Readonly<Record<string, string | number>>,
  work: (context: TraceContext) => Promise<Outcome<T>>,
) => Promise<Outcome<T>>;

export interface PoolLimits {
  /** Nobody has asked for so long: it is closed. */
  readonly idleMs: number;
  /** From the start to a server that can be asked. */
  readonly connectMs: number;
  /** Of one message of a server. */
  readonly maxBytes: number;
  /** How long a list of tools is good. */
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
  /** How this program calls itself to servers. */
  readonly client: { readonly name: string; readonly version: string };
  /** Real path of the project, in which processes run. */
  readonly projectRoot: string;
  /** The user's folder. */
  readonly home: string;
  /** Sandbox, environment and folders of processes, as they are in force when one is started. */
  process(): Promise<ProcessPorts>;
  /**
   * Refuses what policies deny and what is closed to everybody. The same function for as long as that
   * does not change: processes that were started under another one are not used any more.
   */
  verify(): Verifier;
  /** Has the operator granted this address, which is not public, under this host name? */
  isHostAllowed(host: string, address: string, port: number): boolean;
  readonly labels: LabelRecords;
  /** The `dir:` labels that somebody has a rule about. */
  namedFolders(): readonly string[];
  /** Told what a process made that acts by its name, and where it was moved when the process had ended. */
  onSetAside?(paths: readonly string[], folder: string): void;
  readonly authorize?: Authorizer | undefined;
  /** Answers what a server asks the person in between; absent: it is told that nobody does. */
  readonly elicit?: ((request: JsonObject) => Promise<JsonObject>) | undefined;
  readonly span?: SpanAround | undefined;
  readonly limits?: Partial<PoolLimits> | undefined;
}
