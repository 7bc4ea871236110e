// Notifies clients when a resource changes: a thread has advanced, or the file of an item was
// changed. The notification has no content. The client reads the resource again, and its permission
// is checked then.
import { getOwn, type Json, textsAt } from '@kernmantle/core/base';
import { groupExposed, type ItemKind } from '@kernmantle/core/items';
import { type McpServer, ResourceNotFoundError } from '@modelcontextprotocol/server';
import { handlesOf } from './handles.ts';
import type { ChangeListener, Changes, McpHost, ServerParts } from './host.ts';
import { decoded } from './native-results.ts';

/** Maximum number of addresses of one listener. */
const MAX_URIS = 200;
/** Maximum number of listeners of one connection. */
const MAX_LISTENS = 64;
const POLL_MS = 1000;

const THREAD = /^thread:\/\/([^/?#]{1,200})\/(?:status|transcript)(?:\?.*)?$/;
const ITEM = /^(directive|knowledge):\/\/([^?#]{1,500})$/;

/** Returns the subject of an address. Undefined if it is invalid or not visible to this client. */
function subjectOf(host: McpHost, client: ChangeListener['client'], uri: string) {
  const [, handle] = THREAD.exec(uri) ?? [];
  const thread = handle === undefined ? undefined : handlesOf(host, client).idOf(handle);
  if (thread !== undefined) return { thread };
  const [, kind, id] = ITEM.exec(uri) ?? [];
  if (kind !== undefined && id !== undefined) return { kind: kind as ItemKind, id: decoded(id) };
  const [exposed] = groupExposed(host.library.all('knowledge')).get(`resource \`${uri}\``) ?? [];
  return exposed && { kind: exposed.kind, id: exposed.id };
}

/** Until the signal aborts, sends a notification whenever one of the threads changes. */
async function followThreads(
  host: McpHost,
  uris: ReadonlyMap<string, readonly string[]>,
  tell: (uri: string) => void,
  signal: AbortSignal,
): Promise<void> {
  const store = await host.store();
  if (!store.ok) throw new Error(store.error.detail.message);
  for await (const { thread } of store.output.changes({ threads: [...uris.keys()] }, signal)) {
    if (signal.aborted) return;
    for (const uri of uris.get(thread) ?? []) tell(uri);
  }
}

/** Sends a notification when an item changes. The library creates a new object for a changed file. */
function followItems(
  { library }: McpHost,
  items: readonly { uri: string; kind: ItemKind; id: string }[],
  tell: (uri: string) => void,
  signal: AbortSignal,
): void {
  const find = (kind: ItemKind, id: string): unknown => {
    const item = library.find(kind, id);
    return item.ok ? item.output : undefined;
  };
  const latest = new Map(items.map(({ uri, kind, id }) => [uri, find(kind, id)]));
  const look = async (): Promise<void> => {
    await library.refresh();
    for (const { uri, kind, id } of items) {
      const now = find(kind, id);
      if (signal.aborted || latest.get(uri) === now) continue;
      latest.set(uri, now);
      tell(uri);
    }
  };
  const timer = setInterval(() => void look().catch(() => undefined), POLL_MS).unref();
  signal.addEventListener('abort', () => clearInterval(timer), { once: true });
}

export function createChanges(host: McpHost): Changes {
  return {
    follow({ client, uris, tell }) {
      const over = new AbortController();
      const { signal } = over;
      const notify = (uri: string): void => tell({ kind: 'resource_updated', uri });
      const threads = new Map<string, string[]>();
      const items: { uri: string; kind: ItemKind; id: string }[] = [];
      for (const uri of [...uris].slice(0, MAX_URIS)) {
        const subject = subjectOf(host, client, uri);
        if (!subject) continue;
        if ('thread' in subject) {
          threads.set(subject.thread, [...(threads.get(subject.thread) ?? []), uri]);
        } else items.push({ uri, ...subject });
      }
      if (threads.size > 0) {
        void followThreads(host, threads, notify, signal).catch((error: unknown) => {
          if (!signal.aborted)
            host.onError(error instanceof Error ? error : new Error(String(error)));
        });
      }
      if (items.length > 0) followItems(host, items, notify, signal);
      return () => over.abort();
    },
  };
}

/** Adds the subscriptions of the older revision: one address per request, until the connection ends. */
export function addSubscriptions(
  server: McpServer,
  { host, client }: ServerParts,
  isOffered: (uri: string) => boolean,
): void {
  const changes = createChanges(host);
  const followed = new Map<string, () => void>();
  const stop = (uri: string): void => {
    followed.get(uri)?.();
    followed.delete(uri);
  };
  const tell = (uri: string): void => {
    // A failed notification means that the client has disconnected.
    server.server.sendResourceUpdated({ uri }).catch(() => stop(uri));
  };
  server.server.setRequestHandler('resources/subscribe', ({ params: { uri } }) => {
    const who = client();
    if (!subjectOf(host, who, uri) && !isOffered(uri)) throw new ResourceNotFoundError(uri);
    if (followed.has(uri)) return {};
    if (followed.size >= MAX_URIS) throw new Error(`more than ${MAX_URIS} subscriptions`);
    const listener = { client: who, uris: new Set([uri]), tell: () => tell(uri) };
    followed.set(uri, changes.follow(listener));
    return {};
  });
  server.server.setRequestHandler('resources/unsubscribe', ({ params: { uri } }) => {
    stop(uri);
    return {};
  });
  const { onclose } = server.server;
  const closed = (): void => {
    onclose?.();
    for (const uri of followed.keys()) stop(uri);
  };
  Object.assign(server.server, { onclose: closed });
}

/** The resources that a `subscriptions/listen` request names. */
export const listedUris = (body: Json | undefined): ReadonlySet<string> =>
  new Set(textsAt(getOwn(getOwn(body, 'params'), 'notifications'), 'resourceSubscriptions'));

/**
 * Creates the subscriptions of the current revision over a lasting connection. The SDK answers
 * `subscriptions/listen` and forwards the requested notifications; this function produces them.
 * `hear` receives every message.
 */
export function createListens(
  host: McpHost,
  client: ChangeListener['client'],
  tell: ChangeListener['tell'],
) {
  const changes = createChanges(host);
  const open = new Map<Json, () => void>();
  const stop = (id: Json): void => {
    open.get(id)?.();
    open.delete(id);
  };
  return {
    hear(message: Json): void {
      const method = getOwn(message, 'method');
      const id = getOwn(message, 'id');
      if (method === 'notifications/cancelled') {
        stop(getOwn(getOwn(message, 'params'), 'requestId') ?? null);
      } else if (method === 'subscriptions/listen' && id !== undefined && open.size < MAX_LISTENS) {
        stop(id);
        open.set(id, changes.follow({ client, uris: listedUris(message), tell }));
      }
    },
    close(): void {
      for (const id of open.keys()) stop(id);
    },
  };
}
