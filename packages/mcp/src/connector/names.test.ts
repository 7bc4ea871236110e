import fc from 'fast-check';
import { expect, test } from 'vitest';
import { fileNames, serverProblem } from './names.ts';

const BUILT_IN = new Set(['read_file', 'bash']);
const named = (...names: string[]) => [
  ...fileNames(names, (name) => name, 'evil', BUILT_IN).values(),
];

test('a plain name stays what it is; one that is built in gets the server before it', () => {
  expect(named('query', 'read_file', 'READ_FILE2', 'execute', 'connector')).toEqual([
    'query',
    'evil_read_file',
    'READ_FILE2',
    'evil_execute',
    'evil_connector',
  ]);
});

test('no name leads out of its folder, is a device or looks like another', () => {
  expect(named('../../policy', 'fs/read_file', 'con', 'r\u0435ad_file', '')).toEqual([
    expect.stringMatching(/^_policy_[0-9a-f]{8}$/),
    expect.stringMatching(/^fs_read_file_[0-9a-f]{8}$/),
    expect.stringMatching(/^con_[0-9a-f]{8}$/),
    expect.stringMatching(/^r_ad_file_[0-9a-f]{8}$/),
    expect.stringMatching(/^tool_[0-9a-f]{8}$/),
  ]);
});

test('names stay different on every file system, and none is longer than a file name may be', () => {
  const name = fc.oneof(fc.string(), fc.string({ minLength: 200, maxLength: 400 }));
  fc.assert(
    fc.property(fc.uniqueArray(name, { maxLength: 30 }), (names) => {
      const files = named(...names);
      expect(new Set(files.map((file) => file.toLowerCase())).size).toBe(names.length);
      for (const file of files) expect(file).toMatch(/^[A-Za-z0-9_][A-Za-z0-9_-]{0,127}$/);
    }),
  );
  expect(new Set(named('Query', 'query', 'QUERY').map((file) => file.toLowerCase())).size).toBe(3);
});

test('a server has a name that a capability can hold and nothing else has', () => {
  expect(serverProblem('github-2')).toBeUndefined();
  for (const odd of ['', 'Git', 'a.b', 'a/b', '-a', 'connect', 'mcp_stdio', 'ä', 'a'.repeat(65)]) {
    expect(serverProblem(odd)).toContain('not a valid server name');
  }
});
