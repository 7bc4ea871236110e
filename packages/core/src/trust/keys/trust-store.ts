// Stores the trusted keys, and the items that each may sign, in a file of decisions.
import {
  type Clock,
  fail,
  globProblem,
  type JsonObject,
  matchGlob,
  type Outcome,
  ok,
} from '../../base/index.ts';
import { openDecisions } from './decision-file.ts';
import { keyIdOf } from './key.ts';

interface TrustedKey {
  id: string;
  /** The 32 bytes of the public key in base64url. */
  key: string;
  name?: string;
  /** Kinds of items that the key may sign. Absent: all kinds. */
  kinds?: string[];
  /** Globs of full ids of items that the key may sign. Absent: all items. */
  ids?: string[];
  /** ISO time from which on signatures of the key do not count. Absent: they always count. */
  expires?: string;
  revoked?: boolean;
}

export type TrustStore = ReturnType<typeof createTrustStore>;

const FIELDS = ['id', 'key', 'name', 'kinds', 'ids', 'expires'];
const ISO = /^\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:\d{2}))?$/;

const isTexts = (value: unknown): value is string[] =>
  Array.isArray(value) && value.every((item) => typeof item === 'string');

/** Returns why this is not a valid entry. Undefined for a valid one. */
function entryProblem(entry: JsonObject): string | undefined {
  const { id, key, name, kinds, ids, expires } = entry;
  const stray = Object.keys(entry).find((field) => !FIELDS.includes(field));
  if (stray !== undefined) return `unknown field \`${stray}\``;
  const derived = typeof key === 'string' ? keyIdOf(key) : undefined;
  if (!derived?.ok) return '`key` must be a public key: 32 bytes in base64url';
  if (id !== derived.output) return `\`id\` must be \`${derived.output}\`, the id of this key`;
  if (name !== undefined && (typeof name !== 'string' || /[\u0000-\u001f\u007f]/.test(name))) {
    return '`name` must be a text';
  }
  if (kinds !== undefined && !isTexts(kinds)) return '`kinds` must be a list of texts';
  if (ids !== undefined && !isTexts(ids)) return '`ids` must be a list of globs';
  const glob = ids?.find((id) => globProblem(id) !== undefined);
  if (glob !== undefined) return `glob \`${glob}\` ${globProblem(glob)}`;
  const isTime = (text: unknown) =>
    typeof text === 'string' && ISO.test(text) && !Number.isNaN(Date.parse(text));
  return expires === undefined || isTime(expires)
    ? undefined
    : '`expires` must be a date such as `2027-01-31` or a time with a zone';
}

type Keys = Map<string, TrustedKey>;

/** Applies one decision. Returns why it is invalid. Undefined for a valid one. */
function applyLine(keys: Keys, line: JsonObject): string | undefined {
  const { op, ...rest } = line;
  const id = rest.id;
  if (op === 'trust') {
    const problem = entryProblem(rest);
    if (problem !== undefined) return problem;
    const entry = rest as unknown as TrustedKey;
    // A revocation is final, also if an older decision is read later.
    const revoked = keys.get(entry.id)?.revoked === true;
    keys.set(entry.id, revoked ? { ...entry, revoked } : entry);
    return undefined;
  }
  if (typeof id !== 'string' || Object.keys(rest).length !== 1) return 'use only `op` and `id`';
  if (op !== 'revoke') return '`op` must be `trust` or `revoke`';
  const trustedEntry = keys.get(id);
  if (trustedEntry) keys.set(id, { ...trustedEntry, revoked: true });
  return undefined;
}

function scopeProblem(key: TrustedKey, kind: string, itemId: string, now: number) {
  if (key.revoked) return 'was revoked';
  // An unreadable time counts as past.
  if (key.expires !== undefined && !(Date.parse(key.expires) > now)) {
    return `expired on ${key.expires}`;
  }
  if (key.kinds && !key.kinds.includes(kind)) return `is not trusted for items of kind ${kind}`;
  if (key.ids && !key.ids.some((glob) => matchGlob(glob, itemId))) {
    return `is not trusted for \`${itemId}\``;
  }
  return undefined;
}

export function createTrustStore(file: string, clock: Pick<Clock, 'now'>) {
  const { load, append } = openDecisions<Keys>({
    what: 'the trust store',
    closedTo: 0o022,
    followsLinks: true,
    files: () => [file],
    empty: () => new Map(),
    apply: applyLine,
  });

  function trustedKey(id: string): Outcome<TrustedKey> {
    const keys = load();
    if (!keys.ok) return keys;
    const key = keys.output.get(id);
    return key ? ok(key) : fail('not_found', `key \`${id}\` not in the trust store`, { key: id });
  }

  return {
    list(): Outcome<TrustedKey[]> {
      const keys = load();
      return keys.ok ? ok([...keys.output.values()]) : keys;
    },
    /**
     * Trusts a key, or changes the items that it may sign. Fails with `invalid_input` for a revoked key,
     * which stays revoked.
     */
    add(entry: TrustedKey): Outcome<null> {
      const { revoked, ...key } = entry;
      const problem = revoked ? 'it is revoked already' : entryProblem(key);
      if (problem !== undefined) return fail('invalid_input', `cannot trust this key: ${problem}`);
      const keys = load();
      if (!keys.ok) return keys;
      if (keys.output.get(key.id)?.revoked) {
        const message = `key \`${key.id}\` was revoked and stays revoked; trust a new key of its owner`;
        return fail('invalid_input', message);
      }
      return append({ op: 'trust', ...key });
    },
    revoke(id: string): Outcome<null> {
      const key = trustedKey(id);
      return key.ok ? append({ op: 'revoke', id }) : key;
    },
    /**
     * Returns a key that may sign this item. Fails with `not_found` for a key without a decision, and with
     * `signature_invalid` if the key may not sign it.
     */
    judge(keyId: string, kind: string, itemId: string): Outcome<TrustedKey> {
      const key = trustedKey(keyId);
      if (!key.ok) return key;
      const problem = scopeProblem(key.output, kind, itemId, clock.now());
      if (problem === undefined) return key;
      return fail('signature_invalid', `key \`${keyId}\` ${problem}`, { key: keyId });
    },
  };
}
