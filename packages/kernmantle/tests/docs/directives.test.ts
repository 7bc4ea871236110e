// The page about directives is true: its examples are read, and it knows every code.
import { readdirSync, readFileSync } from 'node:fs';
import { testWorld } from '@kernmantle/test-support/directives';
import { expect, test } from 'vitest';
import { checkDirective } from '../../../core/src/items/directive/check.ts';
import { parseDirective } from '../../../core/src/items/directive/parse.ts';

const page = readFileSync('docs/directives.md', 'utf8');
const fences = (language: string): string[] =>
  [...page.matchAll(/^```(\w+)\n([^]*?)^```$/gm)]
    .filter(([, name]) => name === language)
    .map(([, , text]) => text as string);

function problems(text: string, name: string): unknown {
  const parsed = parseDirective(text, `${name}.md`);
  return [...parsed.diagnostics, ...checkDirective(parsed, testWorld())];
}

test('the first example is complete and checks clean', () => {
  expect(problems(page, 'summarise_changes')).toEqual([]);
  expect(parseDirective(page, 'summarise_changes.md').directive?.around).toContain(
    '## Permissions',
  );
});

test('the example in front matter checks clean', () => {
  const [front = ''] = fences('yaml');
  expect(problems(front, 'greet')).toEqual([]);
});

test('the parts shown on the page check clean where they belong', () => {
  const [, permissions = '', outputs = ''] = fences('xml');
  const text = `<directive name="x" version="1.0.0"><metadata>${permissions}</metadata>${outputs}</directive>`;
  expect(problems(text, 'x')).toEqual([]);
});

test('every code that can be reported is explained', () => {
  const files = readdirSync('packages/core/src/items/directive').filter(
    (name) => !name.endsWith('.test.ts'),
  );
  const source = files
    .map((name) => readFileSync(`packages/core/src/items/directive/${name}`, 'utf8'))
    .join('\n');
  const reports = [
    /(?:error|warning|note)\(\s*'([a-z_]+)'/g,
    /report\(\s*'(?:error|warning|note)',\s*'([a-z_]+)'/g,
    /code: '([a-z]+_[a-z_]+)'/g,
    /\['(name_[a-z]+)'/g,
    /'([a-z]+_(?:unknown|mismatch))'/g,
  ];
  const codes = reports.flatMap((pattern) => [...source.matchAll(pattern)].map(([, code]) => code));
  expect(codes.length).toBeGreaterThan(50);
  expect([...new Set(codes)].filter((code) => !page.includes(`\`${code}\``))).toEqual([]);
});
