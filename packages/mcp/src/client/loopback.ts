// Receives the redirect of a login in the browser of a person at this machine. A port on loopback
// is open for the duration of the login.
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { fail, type Outcome, ok } from '@kernmantle/core/base';
import type { Authorizer } from '@kernmantle/core/runtime';

const PATH = '/callback';
const PATIENCE_MS = 600_000;
const PAGE =
  '<!doctype html><meta charset="utf-8"><title>kernmantle</title><p>You may close this page.</p>';

/** Open logins by `state`. The state is checked, because any page can send a browser here. */
type Waiting = Map<string, (url: string) => void>;

function listen(server: Server, origin: string, waiting: Waiting): void {
  server.on('request', (request, response) => {
    const url = URL.parse(request.url ?? '', origin);
    const isAnswer = url?.pathname === PATH && /[?&](code|error)=/.test(url.search);
    const waiter = isAnswer ? waiting.get(url.searchParams.get('state') ?? '') : undefined;
    if (request.method !== 'GET' || !url || !waiter) {
      response.writeHead(404).end();
      return;
    }
    const headers = {
      'content-type': 'text/html',
      'content-security-policy': "default-src 'none'",
    };
    response.writeHead(200, { ...headers, connection: 'close' }).end(PAGE);
    waiter(url.href);
  });
}

/** Opens the port. `show` receives the address of each login page. `close` closes the port. */
export async function openLoopbackLogin(
  show: (page: string) => void,
): Promise<Authorizer & { close(): Promise<void> }> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const waiting: Waiting = new Map();
  listen(server, origin, waiting);
  return {
    redirectUrl: `${origin}${PATH}`,
    async authorize(page, signal): Promise<Outcome<string>> {
      const { promise, resolve } = Promise.withResolvers<Outcome<string>>();
      const late = fail('timeout', 'the login was not completed in time');
      const timer = setTimeout(() => resolve(late), PATIENCE_MS);
      const onAbort = (): void => resolve(fail('cancelled', 'the login was cancelled'));
      signal.addEventListener('abort', onAbort, { once: true });
      const state = URL.parse(page)?.searchParams.get('state') ?? '';
      waiting.set(state, (url) => resolve(ok(url)));
      if (signal.aborted) onAbort();
      else show(page);
      const answer = await promise;
      clearTimeout(timer);
      signal.removeEventListener('abort', onAbort);
      waiting.delete(state);
      return answer;
    },
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}
