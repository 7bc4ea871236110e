// Stores private keys on disk. Each is a PEM file that is created on first use and that only its owner can read.
import { hkdfSync } from 'node:crypto';
import {
  closeSync,
  fchmodSync,
  fsyncSync,
  linkSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import {
  diskReason,
  errnoOf,
  fail,
  type Outcome,
  ok,
  type RandomBytes,
  systemRandom,
} from '../../base/index.ts';
import { generateKeyPair, importKeyPair, type KeyPair, type PublicKeyRecord } from './key.ts';

interface KeyFile extends PublicKeyRecord {
  /** `signing` for items, `tokens` for capability tokens. */
  name: string;
  file: string;
}

export type KeyFolder = ReturnType<typeof createKeyFolder>;

/** Returns a fault if other users can read the file. On Windows the rights of the user's folder protect it. */
function modeProblem(file: string, mode: number): Outcome<never> | undefined {
  if (process.platform === 'win32' || (mode & 0o077) === 0) return undefined;
  return fail(
    'config_invalid',
    `the private key \`${file}\` can be read by other users; run \`chmod 600 ${file}\`, or delete it if they may have read it`,
    { file },
  );
}

function readKey(file: string): Outcome<KeyPair | undefined> {
  let text: string;
  try {
    const problem = modeProblem(file, statSync(file).mode);
    if (problem) return problem;
    text = readFileSync(file, 'utf8');
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return ok(undefined);
    return fail('config_invalid', `cannot read the private key \`${file}\`: ${diskReason(error)}`);
  }
  const pair = importKeyPair(text);
  if (pair.ok) return pair;
  const message = `\`${file}\`: ${pair.error.detail.message}; restore it from a copy, or delete it to create a new one`;
  return fail('config_invalid', message, { file });
}

function writePrivate(file: string, text: string): void {
  const handle = openSync(file, 'wx', 0o600);
  try {
    // The umask may have narrowed the mode at creation, so it is set again.
    fchmodSync(handle, 0o600);
    if (writeSync(handle, text) !== Buffer.byteLength(text)) throw new Error('the disk is full');
    fsyncSync(handle);
  } finally {
    closeSync(handle);
  }
}

const draftIn = (dir: string, random: RandomBytes): string =>
  join(dir, `.${Buffer.from(random(8)).toString('hex')}.draft`);

/** Replaces the file atomically and keeps its old content as `aside`. Without `aside` the file must not exist. */
function replaceKey(dir: string, file: string, text: string, aside: string | undefined): void {
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  const draft = draftIn(dir, systemRandom);
  try {
    writePrivate(draft, text);
    if (aside === undefined) linkSync(draft, file);
    else {
      rmSync(aside, { force: true });
      linkSync(file, aside);
      renameSync(draft, file);
    }
  } finally {
    rmSync(draft, { force: true });
  }
}

/**
 * Creates the file completely and only once. If another process was first, `link` fails and its key is used.
 */
function createKey(dir: string, file: string, random: RandomBytes): void {
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  const draft = draftIn(dir, random);
  try {
    writePrivate(draft, generateKeyPair(random).exportPrivate());
    linkSync(draft, file);
  } catch (error) {
    if (errnoOf(error) !== 'EEXIST') throw error;
  } finally {
    rmSync(draft, { force: true });
  }
}

/** Returns the keys in a folder. `isInMemory`: no file is read or written, and the keys end with the process. */
export function createKeyFolder(
  dir: string,
  random: RandomBytes = systemRandom,
  isInMemory = false,
) {
  const cache = new Map<string, KeyPair>();
  const fileOf = (name: string) => join(dir, `${name}.pem`);

  function obtain(name: string): Outcome<KeyPair> {
    const cached = cache.get(name);
    if (cached) return ok(cached);
    if (isInMemory) {
      const created = generateKeyPair(random);
      cache.set(name, created);
      return ok(created);
    }
    const file = fileOf(name);
    let pair = readKey(file);
    if (pair.ok && !pair.output) {
      try {
        createKey(dir, file, random);
      } catch (error) {
        return fail(
          'config_invalid',
          `cannot create a private key in \`${dir}\`: ${diskReason(error)}`,
        );
      }
      pair = readKey(file);
    }
    if (!pair.ok) return pair;
    if (!pair.output) return fail('config_invalid', `private key \`${file}\` not found`);
    cache.set(name, pair.output);
    return ok(pair.output);
  }

  /** Returns the existing keys and creates none. Fails for a damaged file. */
  function list(): Outcome<KeyFile[]> {
    let names: string[];
    try {
      names = readdirSync(dir).filter((name) => /^[a-z]+\.pem$/.test(name));
    } catch (error) {
      if (errnoOf(error) === 'ENOENT') return ok([]);
      return fail('config_invalid', `cannot list the keys in \`${dir}\`: ${diskReason(error)}`);
    }
    const keys: KeyFile[] = [];
    for (const entry of names.sort()) {
      const name = entry.slice(0, -'.pem'.length);
      const pair = readKey(fileOf(name));
      if (!pair.ok) return pair;
      if (!pair.output) continue;
      keys.push({ name, file: fileOf(name), id: pair.output.id, key: pair.output.publicKey });
    }
    return ok(keys);
  }

  /**
   * Stores a token key from another machine. Fails with `conflict` for a different present key. With
   * `force` it replaces that key and keeps it under another name.
   */
  function keepTokenKey(
    pair: KeyPair,
    force: boolean,
  ): Outcome<{ isNew: boolean; aside?: string }> {
    const file = fileOf('tokens');
    const current = readKey(file);
    if (!current.ok && !force) return current;
    const before = current.ok ? current.output : undefined;
    if (before?.id === pair.id) return ok({ isNew: false });
    if (before && !force) {
      const message = `\`${dir}\` has another token key (${before.id}), and its threads could not be resumed without it`;
      return fail('conflict', message, { file, key: before.id });
    }
    const aside = current.ok && !before ? undefined : `${file}.${before?.id ?? 'damaged'}`;
    try {
      replaceKey(dir, file, pair.exportPrivate(), aside);
    } catch (error) {
      if (errnoOf(error) === 'EEXIST') return fail('conflict', `\`${file}\` was created just now`);
      return fail('config_invalid', `cannot write \`${file}\`: ${diskReason(error)}`, { file });
    }
    cache.set('tokens', pair);
    return ok({ isNew: true, ...(aside !== undefined && { aside }) });
  }

  return {
    keepTokenKey,
    /** Returns the key that signs items, and creates it on first use. */
    signingKey: () => obtain('signing'),
    /** Returns the root key of capability tokens, and creates it on first use. It is not the signing key. */
    tokenKey: () => obtain('tokens'),
    list,
  };
}

/** Derives a key for vaults from a user's private key, which cannot be computed from the result. */
export const deriveVaultKey = (privateKey: string): Uint8Array =>
  new Uint8Array(hkdfSync('sha256', privateKey, 'kernmantle', 'vaults of journals', 32));
