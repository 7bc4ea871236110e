// Runs once around all tests: one Chromium that every test of the page connects to. It starts when the first test
// asks for it, so a run without such a test starts none.
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { BrowserServer } from 'playwright-core';
import type { TestProject } from 'vitest/node';

declare module 'vitest' {
  interface ProvidedContext {
    /** `GET` answers with the address of a browser that runs. Empty if this machine has no Chromium. */
    browser: string;
  }
}

/** The path of a Chromium, or undefined if this machine has none. */
export function findBrowser(): string | undefined {
  const script = fileURLToPath(new URL('../../../../scripts/browser.js', import.meta.url));
  try {
    return execFileSync(process.execPath, [script], { encoding: 'utf8' }).trim();
  } catch {
    return undefined;
  }
}

/** `folder` takes the temporary files of the browser, which it does not remove. */
async function launch(executablePath: string, folder: string): Promise<BrowserServer> {
  const { chromium } = await import('playwright-core');
  const isRoot = process.getuid?.() === 0;
  return await chromium.launchServer({
    executablePath,
    host: '127.0.0.1',
    args: ['--disable-dev-shm-usage', ...(isRoot ? ['--no-sandbox'] : [])],
    env: { ...process.env, TMPDIR: folder },
  });
}

export default async function setup(project: TestProject): Promise<(() => Promise<void>) | void> {
  const path = findBrowser();
  if (path === undefined) return project.provide('browser', '');
  const folder = mkdtempSync(join(tmpdir(), 'km-browser-'));
  let running: Promise<BrowserServer> | undefined;
  let isOver = false;
  const start = async (): Promise<BrowserServer> => {
    const server = await launch(path, folder);
    // The tests that use it fail with "browser has been closed". The next test gets a new one.
    server.once('close', () => {
      if (isOver) return;
      const { exitCode, signalCode } = server.process();
      process.stderr.write(
        `the browser of the tests ended with ${signalCode ?? exitCode}; the next test starts another one\n`,
      );
      running = undefined;
    });
    return server;
  };
  const door = createServer((_, response) => {
    running ??= start();
    running.then(
      (server) => response.end(server.wsEndpoint()),
      (error: unknown) => {
        running = undefined;
        response.writeHead(500).end(String(error));
      },
    );
  }).listen(0, '127.0.0.1');
  await once(door, 'listening');
  const address = door.address();
  const port = typeof address === 'object' ? address?.port : undefined;
  project.provide('browser', `http://127.0.0.1:${port}`);
  return async () => {
    isOver = true;
    door.close();
    door.closeAllConnections();
    const server = await running?.catch(() => undefined);
    await server?.close();
    rmSync(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 });
  };
}
