// What a built-in file tool would change, looked at when a person is asked about it. The write after the
// answer is held to the content that is found here.
import { lstat } from 'node:fs/promises';
import { errnoOf, type Json, plainText } from '../../base/index.ts';
import { carries, type LabelRecords, type WritePreview } from '../../flow/index.ts';
import { type ProjectPath, resolveProjectPath } from '../rights/project-path.ts';
import { textAfterEdit } from './edit-file.ts';
import { lineDiff } from './line-diff.ts';
import { looksBinary, readWhole } from './read-file.ts';
import { identityOf, MAX_IDENTIFIED_BYTES } from './write-file.ts';

interface PreviewRequest {
  readonly projectRoot: string;
  readonly labels: Pick<LabelRecords, 'recall'>;
  /** `config.function` of the tool; a statement of a script that appends also creates. */
  readonly by: string;
}

/** Texts of more bytes are not compared. */
const MAX_COMPARED = 8 * 1024 * 1024;
const textIn = (given: ReadonlyMap<string, Json>, name: string): string =>
  plainText(given.get(name) ?? '');

const countLines = (bytes: Uint8Array): number => {
  let lines = bytes.length > 0 && bytes.at(-1) !== 10 ? 1 : 0;
  for (const byte of bytes) if (byte === 10) lines++;
  return lines;
};

/** Content after the write; `undefined` if the tool would refuse. */
function afterwards(
  by: string,
  given: ReadonlyMap<string, Json>,
  before: string,
): { change: WritePreview['change']; text: string } | undefined {
  if (by === 'write_file') return { change: 'overwrite', text: textIn(given, 'content') };
  if (given.get('append') === true) {
    return { change: 'add', text: `${before}${textIn(given, 'new_string')}` };
  }
  const text = textAfterEdit(before, {
    from: textIn(given, 'old_string'),
    to: textIn(given, 'new_string'),
    all: given.get('replace_all') === true,
  });
  return text === undefined ? undefined : { change: 'edit', text };
}

async function compared(
  { labels, by }: PreviewRequest,
  place: ProjectPath,
  given: ReadonlyMap<string, Json>,
): Promise<Omit<WritePreview, 'path' | 'holds'> | undefined> {
  const whole = await readWhole(place, MAX_IDENTIFIED_BYTES);
  const adds = given.get('append') === true;
  const change = by === 'write_file' ? 'overwrite' : adds ? 'add' : 'edit';
  if (!whole.ok) return { change };
  const { bytes, sha256, absolute } = whole.output;
  const kept = labels.recall(absolute, sha256);
  const after = Buffer.byteLength(textIn(given, 'content'));
  const isLarge = bytes.length > MAX_COMPARED || after > MAX_COMPARED;
  if (looksBinary(bytes)) return { change };
  if (isLarge && by !== 'write_file') return { change, from: countLines(bytes) };
  if (isLarge) {
    const to = countLines(Buffer.from(textIn(given, 'content')));
    return { change, from: countLines(bytes), to };
  }
  const before = bytes.toString('utf8');
  const next = afterwards(by, given, before);
  if (!next) return { change };
  const { diff, ...sizes } = lineDiff(before, next.text);
  const isSecret = kept !== undefined && carries(kept, 'secret');
  return { change: next.change, ...sizes, ...(diff !== undefined && !isSecret && { diff }) };
}

/** Undefined: nothing can be said about it, and the tool itself will judge. */
export async function previewWrite(
  request: PreviewRequest,
  given: ReadonlyMap<string, Json>,
): Promise<WritePreview | undefined> {
  const found = resolveProjectPath(request.projectRoot, textIn(given, 'path'));
  if (!found.ok) return undefined;
  const { absolute, relative } = found.output;
  try {
    const info = await lstat(absolute);
    if (!info.isFile()) return undefined;
    // Looked at before the content is: who writes in between is found out at the write.
    const holds = await identityOf(found.output, info);
    const about = await compared(request, found.output, given);
    return about && { path: relative, holds, ...about };
  } catch (error) {
    if (errnoOf(error) !== 'ENOENT' || request.by === 'edit_file') return undefined;
    const to = countLines(Buffer.from(textIn(given, 'content')));
    return { path: relative, holds: 'new', change: 'create', to };
  }
}
