import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { chatDirective, chooseStore } from './user-settings.ts';

let home = '';
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), 'km-settings-'));
});
afterEach(() => rmSync(home, { recursive: true, force: true }));

const write = (text: string, mode = 0o600): void => {
  const file = join(home, 'settings.yaml');
  writeFileSync(file, text);
  chmodSync(file, mode);
};
const chosen = (asked = {}, env = {}) => {
  const found = chooseStore(asked, env, home);
  if (!found.ok) throw new Error(found.error.detail.message);
  return found.output;
};

test('without any the registry is the file of the project', () => {
  expect(chosen().address).toBeUndefined();
});

test('what is asked for counts before the environment, and that before the settings', () => {
  write('store: postgres://set/a\ntenant: set\n');
  expect(chosen()).toMatchObject({ address: 'postgres://set/a', tenant: 'set' });
  const env = { KERNMANTLE_STORE: 'postgres://env/a', KERNMANTLE_TENANT: 'env' };
  expect(chosen({}, env)).toMatchObject({ address: 'postgres://env/a', tenant: 'env' });
  const asked = { store: 'postgres://asked/a', tenant: 'asked' };
  expect(chosen(asked, env)).toMatchObject({ address: 'postgres://asked/a', tenant: 'asked' });
});

test('a chat runs the shipped assistant unless the settings name another directive', () => {
  expect(chatDirective(home)).toEqual({ ok: true, output: 'bundle:core/assistant' });
  write('chat: { directive: talk }\n');
  expect(chatDirective(home)).toEqual({ ok: true, output: 'talk' });
  write('chat: { model: x }\n');
  expect(chatDirective(home)).toMatchObject({ error: { code: 'config_invalid' } });
});

test('an empty address is the file of the project, whatever the settings say', () => {
  write('store: postgres://set/a\n');
  expect(chosen({ store: '' }).address).toBeUndefined();
  expect(chosen({}, { KERNMANTLE_STORE: '' }).address).toBeUndefined();
});

test.skipIf(process.platform === 'win32')('a password that others can read is refused', () => {
  write('store: postgres://me:hunter2hunter2@set/a\n', 0o644);
  const found = chooseStore({}, {}, home);
  expect(found).toMatchObject({ ok: false, error: { code: 'config_invalid' } });
  expect(JSON.stringify(found)).toContain('chmod 600');
  expect(JSON.stringify(found)).not.toContain('hunter2');
  write('store: postgres://me@set/a\n', 0o644);
  expect(chosen().address).toBe('postgres://me@set/a');
});

test('whatever stands in the file, it is chosen or refused, and nothing of it is told', () => {
  const secret = 'Zq7-hunter2-Zq7';
  const piece = fc.constantFrom(
    'store: ',
    'tenant: ',
    'sotre: ',
    '\n',
    ' ',
    '"',
    '[',
    '- ',
    '\t',
    ':',
    '&a',
    secret,
  );
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 12 }), (pieces) => {
      write(pieces.join(''));
      const found = chooseStore({}, {}, home);
      if (!found.ok) expect(JSON.stringify(found)).not.toContain(secret);
    }),
    { numRuns: 300 },
  );
});

test('a tenant that is no plain name is refused', () => {
  expect(chooseStore({ tenant: 'a b' }, {}, home).ok).toBe(false);
});
