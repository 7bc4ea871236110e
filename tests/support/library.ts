// Creates a temporary project for tests: files in, a library over them out.
import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fail } from '@kernmantle/core/base';
import type { Root } from '../../packages/core/src/items/files/root.ts';
import { createLibrary, type Library } from '../../packages/core/src/items/library/library.ts';
import { lateClock } from './clock.ts';

export interface Fixture {
  /** Folder of the roots `project`, `user` and `bundle`. Their items are in `project/.ai`, `user/.ai` and `bundle`. */
  base: string;
  library: Library;
  put: (path: string, text: string) => string;
  path: (path: string) => string;
  end(): void;
}

export const PRIMITIVES = [
  'subprocess',
  'http_client',
  'function',
  'thread',
  'reader',
  'script',
  'mcp',
];

export function createFixture(
  files: Readonly<Record<string, string>> = {},
  options: Partial<Parameters<typeof createLibrary>[0]> = {},
): Fixture {
  const base = realpathSync(mkdtempSync(join(tmpdir(), 'km-library-')));
  const path = (name: string) => join(base, name);
  const put = (name: string, text: string) => {
    mkdirSync(dirname(path(name)), { recursive: true });
    writeFileSync(path(name), text);
    return path(name);
  };
  mkdirSync(path('project'));
  for (const [name, text] of Object.entries(files)) put(name, text);
  const roots: Root[] = [
    { source: 'project', dir: path('project/.ai') },
    { source: 'user', dir: path('user/.ai') },
    { source: 'installed', dir: path('installed'), name: 'some-bundle' },
    { source: 'bundle', dir: path('bundle') },
  ];
  const library = createLibrary({
    roots,
    projectRoot: path('project'),
    primitives: () => PRIMITIVES,
    trustStore: { judge: (id) => fail('not_found', `key \`${id}\` is not known`) },
    clock: lateClock,
    ...options,
  });
  return {
    base,
    library,
    put,
    path,
    end() {
      library.close();
      rmSync(base, { recursive: true, force: true });
    },
  };
}

export const toolText = (id: string, rest = 'executor_id: subprocess\n'): string =>
  `tool_id: ${id}\nversion: "1.0.0"\ndescription: The ${id} tool\n${rest}`;
