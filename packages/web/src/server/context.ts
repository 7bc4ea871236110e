// What the pieces of the web server are made of: whoever asks, and what routes are handed.
import type { IncomingMessage } from 'node:http';
import type { HttpBindings } from '@hono/node-server';
import type { Clock, Outcome } from '@kernmantle/core/base';
import type { Runtime } from '@kernmantle/core/runtime';
import type { Store, ThreadSummary } from '@kernmantle/core/store';
import type { Hono } from 'hono';
import type {
  ActionResult,
  FleetState,
  ListedRun,
  ResumeWish,
  RunRequestBody,
  StreamFrame,
  Topic,
  Totals,
  WebRole,
} from '../model/api.ts';

/** Who asks: a person with a session of the page, or a program with a token. */
export interface WebAsker {
  /** Of the session or the token. */
  readonly id: string;
  /** As journals and the audit name them. */
  readonly who: string;
  readonly role: WebRole;
  readonly expires: number;
}

export interface ApiEnv {
  Bindings: HttpBindings;
  Variables: {
    asker: WebAsker;
    /** Told when whoever asks has too small a role for what they want. */
    onRefused?: (needed: WebRole) => void;
  };
}

/** One client of the hub: a stream or a socket. It is handed frames as they are flushed. */
export interface Listener {
  readonly topics: readonly Topic[];
  /** Where it was before; absent: from now on. */
  readonly after?: string;
  /** A socket is counted apart. */
  readonly isSocket?: true;
  /**
   * False when it did not take this one: what comes is left out too until `ready`, and a reset says so.
   * The same frame is handed to many, so that it is put into words once.
   */
  send(frame: StreamFrame, position?: string): boolean;
}

export interface Subscription {
  /** The listener has taken what it was sent. */
  ready(): void;
  /** Other topics from now on; those it had go on where they are, new ones from `after` on. */
  change(topics: readonly Topic[], after?: string): void;
  end(): void;
}

/** The one reader of the store; no client touches it. */
export interface Hub {
  /** `unavailable` when there are too many. */
  subscribe(listener: Listener): Outcome<Subscription>;
  /** For a snapshot: ask for it before anything is read. `thread`: up to which event it holds. */
  position(thread?: { readonly id: string; readonly seq: number }): string;
  /** A piece of a reply that runs here. */
  text(thread: string, piece: string): void;
  /** Rows as lists show them. */
  rows(threads: readonly ThreadSummary[]): Promise<Outcome<ListedRun[]>>;
  /** Of all threads but those of hooks. */
  totals(): Promise<Outcome<Totals>>;
  /** Who works where machines share the store; null: it is a file. At most a second old, however many ask. */
  fleet(): Promise<Outcome<FleetState | null>>;
  /** How far behind the last flush was. */
  figures(): { readonly clients: number; readonly lag_ms: number; readonly sockets: number };
  close(): Promise<void>;
}

/** Threads that run in this process because somebody asked for them here. */
export interface Runs {
  /** Answers when the thread is there, not when it is over. */
  start(wish: RunRequestBody, by: WebAsker): Promise<Outcome<ActionResult>>;
  resume(id: string, wish: ResumeWish, by: WebAsker): Promise<Outcome<ActionResult>>;
  /** What waited and was decided goes on here, unless another process is at work on it. */
  decided(thread: string): void;
  /** A question that no longer fits its file: the thread goes on here and asks again. */
  askAgain(thread: string): void;
  isHere(id: string): boolean;
  count(): number;
  /** What is under way is interrupted and can be resumed. */
  close(): Promise<void>;
}

/** What is there before the hub and the runs are: `createHub` takes it with `isHere`, `createRuns` with the hub. */
export interface WebBase {
  readonly runtime: Runtime;
  /** Where nothing ever ran there is none yet: `not_found`, and nothing is made. */
  store(): Promise<Outcome<Store>>;
  readonly clock: Clock;
  /** Of whoever serves it: what findings look at. */
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly version: string;
  readonly started: number;
  onError(error: Error): void;
}

export interface WebParts extends WebBase {
  readonly hub: Hub;
  readonly runs: Runs;
}

/**
 * Who wants to open `/api/socket`: a program with a token, or why not, with the status to say so. What was
 * admitted is cut off by the gate when its token does not count any more.
 */
export type AdmitSocket = (
  incoming: IncomingMessage,
) => { readonly asker: WebAsker } | { readonly status: number; readonly message: string };

/** Adds its resources to `/api`. */
export type AddRoutes = (api: Hono<ApiEnv>, parts: WebParts) => void;
