import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { describe, EMPTY } from '../values/labels.ts';
import { makeValue } from '../values/value.ts';
import { createPolicyFiles } from './policy-files.ts';

let dir = '';
let time = 0;
const clock = { monotonic: () => time };
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'km-policy-'));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));
const CLOSED = { allow: [], closed: expect.stringContaining('is invalid (') };
const open = (isSigned = false) =>
  createPolicyFiles(
    [
      { level: 'user', file: join(dir, 'user.yaml') },
      { level: 'project', file: join(dir, 'project.yaml') },
    ],
    (text) => ({ covered: text, signed: isSigned }),
    clock,
    dir,
  );

test('without files the built-in rules hold', () => {
  const { policy, diagnostics } = open().current();
  expect(diagnostics).toEqual([]);
  expect(policy.sandbox).toBe('required');
});

test('a file that was written, changed or removed counts after 20 ms', () => {
  const files = open();
  expect(files.current().policy.ceilings()).toEqual([]);
  writeFileSync(join(dir, 'project.yaml'), 'capabilities: {deny: [git.push]}\n');
  time += 19;
  expect(files.current().policy.ceilings()).toEqual([]);
  time += 1;
  expect(files.current().policy.ceilings()).toEqual([{ deny: [{ capability: 'git.push' }] }]);
  rmSync(join(dir, 'project.yaml'));
  time += 20;
  expect(files.current().policy.ceilings()).toEqual([]);
});

test('a pipe in the place of a policy closes everything, and nobody waits for it', () => {
  execFileSync('mkfifo', [join(dir, 'project.yaml')]);
  const { policy, diagnostics } = open().current();
  expect(diagnostics).toMatchObject([{ code: 'policy_unreadable' }]);
  expect(policy.ceilings()).toContainEqual(CLOSED);
});

test('a file with a mistake, or one that cannot be read, closes everything', async () => {
  const files = open();
  writeFileSync(join(dir, 'project.yaml'), 'capabilities: {deny: [git.push]}\nlabls: {}\n');
  const broken = files.current();
  expect(broken.diagnostics).toMatchObject([{ line: 2, severity: 'error' }]);
  expect(broken.policy.ceilings()).toContainEqual(CLOSED);
  rmSync(join(dir, 'project.yaml'));
  mkdirSync(join(dir, 'project.yaml'));
  time += 20;
  expect(files.current().policy.ceilings()).toContainEqual(CLOSED);
});

test('a file that was named and is missing closes everything; several of one level all hold', () => {
  const files = createPolicyFiles(
    [
      { level: 'operator', file: join(dir, 'machine.yaml') },
      { level: 'operator', file: join(dir, 'named.yaml'), isRequired: true },
    ],
    (text) => ({ covered: text, signed: false }),
    clock,
    dir,
  );
  expect(files.current().diagnostics).toMatchObject([
    { file: join(dir, 'named.yaml'), severity: 'error', message: 'file not found' },
  ]);
  expect(files.current().policy.ceilings()).toContainEqual(CLOSED);
  writeFileSync(join(dir, 'machine.yaml'), 'capabilities: {deny: [git.push]}\n');
  writeFileSync(join(dir, 'named.yaml'), 'capabilities: {deny: [net.http]}\n');
  time += 20;
  expect(files.current().diagnostics).toEqual([]);
  expect(files.current().policy.ceilings()).toEqual([
    { deny: [{ capability: 'git.push' }] },
    { deny: [{ capability: 'net.http' }] },
  ]);
});

test('opening a door takes the user, or a signature', () => {
  writeFileSync(join(dir, 'project.yaml'), 'unsigned: allow\n');
  expect(open().current().policy.allowsUnsigned).toBe(false);
  expect(open(true).current().policy.allowsUnsigned).toBe(true);
  writeFileSync(join(dir, 'user.yaml'), 'unsigned: allow\n');
  rmSync(join(dir, 'project.yaml'));
  expect(open().current().policy.allowsUnsigned).toBe(true);
});

test("denials of a surface add to the bundle's, and a user may take one back, a project may not", () => {
  const levels = (user: boolean) =>
    createPolicyFiles(
      [
        { level: user ? 'user' : 'project', file: join(dir, 'own.yaml') },
        { level: 'bundle', file: join(dir, 'bundle.yaml') },
      ],
      (text) => ({ covered: text, signed: false }),
      clock,
      dir,
    );
  writeFileSync(
    join(dir, 'bundle.yaml'),
    'surfaces: {mcp: {capabilities: {deny: [net.http, {capability: fs.read, path: "**/.env"}]}}}\n',
  );
  const denied = (user: boolean, own: string) => {
    writeFileSync(join(dir, 'own.yaml'), `surfaces: {mcp: {${own}}}\n`);
    const ceilings = levels(user).current().policy.ceilings('mcp');
    return ceilings.flatMap(({ deny = [] }) => deny.map(({ capability }) => capability));
  };
  for (const isUser of [true, false]) {
    const stricter = denied(isUser, 'capabilities: {deny: [git.push]}');
    expect(stricter).toEqual(['git.push', 'net.http', 'fs.read']);
    expect(denied(isUser, 'capabilities: {deny: []}')).toEqual(['net.http', 'fs.read']);
    expect(denied(isUser, 'capabilities: {allow: [fs.read]}')).toEqual(['net.http', 'fs.read']);
  }
  expect(denied(true, 'open: [net.http]')).toEqual(['fs.read']);
  expect(denied(true, 'open: [{capability: fs.read, path: "**/.env"}]')).toEqual(['net.http']);
  // Only what is named exactly as it stands there.
  expect(denied(true, 'open: [fs.read, "net.*"]')).toEqual(['net.http', 'fs.read']);
  expect(denied(false, 'open: [net.http]')).toEqual(['net.http', 'fs.read']);
});

test.each([
  ['private', (root: string) => `${root}/private`],
  ['private', () => './private/'],
  ['private', (root: string) => `${root}/linked`],
])('a folder may be named in any way: `%s`', (label, written) => {
  mkdirSync(join(dir, 'private'));
  symlinkSync('private', join(dir, 'linked'));
  const root = realpathSync(dir);
  writeFileSync(
    join(dir, 'project.yaml'),
    `labels:\n  "dir:${written(root)}": {deny: [exfil]}\nguards:\n  - {on: "dir:${written(root)}", deny: no}\n`,
  );
  const { policy, diagnostics } = createPolicyFiles(
    [{ level: 'project', file: join(dir, 'project.yaml') }],
    (text) => ({ covered: text, signed: false }),
    clock,
    root,
  ).current();
  expect(diagnostics).toEqual([]);
  const marks = describe({ taint: ['src:file', `dir:${label}`] });
  expect(policy.guards.forMarks(marks, 'before')).toHaveLength(1);
  const op = { type: 'tool', name: 'x', opLabels: [], risk: ['exfil'] } as const;
  const input = { name: 'a', role: undefined, value: makeValue('x', { descriptor: marks }) };
  expect(policy.judge(op, [], [input], EMPTY)).toMatchObject([{ kind: 'deny' }]);
});
