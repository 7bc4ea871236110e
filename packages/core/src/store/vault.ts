// Events must contain the sent values, but must not show a secret to a reader of the file. The registry
// stores each known secret encrypted, in every form of it, and an event has a reference instead. Resume
// and replay put the secret back.
//
// Each thread has its own key, derived from a key in the folder of the user. A reference contains a mark that
// is derived from the key of the thread. An untrusted text that imitates a reference is itself stored as a
// secret, so a forged reference never reveals a secret.
import { createCipheriv, createDecipheriv, createHmac, hkdfSync } from 'node:crypto';
import {
  fail,
  type Json,
  type JsonObject,
  type Outcome,
  ok,
  type RandomBytes,
  type Redactor,
  setOwn,
  systemRandom,
} from '../base/index.ts';
import type { Sealed } from './port.ts';

export interface Vault {
  /** Returns the value with references instead of secrets. New secrets are added to `unkept`. */
  hide(value: Json, redactor: Redactor): Outcome<Json>;
  /** Returns the original value. Fails with `internal_error` if a referenced secret is missing. */
  reveal(value: Json): Outcome<Json>;
  /** Returns all stored secrets as plain text. */
  texts(): string[];
  /** Returns secrets that the registry lacks. A commit writes them, or the next one if it is refused. */
  unkept(): readonly Sealed[];
  /** Removes secrets that a commit has written from `unkept`. */
  kept(secrets: readonly Sealed[]): void;
}

interface VaultOptions {
  thread: string;
  /** Secrets of the thread that the registry has already. */
  sealed: readonly Sealed[];
  /** At least 32 bytes that only this user has. */
  key: Uint8Array;
  random?: RandomBytes;
}

const [IV, TAG] = [12, 16];

function createSeal(key: Buffer, thread: string, random: RandomBytes) {
  const bound = (number: number) => Buffer.from(`${thread}:${number}`);
  return {
    seal(number: number, text: string): Uint8Array {
      const iv = random(IV);
      const cipher = createCipheriv('aes-256-gcm', key, iv).setAAD(bound(number));
      const body = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()]);
      return Buffer.concat([iv, cipher.getAuthTag(), body]);
    },
    /** Throws if the bytes were not sealed with this key, thread and number. */
    open(number: number, sealed: Uint8Array): string {
      const bytes = Buffer.from(sealed);
      const decipher = createDecipheriv('aes-256-gcm', key, bytes.subarray(0, IV), {
        authTagLength: TAG,
      });
      decipher.setAAD(bound(number)).setAuthTag(bytes.subarray(IV, IV + TAG));
      return decipher.update(bytes.subarray(IV + TAG), undefined, 'utf8') + decipher.final('utf8');
    },
  };
}

/** Returns true if a text or a key inside of the value contains this text. */
function holds(value: Json, text: string): boolean {
  if (typeof value === 'string') return value.includes(text);
  if (typeof value !== 'object' || value === null) return false;
  if (Array.isArray(value)) return value.some((item) => holds(item, text));
  return Object.keys(value).some((key) => key.includes(text) || holds(value[key] as Json, text));
}

function walk(value: Json, text: (key: string) => string, leaf: (value: Json) => Json): Json {
  if (typeof value !== 'object' || value === null) return leaf(value);
  if (Array.isArray(value)) return value.map((item) => walk(item, text, leaf));
  const result: JsonObject = {};
  for (const [key, child] of Object.entries(value)) {
    setOwn(result, text(key), walk(child, text, leaf));
  }
  return result;
}

export function createVault(options: VaultOptions): Outcome<Vault> {
  const { sealed: stored, thread, key, random = systemRandom } = options;
  if (key.length < 32) return fail('invalid_input', 'a vault key must have at least 32 bytes');
  const own = Buffer.from(hkdfSync('sha256', key, thread, 'kernmantle journal', 32));
  const mark = createHmac('sha256', own).update('mark').digest('base64url').slice(0, 16);
  const prefix = `{secret ${mark} `;
  const seal = createSeal(own, thread, random);
  const [texts, numbers] = [new Map<number, string>(), new Map<string, number>()];
  const addText = (number: number, text: string): void => {
    texts.set(number, text);
    numbers.set(text, number);
  };

  const waiting = new Map<number, Sealed>();
  try {
    for (const { number, sealed } of stored) addText(number, seal.open(number, sealed));
  } catch {
    const message = `the secrets of thread \`${thread}\` were sealed with another key, so this user cannot resume or replay it`;
    return fail('permission_denied', message, { thread });
  }

  /** Returns a reference to the text. A trailing `=` marks a JSON value that is not a text. */
  function refer(text: string, kind: '' | '=' = ''): string {
    let number = numbers.get(text);
    if (number === undefined) {
      number = texts.size + 1;
      waiting.set(number, { number, sealed: seal.seal(number, text) });
      addText(number, text);
    }
    return `${prefix}${number}${kind}}`;
  }

  const reference = new RegExp(`\\{secret ${mark} (\\d+)\\}`, 'g');
  const whole = new RegExp(`^\\{secret ${mark} (\\d+)=\\}$`);
  return ok({
    hide(value, redactor) {
      if (redactor.isClean(value) && !holds(value, prefix)) return ok(value);
      const text = (source: string): string =>
        source
          .split(prefix)
          .map((part) => redactor.replace(part, (secret) => refer(secret)))
          .join(source.includes(prefix) ? refer(prefix) : '');
      const leaf = (source: Json): Json => {
        if (typeof source === 'string') return text(source);
        if (typeof source !== 'number') return source;
        const json = JSON.stringify(source);
        return redactor.text(json) === json ? source : refer(json, '=');
      };
      return ok(walk(value, text, leaf));
    },
    reveal(value) {
      let missing: string | undefined;
      const resolve = (number: string): string => {
        const text = texts.get(Number(number));
        if (text === undefined) missing ??= number;
        return text ?? '""';
      };
      const text = (source: string): string =>
        source.replace(reference, (_, number: string) => resolve(number));
      const leaf = (source: Json): Json => {
        if (typeof source !== 'string') return source;
        const number = whole.exec(source)?.[1];
        return number === undefined ? text(source) : (JSON.parse(resolve(number)) as Json);
      };
      const revealed = walk(value, text, leaf);
      if (missing === undefined) return ok(revealed);
      const message = `thread \`${thread}\` refers to secret ${missing}, which was not found`;
      return fail('internal_error', message, { thread });
    },
    texts: () => [...texts.values()].filter((text) => text !== prefix),
    unkept: () => [...waiting.values()],
    kept(secrets) {
      for (const { number } of secrets) waiting.delete(number);
    },
  });
}
