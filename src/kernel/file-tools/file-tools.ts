import { dirname } from 'node:path';
import type { Failure } from '../../base/index.ts';
import { describe, fileLabels, markFailure, mergeAll } from '../../flow/index.ts';
import type { PrimitiveCall } from '../primitive.ts';
import { resolveProjectPath } from '../rights/project-path.ts';
import { type BuiltinFunction, textOf } from './content.ts';
import { editFile } from './edit-file.ts';
import { grep } from './grep.ts';
import { glob, listDir } from './list.ts';
import { readFile } from './read-file.ts';
import { writeFile } from './write-file.ts';

/** That something is not there, or is not what was expected, is told by its folder. */
function markLook(call: PrimitiveCall, failure: Failure): Failure {
  const place = resolveProjectPath(call.projectRoot, textOf(call.parameters, 'path', '.'));
  // A refusal comes before any look.
  if (!place.ok || failure.error.code === 'permission_denied') return failure;
  const { absolute } = place.output;
  const own = describe({ taint: fileLabels(call.projectRoot, absolute) });
  const seen = call.seen?.([], [dirname(absolute)]);
  return markFailure(failure, mergeAll(seen ? [own, seen] : [own]));
}

const marking =
  (work: BuiltinFunction): BuiltinFunction =>
  async (call) => {
    const done = await work(call);
    return done.ok ? done : markLook(call, done);
  };

/** By the name that `config.function` of a bundle tool uses. */
export const fileFunctions: Readonly<Record<string, BuiltinFunction>> = {
  read_file: marking(readFile),
  write_file: marking(writeFile),
  edit_file: marking(editFile),
  list_dir: marking(listDir),
  glob: marking(glob),
  grep: marking(grep),
};
