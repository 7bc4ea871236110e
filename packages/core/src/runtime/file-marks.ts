// Returns the recorded marks of a file of the project that a person gives to a thread.
import { statSync } from 'node:fs';
import { type Descriptor, describe, EMPTY, fileLabels, inodeOf, mergeAll } from '../flow/index.ts';
import { resolveProjectPath } from '../kernel/index.ts';
import { labelRecords } from './open-kernel.ts';
import type { OpenProject } from './open-project.ts';

/** Returns the same marks that a read by a tool has. `undefined`: the file is not in the project. */
export async function fileMarks(
  open: OpenProject,
  path: string,
  sha256: string,
): Promise<Descriptor | undefined> {
  const { project, policies } = open;
  const place = resolveProjectPath(project, path);
  if (!place.ok) return undefined;
  const { absolute } = place.output;
  const records = labelRecords(open);
  if (records.shared) await records.shared.catchUp();
  const stats = statSync(absolute, { throwIfNoEntry: false });
  const inode = stats && inodeOf(stats);
  const folders = [...policies.current().policy.folders];
  return mergeAll([
    describe({ taint: ['src:file', ...fileLabels(project, absolute)] }),
    records.recall(absolute, sha256) ?? EMPTY,
    inode === undefined ? EMPTY : records.linked(inode, folders),
  ]);
}
