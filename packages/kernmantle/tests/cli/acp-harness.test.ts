// `HarnessAgent` of the AI SDK drives `km acp`: the harness starts its bridge in a sandbox, which is a folder here, and
// the bridge starts `km`. The model is a scripted provider, all processes are real.
import { type ChildProcess, spawn } from 'node:child_process';
import { globSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { delimiter, dirname, join, resolve } from 'node:path';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { HarnessAgent } from '@ai-sdk/harness/agent';
import { createACP } from '@ai-sdk/harness-acp';
import { acpProject } from '@kernmantle/test-support/acp-client';
import { TRUSTING } from '@kernmantle/test-support/project';
import { call } from '@kernmantle/test-support/thread-project';
import { expect, onTestFinished, test } from 'vitest';

const ROOT = join(import.meta.dirname, '../../../..');
type Options = ConstructorParameters<typeof HarnessAgent>[0];
type Sandbox = NonNullable<Options['sandbox']>;
interface Command {
  readonly command: string;
  readonly workingDirectory?: string;
  readonly env?: Record<string, string>;
}

/** Returns a sandbox that is a folder. It confines nothing. */
function folderSandbox(root: string, port: number, env: NodeJS.ProcessEnv): Sandbox {
  const children = new Set<ChildProcess>();
  onTestFinished(() => {
    for (const { pid } of children) {
      try {
        if (pid !== undefined) process.kill(-pid, 'SIGKILL');
      } catch {
        // The group has ended.
      }
    }
  });
  const start = ({ command, workingDirectory = root, env: more }: Command) => {
    const options = { cwd: workingDirectory, env: { ...env, ...more }, detached: true };
    const child = spawn('/bin/sh', ['-c', command], options);
    children.add(child);
    return child;
  };
  const codeOf = (child: ChildProcess) =>
    new Promise<{ exitCode: number }>((done) =>
      child.once('exit', (code) => done({ exitCode: code ?? 1 })),
    );
  const readBinaryFile = async ({ path }: { path: string }) => {
    const [found] = globSync(resolve(root, path));
    return found === undefined ? null : new Uint8Array(readFileSync(found));
  };
  const write = async ({ path, content }: { path: string; content: string | Uint8Array }) => {
    mkdirSync(dirname(resolve(root, path)), { recursive: true });
    writeFileSync(resolve(root, path), content);
  };
  const urlOf = (protocol = 'http') => `${protocol}://127.0.0.1:${port}`;
  const session = {
    id: 'folder',
    description: 'a folder',
    defaultWorkingDirectory: root,
    ports: [port],
    getPortEndpoint: async ({ protocol }: { protocol?: string }) => ({ url: urlOf(protocol) }),
    getPortUrl: async ({ protocol }: { protocol?: string }) => urlOf(protocol),
    stop: async () => {},
    destroy: async () => {},
    readBinaryFile,
    readTextFile: async (options: { path: string }) => {
      const bytes = await readBinaryFile(options);
      return bytes && Buffer.from(bytes).toString();
    },
    readFile: async (options: { path: string }) => {
      const bytes = await readBinaryFile(options);
      return bytes && Readable.toWeb(Readable.from([bytes]));
    },
    writeBinaryFile: write,
    writeTextFile: write,
    writeFile: async ({ path, content }: { path: string; content: ReadableStream }) =>
      await write({ path, content: await text(Readable.fromWeb(content as never)) }),
    async run(options: Command) {
      const child = start(options);
      const [stdout, stderr, done] = await Promise.all([
        text(child.stdout),
        text(child.stderr),
        codeOf(child),
      ]);
      return { ...done, stdout, stderr };
    },
    async spawn(options: Command) {
      const child = start(options);
      const ended = codeOf(child);
      const [stdout, stderr] = [Readable.toWeb(child.stdout), Readable.toWeb(child.stderr)];
      return { stdout, stderr, wait: () => ended, kill: async () => void child.kill('SIGKILL') };
    },
    restricted: () => session,
  };
  return {
    specificationVersion: 'harness-sandbox-v1',
    providerId: 'folder',
    async createSession({ onFirstCreate } = {}) {
      await onFirstCreate?.(session, {});
      return session;
    },
  };
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  const address = server.address();
  await new Promise((done) => server.close(done));
  return typeof address === 'object' && address ? address.port : 0;
}

/** Lets the harness write a file, and returns its answer and whether the file is there. */
async function harnessWrites(permissionMode: 'allow-reads' | 'allow-all', policy = '') {
  const { fixture } = await acpProject([
    { tool_calls: [call('fs/write_file', { path: 'a.txt', content: 'x\n' })] },
    { text: 'done' },
  ]);
  fixture.write('../home/policy.yaml', `${TRUSTING}${policy}`);
  // The packages of the bridge come from this repository instead of a registry.
  const bin = join(fixture.home, 'bin');
  const own = join(ROOT, 'node_modules');
  const acp = join(own, '@agentclientprotocol');
  const link = `mkdir -p node_modules && ln -sfn ${acp} node_modules/@agentclientprotocol`;
  const others = ['@modelcontextprotocol', 'ws', 'zod'].map(
    (name) => `ln -sfn ${own}/${name} node_modules/${name}`,
  );
  mkdirSync(bin, { recursive: true });
  writeFileSync(join(bin, 'pnpm'), `#!/bin/sh\n${[link, ...others].join(' && ')}\n`, {
    mode: 0o755,
  });
  const km = `#!/bin/sh\nexec ${process.execPath} ${join(ROOT, 'bin/km.js')} "$@"\n`;
  writeFileSync(join(bin, 'km'), km, { mode: 0o755 });
  const { HOME: _, ...env } = fixture.env;
  const path = [bin, dirname(process.execPath), env.PATH].join(delimiter);
  const box = join(fixture.root, '../box');
  mkdirSync(box);
  const agent = new HarnessAgent({
    // The two packages bring their own copies of the types.
    harness: createACP({
      harnessId: 'acp-kernmantle',
      source: {
        type: 'install-command',
        command: `mkdir -p $HOME/.local/bin && ln -sf ${join(bin, 'km')} $HOME/.local/bin/km`,
      },
      executable: 'km',
      args: ['acp'],
      env: { ...env, PATH: path },
      modelMapping: { type: 'session-config-option', path: 'model' },
    }) as never,
    sandbox: folderSandbox(box, await freePort(), { ...fixture.env, PATH: path }),
    permissionMode,
  });
  const session = await agent.createSession();
  const answer = await agent.generate({ session, prompt: 'write a.txt' });
  await session.destroy();
  const isWritten = globSync('**/a.txt', { cwd: box, exclude: ['**/node_modules/**'] }).length > 0;
  return { isWritten, text: answer.text, parts: answer.content.map(({ type }) => type) };
}

test('`allow-reads` asks before a write', async () => {
  const { isWritten, parts } = await harnessWrites('allow-reads');
  expect([isWritten, parts.includes('tool-approval-request')]).toEqual([false, true]);
});

test('`allow-all` runs it, and not under the policy for harnesses', async () => {
  expect(await harnessWrites('allow-all')).toMatchObject({ isWritten: true, text: 'done' });
  const policy = 'acp: { may_approve: false, words: untrusted }\n';
  const strict = await harnessWrites('allow-all', policy);
  expect(strict.isWritten).toBe(false);
  expect(strict.text).toContain('km approvals show ap_');
});
