// Creates and reads handles of threads. A handle is the thread id with a signature over the id, the
// project and the client, made with the user's key. Nobody can guess a handle, and it is invalid
// for another client or project. No list of handles is stored, so a client with the same token
// keeps its handles after a restart.
import { createHmac, timingSafeEqual } from 'node:crypto';
import type { Handles } from '@kernmantle/core/kernel';
import type { McpClient, McpHost } from './host.ts';

const BYTES = 24;
const HANDLE = /^([A-Za-z0-9_-]{1,80})\.([A-Za-z0-9_-]{32})$/;
/** Also matches a cut or changed handle. No file name ends like that. */
const ALIKE = /^([A-Za-z0-9_-]{1,80})\.[A-Za-z0-9_-]{24,}$/;

/** Separates handles from all other signatures with the same key. */
const PURPOSE = 'kernmantle mcp handle 1';

/** `client` is the id that handles are bound to. Without a key, handles are empty and none is valid. */
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
      // An id contains no dot. The whole text is compared, so a thread has exactly one handle.
      const [, id = '', signature = ''] = HANDLE.exec(handle) ?? [];
      const mark = id === '' ? undefined : markOf(id);
      if (!mark) return undefined;
      const expected = Buffer.from(mark.toString('base64url'));
      return timingSafeEqual(Buffer.from(signature), expected) ? id : undefined;
    },
  };
}

/** Maximum number of handles in a list. A client that has a handle needs no list. */
const MAX_HANDED = 100;
const MAX_CLIENTS = 200;
const handed = new WeakMap<object, Map<string, Set<string>>>();

function recordHandle(host: object, client: string, id: string): void {
  const clients = handed.get(host) ?? new Map<string, Set<string>>();
  handed.set(host, clients);
  const ids = clients.get(client) ?? new Set<string>();
  // Both maps keep the newest entry last.
  clients.delete(client);
  clients.set(client, ids);
  ids.delete(id);
  ids.add(id);
  for (const old of ids) if (ids.size > MAX_HANDED) ids.delete(old);
  for (const old of clients.keys()) if (clients.size > MAX_CLIENTS) clients.delete(old);
}

/** Ids of recent threads of this client, newest last. */
const idsOf = (host: object, client: Pick<McpClient, 'id'>): string[] => [
  ...(handed.get(host)?.get(client.id) ?? []),
];

/** Handles of recent threads of this client, newest first. */
export function handedTo(host: McpHost, client: Pick<McpClient, 'id'>): string[] {
  const ids = idsOf(host, client);
  const { handleOf } = handlesOf(host, client);
  return ids.toReversed().map(handleOf);
}

/** Returns the host with handles added to every call. */
export const withHandles = (host: McpHost): McpHost => ({
  ...host,
  call(verb, request, call) {
    const { onProgress, client } = call;
    const { handleOf, ...others } = handlesOf(host, client);
    const handles = {
      ...others,
      handed: () => idsOf(host, client),
      handleOf(id: string): string {
        recordHandle(host, client.id, id);
        return handleOf(id);
      },
      ...(onProgress && { onProgress }),
    };
    return host.call(verb, request, { ...call, handles });
  },
});
