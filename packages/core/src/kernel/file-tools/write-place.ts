// Looks at the target of a built-in file tool before the call is judged. The answer describes names and
// content at this time. The write is refused if they have changed.
import { lstat } from 'node:fs/promises';
import { errnoOf } from '../../base/index.ts';
import type { LabelRecords, LookAtPlace, WritePlace } from '../../flow/index.ts';
import { resolveProjectPath } from '../rights/project-path.ts';
import { readWhole } from './read-file.ts';
import { MAX_WRITTEN_BYTES, plainPath, protectedPlace } from './write-file.ts';

interface WriteRequest {
  readonly projectRoot: string;
  readonly labels: Pick<LabelRecords, 'isMade'>;
  /** The value of `config.function` of the tool. */
  readonly by: string;
}

/**
 * Returns what is at the path. A path that does not name a place literally counts as an existing file of
 * another author.
 */
export async function lookAtPlace(
  { projectRoot, labels, by }: WriteRequest,
  path: string,
  thread: string,
  parameters: Parameters<LookAtPlace>[2],
): Promise<WritePlace> {
  const found = resolveProjectPath(projectRoot, path);
  if (!found.ok) return { relative: '', state: 'closed' };
  const { absolute, relative } = found.output;
  const isItem = /(?:^|\/)\.ai(?:\/|$)/i.test(relative);
  if (isItem || protectedPlace(relative)) return { relative, state: 'closed' };
  const other: WritePlace = { relative, state: 'other' };
  if (relative !== plainPath(path)) return other;
  try {
    const info = await lstat(absolute);
    // A file with several names is in several places.
    if (!info.isFile() || info.nlink !== 1) return other;
  } catch (error) {
    return errnoOf(error) === 'ENOENT' && by === 'write_file' ? { relative, state: 'new' } : other;
  }
  const whole = await readWhole(found.output, MAX_WRITTEN_BYTES);
  if (!whole.ok) return other;
  const { sha256 } = whole.output;
  if (labels.isMade(absolute, sha256, thread)) return { relative, state: 'own', sha256 };
  const adds = by === 'edit_file' && parameters.get('append') === true;
  return adds ? { ...other, adds } : other;
}
