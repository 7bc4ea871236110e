import { type BuiltinFunction, marking } from './content.ts';
import { editFile } from './edit-file.ts';
import { grep } from './grep.ts';
import { glob, listDir } from './list.ts';
import { readFile } from './read-file.ts';
import { writeFile } from './write-file.ts';

/** File functions by the name that `config.function` of a bundle tool uses. */
export const fileFunctions: Readonly<Record<string, BuiltinFunction>> = {
  read_file: marking(readFile),
  write_file: marking(writeFile),
  edit_file: marking(editFile),
  list_dir: marking(listDir),
  glob: marking(glob),
  grep: marking(grep),
};
