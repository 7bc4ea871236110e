import { expect, test } from 'vitest';
import { loadDrivers } from './load.ts';

const missing = (name: string): Promise<never> =>
  Promise.reject(
    Object.assign(new Error(`Cannot find package '${name}'`), { code: 'ERR_MODULE_NOT_FOUND' }),
  );
const INSTALLED: Parameters<typeof loadDrivers>[0] = {
  pg: () => import('pg'),
  boss: () => import('pg-boss'),
  bossVersion: () => '12.35.0',
};

test('what is installed for development is what a store on a server needs', async () => {
  const loaded = await loadDrivers();
  expect(loaded).toMatchObject({ ok: true });
  if (loaded.ok) expect(typeof loaded.output.PgBoss).toBe('function');
});

test.each([
  [{ pg: () => missing('pg') }, 'needs pg, which is not installed'],
  [{ boss: () => missing('pg-boss') }, 'needs pg-boss, which is not installed'],
  [
    { pg: () => missing('pg'), boss: () => missing('pg-boss') },
    'needs pg and pg-boss, which are not installed',
  ],
  [{ bossVersion: () => '12.36.0' }, 'needs pg-boss 12.35.0, but 12.36.0 is installed'],
])('what is missing is named with the line that installs it: %#', async (change, words) => {
  const loaded = await loadDrivers({ ...INSTALLED, ...change });
  expect(loaded).toMatchObject({
    ok: false,
    error: {
      code: 'drivers_missing',
      detail: {
        message: `a store on a server ${words}; run \`npm install pg pg-boss@12.35.0\``,
        install: 'npm install pg pg-boss@12.35.0',
      },
    },
  });
});

test('what is there and broken is not called missing', async () => {
  const broken = { ...INSTALLED, pg: () => Promise.reject(new Error('broken')) };
  await expect(loadDrivers(broken)).rejects.toThrow('broken');
});
