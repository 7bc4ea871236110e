// What stands where a built-in file tool would write, looked at before it is allowed to. The answer is
// about names and content as they are now; the tool is held to it when it writes.
import { lstat } from 'node:fs/promises';
import { errnoOf } from '../../base/index.ts';
import type { LabelRecords, LookAtPlace, WritePlace } from '../../flow/index.ts';
import { resolveProjectPath } from '../rights/project-path.ts';
import { readWhole } from './read-file.ts';
import { MAX_WRITTEN_BYTES, plainPath, protectedPlace } from './write-file.ts';

interface WriteRequest {
  readonly projectRoot: string;
  readonly labels: Pick<LabelRecords, 'isMade'>;
  /** `config.function` of the tool. */
  readonly by: string;
}

/** A path that is not plainly a place is at best one where something else is. */
export async function lookAtPlace(
  { projectRoot, labels, by }: WriteRequest,
  path: string,
  thread: string,
  given: Parameters<LookAtPlace>[2],
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
  const adds = by === 'edit_file' && given.get('append') === true;
  return adds ? { ...other, adds } : other;
}
