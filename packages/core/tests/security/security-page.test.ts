// SECURITY.md names a test for every threat; here the names are held against the files.
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';

const page = readFileSync(new URL('../../../../SECURITY.md', import.meta.url), 'utf8');
const rows = [
  ...page.matchAll(/^\| ([^|]+) \| `((?:packages|tests)\/[^`]+\.test\.ts)` — (.+) \|$/gm),
];

test('every threat names a test that exists', () => {
  expect(rows.length).toBeGreaterThan(40);
  for (const [, threat = '', file = '', name = ''] of rows) {
    const text = readFileSync(new URL(`../../../../${file}`, import.meta.url), 'utf8');
    expect([threat, text.includes(name)]).toEqual([threat, true]);
  }
});

test('every row of a table of threats has the form that is checked', () => {
  const threats = page.slice(page.indexOf('## Threats'));
  const lines = threats.split('\n').filter((line) => /^\| (?!Threat)/.test(line));
  expect(lines.length).toBe(rows.length);
});

const agentic = page.slice(page.indexOf('## The agentic top ten'), page.indexOf('## Threats'));
const risks = [...agentic.matchAll(/^\| (ASI\d\d) .+? \| (.+) \| (`.+) \| (.+) \|$/gm)];

test('the agentic top ten are in order, each with a defence, a test that exists and a limit', () => {
  const names = Array.from({ length: 10 }, (_, at) => `ASI${String(at + 1).padStart(2, '0')}`);
  expect(risks.map(([, name]) => name)).toEqual(names);
  for (const [, name, defence = '', tests = '', limits = ''] of risks) {
    expect([name, defence.length > 40, limits.length > 10]).toEqual([name, true, true]);
    const parts = [...tests.matchAll(/`((?:packages|tests)\/[^`]+\.test\.ts)` — (.+?)(?=; `|$)/g)];
    expect(parts.length).toBeGreaterThan(0);
    for (const [, file = '', title = ''] of parts) {
      const text = readFileSync(new URL(`../../../../${file}`, import.meta.url), 'utf8');
      expect([name, title, text.includes(title)]).toEqual([name, title, true]);
    }
  }
});
