// Defines the contract of the pool of connections to other servers. The rest of the package relies on it.
import type { JsonObject, Outcome } from '@kernmantle/core/base';
import type { Descriptor } from '@kernmantle/core/flow';

/** Location of a server and its credentials, with variables expanded. Messages show only its name. */
export type Endpoint = StdioEndpoint | HttpEndpoint;

export interface StdioEndpoint {
  readonly kind: 'stdio';
  readonly command: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  /** True if no connector names the server. It then runs for one call, with the access of its caller. */
  readonly isDirect?: true;
  /** Grants of the connector file: globs of paths, and the network, less what policies deny. */
  readonly grants: {
    readonly read: readonly string[];
    readonly write: readonly string[];
    readonly network: boolean;
  };
}

export interface HttpEndpoint {
  readonly kind: 'http';
  readonly url: string;
  /** Additional headers besides those of the protocol. */
  readonly headers: Readonly<Record<string, string>>;
  /** Login data. Tokens are stored under this name in the user's folder. */
  readonly oauth?: {
    readonly name: string;
    readonly scope?: string;
    /** Id of a client that was registered by hand. */
    readonly client_id?: string;
    readonly client_secret?: string;
  };
}

/** A tool with every field of the server's list. */
export interface ServerTool {
  readonly name: string;
  readonly definition: JsonObject;
}

export interface Listing {
  /** Self-description of the server: name, version, title. */
  readonly server: JsonObject;
  readonly tools: readonly ServerTool[];
  /**
   * Marks of every input of a process so far, because its list can reveal them. Absent over HTTP.
   */
  readonly marks?: Descriptor;
}

export interface ServerAnswer {
  /**
   * `content`, `structuredContent` and `isError` of a call, or the whole result of another method.
   */
  readonly result: JsonObject;
  /** Marks of the input and, for a process, of all earlier inputs, without `src:mcp`. */
  readonly marks: Descriptor;
}

export interface PoolCall {
  readonly signal: AbortSignal;
  readonly timeoutMs: number;
  /** Marks of everything that is sent. */
  readonly given: Descriptor;
  /** Receives progress of the server. Must not throw. */
  readonly onProgress?: (progress: JsonObject) => void;
  /** Values that are masked in every answer and failure. */
  readonly secrets: readonly string[];
}

/**
 * Opens connections on first use, shares them between callers and closes idle ones. Never throws.
 */
export interface McpPool {
  /** Returns the tools. Reads them again after a connect, `list_changed` or 60 s, and if `fresh`. */
  list(
    endpoint: Endpoint,
    call: PoolCall & { readonly fresh?: boolean },
  ): Promise<Outcome<Listing>>;
  call(
    endpoint: Endpoint,
    tool: { readonly name: string; readonly arguments: JsonObject },
    call: PoolCall,
  ): Promise<Outcome<ServerAnswer>>;
  /** Calls any other method, for `mcp_stdio` and `mcp_http`. */
  request(
    endpoint: Endpoint,
    request: { readonly method: string; readonly params: JsonObject },
    call: PoolCall,
  ): Promise<Outcome<ServerAnswer>>;
  close(): Promise<void>;
}
