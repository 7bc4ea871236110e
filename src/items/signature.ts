// The package's own items count as signed by the package: a list made at build says what each file
// was. The list is data, so that a test can see whether it is current.
import { createHash, randomUUID } from 'node:crypto';
import { readFileSync, realpathSync, statSync } from 'node:fs';
import { dirname, extname, resolve } from 'node:path';
import {
  canonicalJson,
  fail,
  getOwn,
  isObject,
  type Json,
  type Outcome,
  ok,
  parseJson,
} from '../base/index.ts';
import { type ItemStatement, verifyStatement } from '../trust/index.ts';
import type { Directive } from './directive/directive.ts';
import { readInside } from './files/item-file.ts';
import type { SignatureState } from './item.ts';
import type { ItemKind } from './item-kinds.ts';
import type { Tool } from './tool/tool.ts';

// The one comment line that carries a signature: at the top of the file, after a shebang. It repeats
// the whole signed statement, so that nothing in it is unauthenticated and a file that was changed
// can be told what changed.

export interface SignatureLine {
  statement: ItemStatement;
  signature: string;
}

export interface SignedText {
  /** The line's content; 'broken' when it is not what signing writes; undefined when there is none. */
  line: SignatureLine | 'broken' | undefined;
  /** The text without that line: what is hashed. */
  body: string;
}

const MARK = 'kernmantle:signature';
const MAX_LINE = 4096;

type CommentStyle = readonly [open: string, close: string];
const STYLES: Readonly<Record<string, CommentStyle>> = {
  '.md': ['<!-- ', ' -->'],
  '.yaml': ['# ', ''],
  '.yml': ['# ', ''],
};

const FIELDS = ['kind', 'id', 'version', 'sha256', 'rights', 'created', 'key'] as const;

export const sha256Hex = (text: string | Uint8Array): string =>
  createHash('sha256').update(text).digest('hex');

/** Where the line stands, or would stand: after a byte order mark and a shebang. */
const topOf = (text: string): number => /^\uFEFF?(?:#![^\n]*\n)?/.exec(text)?.[0].length ?? 0;

/** The top line with its end, when it claims to be a signature, whatever blanks it is padded with. */
function signatureSpan(text: string): { from: number; to: number } | undefined {
  const from = topOf(text);
  const newline = text.indexOf('\n', from);
  const to = newline === -1 ? text.length : newline + 1;
  const isSignature = /^\s*(?:#|<!--)\s*kernmantle:signature\b/.test(text.slice(from, to));
  return isSignature ? { from, to } : undefined;
}

function decode(line: string): SignatureLine | 'broken' {
  const words = line
    .replace(/^(?:#|<!--)\s*/, '')
    .replace(/\s*-->$/, '')
    .split(' ');
  const [mark, format, ...pairs] = words;
  if (mark !== MARK || format !== 'v1' || pairs.length !== FIELDS.length + 1) return 'broken';
  const values = new Map<string, string>();
  try {
    for (const pair of pairs) {
      const at = pair.indexOf('=');
      values.set(pair.slice(0, at), decodeURIComponent(pair.slice(at + 1)));
    }
  } catch {
    return 'broken';
  }
  const statement = Object.fromEntries(FIELDS.map((field) => [field, values.get(field)]));
  const signature = values.get('sig');
  const isWhole = FIELDS.every((field) => typeof statement[field] === 'string');
  return isWhole && signature !== undefined
    ? { statement: statement as unknown as ItemStatement, signature }
    : 'broken';
}

/**
 * Splits a file into its signature line and the rest. Never throws. INVARIANT: a line that is read is
 * byte for byte what signing writes, so that it holds nothing that no signature covers.
 */
export function readSignatureLine(text: string, file: string): SignedText {
  const span = signatureSpan(text);
  if (!span) return { line: undefined, body: text };
  const body = stripSignatureLine(text);
  if (span.to - span.from > MAX_LINE) return { line: 'broken', body };
  const line = decode(text.slice(span.from, span.to).trim());
  if (line === 'broken') return { line, body };
  const written = writeSignatureLine(body, line, file);
  return { line: written.ok && written.output === text ? line : 'broken', body };
}

/** The text without its signature line. */
export function stripSignatureLine(text: string): string {
  const span = signatureSpan(text);
  return span ? text.slice(0, span.from) + text.slice(span.to) : text;
}

/**
 * What a parser is given: every place in the text stays where it was, and nothing is read that the
 * signature does not cover.
 */
export function blankSignatureLine(text: string): string {
  const span = signatureSpan(text);
  if (!span) return text;
  const line = text.slice(span.from, span.to).replace(/[^\r\n]|\r(?!\n)/g, ' ');
  return text.slice(0, span.from) + line + text.slice(span.to);
}

/** Does any line of a text claim to be a signature? Content from a model must not. */
export const hasSignatureLine = (text: string): boolean =>
  /^[^\S\r\n\u2028\u2029]*(?:#|<!--|\/\/)\s*kernmantle:signature\b/m.test(text);

/** The text with this signature instead of the one it had. */
export function writeSignatureLine(
  text: string,
  { statement, signature }: SignatureLine,
  file: string,
): Outcome<string> {
  const style = STYLES[extname(file)];
  if (!style)
    return fail('invalid_input', `files of the type \`${extname(file)}\` cannot be signed`);
  const body = stripSignatureLine(text);
  const pairs = FIELDS.map((field) => `${field}=${encodeURIComponent(statement[field])}`);
  const line = `${style[0]}${MARK} v1 ${pairs.join(' ')} sig=${signature}${style[1]}`;
  if (line.length + 2 > MAX_LINE) return fail('invalid_input', 'the name is too long to be signed');
  const top = topOf(body);
  const newline = /\r\n/.test(body.slice(0, 1000)) ? '\r\n' : '\n';
  return ok(body.slice(0, top) + line + newline + body.slice(top));
}

/** Path relative to the bundle -> sha256 of the file, in hex. */
export type BundleDigests = Readonly<Record<string, string>>;

const MAX_LIST_BYTES = 4 * 1024 * 1024;

/** The list that lies in a bundle; empty when there is none, so nothing counts as shipped. */
export function readBundleDigests(root: string): BundleDigests {
  const read = readInside(root, 'digests.json', MAX_LIST_BYTES);
  const parsed = read && 'text' in read ? parseJson(read.text) : undefined;
  if (!parsed?.ok || typeof parsed.output !== 'object' || parsed.output === null) return {};
  const entries = Object.entries(parsed.output).filter(([, value]) => typeof value === 'string');
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
