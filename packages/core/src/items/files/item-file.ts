import { randomUUID } from 'node:crypto';
import {
  linkSync,
  lstatSync,
  mkdirSync,
  realpathSync,
  renameSync,
  rmSync,
  type Stats,
  statSync,
  writeFileSync,
} from 'node:fs';
import { dirname } from 'node:path';
import {
  compact,
  type Diagnostic,
  errnoOf,
  fail,
  getOwn,
  isInside,
  type Json,
  type Outcome,
  ok,
  parseJson,
  parseYaml,
  readRegularFile,
  type Severity,
} from '../../base/index.ts';
import { readYamlHeader } from './yaml-header.ts';

/** Returns a finding about a whole file. */
export const aboutFile = (
  file: string,
  code: string,
  message: string,
  { severity = 'error', hint }: { severity?: Severity; hint?: string | undefined } = {},
): Diagnostic => compact<Diagnostic>({ file, line: 1, column: 1, code, severity, message, hint });

/** Maximum size of an item, which no real item exceeds. A larger file is reported and not read. */
export const MAX_ITEM_BYTES = 256 * 1024;

export type FileText = { text: string } | { problem: { code: string; message: string } };

const problem = (code: string, message: string): FileText => ({ problem: { code, message } });

function decode(bytes: Buffer): FileText {
  if (bytes.includes(0)) return problem('nul_byte', 'the file has a NUL byte, so it is not text');
  try {
    return { text: new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes) };
  } catch {
    return problem('not_utf8', 'the file is not valid UTF-8');
  }
}

/** Reads a text file, or returns its problem. Never throws. `path` must be resolved, because no link is followed. */
export function readItemFile(path: string, max = MAX_ITEM_BYTES): FileText {
  const read = readRegularFile(path, { max });
  return 'bytes' in read ? decode(read.bytes) : read;
}

/** Returns the real path of a file or folder. Undefined if it does not exist. */
export function realOf(path: string): string | undefined {
  try {
    // Most requested paths do not exist, and an exception for each would be slow.
    return statSync(path, { throwIfNoEntry: false }) && realpathSync.native(path);
  } catch {
    return undefined;
  }
}

/** Returns the stats of a path, for a link those of the link itself. Undefined if they cannot be read. */
export function statsOf(path: string): Stats | undefined {
  try {
    return lstatSync(path, { throwIfNoEntry: false });
  } catch {
    return undefined;
  }
}

/** True for a folder that is not a link. */
export const isFolder = (path: string): boolean => statsOf(path)?.isDirectory() === true;

/** Returns the real path of the longest existing part, where a new file would be created. */
export function realAncestor(path: string): string | undefined {
  for (let at = path; ; at = dirname(at)) {
    // The path exists, maybe as a broken link, through which no file may be created.
    if (statsOf(at)) return realOf(at);
    if (at === dirname(at)) return undefined;
  }
}

/** Returns the text of a file below `root` (a real path). Undefined if it does not exist. */
export function readInside(
  root: string | undefined,
  path: string,
  max?: number,
): FileText | undefined {
  const real = root === undefined ? undefined : realOf(`${root}/${path}`);
  if (root === undefined || real === undefined) return undefined;
  if (isInside(real, root)) return readItemFile(real, max);
  return problem('symlink_outside', 'this link leads out of its root, so it is not followed');
}

/** Returns the value of a JSON text. Undefined if it is invalid or unreadable. */
export function jsonIn(read: FileText | undefined): Json | undefined {
  const parsed = read && 'text' in read ? parseJson(read.text) : undefined;
  return parsed?.ok ? parsed.output : undefined;
}

/** Writes and flushes a file completely, or not at all. With `isNew` it fails for an existing file. */
export function putFile(file: string, content: string, isNew: boolean): Outcome<null> {
  const draft = `${dirname(file)}/.${randomUUID()}.tmp`;
  try {
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(draft, content, { flag: 'wx', mode: 0o644, flush: true });
    if (isNew) linkSync(draft, file);
    else renameSync(draft, file);
    return ok(null);
  } catch (error) {
    const code = errnoOf(error);
    if (code === 'EEXIST') return fail('invalid_input', `\`${file}\` exists already`);
    return fail('tool_failed', `cannot write \`${file}\` (${code})`);
  } finally {
    rmSync(draft, { force: true });
  }
}

export const trimmed = (value: unknown): string => (typeof value === 'string' ? value.trim() : '');

/** Returns the fields of a YAML text. Uses the parser only for a form that the fast reader does not support. */
export function yamlFields(text: string, names: ReadonlySet<string>): (name: string) => unknown {
  const header = readYamlHeader(text, names);
  if (header) return (name) => header.get(name);
  const { value } = parseYaml(text);
  return (name) => getOwn(value, name);
}
