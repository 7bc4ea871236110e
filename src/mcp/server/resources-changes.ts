// Clients that want to hear when a resource is another one: a thread has moved, the file of an item was
// changed. Somebody is told that it happened, never what: they read it again, and are judged then.
import { type McpServer, ResourceNotFoundError } from '@modelcontextprotocol/server';
import type { ItemKind } from '../../items/index.ts';
import type { Changes, McpHost, ServerParts } from './host.ts';

/** Of one listener. */
const MAX_URIS = 200;
const LOOK_MS = 1000;

const ITEM = /^(directive|knowledge):\/\/([^?#]{1,500})$/;

/** What an address stands for; undefined for what is none. */
function subjectOf(uri: string): { kind: ItemKind; id: string } | undefined {
  const [, kind, id] = ITEM.exec(uri) ?? [];
  return kind === undefined || id === undefined ? undefined : { kind: kind as ItemKind, id };
}

/** An item never changes: a changed file is another one. */
function followItems(
  { library }: McpHost,
  items: readonly { uri: string; kind: ItemKind; id: string }[],
  tell: (uri: string) => void,
  signal: AbortSignal,
): void {
  const find = (kind: ItemKind, id: string): unknown => {
    const found = library.find(kind, id);
    return found.ok ? found.output : undefined;
  };
  const seen = new Map(items.map(({ uri, kind, id }) => [uri, find(kind, id)]));
  const look = async (): Promise<void> => {
    await library.refresh();
    for (const { uri, kind, id } of items) {
      const now = find(kind, id);
      if (signal.aborted || seen.get(uri) === now) continue;
      seen.set(uri, now);
      tell(uri);
    }
  };
  const timer = setInterval(() => void look().catch(() => undefined), LOOK_MS).unref();
  signal.addEventListener('abort', () => clearInterval(timer), { once: true });
}

export function createChanges(host: McpHost): Changes {
  return {
    follow({ uris, tell }) {
      const over = new AbortController();
      const { signal } = over;
      const say = (uri: string): void => tell({ kind: 'resource_updated', uri });
      const items = [...uris].slice(0, MAX_URIS).flatMap((uri) => {
        const subject = subjectOf(uri);
        return subject ? [{ uri, ...subject }] : [];
      });
      if (items.length > 0) followItems(host, items, say, signal);
      return () => over.abort();
    },
  };
}

/** The older revision: one address after the other, for as long as the connection lives. */
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
    // Whoever is gone does not listen any more.
    server.server.sendResourceUpdated({ uri }).catch(() => stop(uri));
  };
  server.server.setRequestHandler('resources/subscribe', ({ params: { uri } }) => {
    const who = client();
    if (!subjectOf(uri) && !isOffered(uri)) throw new ResourceNotFoundError(uri);
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
