// Tests that the words offered to editors are those of the language.
import { describe, expect, test } from 'vitest';
import { CONTEXT_VIEW, OPERATION_VIEW } from '../../../core/src/flow/guards/context.ts';
import { wordList } from '../../../script/src/lsp/words.ts';
import { STATEMENT_WORDS } from '../../../script/src/syntax/value.ts';
import { LIST_METHODS, TEXT_METHODS } from '../../../script/src/values/methods.ts';
import { TRANSFORMERS } from '../../../script/src/values/transforms.ts';

const sorted = (names: Iterable<string>): string[] => [...names].toSorted();
const small = [...TRANSFORMERS.values()].map(({ name }) => name);

describe('every one has its line, and there is no other', () => {
  test.each([
    ['statement words', wordList('statements'), STATEMENT_WORDS],
    ['transformers', wordList('transformers'), new Set(small)],
    [
      'variants of @parse',
      wordList('parse_variants'),
      TRANSFORMERS.get('parse')?.variants?.keys() ?? [],
    ],
    ['methods of texts', wordList('text_methods'), TEXT_METHODS.keys()],
    ['methods of lists', wordList('list_methods'), LIST_METHODS.keys()],
    ['members of @mx', wordList('context'), Object.keys(CONTEXT_VIEW)],
    ['members of @mx.op', wordList('operation'), Object.keys(OPERATION_VIEW)],
  ])('%s', (_what, table, names) => expect(sorted(Object.keys(table))).toEqual(sorted(names)));
});
