// Handles of threads: the one place that makes and reads them. A handle is the thread's id with a mark
// over it, the project and the client that only this user's key makes: nobody can guess one, and one that
// was handed to another client, or for another project, is worth nothing. Nothing is kept, so a client
// that is known again after a restart (by its token) still has what it was handed.
import { createHmac, timingSafeEqual } from 'node:crypto';
import type { Handles } from '../../kernel/index.ts';
import type { McpClient, McpHost } from './host.ts';

const BYTES = 24;

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
    idOf(handle) {
      // An id holds no dot. The text is compared as it is: one thread has one handle.
      const [, id = '', given = ''] =
        /^([A-Za-z0-9_-]{1,80})\.([A-Za-z0-9_-]{32})$/.exec(handle) ?? [];
      const mark = id === '' ? undefined : markOf(id);
      if (!mark) return undefined;
      const wanted = Buffer.from(mark.toString('base64url'));
      return timingSafeEqual(Buffer.from(given), wanted) ? id : undefined;
    },
  };
}

/** The host, of which every call knows what its client was handed. */
export const withHandles = (host: McpHost): McpHost => ({
  ...host,
  call(verb, request, call) {
    const { onProgress } = call;
    const handles = { ...handlesOf(host, call.client), ...(onProgress && { onProgress }) };
    return host.call(verb, request, { ...call, handles });
  },
});
