import { runs } from '@kernmantle/test-support/soak';
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { parseYaml } from '../base/index.ts';
import { readYamlHeader } from './files/yaml-header.ts';
import { checkKnowledge, knowledgeFacts, knowledgeText } from './knowledge.ts';

const NOTE = `---
title: "How we deploy"
category: ops
tags: [deploy, staging]
---
# Deploying

Push to main and wait.
`;

test('front matter gives title, category and tags', () => {
  expect(knowledgeFacts(NOTE, 'ops/deploy')).toEqual({
    title: 'How we deploy',
    description: 'Push to main and wait.',
    category: 'ops',
    tags: ['deploy', 'staging'],
    version: '0.0.0',
  });
  expect(knowledgeText(NOTE)).toBe('# Deploying\n\nPush to main and wait.\n');
  expect(checkKnowledge(NOTE, 'deploy.md')).toEqual([]);
});

test('without front matter the heading and the first sentence speak', () => {
  expect(knowledgeFacts('# House rules #\n\n- x\n\nBe kind.\n', 'AGENTS')).toMatchObject({
    title: 'House rules',
    description: 'Be kind.',
  });
  expect(knowledgeFacts('', 'ops/house_rules').title).toBe('house rules');
});

test('a skill names itself and may have fields of its own', () => {
  const skill =
    '---\nname: pdf\ndescription: >\n  Fills in\n  forms.\nlicense: MIT\nallowed-tools: [Bash]\n---\nText\n';
  expect(knowledgeFacts(skill, 'skills/pdf')).toMatchObject({
    title: 'pdf',
    description: 'Fills in forms.',
  });
  expect(checkKnowledge(skill, 'SKILL.md')).toEqual([]);
});

test('mistakes are reported at the line of the file', () => {
  const text = '<!-- signed -->\n---\ntitel: x\ntags: 3\nversion: 1\n---\nText\n';
  const found = checkKnowledge(text, 'a.md');
  expect(found.map(({ line, code, severity, text }) => [line, code, severity, text])).toEqual([
    [3, 'unknown_field', 'warning', 'titel: x'],
    [4, 'invalid_field', 'error', 'tags: 3'],
    [5, 'invalid_field', 'error', 'version: 1'],
  ]);
  expect(checkKnowledge('---\ntitle: x\n', 'a.md')).toMatchObject([
    { code: 'front_matter_unclosed', line: 1 },
  ]);
});

test('the quick look agrees with the parser or says that it cannot tell', () => {
  const names = new Set(['title', 'tags', 'category']);
  const piece = fc.oneof(
    fc.constantFrom(
      'a',
      ' b',
      '"q"',
      "'it''s'",
      '[x, y]',
      '- z',
      ' # c',
      ': ',
      '|',
      '>',
      '&a',
      '1',
      'no',
    ),
    fc.string({ maxLength: 6 }),
  );
  const line = fc.tuple(
    fc.constantFrom('title: ', 'tags: ', 'category: ', '  ', '', 'other: '),
    piece,
    piece,
  );
  fc.assert(
    fc.property(fc.array(line, { maxLength: 5 }), (parts) => {
      const text = parts.map((words) => words.join('')).join('\n');
      const header = readYamlHeader(text, names);
      const { value, problems } = parseYaml(text);
      if (!header || problems.length > 0 || value === null || typeof value !== 'object') return;
      for (const name of names) {
        const parsed = (value as Record<string, unknown>)[name];
        if (header.has(name)) expect(header.get(name)).toEqual(parsed);
        else expect(parsed).toBeUndefined();
      }
    }),
    // A blank line does not end a text: the parser reads on.
    {
      numRuns: runs(3000),
      examples: [
        [
          [
            ['title: ', 'a', ''],
            ['', '', ''],
            ['  ', 'b', ''],
          ],
        ],
      ],
    },
  );
});
