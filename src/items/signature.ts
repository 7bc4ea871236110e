// What a signature covers, and whether it holds. `trust` owns keys and statements; this file says
// what an item's statement is and what is different when it does not fit any more.
import { randomUUID } from 'node:crypto';
import { readFileSync, realpathSync, statSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { canonicalJson, isObject, type Json, type Outcome } from '../base/index.ts';
import { type ItemStatement, verifyStatement } from '../trust/index.ts';
import type { Directive } from './directive-value.ts';
import type { SignatureState } from './item.ts';
import type { ItemKind } from './item-kinds.ts';
import { type SignedText, sha256Hex } from './signature-line.ts';
import type { Tool } from './tool.ts';

/** What the judge needs of a trust store. */
export interface TrustPort {
  judge(keyId: string, kind: string, itemId: string): Outcome<{ key: string }>;
}

const MAX_MODULE_BYTES = 8 * 1024 * 1024;

/** Places in the file are no part of what is allowed. */
function withoutPlaces(value: Json): Json {
  if (Array.isArray(value)) return value.map(withoutPlaces);
  if (!isObject(value)) return value;
  const kept = Object.entries(value).filter(([key]) => key !== 'line' && key !== 'column');
  return Object.fromEntries(kept.map(([key, field]) => [key, withoutPlaces(field)]));
}

/** Through JSON so that absent fields are absent. */
const plain = (value: unknown): Json => JSON.parse(JSON.stringify(value ?? null)) as Json;
const digest = (value: unknown): string => sha256Hex(canonicalJson(plain(value)));

export const directiveRights = ({ permissions, hooks }: Directive): string =>
  digest(withoutPlaces(plain({ permissions: permissions ?? null, hooks })));

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
  try {
    const real = realpathSync(path);
    const info = statSync(real);
    if (info.isFile() && info.size <= MAX_MODULE_BYTES) return sha256Hex(readFileSync(real));
  } catch {
    // Missing: the same as unreadable.
  }
  return `unreadable ${randomUUID()}`;
}

export const NO_RIGHTS = digest(null);

/** What is signed, apart from who and when. */
export interface Subject {
  kind: ItemKind | 'policy';
  id: string;
  version: string;
  rights: string;
}

const DIFFERENCES: readonly [keyof ItemStatement, string][] = [
  ['kind', 'it is another kind of item'],
  ['id', 'it was moved or renamed'],
  ['sha256', 'its text is different'],
  ['version', 'its version is different'],
  ['rights', 'what it may do is different'],
];

function differences(signed: ItemStatement, now: Omit<ItemStatement, 'created' | 'key'>): string[] {
  return DIFFERENCES.filter(([field]) => {
    return field in now && signed[field] !== now[field as keyof typeof now];
  }).map(([field, text]) => (field === 'id' ? `${text} (was \`${signed.id}\`)` : text));
}

/** Compares a signed text with what its line states. Never throws; in doubt it is not `signed`. */
export function judgeSignature(
  text: SignedText,
  subject: () => Subject,
  trust: TrustPort,
): SignatureState {
  const { line, body } = text;
  if (line === undefined) return { state: 'unsigned' };
  if (line === 'broken') return { state: 'changed', reason: 'the signature line cannot be read' };
  const { statement, signature } = line;
  const { key, created } = statement;
  const trusted = trust.judge(key, statement.kind, statement.id);
  if (!trusted.ok) {
    return { state: 'untrusted', key, created, reason: trusted.error.detail.message };
  }
  // The line first: only what it states truthfully can be compared with what is there now.
  if (!verifyStatement(statement, signature, trusted.output.key)) {
    return { state: 'changed', key, created, reason: 'the signature does not fit its own line' };
  }
  const found = differences(statement, { ...subject(), sha256: sha256Hex(body) });
  return found.length === 0
    ? { state: 'signed', key, created }
    : { state: 'changed', key, created, reason: found.join(', ') };
}
