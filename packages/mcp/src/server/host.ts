// Defines the interface between the server and its host, which `runtime/mcp-host.ts` implements. The server
// does not run threads and does not decide about permissions.
import type { Json, JsonObject, Outcome } from '@kernmantle/core/base';
import type { ComposedPolicy } from '@kernmantle/core/flow';
import type { Library } from '@kernmantle/core/items';
import type { Handles, Verb } from '@kernmantle/core/kernel';
import type { Approval, Store } from '@kernmantle/core/store';
import type { fromJsonSchema, ServerEvent } from '@modelcontextprotocol/server';
import type { Answers } from './answers.ts';
import type { RequestStates } from './request-state.ts';

/** The client of a connection, as the transport has authenticated it. */
export interface McpClient {
  /** Id that handles are bound to: of the bearer token, or random per process or server. */
  readonly id: string;
  /** Name that the client claims. Used for the audit, never for a decision. */
  readonly name: string;
  /** `view` reads. `steer` also steers threads. `approve` also decides approval requests. */
  readonly role: 'view' | 'steer' | 'approve';
}

export interface HostCall {
  readonly client: McpClient;
  readonly signal: AbortSignal;
  /** Receives output of tool processes as it is printed. Must not throw. */
  readonly onOutput?: (text: string) => void;
  /** Receives `turn`, `step`, `status`, `cost` and `limits` of the thread. Must not throw. */
  readonly onProgress?: (state: JsonObject) => void;
  /** Translates handles, added by the server. Absent: the call cannot name a thread. */
  readonly handles?: Handles;
}

/** A request in a trace: names only, no content. */
export interface AnsweredRequest {
  readonly method: string;
  /** Name of a tool or prompt, or kind of a resource. Empty if the method has no target. */
  readonly target: string;
  /** Name that the client claims, without any check. */
  readonly client: string;
  /** Id of the session over HTTP. Empty: the connection has none. */
  readonly session: string;
  /** Trace of the client, from the request or its headers. Empty if the client sent none. */
  readonly traceparent: string;
  readonly tracestate: string;
}

export interface McpHost {
  readonly version: string;
  readonly project: string;
  readonly library: Library;
  policy(): ComposedPolicy;
  /** Calls one kernel tool on the surface `mcp`, with the same checks as every other call. */
  call(verb: Verb, request: JsonObject, call: HostCall): Promise<Outcome<Json>>;
  /** Returns the store with the threads of this project. Secrets are replaced by references. */
  store(): Promise<Outcome<Store>>;
  /** Records the decision of a person. Refused without the role `approve`, or by the policy. */
  decide(
    approval: string,
    answer: { approve: boolean; words?: string; value?: true },
    client: McpClient,
  ): Promise<Outcome<Approval>>;
  /** Returns 32 secret bytes of this user, for handles and signed state. They survive a restart. */
  key(): Outcome<Uint8Array>;
  /** Runs `work` inside a trace span. `failed` returns the code of a refusal. */
  span?<T>(
    request: AnsweredRequest,
    work: () => Promise<T>,
    failed: (answer: T) => string | undefined,
  ): Promise<T>;
  onError(error: Error): void;
}

/** A receiver of changes of lists and resources. */
export interface ChangeListener {
  readonly client: Pick<McpClient, 'id' | 'role'>;
  /** Resources of interest. Changes of others are dropped. */
  readonly uris: ReadonlySet<string>;
  /** Receives a change. Must not throw. */
  tell(change: ServerEvent): void;
}

/**
 * Source of changes. A server that lives as long as its connection (stdio, a session over HTTP) is
 * notified by its creator. The current revision over HTTP has no such server, so each
 * `subscriptions/listen` stream registers here and unregisters with the returned function.
 */
export interface Changes {
  follow(listener: ChangeListener): () => void;
}

/** Objects that every part of a server receives. */
export interface ServerParts {
  readonly host: McpHost;
  /** Returns the client. Its name is empty until its first message. */
  client(): McpClient;
  schema(json: JsonObject): ReturnType<typeof fromJsonSchema<JsonObject>>;
  /** Signs and verifies the state that clients return with answers. */
  readonly states: RequestStates;
  /** Stores results that are too long for one message. */
  readonly answers: Answers;
}
