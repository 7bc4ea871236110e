import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { makeProject } from '@kernmantle/test-support/processes';
import { expect, test } from 'vitest';
import { childEnvironment, searchPath } from '../process/environment.ts';
import { seatbeltProfile } from './macos.ts';
import { systemPlaces, toolchainFolders } from './visible.ts';

test('of a toolchain in the home folder only what runs is shown, never the home itself', () => {
  const project = makeProject();
  const { base, home } = project;
  for (const path of [
    '.cargo/bin',
    '.cargo/registry',
    '.local/bin',
    '.local/lib',
    '.local/share',
    'bin',
    '.ssh',
  ]) {
    mkdirSync(join(home, path), { recursive: true });
  }
  const shown = toolchainFolders(
    ['.cargo/bin', '.local/bin', 'bin', '', '..'].map((path) => join(home, path)),
    home,
  );
  expect(shown.map((path) => path.slice(home.length + 1)).sort()).toEqual([
    '.cargo/bin',
    '.local/bin',
    '.local/lib',
    'bin',
  ]);
  expect(toolchainFolders([base, '/', '/usr/bin', '/nowhere/bin'], home)).toEqual([]);
  project.remove();
});

test('passwords and private keys are not among what is shown of the system', () => {
  const places = systemPlaces();
  for (const path of [
    '/',
    '/etc',
    '/root',
    '/home',
    '/var',
    '/run',
    '/etc/shadow',
    '/etc/ssl/private',
  ]) {
    expect(places).not.toContain(path);
  }
});

test('programs are not looked up inside the project or relative to it', () => {
  const env = { PATH: '/usr/bin:/my/project/node_modules/.bin:.:bin::/bin:/usr/bin' };
  expect(searchPath(env, '/my/project')).toEqual(['/usr/bin', '/bin']);
  expect(searchPath({}, '/my/project')).toContain('/usr/bin');
});

test('the environment of a child is made of the list, the declared and the set', () => {
  const env = {
    LANG: 'C',
    LC_ALL: 'C',
    AWS_SECRET_ACCESS_KEY: 'x',
    NODE_OPTIONS: '-r evil',
    WANTED: 'yes',
  };
  const made = childEnvironment({
    env,
    declared: ['WANTED', 'UNSET'],
    config: { HOME: '/mine' },
    path: ['/bin'],
    home: '/h',
    temp: '/t',
  });
  expect(made).toEqual({
    PATH: '/bin',
    HOME: '/mine',
    TMPDIR: '/t',
    USER: 'sandbox',
    LOGNAME: 'sandbox',
    LANG: 'C',
    LC_ALL: 'C',
    WANTED: 'yes',
  });
});

test('the macOS profile closes the network, `.ai` and what is hidden or may not be read', () => {
  const profile = seatbeltProfile({
    projectRoot: '/p "q"',
    view: {
      root: 'write',
      places: [
        { path: 'docs', access: 'read' },
        { path: 'secrets', access: 'none' },
      ],
      hidden: ['/Users/a/.ai'],
    },
    readable: ['/opt/tool'],
    always: [],
    home: '/Users/a',
    temp: '/private/tmp/x',
    network: false,
  });
  const lines = profile.split('\n');
  expect(lines).toContain('(deny network*)');
  expect(lines.indexOf('(allow file-write* (subpath "/p \\"q\\""))')).toBeLessThan(
    lines.indexOf('(deny file-write* (subpath "/p \\"q\\"/.ai"))'),
  );
  expect(lines).toContain('(deny file-write* (subpath "/p \\"q\\"/docs"))');
  const secret = '(deny file-read* (subpath "/p \\"q\\"/secrets"))';
  expect(lines.indexOf(secret)).toBeGreaterThan(
    lines.indexOf('(allow file-read* (subpath "/p \\"q\\""))'),
  );
  expect(lines.at(-1)).toBe('(deny file-read* file-write* (subpath "/Users/a/.ai"))');
});
