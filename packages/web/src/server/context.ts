// Types that the parts of the web server share: the actor of a request, and the services that routes get.
import type { IncomingMessage } from 'node:http';
import type { HttpBindings } from '@hono/node-server';
import type { Clock, Outcome } from '@kernmantle/core/base';
import type { RunRequest } from '@kernmantle/core/harness';
import type { Runtime } from '@kernmantle/core/runtime';
import type { Store, ThreadRow, ThreadSummary } from '@kernmantle/core/store';
import type { Hono } from 'hono';
import type {
  ActionResult,
  FleetState,
  ForkRequestBody,
  ListedRun,
  ResumeRequestBody,
  RunRequestBody,
  StreamFrame,
  Topic,
  Totals,
  UploadedFile,
  WebRole,
} from '../model/api.ts';

/** Actor of a request: a person with a session of the page, or a program with a token. */
export interface WebCaller {
  readonly id: string;
  /** Name of the actor in journals and in the audit. */
  readonly who: string;
  readonly role: WebRole;
  readonly expires: number;
}

export interface ApiEnv {
  Bindings: HttpBindings;
  Variables: {
    asker: WebCaller;
    /** Called if the role of the actor does not allow the route. */
    onRefused?: (needed: WebRole) => void;
  };
}

/** A client of the hub: a stream or a socket. It gets frames at every flush. */
export interface Listener {
  readonly topics: readonly Topic[];
  /** Position after which the stream starts. Absent: from now on. */
  readonly after?: string;
  /** True for a WebSocket. Sockets have their own count. */
  readonly isSocket?: true;
  /**
   * False if the client did not take the frame. Then later frames are dropped until `ready`, and a
   * reset reports the loss. Many clients get the same frame, so it is serialized once.
   */
  send(frame: StreamFrame, position?: string): boolean;
}

export interface Subscription {
  /** Called when the client has taken all frames. */
  ready(): void;
  /** Changes the topics. Topics that stay continue, new ones start at `after`. */
  change(topics: readonly Topic[], after?: string): void;
  end(): void;
}

/** The only reader of the store. Clients never read the store themselves. */
export interface Hub {
  /** Fails with `unavailable` if there are too many clients. */
  subscribe(listener: Listener): Outcome<Subscription>;
  /** Position for a snapshot; call it before any read. `thread`: the last event of the snapshot. */
  position(thread?: { readonly id: string; readonly seq: number }): string;
  /** Sends a piece of a reply of a thread that runs here. */
  text(thread: string, piece: string): void;
  rows(threads: readonly ThreadSummary[]): Promise<Outcome<ListedRun[]>>;
  /** Counts all threads except those of hooks. */
  totals(): Promise<Outcome<Totals>>;
  /** State of the fleet, at most a second old. Null: the store is a file. */
  fleet(): Promise<Outcome<FleetState | null>>;
  /** `lag_ms` is the delay of the last flush. */
  figures(): { readonly clients: number; readonly lag_ms: number; readonly sockets: number };
  close(): Promise<void>;
}

/** Threads that run in this process for a client of the server. */
export interface Runs {
  /** Resolves when the thread exists, not when it ends. */
  start(body: RunRequestBody, by: WebCaller): Promise<Outcome<ActionResult>>;
  resume(id: string, body: ResumeRequestBody, by: WebCaller): Promise<Outcome<ActionResult>>;
  /** Resolves with the id of the fork when it exists. */
  fork(
    source: Pick<ThreadRow, 'id' | 'directive'>,
    body: ForkRequestBody,
    by: WebCaller,
  ): Promise<Outcome<ActionResult>>;
  /** Resumes the thread after a decision, unless another process has the lease. */
  decided(thread: string): void;
  /** Resumes the thread, so that it creates a new request. Called if the file of its request has changed. */
  askAgain(thread: string): void;
  isHere(id: string): boolean;
  count(): number;
  /** Interrupts all runs of this process. They can be resumed. */
  close(): Promise<void>;
}

/** Files that people sent for a start or a resume. They stay in memory until they are used or too old. */
export interface Uploads {
  /** Reserves the size of a file, whose `data` follows. Fails with `quota_exceeded`. */
  begin(owner: string, name: string, size: number): Outcome<{ id: string; data?: Uint8Array }>;
  /** Returns the attachments of a request. A person can only use their own uploads. */
  find(list: readonly UploadedFile[], by: WebCaller): Outcome<NonNullable<RunRequest['attach']>>;
  drop(ids: Iterable<string>): void;
}

/** Services that the hub and the runs need: `createHub` adds `isHere`, `createRuns` adds the hub. */
export interface WebBase {
  readonly runtime: Runtime;
  /** Fails with `not_found` if no thread ever ran. It never creates a store. */
  store(): Promise<Outcome<Store>>;
  readonly clock: Clock;
  /** Environment of the server process, for the findings of the health view. */
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly version: string;
  readonly started: number;
  onError(error: Error): void;
}

export interface WebParts extends WebBase {
  readonly hub: Hub;
  readonly runs: Runs;
  /** Files for the next start or resume of their owner. */
  readonly uploads: Uploads;
}

/**
 * Admits or refuses a program that opens `/api/socket`. A refusal has a status and a message. The
 * guard closes an admitted socket when its token becomes invalid.
 */
export type AdmitSocket = (
  incoming: IncomingMessage,
) => { readonly asker: WebCaller } | { readonly status: number; readonly message: string };

export type AddRoutes = (api: Hono<ApiEnv>, parts: WebParts) => void;
