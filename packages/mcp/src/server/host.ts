// What the server needs from whoever runs it. The runtime makes it (`runtime/mcp-host.ts`): this room
// knows neither threads that run nor how rights are decided.
import type { Json, JsonObject, Outcome } from '@kernmantle/core/base';
import type { ComposedPolicy } from '@kernmantle/core/flow';
import type { Library } from '@kernmantle/core/items';
import type { Handles, Verb } from '@kernmantle/core/kernel';
import type { Approval, Store } from '@kernmantle/core/store';
import type { fromJsonSchema, ServerEvent } from '@modelcontextprotocol/server';
import type { Answers } from './answers.ts';
import type { RequestStates } from './request-state.ts';

/** Who is at the other end of a connection. */
export interface McpClient {
  /**
   * What its handles are bound to: the id of its bearer token; without one this process (stdio) or this
   * server (HTTP on loopback), which nobody can guess.
   */
  readonly id: string;
  /** As it calls itself: for the audit, never for a decision. */
  readonly name: string;
  /** `view` reads; `steer` also starts and steers; `approve` also decides, as a person at a terminal does. */
  readonly role: 'view' | 'steer' | 'approve';
}

export interface HostCall {
  readonly client: McpClient;
  readonly signal: AbortSignal;
  /** Told what a tool's process prints, as it comes; must not throw. */
  readonly onOutput?: (text: string) => void;
  /** Told how far a thread is that the call waits for: `turn`, `step`, `status`, `cost`, `limits`; must not throw. */
  readonly onProgress?: (state: JsonObject) => void;
  /** By what it names threads; the server adds them to every call (`handles.ts`). Without: it can name none. */
  readonly handles?: Handles;
}

/** A request as traces tell of it: names, nothing that was said. */
export interface AnsweredRequest {
  readonly method: string;
  /** Name of a tool or prompt, kind of a resource; empty: the method says it all. */
  readonly target: string;
  /** As the client calls itself. */
  readonly client: string;
  /** Of the trace that the client is in, as it wrote them; empty: none. */
  readonly traceparent: string;
  readonly tracestate: string;
}

export interface McpHost {
  readonly version: string;
  /** Real path of the project. */
  readonly project: string;
  readonly library: Library;
  /** In force now. */
  policy(): ComposedPolicy;
  /** One verb on the surface `mcp`, judged like every other call there. */
  call(verb: Verb, request: JsonObject, call: HostCall): Promise<Outcome<Json>>;
  /** Threads of this project as the file has them: known secrets are references. */
  store(): Promise<Outcome<Store>>;
  /** A person at the client has decided. Refused unless its role is `approve` and the policy lets it. */
  decide(
    approval: string,
    answer: { approve: boolean; words?: string; value?: true },
    client: McpClient,
  ): Promise<Outcome<Approval>>;
  /** 32 bytes that only this user has, for handles and signed state; the same after a restart. */
  key(): Outcome<Uint8Array>;
  /** `work` inside a span of its own; `failed` names the code of an answer that is a refusal. */
  span?<T>(
    request: AnsweredRequest,
    work: () => Promise<T>,
    failed: (answer: T) => string | undefined,
  ): Promise<T>;
  /** What goes wrong beside the calls. */
  onError(error: Error): void;
}

/** Somebody who listens for changes, of lists and of resources. */
export interface ChangeListener {
  readonly client: Pick<McpClient, 'id' | 'role'>;
  /** The resources it asked about; what it hears of others is dropped. */
  readonly uris: ReadonlySet<string>;
  /** Must not throw. */
  tell(change: ServerEvent): void;
}

/**
 * Where changes come from. A server of its own (stdio, a session over HTTP) is told by whoever made it;
 * the current revision over HTTP has no such server, so each of its `subscriptions/listen` streams is
 * announced here, and let go with what this answers.
 */
export interface Changes {
  follow(listener: ChangeListener): () => void;
}

/** What every part of a server is given. */
export interface ServerParts {
  readonly host: McpHost;
  /** As far as it is known by now: its name comes with its first message. */
  client(): McpClient;
  schema(json: JsonObject): ReturnType<typeof fromJsonSchema<JsonObject>>;
  /** What clients bring back with their answers. */
  readonly states: RequestStates;
  /** Where results go that are too long for one message. */
  readonly answers: Answers;
}
