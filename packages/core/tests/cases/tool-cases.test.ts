// Walks tests/cases/tools: each folder is a root of items over the shipped bundle.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { fail, systemClock } from '../../src/base/index.ts';
import { createLibrary } from '../../src/items/index.ts';

const CASES = fileURLToPath(new URL('./tools', import.meta.url));
const BUNDLE = fileURLToPath(new URL('../../../../bundle', import.meta.url));
const PRIMITIVES = ['subprocess', 'http_client', 'function', 'thread', 'script', 'mcp'];

interface Expected {
  about: string;
  chains: Record<string, string[] | string>;
  diagnostics: string[];
}

async function read(folder: string): Promise<Omit<Expected, 'about'>> {
  const library = createLibrary({
    roots: [
      { source: 'user', dir: folder },
      { source: 'bundle', dir: BUNDLE },
    ],
    projectRoot: folder,
    primitives: () => PRIMITIVES,
    trustStore: { judge: () => fail('not_found', 'no keys') },
    clock: systemClock,
  });
  await library.refresh();
  const own = library.all('tool').filter(({ source }) => source === 'user');
  const chains = own.map(({ id }) => {
    const chain = library.chain(id);
    if (!chain.ok) return [id, chain.error.detail.message.replaceAll(`${folder}/`, '')];
    return [id, [...chain.output.links.map((link) => link.id), chain.output.primitive]];
  });
  const diagnostics = library
    .check({ sources: ['user'] })
    .map(
      ({ file, line, column, severity, code }) =>
        `${file.slice(folder.length + 1)}:${line}:${column} ${severity} ${code}`,
    );
  library.close();
  return { chains: Object.fromEntries(chains), diagnostics };
}

const names = readdirSync(CASES, { withFileTypes: true })
  .filter((entry) => entry.isDirectory())
  .map(({ name }) => name);

test.each(names)('%s', async (name) => {
  const file = join(CASES, name, 'expected.json');
  const expected = JSON.parse(readFileSync(file, 'utf8')) as Expected;
  const found: Expected = { about: expected.about, ...(await read(join(CASES, name))) };
  if (process.env.UPDATE_CASES) writeFileSync(file, `${JSON.stringify(found, null, 2)}\n`);
  else expect(found).toEqual(expected);
});
