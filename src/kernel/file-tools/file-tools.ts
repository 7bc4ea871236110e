import type { BuiltinFunction } from './content.ts';
import { editFile } from './edit-file.ts';
import { grep } from './grep.ts';
import { glob, listDir } from './list.ts';
import { readFile } from './read-file.ts';
import { writeFile } from './write-file.ts';

/** By the name that `config.function` of a bundle tool uses. */
export const fileFunctions: Readonly<Record<string, BuiltinFunction>> = {
  read_file: readFile,
  write_file: writeFile,
  edit_file: editFile,
  list_dir: listDir,
  glob,
  grep,
};
