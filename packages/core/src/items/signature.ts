// Checks signatures of items: the parts of an item that a statement covers, and the parts that do not match. `trust`
// manages keys and statements. Items of the package count as signed by a list of digests, which the build writes.
import { createHash, randomUUID } from 'node:crypto';
import { dirname, resolve } from 'node:path';
import {
  canonicalJson,
  type Diagnostic,
  getOwn,
  isObject,
  type Outcome,
  plainJson,
  readRegularFile,
} from '../base/index.ts';
import { type ItemStatement, verifyStatement } from '../trust/index.ts';
import type { Directive } from './directive/directive.ts';
import { aboutFile, jsonIn, readInside } from './files/item-file.ts';
import type { SignatureState } from './item.ts';
import type { ItemKind } from './item-kinds.ts';
import type { SignatureLine, SignedText } from './signature-line.ts';
import type { Tool } from './tool/tool.ts';

export const sha256Hex = (text: string | Uint8Array): string =>
  createHash('sha256').update(text).digest('hex');

/** Hashes (SHA-256 in hex) of the bundle's files by their path relative to the bundle. */
export type BundleDigests = Readonly<Record<string, string>>;

const MAX_LIST_BYTES = 4 * 1024 * 1024;

/** Returns the digests of a bundle. Empty without a readable list, so that no item counts as built in. */
export function readBundleDigests(root: string | undefined): BundleDigests {
  const read = readInside(root, 'digests.json', MAX_LIST_BYTES);
  const listed = jsonIn(read);
  const entries = Object.entries(isObject(listed) ? listed : {}).filter(
    ([, value]) => typeof value === 'string',
  );
  return Object.fromEntries(entries) as BundleDigests;
}

export function judgeBundled(digests: BundleDigests, path: string, text: string): SignatureState {
  const listed = getOwn(digests, path);
  if (listed === undefined) {
    return { state: 'unsigned', reason: 'it is not on the digest list of the bundle' };
  }
  return listed === sha256Hex(text)
    ? { state: 'bundle' }
    : { state: 'changed', reason: 'it has changed since the build of the package' };
}

export interface TrustPort {
  judge(keyId: string, kind: string, itemId: string): Outcome<{ key: string }>;
}

export const MAX_MODULE_BYTES = 8 * 1024 * 1024;

/** Drops locations in the file, which are not part of the rights. */
const withoutPlaces = (key: string, value: unknown): unknown =>
  key === 'line' || key === 'column' ? undefined : value;

const digest = (value: unknown): string => sha256Hex(canonicalJson(plainJson(value)));

export const directiveRights = ({ permissions, hooks }: Directive): string =>
  digest(JSON.parse(JSON.stringify({ permissions: permissions ?? null, hooks }, withoutPlaces)));

/**
 * Returns a digest of the rights of a tool: its requirements, executor, config and module. Without the
 * module a signed tool could run other code.
 */
export function toolRights(tool: Tool, file: string): string {
  const { requires, executor_id, config, actions } = tool;
  const needs = actions.map(({ name, requires: own }) => ({ name, requires: own ?? null }));
  const module = moduleDigest(config.module, file);
  return digest({ requires, executor: executor_id ?? null, config, actions: needs, module });
}

/** Returns the absolute path of a tool's module. Undefined if the tool names no module. */
export const moduleFile = (module: unknown, file: string): string | undefined =>
  typeof module === 'string' && module !== '' && !module.includes('\0')
    ? resolve(dirname(file), module)
    : undefined;

/** Returns null without a module. An unreadable module gets a random digest, so that it never matches. */
function moduleDigest(module: unknown, file: string): string | null {
  const path = moduleFile(module, file);
  if (path === undefined) return null;
  const read = readRegularFile(path, { max: MAX_MODULE_BYTES, followsLinks: true });
  return 'bytes' in read ? sha256Hex(read.bytes) : `unreadable ${randomUUID()}`;
}

export const NO_RIGHTS = digest(null);

export interface Subject {
  kind: ItemKind | 'policy';
  id: string;
  version: string;
  rights: string;
}

/** The parts of a statement that can be compared with the present file. */
type Stated = Omit<ItemStatement, 'created' | 'key'>;

const DIFFERENCES: readonly [keyof Stated, string][] = [
  ['kind', 'it is another kind of item'],
  ['id', 'it was moved or renamed'],
  ['sha256', 'its text is different'],
  ['version', 'its version is different'],
  ['rights', 'its rights are different'],
];

const differences = (signed: Stated, now: Stated): string[] =>
  DIFFERENCES.filter(([field]) => signed[field] !== now[field]).map(([field, text]) =>
    field === 'id' ? `${text} (was \`${signed.id}\`)` : text,
  );

/** Cache of the digest of each text and the key for which its line is valid. */
const checked = new WeakMap<SignedText, { sha256: string; key: string }>();

/** Returns the digest of a text whose line has a valid signature of this key. Undefined for an invalid one. */
function checkLine(text: SignedText, line: SignatureLine, key: string): string | undefined {
  const cached = checked.get(text);
  if (cached?.key === key) return cached.sha256;
  if (!verifyStatement(line.statement, line.signature, key)) return undefined;
  const sha256 = sha256Hex(text.body);
  checked.set(text, { sha256, key });
  return sha256;
}

/** Returns the findings about an invalid signature. Empty for a valid or absent one. */
export function signatureProblems(signature: SignatureState, file: string): Diagnostic[] {
  const { state, reason = '' } = signature;
  if (state === 'changed') {
    const hint = 'review it and sign it again';
    return [aboutFile(file, 'signature_changed', `the signature is invalid: ${reason}`, { hint })];
  }
  if (state !== 'untrusted') return [];
  const more = { severity: 'warning', hint: 'trust the key, or sign the item' } as const;
  return [aboutFile(file, 'signature_untrusted', `the signature is not trusted: ${reason}`, more)];
}

/** Compares a text with the statement of its line. Never throws. In doubt the state is not `signed`. */
export function judgeSignature(
  text: SignedText,
  subject: () => Subject,
  trust: TrustPort,
): SignatureState {
  const { line } = text;
  if (line === undefined) return { state: 'unsigned' };
  if (line === 'broken') return { state: 'changed', reason: 'the signature line cannot be read' };
  const { statement } = line;
  const { key, created } = statement;
  const trusted = trust.judge(key, statement.kind, statement.id);
  if (!trusted.ok) {
    return { state: 'untrusted', key, created, reason: trusted.error.detail.message };
  }
  // The line is checked first, because only a valid statement can be compared with the file.
  const sha256 = checkLine(text, line, trusted.output.key);
  if (sha256 === undefined) {
    return { state: 'changed', key, created, reason: 'the signature does not match its line' };
  }
  const changes = differences(statement, { ...subject(), sha256 });
  return changes.length === 0
    ? { state: 'signed', key, created }
    : { state: 'changed', key, created, reason: changes.join(', ') };
}
