// SECURITY.md names a test for every threat; here the names are held against the files.
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';

const page = readFileSync(new URL('../../SECURITY.md', import.meta.url), 'utf8');
const rows = [...page.matchAll(/^\| (.+?) \| `((?:src|tests)\/[^`]+\.test\.ts)` — (.+) \|$/gm)];

test('every threat names a test that exists', () => {
  expect(rows.length).toBeGreaterThan(40);
  for (const [, threat = '', file = '', name = ''] of rows) {
    const text = readFileSync(new URL(`../../${file}`, import.meta.url), 'utf8');
    expect([threat, text.includes(name)]).toEqual([threat, true]);
  }
});

test('every row of a table of threats has the form that is checked', () => {
  const threats = page.slice(page.indexOf('## Threats'));
  const lines = threats.split('\n').filter((line) => /^\| (?!Threat)/.test(line));
  expect(lines.length).toBe(rows.length);
});
