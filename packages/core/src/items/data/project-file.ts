// Reads and writes `.ai/config/project.yaml`, which contains the project's id in a store that machines
// share. The id is random and belongs into version control, so that every checkout is the same project.
// `placement` tells whether the files of the project are the same on every machine.
import {
  type Diagnostic,
  fail,
  formatYaml,
  type Outcome,
  ok,
  oneOf,
  openYaml,
  type RandomBytes,
  record,
  textLike,
} from '../../base/index.ts';
import { aboutFile, putFile, readInside, realOf } from '../files/item-file.ts';

const PATH = 'config/project.yaml';
const ID = /^prj_[a-z0-9]{16,40}$/;

const fields = record(
  {
    id: textLike(ID, 'an id such as `prj_` and 24 letters or digits', '`init` writes it'),
    placement: oneOf(['any', 'sticky']),
  },
  { required: ['id'] },
);

interface ProjectFile {
  /** Absent: the file does not exist or is unreadable. */
  id?: string;
  /** True if each worker has its own checkout, so that a thread continues on the machine where it began. */
  isSticky: boolean;
  diagnostics: Diagnostic[];
  file: string;
}

/** Reads the project file of an `.ai` folder. Never throws. */
export function readProjectFile(root: string): ProjectFile {
  const file = `${root}/${PATH}`;
  const read = readInside(realOf(root), PATH);
  if (read === undefined) return { isSticky: false, diagnostics: [], file };
  if ('problem' in read) {
    const problem = aboutFile(file, read.problem.code, read.problem.message);
    return { isSticky: false, diagnostics: [problem], file };
  }
  const { value, place, diagnostics } = openYaml(read.text, file);
  const content = diagnostics.length === 0 ? fields(value, place) : undefined;
  const id = diagnostics.length === 0 ? content?.id : undefined;
  const isSticky = content?.placement === 'sticky';
  return { ...(id !== undefined && { id }), isSticky, diagnostics, file };
}

/**
 * Returns the id in the project file, or writes a new id. Fails with `config_invalid` for an invalid file,
 * which stays unchanged.
 */
export function giveProjectId(
  root: string,
  random: RandomBytes,
): Outcome<{ id: string; isNew: boolean }> {
  const { id: presentId, diagnostics, file } = readProjectFile(root);
  if (presentId !== undefined) return ok({ id: presentId, isNew: false });
  const [wrong] = diagnostics;
  if (wrong) return fail('config_invalid', `\`${file}\`: ${wrong.message}`);
  const id = `prj_${Buffer.from(random(12)).toString('hex')}`;
  const about =
    '# The id of this project in a store that machines share. Keep it with the project.\n';
  const written = putFile(file, `${about}${formatYaml({ id })}`, true);
  return written.ok ? ok({ id, isNew: true }) : written;
}
