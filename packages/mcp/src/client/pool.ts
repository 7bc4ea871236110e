// Connections to other servers. What is written here is what the rest of the room relies on.
import type { JsonObject, Outcome } from '@kernmantle/core/base';
import type { Descriptor } from '@kernmantle/core/flow';

/** Where a server is, and as whom it is spoken to. Variables are expanded already; nothing of this is shown. */
export type Endpoint = StdioEndpoint | HttpEndpoint;

export interface StdioEndpoint {
  readonly kind: 'stdio';
  readonly command: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  /** No connector names it: it is started for one call and sees what the caller of that may read. */
  readonly isDirect?: true;
  /**
   * What its connector file grants its process, whoever calls: globs over paths of the project, and
   * whether it has the network. What a policy denies is taken out of it.
   */
  readonly grants: {
    readonly read: readonly string[];
    readonly write: readonly string[];
    readonly network: boolean;
  };
}

export interface HttpEndpoint {
  readonly kind: 'http';
  readonly url: string;
  /** Besides those of the protocol. */
  readonly headers: Readonly<Record<string, string>>;
  /** Who logs in, when the server asks for it; its tokens are kept under this name in the user's folder. */
  readonly oauth?: {
    readonly name: string;
    readonly scope?: string;
    /** Of a client that was registered by hand. */
    readonly client_id?: string;
    readonly client_secret?: string;
  };
}

/** A tool as its server lists it, every field of it. */
export interface ServerTool {
  readonly name: string;
  readonly definition: JsonObject;
}

export interface Listing {
  /** What it says of itself: name, version, title. */
  readonly server: JsonObject;
  readonly tools: readonly ServerTool[];
  /** Of a process: of all that ever went into it. Its list may tell of that too. */
  readonly marks?: Descriptor;
}

export interface ServerAnswer {
  /** `content`, `structuredContent`, `isError` of a call; the whole result of another method. */
  readonly result: JsonObject;
  /** Of what went in and, for a process, of all that ever went into it. `src:mcp` and `untrusted` are the caller's. */
  readonly marks: Descriptor;
}

export interface PoolCall {
  readonly signal: AbortSignal;
  readonly timeoutMs: number;
  /** Marks of everything that goes in. */
  readonly given: Descriptor;
  /** Told what the server says of its progress; must not throw. */
  readonly onProgress?: (progress: JsonObject) => void;
  /** Values that are never to be shown. */
  readonly secrets: readonly string[];
}

/** Started when first needed, one for all who ask at once, closed when idle. Never throws. */
export interface McpPool {
  /** The live list: read at connect, at `list_changed`, when older than 60 s, and when `fresh`. */
  list(
    endpoint: Endpoint,
    call: PoolCall & { readonly fresh?: boolean },
  ): Promise<Outcome<Listing>>;
  call(
    endpoint: Endpoint,
    tool: { readonly name: string; readonly arguments: JsonObject },
    call: PoolCall,
  ): Promise<Outcome<ServerAnswer>>;
  /** Any other method, for `mcp_stdio` and `mcp_http`. */
  request(
    endpoint: Endpoint,
    request: { readonly method: string; readonly params: JsonObject },
    call: PoolCall,
  ): Promise<Outcome<ServerAnswer>>;
  close(): Promise<void>;
}
