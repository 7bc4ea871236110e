// Real processes, a real server and a provider that counts what arrives and what is open.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { programWords } from '@kernmantle/test-support/built';
import { afterEach, beforeEach, describe, expect, inject, test } from 'vitest';
import { createSharedDatabase, type SharedDatabase } from './support/shared-database.ts';

const url = inject('postgres');
const skipped = url === '' ? ' (skipped: no server can be started here)' : '';

function startProvider() {
  const open = new Map<ServerResponse, string>();
  const held = new Set<string>();
  const waiting = new Set<() => void>();
  const seen = { arrived: 0, most: 0 };
  const look = (): void => {
    for (const one of waiting) one();
  };
  const server = createServer((request, response) => {
    const name = String(request.headers['x-name']);
    open.set(response, name);
    seen.arrived += 1;
    seen.most = Math.max(seen.most, open.size);
    response.on('close', () => {
      open.delete(response);
      look();
    });
    look();
    const answer = (): void => {
      if (held.has(name)) waiting.add(later);
      else response.end('{}');
    };
    const later = (): void => {
      if (held.has(name)) return;
      waiting.delete(later);
      response.end('{}');
    };
    setTimeout(answer, 3 + ((seen.arrived * 7) % 20));
  });
  return {
    server,
    seen,
    openOf: (name: string) => [...open.values()].filter((one) => one === name).length,
    /** Answers of this process wait. */
    hold: (name: string) => held.add(name),
    letGo(name: string): void {
      held.delete(name);
      look();
    },
    /** As soon as it is so. */
    until(isSo: () => boolean): Promise<void> {
      return new Promise((resolve) => {
        const one = (): void => {
          if (!isSo()) return;
          waiting.delete(one);
          resolve();
        };
        waiting.add(one);
        one();
      });
    },
  };
}

describe.skipIf(url === '')(`limits over processes${skipped}`, () => {
  let shared: SharedDatabase;
  let provider: ReturnType<typeof startProvider>;
  const children: ChildProcess[] = [];
  beforeEach(async () => {
    shared = await createSharedDatabase(url);
    provider = startProvider();
    provider.server.listen(0, '127.0.0.1');
    await once(provider.server, 'listening');
  });
  afterEach(async () => {
    for (const child of children.splice(0)) child.kill('SIGKILL');
    provider.server.closeAllConnections();
    provider.server.close();
    await shared.drop();
  });

  function start(name: string, loops: number, requests: number) {
    const { port } = provider.server.address() as AddressInfo;
    const more = [url, shared.schema, name, `http://127.0.0.1:${port}`, loops, requests];
    const flags = programWords('limit-worker', ...more.map(String));
    const child = spawn(process.execPath, flags, { stdio: ['ignore', 'pipe', 'inherit'] });
    children.push(child);
    let text = '';
    child.stdout.on('data', (piece) => {
      text += piece;
    });
    return { child, ended: once(child, 'close').then(() => text) };
  }

  test('a provider never sees more at once, whoever dies or stands still', async () => {
    await shared.fleet.setLimit({ scope: 'provider:p', concurrent: 4 });
    const [lives, dies, stops] = ['lives', 'dies', 'stops'].map((name) => start(name, 6, 20));
    await provider.until(
      () =>
        provider.openOf('dies') > 0 && provider.seen.arrived > 20 && provider.openOf('stops') > 0,
    );
    provider.hold('stops');
    await provider.until(() => provider.openOf('dies') > 0 && provider.openOf('stops') > 0);
    dies?.child.kill('SIGKILL');
    stops?.child.kill('SIGSTOP');
    await provider.until(() => provider.openOf('dies') === 0);
    // Long after everything that one of them was given.
    await shared.aheadBy(3_600_000);
    expect(await lives?.ended).toBe('answered 120\n');
    expect(provider.openOf('stops')).toBeGreaterThan(0);
    expect(await shared.query('SELECT DISTINCT owner FROM places')).toEqual([{ owner: 'stops' }]);
    stops?.child.kill('SIGCONT');
    provider.letGo('stops');
    expect(await stops?.ended).toBe('answered 120\n');
    expect(provider.seen.most).toBe(4);
    expect(await shared.query('SELECT * FROM places')).toEqual([]);
  });

  test('three processes that send as fast as they can stay within a minute', async () => {
    await shared.fleet.setLimit({ scope: 'provider:p', requests_per_minute: 90, concurrent: 50 });
    const all = ['a', 'b', 'c'].map((name) => start(name, 10, 20));
    await provider.until(() => provider.seen.arrived === 90);
    // The hundred next ones ask, and are told to wait.
    await shared.query('SELECT 1');
    const waits = async (): Promise<number> =>
      (await shared.query("SELECT 1 FROM waiting WHERE scope = 'provider:p'")).length;
    while ((await waits()) < 3) await new Promise((resolve) => setTimeout(resolve, 20));
    expect(provider.seen.arrived).toBe(90);
    // A minute later there is room again.
    await shared.aheadBy(70_000);
    await provider.until(() => provider.seen.arrived === 180);
    while ((await waits()) < 3) await new Promise((resolve) => setTimeout(resolve, 20));
    expect(provider.seen.arrived).toBe(180);
    for (const { child } of all) child.kill('SIGKILL');
  });
});
