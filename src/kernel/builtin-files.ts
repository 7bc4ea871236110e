import type { BuiltinFunction } from './builtin.ts';
import { editFile } from './builtin-edit.ts';
import { grep } from './builtin-grep.ts';
import { glob, listDir } from './builtin-list.ts';
import { readFile } from './builtin-read.ts';
import { writeFile } from './builtin-write.ts';

/** By the name that `config.function` of a bundle tool uses. */
export const fileFunctions: Readonly<Record<string, BuiltinFunction>> = {
  read_file: readFile,
  write_file: writeFile,
  edit_file: editFile,
  list_dir: listDir,
  glob,
  grep,
};
