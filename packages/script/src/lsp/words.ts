// Reads texts about the names of the language, for hover and completion. They are data of the package, in
// `bundle/config/editor-words.yaml`.
import { readFileSync } from 'node:fs';
import { packagePath, parseYaml } from '@kernmantle/core/base';

type WordList = Readonly<Record<string, string>>;
type ListName =
  | 'statements'
  | 'block_words'
  | 'effect_stages'
  | 'verdicts'
  | 'timings'
  | 'operation_filters'
  | 'ambient'
  | 'transformers'
  | 'parse_variants'
  | 'text_methods'
  | 'list_methods'
  | 'questions'
  | 'value_members'
  | 'context'
  | 'operation'
  | 'value_mx'
  | 'pipe'
  | 'tags';

let lists: Readonly<Record<ListName, WordList>> | undefined;

/** Returns a list of the file. The file is read when the first list is needed. */
export function wordList(name: ListName): WordList {
  const read = () => readFileSync(packagePath('bundle/config/editor-words.yaml'), 'utf8');
  lists ??= parseYaml(read()).value as unknown as NonNullable<typeof lists>;
  return lists[name];
}

/** Returns the text about a word; `undefined` if the list does not have it. */
export function about(list: ListName, word: string): string | undefined {
  const words = wordList(list);
  return Object.hasOwn(words, word) ? words[word] : undefined;
}
