// Inspects the target of a built-in file tool before the call is judged. The answer describes the name and
// the content at this time. The write is refused if they have changed.
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
 * Returns the state of the path. A path that is not certain to name one file (see `plainPath`) counts as
 * an existing file of another author.
 */
export async function lookAtPlace(
  { projectRoot, labels, by }: WriteRequest,
  path: string,
  thread: string,
  parameters: Parameters<LookAtPlace>[2],
): Promise<WritePlace> {
  const resolved = resolveProjectPath(projectRoot, path);
  if (!resolved.ok) return { relative: '', state: 'closed' };
  const { absolute, relative } = resolved.output;
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
  const whole = await readWhole(resolved.output, MAX_WRITTEN_BYTES);
  if (!whole.ok) return other;
  const { sha256 } = whole.output;
  if (labels.isMade(absolute, sha256, thread)) return { relative, state: 'own', sha256 };
  const adds = by === 'edit_file' && parameters.get('append') === true;
  return adds ? { ...other, adds } : other;
}
