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

/** A finding about a file as a whole. */
export const aboutFile = (
  file: string,
  code: string,
  message: string,
  { severity = 'error', hint }: { severity?: Severity; hint?: string | undefined } = {},
): Diagnostic => compact<Diagnostic>({ file, line: 1, column: 1, code, severity, message, hint });

/** Larger than any honest item; beyond it a file is reported, not read. */
export const MAX_ITEM_BYTES = 256 * 1024;

export type FileText = { text: string } | { problem: { code: string; message: string } };

const problem = (code: string, message: string): FileText => ({ problem: { code, message } });

function decode(bytes: Buffer): FileText {
  if (bytes.includes(0)) return problem('nul_byte', 'the file holds a NUL byte, so it is not text');
  try {
    return { text: new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes) };
  } catch {
    return problem('not_utf8', 'the file is not valid UTF-8');
  }
}

/** Never throws. `path` must not be a symlink: resolve it first. */
export function readItemFile(path: string, max = MAX_ITEM_BYTES): FileText {
  const read = readRegularFile(path, { max });
  return 'bytes' in read ? decode(read.bytes) : read;
}

/** The real path of a file or folder; undefined when there is none. */
export function realOf(path: string): string | undefined {
  try {
    // Most paths that are asked for do not exist: saying so without an exception is much cheaper.
    return statSync(path, { throwIfNoEntry: false }) && realpathSync.native(path);
  } catch {
    return undefined;
  }
}

/** Of the name itself, also when it is a link; undefined when it cannot be looked at. */
export function statsOf(path: string): Stats | undefined {
  try {
    return lstatSync(path, { throwIfNoEntry: false });
  } catch {
    return undefined;
  }
}

/** Is there a folder, and no link to one? */
export const isFolder = (path: string): boolean => statsOf(path)?.isDirectory() === true;

/** The real path of the longest part that exists: where a new file would really be made. */
export function realAncestor(path: string): string | undefined {
  for (let at = path; ; at = dirname(at)) {
    // Something is there, if only a link that leads nowhere: then nothing may be made through it.
    if (statsOf(at)) return realOf(at);
    if (at === dirname(at)) return undefined;
  }
}

/** Text of a file below `root` (a real path); undefined when there is none there. */
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

/** The value of a JSON text; undefined when it is none or could not be read. */
export function jsonIn(read: FileText | undefined): Json | undefined {
  const parsed = read && 'text' in read ? parseJson(read.text) : undefined;
  return parsed?.ok ? parsed.output : undefined;
}

/** Whole and on disk, or not at all. With `isNew` an existing file is never replaced. */
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

/** The fields of a YAML text, by the quick look or, when that is not enough, by the parser. */
export function yamlFields(text: string, names: ReadonlySet<string>): (name: string) => unknown {
  const header = readYamlHeader(text, names);
  if (header) return (name) => header.get(name);
  const { value } = parseYaml(text);
  return (name) => getOwn(value, name);
}
