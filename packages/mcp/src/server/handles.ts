// Handles of threads: the one place that makes and reads them. A handle is the thread's id with a mark
// over it, the project and the client that only this user's key makes: nobody can guess one, and one that
// was handed to another client, or for another project, is worth nothing. Nothing is kept, so a client
// that is known again after a restart (by its token) still has what it was handed.
import { createHmac, timingSafeEqual } from 'node:crypto';
import type { Handles } from '@kernmantle/core/kernel';
import type { McpClient, McpHost } from './host.ts';

const BYTES = 24;
const HANDLE = /^([A-Za-z0-9_-]{1,80})\.([A-Za-z0-9_-]{32})$/;
/** Also what somebody has cut or changed: no name of a file ends like that. */
const ALIKE = /^([A-Za-z0-9_-]{1,80})\.[A-Za-z0-9_-]{24,}$/;

/** Told apart from everything else that is made with the same key. */
const PURPOSE = 'kernmantle mcp handle 1';

/** `client`: whom they are bound to. Without a key nothing can be named. */
export function handlesOf(
  { key, project }: Pick<McpHost, 'key' | 'project'>,
  { id: client }: Pick<McpClient, 'id'>,
): Handles {
  const markOf = (id: string): Buffer | undefined => {
    const secret = key();
    if (!secret.ok) return undefined;
    const about = JSON.stringify([PURPOSE, project, client, id]);
    return createHmac('sha256', secret.output).update(about).digest().subarray(0, BYTES);
  };
  return {
    handleOf(id) {
      const mark = markOf(id);
      return mark ? `${id}.${mark.toString('base64url')}` : '';
    },
    claimOf: (name) => ALIKE.exec(name)?.[1] ?? name,
    idOf(handle) {
      // An id holds no dot. The text is compared as it is: one thread has one handle.
      const [, id = '', given = ''] = HANDLE.exec(handle) ?? [];
      const mark = id === '' ? undefined : markOf(id);
      if (!mark) return undefined;
      const wanted = Buffer.from(mark.toString('base64url'));
      return timingSafeEqual(Buffer.from(given), wanted) ? id : undefined;
    },
  };
}

/** A list shows the newest handles. A client that has a handle needs no list. */
const MAX_HANDED = 100;
const MAX_CLIENTS = 200;
const handed = new WeakMap<object, Map<string, Set<string>>>();

function remember(host: object, client: string, id: string): void {
  const clients = handed.get(host) ?? new Map<string, Set<string>>();
  handed.set(host, clients);
  const ids = clients.get(client) ?? new Set<string>();
  // The newest of both stand last.
  clients.delete(client);
  clients.set(client, ids);
  ids.delete(id);
  ids.add(id);
  for (const old of ids) if (ids.size > MAX_HANDED) ids.delete(old);
  for (const old of clients.keys()) if (clients.size > MAX_CLIENTS) clients.delete(old);
}

/** Ids that this client was handed lately, the newest last. */
const idsOf = (host: object, client: Pick<McpClient, 'id'>): string[] => [
  ...(handed.get(host)?.get(client.id) ?? []),
];

/** Handles that this client was handed lately, the newest first. */
export function handedTo(host: McpHost, client: Pick<McpClient, 'id'>): string[] {
  const ids = idsOf(host, client);
  const { handleOf } = handlesOf(host, client);
  return ids.toReversed().map(handleOf);
}

/** The host, of which every call knows what its client was handed. */
export const withHandles = (host: McpHost): McpHost => ({
  ...host,
  call(verb, request, call) {
    const { onProgress, client } = call;
    const { handleOf, ...others } = handlesOf(host, client);
    const handles = {
      ...others,
      handed: () => idsOf(host, client),
      handleOf(id: string): string {
        remember(host, client.id, id);
        return handleOf(id);
      },
      ...(onProgress && { onProgress }),
    };
    return host.call(verb, request, { ...call, handles });
  },
});
