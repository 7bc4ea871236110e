// Events must contain the sent values, but must not show a secret to a reader of the file. The registry
// stores each known secret encrypted, in every form of it, and an event has a reference instead. Resume
// and replay put the secret back.
//
// The key is made from one in the user's folder, apart for each thread. References carry a mark made
// from that key: a text from outside that imitates one is itself put away, so that putting back never
// shows a secret to somebody who only wrote its reference.
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
  /** The value with references; what they stand for waits in `unkept`. */
  hide(value: Json, redactor: Redactor): Outcome<Json>;
  /** The value as it was. Unknown references are a failure, not a gap. */
  reveal(value: Json): Outcome<Json>;
  /** Everything that was put away so far, as it was found. */
  texts(): string[];
  /** Not in the registry yet: it rides with the commit that refers to it, again when that was refused. */
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
    /** Throws when the bytes are not what was sealed with this key, thread and number. */
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

/** Does any text in it, keys included, hold this one? */
function holds(value: Json, text: string): boolean {
  if (typeof value === 'string') return value.includes(text);
  if (typeof value !== 'object' || value === null) return false;
  if (Array.isArray(value)) return value.some((item) => holds(item, text));
  return Object.keys(value).some((key) => key.includes(text) || holds(value[key] as Json, text));
}

function walk(value: Json, text: (given: string) => string, leaf: (given: Json) => Json): Json {
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
  if (key.length < 32) return fail('invalid_input', 'the key of a vault has at least 32 bytes');
  const own = Buffer.from(hkdfSync('sha256', key, thread, 'kernmantle journal', 32));
  const mark = createHmac('sha256', own).update('mark').digest('base64url').slice(0, 16);
  const prefix = `{secret ${mark} `;
  const seal = createSeal(own, thread, random);
  const [texts, numbers] = [new Map<number, string>(), new Map<string, number>()];
  const remember = (number: number, text: string): void => {
    texts.set(number, text);
    numbers.set(text, number);
  };

  const waiting = new Map<number, Sealed>();
  try {
    for (const { number, sealed } of stored) remember(number, seal.open(number, sealed));
  } catch {
    const message = `the secrets of thread \`${thread}\` were sealed with another key; it cannot be resumed or replayed by this user`;
    return fail('permission_denied', message, { thread });
  }

  /** A reference to the text; a trailing `=` says that it stands for a JSON value. */
  function refer(text: string, kind: '' | '=' = ''): string {
    let number = numbers.get(text);
    if (number === undefined) {
      number = texts.size + 1;
      waiting.set(number, { number, sealed: seal.seal(number, text) });
      remember(number, text);
    }
    return `${prefix}${number}${kind}}`;
  }

  const reference = new RegExp(`\\{secret ${mark} (\\d+)\\}`, 'g');
  const whole = new RegExp(`^\\{secret ${mark} (\\d+)=\\}$`);
  return ok({
    hide(value, redactor) {
      if (redactor.isClean(value) && !holds(value, prefix)) return ok(value);
      const text = (given: string): string =>
        given
          .split(prefix)
          .map((part) => redactor.replace(part, (found) => refer(found)))
          .join(given.includes(prefix) ? refer(prefix) : '');
      const leaf = (given: Json): Json => {
        if (typeof given === 'string') return text(given);
        if (typeof given !== 'number') return given;
        const shown = JSON.stringify(given);
        return redactor.text(shown) === shown ? given : refer(shown, '=');
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
      const text = (given: string): string =>
        given.replace(reference, (_, number: string) => resolve(number));
      const leaf = (given: Json): Json => {
        if (typeof given !== 'string') return given;
        const number = whole.exec(given)?.[1];
        return number === undefined ? text(given) : (JSON.parse(resolve(number)) as Json);
      };
      const revealed = walk(value, text, leaf);
      if (missing === undefined) return ok(revealed);
      const message = `thread \`${thread}\` refers to secret ${missing}, which is not there`;
      return fail('internal_error', message, { thread });
    },
    texts: () => [...texts.values()].filter((text) => text !== prefix),
    unkept: () => [...waiting.values()],
    kept(secrets) {
      for (const { number } of secrets) waiting.delete(number);
    },
  });
}
