// Private keys on disk: one PEM file each, readable by its owner only, made on first use.
import {
  closeSync,
  fchmodSync,
  fsyncSync,
  linkSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import {
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

/** Windows has no such bits; there the user folder's own rights protect the file. */
function modeProblem(file: string, mode: number): Outcome<never> | undefined {
  if (process.platform === 'win32' || (mode & 0o077) === 0) return undefined;
  return fail(
    'config_invalid',
    `the private key \`${file}\` can be read by others; if nobody did, run \`chmod 600 ${file}\`, else delete it`,
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
    return fail('config_invalid', `cannot read the private key \`${file}\`: ${errnoOf(error)}`);
  }
  const pair = importKeyPair(text);
  if (pair.ok) return pair;
  const message = `\`${file}\`: ${pair.error.detail.message}; restore it from a copy, or delete it to make a new one`;
  return fail('config_invalid', message, { file });
}

function writePrivate(file: string, text: string): void {
  const handle = openSync(file, 'wx', 0o600);
  try {
    // The mode above is narrowed by the process's mask, never widened; this sets it exactly.
    fchmodSync(handle, 0o600);
    if (writeSync(handle, text) !== Buffer.byteLength(text)) throw new Error('the disk is full');
    fsyncSync(handle);
  } finally {
    closeSync(handle);
  }
}

/**
 * The file appears whole or not at all, and only once: `link` fails when another process was first,
 * and then its key is the key.
 */
function createKey(dir: string, file: string, random: RandomBytes): void {
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  const draft = join(dir, `.${Buffer.from(random(8)).toString('hex')}.draft`);
  try {
    writePrivate(draft, generateKeyPair(random).exportPrivate());
    linkSync(draft, file);
  } catch (error) {
    if (errnoOf(error) !== 'EEXIST') throw error;
  } finally {
    rmSync(draft, { force: true });
  }
}

export function createKeyFolder(dir: string, random: RandomBytes = systemRandom) {
  const known = new Map<string, KeyPair>();
  const fileOf = (name: string) => join(dir, `${name}.pem`);

  function obtain(name: string): Outcome<KeyPair> {
    const cached = known.get(name);
    if (cached) return ok(cached);
    const file = fileOf(name);
    let found = readKey(file);
    if (found.ok && !found.output) {
      try {
        createKey(dir, file, random);
      } catch (error) {
        return fail('config_invalid', `cannot make a private key in \`${dir}\`: ${errnoOf(error)}`);
      }
      found = readKey(file);
    }
    if (!found.ok) return found;
    if (!found.output) return fail('config_invalid', `the private key \`${file}\` vanished`);
    known.set(name, found.output);
    return ok(found.output);
  }

  /** The keys there are; makes none. A damaged file is a failure, not a gap. */
  function list(): Outcome<KeyFile[]> {
    let names: string[];
    try {
      names = readdirSync(dir).filter((name) => /^[a-z]+\.pem$/.test(name));
    } catch (error) {
      if (errnoOf(error) === 'ENOENT') return ok([]);
      return fail('config_invalid', `cannot list the keys in \`${dir}\`: ${errnoOf(error)}`);
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

  return {
    /** Signs items. Generated on first use. */
    signingKey: () => obtain('signing'),
    /** Root of capability tokens. Generated on first use; never the same as the signing key. */
    tokenKey: () => obtain('tokens'),
    list,
  };
}
