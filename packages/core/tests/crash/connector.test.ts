// A sync that is killed while it writes: every file is whole and signed, or not there, and the next one
// makes up the rest.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { timeoutMs } from '@kernmantle/test-support/soak';
import { expect, test } from 'vitest';
import { installServer } from '../../../mcp/tests/support/changing-server.ts';
import { makeConnected, QUERY } from '../../../mcp/tests/support/connected.ts';

const LAUNCHER = fileURLToPath(new URL('../../../../bin/km.js', import.meta.url));
const COUNT = 120;

test('a sync that is killed leaves whole files, and the next one makes up the rest', async () => {
  const project = makeConnected();
  try {
    const { args, set } = installServer(project, { tools: [QUERY] });
    expect(await project.add(args, '--yes')).toMatchObject({ ok: true });
    set({ tools: Array.from({ length: COUNT }, (_, at) => ({ ...QUERY, name: `query_${at}` })) });
    const folder = join(project.root, '.ai/tools/mcp/db');
    const written = () => readdirSync(folder).filter((name) => name.startsWith('query_'));
    const child = spawn(process.execPath, [LAUNCHER, 'mcp', 'sync', 'db', '--yes'], {
      cwd: project.root,
      env: { ...project.env, KERNMANTLE_SRC: '1' },
      stdio: 'ignore',
    });
    await expect
      .poll(() => written().length, { timeout: timeoutMs(20_000), interval: 1 })
      .toBeGreaterThan(9);
    child.kill('SIGKILL');
    await once(child, 'exit');
    const left = written();
    expect(left.length).toBeLessThan(COUNT);
    const verified = await project.kmJson('verify', ...left.map((name) => join(folder, name)));
    expect(verified.ok && verified.output).toEqual(
      left.map(() => expect.objectContaining({ state: 'signed' })),
    );
    const again = await project.kmJson('mcp', 'sync', 'db', '--yes');
    expect(again).toMatchObject({ output: { tools: COUNT, unchanged: left.length } });
    expect(written().length).toBe(COUNT);
  } finally {
    project.remove();
  }
});
