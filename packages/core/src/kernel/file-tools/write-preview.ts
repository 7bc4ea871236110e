// Computes the changes that a built-in file tool would make, for an approval request. The write after
// the approval is refused unless it finds the content that was read here.
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
  /** `config.function` of the tool. A script statement that appends also creates the file. */
  readonly by: string;
}

/** Texts with more bytes are not compared. */
const MAX_COMPARED = 8 * 1024 * 1024;
const textIn = (parameters: ReadonlyMap<string, Json>, name: string): string =>
  plainText(parameters.get(name) ?? '');

const countLines = (bytes: Uint8Array): number => {
  let lines = bytes.length > 0 && bytes.at(-1) !== 10 ? 1 : 0;
  for (const byte of bytes) if (byte === 10) lines++;
  return lines;
};

/** Returns the content after the write, or undefined if the tool would refuse. */
function afterwards(
  by: string,
  parameters: ReadonlyMap<string, Json>,
  before: string,
): { change: WritePreview['change']; text: string } | undefined {
  if (by === 'write_file') return { change: 'overwrite', text: textIn(parameters, 'content') };
  if (parameters.get('append') === true) {
    return { change: 'add', text: `${before}${textIn(parameters, 'new_string')}` };
  }
  const text = textAfterEdit(before, {
    from: textIn(parameters, 'old_string'),
    to: textIn(parameters, 'new_string'),
    all: parameters.get('replace_all') === true,
  });
  return text === undefined ? undefined : { change: 'edit', text };
}

async function compared(
  { labels, by }: PreviewRequest,
  place: ProjectPath,
  parameters: ReadonlyMap<string, Json>,
): Promise<Omit<WritePreview, 'path' | 'holds'> | undefined> {
  const whole = await readWhole(place, MAX_IDENTIFIED_BYTES);
  const adds = parameters.get('append') === true;
  const change = by === 'write_file' ? 'overwrite' : adds ? 'add' : 'edit';
  if (!whole.ok) return { change };
  const { bytes, sha256, absolute } = whole.output;
  const recorded = labels.recall(absolute, sha256);
  const after = Buffer.byteLength(textIn(parameters, 'content'));
  const isLarge = bytes.length > MAX_COMPARED || after > MAX_COMPARED;
  if (looksBinary(bytes)) return { change };
  if (isLarge && by !== 'write_file') return { change, from: countLines(bytes) };
  if (isLarge) {
    const to = countLines(Buffer.from(textIn(parameters, 'content')));
    return { change, from: countLines(bytes), to };
  }
  const before = bytes.toString('utf8');
  const next = afterwards(by, parameters, before);
  if (!next) return { change };
  const { diff, ...sizes } = lineDiff(before, next.text);
  const isSecret = recorded !== undefined && carries(recorded, 'secret');
  return { change: next.change, ...sizes, ...(diff !== undefined && !isSecret && { diff }) };
}

/** Returns undefined if no preview can be computed. The tool then judges the write by itself. */
export async function previewWrite(
  request: PreviewRequest,
  parameters: ReadonlyMap<string, Json>,
): Promise<WritePreview | undefined> {
  const resolved = resolveProjectPath(request.projectRoot, textIn(parameters, 'path'));
  if (!resolved.ok) return undefined;
  const { absolute, relative } = resolved.output;
  try {
    const info = await lstat(absolute);
    if (!info.isFile()) return undefined;
    // The identity is taken before the content, so that a write in between is detected.
    const holds = await identityOf(resolved.output, info);
    const about = await compared(request, resolved.output, parameters);
    return about && { path: relative, holds, ...about };
  } catch (error) {
    if (errnoOf(error) !== 'ENOENT' || request.by === 'edit_file') return undefined;
    const to = countLines(Buffer.from(textIn(parameters, 'content')));
    return { path: relative, holds: 'new', change: 'create', to };
  }
}
