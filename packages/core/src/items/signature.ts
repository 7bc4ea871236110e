// The package's own items count as signed by the package: a list made at build says what each file
// was. The list is data, so that a test can see whether it is current.
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

/** Path relative to the bundle -> sha256 of the file, in hex. */
export type BundleDigests = Readonly<Record<string, string>>;

const MAX_LIST_BYTES = 4 * 1024 * 1024;

/** The list that lies in a bundle; empty when there is none, so nothing counts as shipped. */
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
    : { state: 'changed', reason: 'it is not what the package was built with' };
}

// What a signature covers, and whether it holds. `trust` owns keys and statements; this file says
// what an item's statement is and what is different when it does not fit any more.

export interface TrustPort {
  judge(keyId: string, kind: string, itemId: string): Outcome<{ key: string }>;
}

export const MAX_MODULE_BYTES = 8 * 1024 * 1024;

/** Places in the file are no part of what is allowed. */
const withoutPlaces = (key: string, value: unknown): unknown =>
  key === 'line' || key === 'column' ? undefined : value;

const digest = (value: unknown): string => sha256Hex(canonicalJson(plainJson(value)));

export const directiveRights = ({ permissions, hooks }: Directive): string =>
  digest(JSON.parse(JSON.stringify({ permissions: permissions ?? null, hooks }, withoutPlaces)));

/**
 * A tool may do what it requires, by way of its executor and config. The module it names is part of
 * that: without it a signed tool could be given other code.
 */
export function toolRights(tool: Tool, file: string): string {
  const { requires, executor_id, config, actions } = tool;
  const needs = actions.map(({ name, requires: own }) => ({ name, requires: own ?? null }));
  const module = moduleDigest(config.module, file);
  return digest({ requires, executor: executor_id ?? null, config, actions: needs, module });
}

/**
 * Path of the module that a tool names, with or without `./`: the one that would be run. Undefined
 * when none is named.
 */
export const moduleFile = (module: unknown, file: string): string | undefined =>
  typeof module === 'string' && module !== '' && !module.includes('\0')
    ? resolve(dirname(file), module)
    : undefined;

/** What cannot be read cannot be vouched for: its digest is never twice the same. */
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

/** What of a statement can be compared with what is there now. */
type Stated = Omit<ItemStatement, 'created' | 'key'>;

const DIFFERENCES: readonly [keyof Stated, string][] = [
  ['kind', 'it is another kind of item'],
  ['id', 'it was moved or renamed'],
  ['sha256', 'its text is different'],
  ['version', 'its version is different'],
  ['rights', 'what it may do is different'],
];

const differences = (signed: Stated, now: Stated): string[] =>
  DIFFERENCES.filter(([field]) => signed[field] !== now[field]).map(([field, text]) =>
    field === 'id' ? `${text} (was \`${signed.id}\`)` : text,
  );

/** What of a text was already computed: its digest, and the key that its line was found to fit. */
const checked = new WeakMap<SignedText, { sha256: string; key: string }>();

/** The digest of a text whose line fits this key; undefined when it does not. */
function checkLine(text: SignedText, line: SignatureLine, key: string): string | undefined {
  const known = checked.get(text);
  if (known?.key === key) return known.sha256;
  if (!verifyStatement(line.statement, line.signature, key)) return undefined;
  const sha256 = sha256Hex(text.body);
  checked.set(text, { sha256, key });
  return sha256;
}

/** What there is to say about a signature that does not hold; nothing of one that does or is absent. */
export function signatureProblems(signature: SignatureState, file: string): Diagnostic[] {
  const { state, reason = '' } = signature;
  if (state === 'changed') {
    const hint = 'review it and sign it again';
    return [aboutFile(file, 'signature_changed', `not what was signed: ${reason}`, { hint })];
  }
  if (state !== 'untrusted') return [];
  const more = { severity: 'warning', hint: 'trust the key, or sign it yourself' } as const;
  return [aboutFile(file, 'signature_untrusted', `signed, but not trusted: ${reason}`, more)];
}

/** Compares a signed text with what its line states. Never throws; in doubt it is not `signed`. */
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
  // The line first: only what it states truthfully can be compared with what is there now.
  const sha256 = checkLine(text, line, trusted.output.key);
  if (sha256 === undefined) {
    return { state: 'changed', key, created, reason: 'the signature does not fit its own line' };
  }
  const found = differences(statement, { ...subject(), sha256 });
  return found.length === 0
    ? { state: 'signed', key, created }
    : { state: 'changed', key, created, reason: found.join(', ') };
}
