import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';

const hasUlimit = process.platform !== 'win32';
const CLIENT = fileURLToPath(
  new URL('../../../../../tests/support/few-connections.ts', import.meta.url),
);
const [CALLS, ROOM] = [20, 3];

test.runIf(hasUlimit)(
  'where no more connections may be opened, requests wait for the others (needs ulimit)',
  async () => {
    let [open, most] = [0, 0];
    const server = createServer((_request, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' }).end('data: 1\n\n');
    });
    server.on('connection', (socket) => {
      most = Math.max(most, ++open);
      socket.once('close', () => open--);
    });
    await once(server.listen(0, '127.0.0.1'), 'listening');
    try {
      const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
      const script = 'ulimit -n 80; exec "$0" "$@"';
      const args = ['-c', script, process.execPath, '--no-warnings', CLIENT, url];
      const client = spawn('sh', [...args, String(CALLS), String(ROOM)], {
        stdio: ['ignore', 'pipe', 'inherit'],
      });
      expect(JSON.parse(await text(client.stdout))).toEqual({ well: CALLS, reason: '' });
      // One of the first call was laid aside and used again.
      expect(most).toBeLessThanOrEqual(ROOM + 1);
    } finally {
      server.close();
      server.closeAllConnections();
    }
  },
);
