import { expect, test } from 'vitest';
import { renameSection, selectSections } from './sections.ts';

const GUIDE = `---
# no heading
title: Guide
date: 2024-01-31
---

# Guide

Welcome.

## Installing

Run it.
\`\`\`sh
## no heading either
\`\`\`

### On Windows

Other.
## TL;DR ##
Short.

## Install on a Mac

Mac.
`;

const wanted = (include: string[], exclude: string[] = []) => ({
  include: include.map((name) => ({ name: name.replace('?', ''), isOptional: name.endsWith('?') })),
  exclude: exclude.map((name) => ({ name, isOptional: false })),
  list: undefined,
});
const select = (include: string[], exclude: string[] = []) =>
  selectSections(GUIDE, wanted(include, exclude));

test('headings are listed without fences and front matter', () => {
  const listed = (list: number) => selectSections(GUIDE, { include: [], exclude: [], list });
  expect(listed(0)).toEqual(['Guide', 'Installing', 'On Windows', 'TL;DR', 'Install on a Mac']);
  expect(listed(3)).toEqual(['On Windows']);
  expect(listed(2)).toEqual(['Installing', 'TL;DR', 'Install on a Mac']);
});

test('a section goes to the next heading of its level or above', () => {
  expect(select(['installing'])).toBe(
    '## Installing\n\nRun it.\n```sh\n## no heading either\n```\n\n### On Windows\n\nOther.',
  );
  expect(select(['on windows'])).toBe('### On Windows\n\nOther.');
  expect(select(['tldr'])).toBe('## TL;DR ##\nShort.');
});

test('the exact name wins over a beginning', () => {
  expect(select(['install on a mac'])).toBe('## Install on a Mac\n\nMac.');
  expect(select(['Install'])).toMatch(/^## Installing/);
});

test('several sections come in document order without the excluded ones', () => {
  expect(select(['TL;DR', 'Installing'], ['on windows'])).toBe(
    '## Installing\n\nRun it.\n```sh\n## no heading either\n```\n\n## TL;DR ##\nShort.',
  );
  expect(select(['tldr'], ['TL;DR'])).toBe('');
});

test('a missing section is an error that lists what is there, unless it is optional', () => {
  expect(() => select(['Usage'])).toThrow(
    'section `Usage` not found; the headings are `Guide`, `Installing`',
  );
  expect(() => select(['Guide'], ['Usage'])).toThrow('section `Usage` not found');
  expect(() => select(['###'])).toThrow('not found');
  expect(select(['Usage?', 'tldr'])).toBe('## TL;DR ##\nShort.');
});

test('a section gets another heading', () => {
  expect(renameSection('## A\n\ntext', '# New')).toBe('# New\n\ntext');
  expect(renameSection('## A\n\ntext', 'New')).toBe('## New\n\ntext');
});
