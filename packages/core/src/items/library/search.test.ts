import { createFixture, type Fixture, toolText } from '@kernmantle/test-support/library';
import { runs } from '@kernmantle/test-support/soak';
import * as fc from 'fast-check';
import { afterEach, expect, test } from 'vitest';
import type { SearchQuery } from './search.ts';
import { createSearchIndex, wordsOf } from './search-index.ts';

let fixture: Fixture | undefined;
afterEach(() => fixture?.end());

const note = (title: string, body: string, category = '', tags = '') =>
  `---\ntitle: ${title}\ncategory: "${category}"\ntags: [${tags}]\n---\n${body}\n`;

async function search(files: Record<string, string>) {
  fixture = createFixture(files);
  const { library } = fixture;
  await library.refresh();
  return (query: string | SearchQuery) => {
    const page = library.search(typeof query === 'string' ? { text: query } : query);
    return { ...page, ids: page.hits.map(({ item }) => item.id) };
  };
}

test('a name counts more than a description, that more than a tag, that more than the text', async () => {
  const find = await search({
    'project/.ai/knowledge/a.md': note('x', 'y\n\ndeploy'),
    'project/.ai/knowledge/b.md': note('x', 'y', 'deploy'),
    'project/.ai/tools/c.yaml': toolText('c').replace('The c tool', 'Helps to deploy'),
    'project/.ai/knowledge/d.md': note('How to deploy it', 'y'),
    'project/.ai/knowledge/e.md': note('x', 'y'),
  });
  expect(find('deploy').ids).toEqual(['d', 'c', 'b', 'a']);
});

test('words joined by underscores, hyphens and slashes match one by one', async () => {
  const find = await search({
    'project/.ai/tools/fs/read_file.yaml': toolText('read_file'),
    'project/.ai/tools/fs/write-file.yaml': toolText('write-file'),
  });
  expect(find('file').ids).toEqual(['fs/read_file', 'fs/write-file']);
  expect(find('fs/read-file').ids[0]).toBe('fs/read_file');
  expect(find('READ_FILE').ids[0]).toBe('fs/read_file');
  expect(find('reading').ids).toEqual([]);
});

test('the beginning of a word finds the longer word, below the word itself', async () => {
  const find = await search({
    'project/.ai/knowledge/a.md': note('Deployment', 'x'),
    'project/.ai/knowledge/b.md': note('Deploy', 'x'),
  });
  expect(find('deploy').ids).toEqual(['b', 'a']);
  expect(find('deploym').ids).toEqual(['a']);
  expect(find('de').ids).toEqual([]);
});

test('the words in their order stand first', async () => {
  const filler = 'lorem '.repeat(20);
  const find = await search({
    'project/.ai/knowledge/a.md': note('x', `staging ${filler} server`),
    'project/.ai/knowledge/b.md': note('x', `the staging-server ${filler}`),
    'project/.ai/knowledge/c.md': note('x', `server ${filler}`),
  });
  expect(find('staging server').ids).toEqual(['b', 'a', 'c']);
});

test('kind, category, source and what the caller may see narrow the answer', async () => {
  const find = await search({
    'project/.ai/tools/go.yaml': toolText('go', 'category: ops\n'),
    'bundle/tools/go.yaml': toolText('go', 'category: core\n'),
    'user/.ai/knowledge/go.md': note('go', 'x', 'ops'),
  });
  expect(find('go').total).toBe(2);
  expect(find({ text: 'go', kind: 'tool' }).hits).toMatchObject([{ item: { source: 'project' } }]);
  expect(find({ text: 'go', source: 'bundle' }).hits).toMatchObject([
    { item: { source: 'bundle', category: 'core' } },
  ]);
  expect(find({ text: 'go', source: ['user', 'bundle'] }).total).toBe(2);
  expect(find({ text: 'go', category: 'ops' }).total).toBe(2);
  const seen = find({ text: 'go', categories: (kind) => kind === 'knowledge' });
  expect([seen.total, seen.ids]).toEqual([1, ['go']]);
});

test('pages cover everything once, in one order; a cursor of another query is refused', async () => {
  const files = Object.fromEntries(
    Array.from({ length: 25 }, (_, i) => [`project/.ai/knowledge/n${i}.md`, note('same', 'same')]),
  );
  const find = await search(files);
  for (const text of ['same', '']) {
    const all: string[] = [];
    let cursor: string | undefined;
    do {
      const page = find({ text, limit: 7, ...(cursor ? { cursor } : {}) });
      expect(page.total).toBe(25);
      all.push(...page.ids);
      cursor = page.next_cursor;
    } while (cursor);
    expect(all).toEqual(
      Object.keys(files)
        .map((f) => f.replace(/.*\/|\.md/g, ''))
        .sort(),
    );
  }
  const { next_cursor = '' } = find({ text: 'same', limit: 7 });
  expect(find({ text: 'other', cursor: next_cursor }).problem).toMatch(/cursor/);
  expect(find({ text: 'same', cursor: 'garbage' }).problem).toMatch(/cursor/);
});

test('what the index finds is what a look through every text finds', () => {
  const word = fc.constantFrom('alpha', 'beta', 'gamma', 'alphabet', 'x1', 'ünder');
  const text = fc.array(word, { maxLength: 6 }).map((words) => words.join('_'));
  const step = fc.oneof(
    fc.record({ add: text }),
    fc.record({ remove: fc.nat(40) }),
    fc.record({ ask: word }),
  );
  fc.assert(
    fc.property(fc.array(step, { maxLength: 300 }), (steps) => {
      const index = createSearchIndex();
      const texts = new Map<number, string>();
      for (const { add, remove, ask } of steps as {
        add?: string;
        remove?: number;
        ask?: string;
      }[]) {
        if (add !== undefined) {
          const document = index.add({ name: add, description: '', tags: '', body: '' });
          expect(texts.has(document)).toBe(false);
          texts.set(document, add);
        }
        if (remove !== undefined) {
          const document = [...texts.keys()][remove];
          if (document !== undefined) index.remove(document);
          if (document !== undefined) texts.delete(document);
        }
        if (ask !== undefined) {
          const expected = [...texts].filter(([, held]) =>
            wordsOf(held).some((one) => one === ask || (ask.length > 2 && one.startsWith(ask))),
          );
          const { documents, score } = index.match([ask]);
          expect(new Set(documents)).toEqual(new Set(expected.map(([document]) => document)));
          for (const document of documents) expect(score[document]).toBeGreaterThan(0);
        }
      }
    }),
    { numRuns: runs(100) },
  );
});

test('the first search of a library finds what a later one finds, in the same order', async () => {
  const part = fc.constantFrom('deploy', 'deployment', 'de', 'server', 'serve', 'x1', 'ünder', 'İ');
  const long = fc.constantFrom('a'.repeat(64), 'a'.repeat(130), `${'b'.repeat(64)}deploy`);
  const word = fc.oneof({ weight: 9, arbitrary: part }, { weight: 1, arbitrary: long });
  const words = fc
    .array(fc.tuple(word, fc.constantFrom(' ', '_', '-', '/', '\n')), { maxLength: 12 })
    .map((list) => list.flat().join(''));
  const name = fc.constantFrom('deploy', 'server', 'read_server', 'x1/deploy', 'y');
  const file = fc.tuple(fc.constantFrom('project/.ai', 'user/.ai', 'bundle'), name, words, words);
  const query = fc.record(
    {
      text: fc.oneof(words, part),
      source: fc.constantFrom('user' as const, ['project' as const, 'bundle' as const]),
      category: fc.constantFrom('ops', ''),
      limit: fc.integer({ min: 1, max: 4 }),
    },
    { requiredKeys: ['text'] },
  );
  await fc.assert(
    fc.asyncProperty(fc.array(file, { maxLength: 12 }), query, async (files, asked) => {
      const texts = Object.fromEntries(
        files.map(([root, id, title, body], at): [string, string] =>
          at % 3 === 0
            ? [`${root}/tools/${id}.yaml`, toolText(id.replace(/.*\//, ''), 'category: ops\n')]
            : [`${root}/knowledge/${id}.md`, note(JSON.stringify(title), body, 'ops', 'deploy')],
        ),
      );
      const find = await search(texts);
      const first = find(asked);
      const second = find(asked);
      expect(first).toEqual(second);
      const { next_cursor: cursor } = first;
      if (cursor) expect(find({ ...asked, cursor })).toEqual(find({ ...asked, cursor }));
      fixture?.end();
    }),
    { numRuns: runs(60) },
  );
});

test('what came or went between two searches counts', async () => {
  const find = await search({
    'project/.ai/knowledge/a.md': note('deploy', 'x'),
    'project/.ai/knowledge/b.md': note('deploy', 'x'),
  });
  expect(find('deploy').ids).toEqual(['a', 'b']);
  fixture?.library.remove('knowledge', 'a');
  fixture?.put('project/.ai/knowledge/c.md', note('deploy', 'x'));
  await fixture?.library.refresh();
  expect(find('deploy').ids).toEqual(['b', 'c']);
  fixture?.library.remove('knowledge', 'b');
  await fixture?.library.refresh();
  expect(find('deploy').ids).toEqual(['c']);
});
