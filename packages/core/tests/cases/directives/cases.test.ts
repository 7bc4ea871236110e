// Each folder here is a case: `input.md` is a directive whose file would be called after the folder;
// `expected.json` holds the value it is read as (absent when it has errors) and its diagnostics.
// To add one, write `input.md`, run with UPDATE_CASES=1, and read what was written.
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { testWorld } from '@kernmantle/test-support/directives';
import { expect, test } from 'vitest';
import { checkDirective } from '../../../src/items/directive/check.ts';
import { parseDirective } from '../../../src/items/directive/parse.ts';

const here = import.meta.dirname;
const cases = readdirSync(here, { withFileTypes: true }).filter((entry) => entry.isDirectory());

interface Expected {
  world?: { source: 'project' | 'bundle'; signedCore: boolean };
  directive?: unknown;
  diagnostics: { place: string; code: string; severity: string; hint?: string }[];
}

function actual(folder: string, world: Expected['world']): Expected {
  const text = readFileSync(join(here, folder, 'input.md'), 'utf8');
  const parsed = parseDirective(text, `${folder}.md`);
  const found = [...parsed.diagnostics, ...checkDirective(parsed, testWorld(world))];
  const { places: _, ...directive } = parsed.directive ?? {};
  return {
    ...(world ? { world } : {}),
    ...(parsed.directive ? { directive: JSON.parse(JSON.stringify(directive)) } : {}),
    diagnostics: found.map(({ line, column, code, severity, hint }) => ({
      place: `${line}:${column}`,
      code,
      severity,
      ...(hint?.includes('\n') ? { hint } : {}),
    })),
  };
}

test.each(cases.map(({ name }) => name))('directive case %s', (folder) => {
  const file = join(here, folder, 'expected.json');
  const expected = existsSync(file)
    ? (JSON.parse(readFileSync(file, 'utf8')) as Expected)
    : undefined;
  const result = actual(folder, expected?.world);
  if (process.env.UPDATE_CASES) writeFileSync(file, `${JSON.stringify(result, null, 2)}\n`);
  else expect(result).toEqual(expected);
});
