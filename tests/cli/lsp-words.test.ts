// What editors are told about the language is what the language has.

import { describe, expect, test } from 'vitest';
import * as words from '../../src/cli/lsp/words.ts';
import { CONTEXT_VIEW, OPERATION_VIEW } from '../../src/flow/guards/context.ts';
import { STATEMENT_WORDS } from '../../src/script/syntax/value.ts';
import { LIST_METHODS, TEXT_METHODS } from '../../src/script/values/methods.ts';
import { PARSE_VARIANTS, TRANSFORMERS } from '../../src/script/values/transforms.ts';

const sorted = (names: Iterable<string>): string[] => [...names].toSorted();
const small = [...TRANSFORMERS.values()].map(({ name }) => name);

describe('every one has its line, and there is no other', () => {
  test.each([
    ['statement words', words.STATEMENTS, STATEMENT_WORDS],
    ['transformers', words.TRANSFORMERS, new Set(small)],
    ['variants of @parse', words.PARSE_VARIANTS, Object.keys(PARSE_VARIANTS)],
    ['methods of texts', words.TEXT_METHODS, TEXT_METHODS.keys()],
    ['methods of lists', words.LIST_METHODS, LIST_METHODS.keys()],
    ['members of @mx', words.CONTEXT, Object.keys(CONTEXT_VIEW)],
    ['members of @mx.op', words.OPERATION, Object.keys(OPERATION_VIEW)],
  ])('%s', (_what, table, names) => expect(sorted(Object.keys(table))).toEqual(sorted(names)));
});
