// Implements `edit_file`: one exact replacement, or an addition at the end. A text that is missing or occurs
// several times is refused with the line numbers. Similar text is never replaced.
import { createHash } from 'node:crypto';
import { type Failure, fail, type Outcome, ok } from '../../base/index.ts';
import { markFailure } from '../../flow/index.ts';
import type { PrimitiveCall, PrimitiveResult, TouchedFile } from '../primitive.ts';
import type { ProjectPath } from '../rights/project-path.ts';
import { cancelled, isSet, textOf } from './content.ts';
import { looksBinary, placeFor, readWhole, suggestSibling, type WholeFile } from './read-file.ts';
import {
  addToFile,
  elsewhere,
  MAX_WRITTEN_BYTES,
  notApproved,
  protectedPlace,
  tooLarge,
  writeWhole,
} from './write-file.ts';

const SHOWN_PLACES = 20;

/** Returns the number of occurrences and the offsets of the first few. A file can contain millions. */
function findAll(text: string, part: string): { count: number; first: number[] } {
  const first: number[] = [];
  let count = 0;
  for (let at = text.indexOf(part); at !== -1; at = text.indexOf(part, at + part.length)) {
    if (count++ < SHOWN_PLACES) first.push(at);
  }
  return { count, first };
}

/** Returns the line numbers of ascending offsets in one pass. */
function linesAt(text: string, offsets: readonly number[]): number[] {
  let [line, from] = [1, 0];
  return offsets.map((offset) => {
    for (
      let at = text.indexOf('\n', from);
      at !== -1 && at < offset;
      at = text.indexOf('\n', from)
    ) {
      line++;
      from = at + 1;
    }
    return line;
  });
}

const squeeze = (line: string) => line.replace(/\s+/g, ' ').trim();

/** Returns the line where the text would match if white space did not count, the most frequent mistake. */
function nearMiss(text: string, part: string): number | undefined {
  const target = part.split('\n').map(squeeze);
  while (target.length > 1 && target[0] === '') target.shift();
  while (target.length > 1 && target.at(-1) === '') target.pop();
  if (target.length > 200 || target.join('') === '') return undefined;
  const lines = text.split('\n').map(squeeze);
  const at = lines.findIndex((_, start) =>
    target.every((line, index) => lines[start + index] === line),
  );
  return at === -1 ? undefined : at + 1;
}

function notFound(path: string, text: string, part: string): Failure {
  const near = nearMiss(text, part);
  const hint =
    near === undefined
      ? 'read the file again and copy the text exactly'
      : `line ${near} differs only in white space`;
  const detail = { path, reason: 'no_match', ...(near === undefined ? {} : { near_line: near }) };
  return fail('invalid_input', `\`old_string\` does not occur in \`${path}\`; ${hint}`, detail);
}

function notUnique(path: string, count: number, lines: number[]): Failure {
  const lineList = lines.join(', ') + (count > lines.length ? ', …' : '');
  const message = `\`old_string\` occurs ${count} times in \`${path}\` (lines ${lineList}); add surrounding lines to make it unique, or set \`replace_all\``;
  return fail('invalid_input', message, { path, reason: 'not_unique', lines, matches: count });
}

interface Replacement {
  text: string;
  count: number;
  /** Line numbers of the first occurrences. */
  lines: number[];
}

/** Returns the edited text. Fails with `invalid_input`. Has no side effects. */
function replaceExactly(
  path: string,
  text: string,
  { from, to, all }: { from: string; to: string; all: boolean },
): Outcome<Replacement> {
  if (from === '') return fail('invalid_input', '`old_string` is empty; use `fs/write_file`');
  if (from === to) return fail('invalid_input', '`old_string` and `new_string` are the same');
  const { count, first } = findAll(text, from);
  if (count === 0) {
    // Models write `\n`. A file with Windows line ends keeps them.
    const windows = (part: string) => part.replace(/\r?\n/g, '\r\n');
    const retry = text.includes('\r\n') && from.includes('\n') && windows(from) !== from;
    if (!retry) return notFound(path, text, from);
    return replaceExactly(path, text, { from: windows(from), to: windows(to), all });
  }
  const lines = linesAt(text, first);
  if (count > 1 && !all) return notUnique(path, count, lines);
  const size = text.length + count * (to.length - from.length);
  if (size > MAX_WRITTEN_BYTES) return tooLarge(path, size);
  // `replace` would interpret a `$` in the new text.
  return ok({ text: text.split(from).join(to), count, lines });
}

/** Returns the text after an edit. Undefined if the edit would be refused. */
export function textAfterEdit(
  text: string,
  edit: Parameters<typeof replaceExactly>[2],
): string | undefined {
  const edited = replaceExactly('', text, edit);
  return edited.ok ? edited.output.text : undefined;
}

export async function editFile(call: PrimitiveCall): Promise<Outcome<PrimitiveResult>> {
  const place = placeFor(call, textOf(call.parameters, 'path'), 'fs.write');
  if (!place.ok) return place;
  const { absolute, relative } = place.output;
  // Errors quote lines of the file, so an edit needs the right to read too.
  const readable = call.verify({ capability: 'fs.read', scope: { path: relative } });
  if (!readable.ok) return readable;
  const refused = protectedPlace(relative) ?? elsewhere(call, relative);
  if (refused) return refused;
  const before = await readWhole(place.output, MAX_WRITTEN_BYTES);
  if (!before.ok) return suggestSibling(call, place.output, before);
  const { sha256: old, inode } = before.output;
  if (call.approved !== undefined && call.approved !== old) return notApproved(relative);
  const read: TouchedFile = { access: 'read', absolute, relative, inode, sha256: old };
  // A failure reveals the content, because it says that a text does not occur.
  const about = <T>(answer: Outcome<T>): Outcome<T> =>
    answer.ok || !call.seen ? answer : markFailure(answer, call.seen([read]));
  const text = about(decode(relative, before.output.bytes));
  if (!text.ok) return text;
  if (isSet(call.parameters, 'append')) return await append(call, place.output, before.output);
  if (call.holds === 'add') return fail('permission_denied', 'only an append was allowed');
  const edited = about(
    replaceExactly(relative, text.output, {
      from: textOf(call.parameters, 'old_string'),
      to: textOf(call.parameters, 'new_string'),
      all: isSet(call.parameters, 'replace_all'),
    }),
  );
  if (!edited.ok) return edited;
  const bytes = Buffer.from(edited.output.text, 'utf8');
  if (bytes.length > MAX_WRITTEN_BYTES) return tooLarge(relative, bytes.length);
  if (call.signal.aborted) return cancelled();
  const { mtimeMs } = before.output;
  const replaces = { mtimeMs, size: before.output.bytes.length };
  const written = await writeWhole(place.output, bytes, {
    replaces,
    holds: call.holds,
    approved: call.approved,
    before: old,
    willWrite: (sha256, was) => call.willWrite?.(absolute, sha256, [read], was) ?? ok(null),
  });
  if (!written.ok) return written;
  const { count, lines } = edited.output;
  return ok({
    output: { path: relative, replacements: count, lines, bytes: bytes.length },
    files: [read, { access: 'written', absolute, relative, sha256: written.output.sha256 }],
  });
}

/** Appends without rewriting the existing content, so that a concurrent append is not lost. */
async function append(
  call: PrimitiveCall,
  place: ProjectPath,
  { bytes: before, sha256: old, inode }: WholeFile,
): Promise<Outcome<PrimitiveResult>> {
  const { absolute, relative } = place;
  if (textOf(call.parameters, 'old_string') !== '') {
    return fail('invalid_input', '`append` does not replace text; leave `old_string` empty');
  }
  const added = Buffer.from(textOf(call.parameters, 'new_string'), 'utf8');
  const bytes = before.length + added.length;
  if (bytes > MAX_WRITTEN_BYTES) return tooLarge(relative, bytes);
  const isOther = call.holds !== undefined && call.holds !== 'add' && call.holds !== old;
  if (isOther || (call.holds !== undefined && inode !== undefined)) {
    return fail('tool_failed', `\`${relative}\` was changed by another process; read it again`);
  }
  if (call.signal.aborted) return cancelled();
  const sha256 = createHash('sha256').update(before).update(added).digest('hex');
  const read: TouchedFile = { access: 'read', absolute, relative, inode, sha256: old };
  const announced = await (call.willWrite?.(absolute, sha256, [read], old) ?? ok(null));
  if (!announced.ok) return announced;
  const written = await addToFile(place, added);
  if (!written.ok) return written;
  return ok({
    output: { path: relative, added: added.length, bytes },
    files: [read, { access: 'written', absolute, relative, sha256 }],
  });
}

function decode(path: string, bytes: Uint8Array): Outcome<string> {
  if (!looksBinary(bytes)) {
    try {
      return ok(new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes));
    } catch {
      // The file is refused, because an edit would damage the characters that cannot be decoded.
    }
  }
  return fail('invalid_input', `\`${path}\` is not UTF-8 text and cannot be edited`, { path });
}
