import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { systemRandom } from '@kernmantle/core/base';
import { type Ran, runCommand } from '@kernmantle/test-support/command-line';
import { type Fixture, makeFixture } from '@kernmantle/test-support/project';
import { runs } from '@kernmantle/test-support/soak';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { generateKeyPair } from '../../../core/src/trust/keys/key.ts';
import { openKeys, sealKeys } from '../../../core/src/trust/keys/key-parcel.ts';

const PASSPHRASE = 'correct horse battery';
/** The real cost takes a quarter of a second per guess, to slow down attackers. */
const CHEAP = 2;

describe('a parcel of keys', () => {
  const tokens = generateKeyPair();
  const { id, publicKey: key } = generateKeyPair();
  const made = sealKeys({ tokens, signer: { id, key } }, PASSPHRASE, systemRandom, CHEAP);
  const text = made.ok ? made.output : '';
  const open = (given: string, passphrase = PASSPHRASE) => openKeys(given, passphrase, CHEAP);

  test('opens with its passphrase, as it was', () => {
    const opened = open(text);
    expect(opened.ok && opened.output.tokens.id).toBe(tokens.id);
    expect(opened.ok && opened.output.signer).toEqual({ id, key });
    expect(text).not.toContain(tokens.exportPrivate().split('\n')[1]);
  });

  test('is refused when any byte of it is another one', () => {
    const bytes = Buffer.from(text);
    fc.assert(
      fc.property(fc.nat(bytes.length - 1), fc.integer({ min: 1, max: 255 }), (at, change) => {
        const changed = Buffer.from(bytes);
        changed[at] = (changed[at] ?? 0) ^ change;
        expect(open(changed.toString('latin1')).ok).toBe(false);
      }),
      { numRuns: runs(1000) },
    );
  });

  test('is refused when it was cut off, or something stands after it', () => {
    for (let length = 0; length < text.length; length++) {
      expect(open(text.slice(0, length)).ok).toBe(false);
    }
    fc.assert(
      fc.property(fc.string({ minLength: 1 }), (more) => {
        expect(open(text + more).ok).toBe(false);
      }),
    );
  });

  test('is refused with another passphrase', () => {
    fc.assert(
      fc.property(fc.string(), (passphrase) => {
        fc.pre(passphrase.normalize('NFC') !== PASSPHRASE);
        const opened = open(text, passphrase);
        expect(!opened.ok && opened.error.code).toBe('permission_denied');
        expect(JSON.stringify(opened)).not.toContain('PRIVATE');
      }),
      { numRuns: runs(200) },
    );
  });

  test('no text at all makes it throw', () => {
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.json()), (given) => {
        expect(open(given).ok).toBe(false);
      }),
    );
  });

  test('a short passphrase makes none', () => {
    expect(sealKeys({ tokens, signer: { id, key } }, 'short', systemRandom, CHEAP).ok).toBe(false);
  });
});

describe('keys export and import', () => {
  let [here, there, other]: Fixture[] = [];
  const said: string[] = [];
  beforeAll(() => {
    [here, there, other] = [makeFixture(), makeFixture(), makeFixture()];
  });
  afterAll(() => {
    for (const one of [here, there, other]) one?.remove();
  });

  async function km(on: Fixture | undefined, ...words: string[]): Promise<Ran> {
    if (!on) throw new Error('there is no machine');
    const env = { ...on.env, KERNMANTLE_KEY_PASSPHRASE: PASSPHRASE };
    const ran = await runCommand(words, on.root, env);
    said.push(ran.output);
    return ran;
  }
  const folder = (on: Fixture | undefined): string => join(on?.env.KERNMANTLE_HOME ?? '', 'keys');
  const tokenKey = (on: Fixture | undefined): string =>
    readFileSync(join(folder(on), 'tokens.pem'), 'utf8');
  const parcel = (): string => join(here?.root ?? '', 'keys.json');

  test('one machine has the key of another one afterwards, and nobody was shown it', async () => {
    const exported = await km(here, 'keys', 'export', '--out', 'keys.json', '--json');
    expect(exported.code).toBe(0);
    if (process.platform !== 'win32') expect(statSync(parcel()).mode & 0o777).toBe(0o600);
    expect((await km(there, 'keys', 'import', parcel())).code).toBe(0);
    expect(tokenKey(there)).toBe(tokenKey(here));
    if (process.platform !== 'win32') {
      expect(statSync(join(folder(there), 'tokens.pem')).mode & 0o777).toBe(0o600);
    }
    expect((await km(there, 'keys', 'import', parcel())).output).toContain('already exists');
    const { output } = JSON.parse(exported.output) as { output: { signing_key: string } };
    expect((await km(there, 'trust', 'ls')).output).toContain(output.signing_key);
    expect((await km(here, 'audit')).output).toContain('keys:export');
    expect((await km(there, 'audit')).output).toContain('keys:import');
  });

  test('a file that exists is not written over, unless it is said', async () => {
    const before = readFileSync(parcel(), 'utf8');
    const again = await km(here, 'keys', 'export', '--out', 'keys.json');
    expect(again.code).toBe(1);
    expect(again.output).toContain('--force');
    expect(readFileSync(parcel(), 'utf8')).toBe(before);
    expect((await km(here, 'keys', 'export', '--out', 'keys.json', '--force')).code).toBe(0);
    expect(readFileSync(parcel(), 'utf8')).not.toBe(before);
  });

  test('another key stays where it is; with --force it is kept beside the new one', async () => {
    expect((await km(other, 'keys', 'export', '--out', 'own.json')).code).toBe(0);
    const before = tokenKey(other);
    const refused = await km(other, 'keys', 'import', parcel());
    expect(refused.code).toBe(1);
    expect(refused.output).toContain('--force');
    expect(tokenKey(other)).toBe(before);
    expect((await km(other, 'keys', 'import', parcel(), '--force')).code).toBe(0);
    expect(tokenKey(other)).toBe(tokenKey(here));
    const kept = readdirSync(folder(other)).find((name) => name.startsWith('tokens.pem.')) ?? '';
    expect(readFileSync(join(folder(other), kept), 'utf8')).toBe(before);
  });

  test('what is damaged or opens with another passphrase changes nothing', async () => {
    const fresh = makeFixture();
    try {
      const damaged = join(fresh.root, 'damaged.json');
      writeFileSync(damaged, readFileSync(parcel(), 'utf8').slice(0, -20));
      expect((await km(fresh, 'keys', 'import', damaged)).code).toBe(1);
      const env = { ...fresh.env, KERNMANTLE_KEY_PASSPHRASE: 'another passphrase' };
      const ran = await runCommand(['keys', 'import', parcel()], fresh.root, env);
      expect(ran.code).toBe(4);
      said.push(ran.output);
      expect((await km(fresh, 'keys', 'import', 'nowhere.json')).code).toBe(2);
      expect(existsSync(join(folder(fresh), 'tokens.pem'))).toBe(false);
      expect((await km(fresh, 'audit')).output).toContain('keys:import');
    } finally {
      fresh.remove();
    }
  });

  test('without a passphrase and without a terminal it says what to set', async () => {
    const ran = await runCommand(['keys', 'export'], here?.root ?? '', here?.env ?? {});
    expect(ran.code).toBe(2);
    expect(ran.output).toContain('KERNMANTLE_KEY_PASSPHRASE');
  });

  test('nothing that was said holds a key or the passphrase', () => {
    const [, body = '?'] = tokenKey(here).split('\n');
    for (const text of said) {
      expect(text).not.toContain(body);
      expect(text).not.toContain('PRIVATE KEY');
      expect(text).not.toContain(PASSPHRASE);
    }
  });
});

test('trust holds in all projects of a user: each shows who decided, and a revoked key stays so', async () => {
  const [one, two] = [makeFixture(), makeFixture()];
  onTestFinished(() => {
    for (const fixture of [one, two]) fixture.remove();
  });
  const km = (at: Fixture, ...words: string[]) => runCommand(words, at.root, one.env);
  const { id, publicKey } = generateKeyPair();
  // A key can begin with `-`.
  expect((await km(one, 'trust', 'add', '--name', 'anna', '--', publicKey)).code).toBe(0);
  expect((await km(one, 'trust', 'revoke', id)).code).toBe(0);
  const again = await km(one, 'trust', 'add', '--', publicKey);
  expect(again.code).not.toBe(0);
  expect(again.output).toContain('was revoked and stays revoked; trust a new key of its owner');
  expect((await km(two, 'init', '--id')).code).toBe(0);
  for (const at of [one, two]) {
    const { output } = await km(at, 'audit');
    expect(output).toContain(`trust:add ${id}  anna; applies to all your projects`);
    expect(output).toMatch(/allowed .*trust:revoke .*\n.*failed .*trust:add/);
    const file = join(at.root, '.ai/audit.jsonl');
    expect(existsSync(file) ? readFileSync(file, 'utf8') : '').not.toContain('trust:');
  }
  // The other user has made no decision.
  expect((await runCommand(['audit'], one.root, two.env)).output).not.toContain('trust:');
});
