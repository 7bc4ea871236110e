import { readFileSync, renameSync, symlinkSync, writeFileSync } from 'node:fs';
import { createFixture, type Fixture, toolText } from '@kernmantle/test-support/library';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { fail, type Outcome, ok } from '../../base/index.ts';
import type { KeyPair } from '../../trust/index.ts';
import { generateKeyPair } from '../../trust/keys/key.ts';
import { hasSignatureLine, readSignatureLine, stripSignatureLine } from '../signature-line.ts';
import { examinePolicy, signItem, verifyItem } from './sign.ts';

const clock = { now: () => 1_800_000_000_000 };
let key: KeyPair;
let trusted: Map<string, Outcome<{ key: string }>>;
let fixture: Fixture;

const TOOL = `#!/usr/bin/env km\n${toolText('resize', 'config: { module: ./resize.ts }\nexecutor_id: node\n')}`;
const DIRECTIVE = `# Notes

\`\`\`xml
<directive name="go" version="1.2.3">
  <metadata>
    <description>Goes</description>
    <category>x</category>
    <permissions><read resource="filesystem" path="src/**"/></permissions>
  </metadata>
  <process><step name="a">Go.</step></process>
</directive>
\`\`\`
`;

beforeEach(() => {
  key = generateKeyPair();
  trusted = new Map([[key.id, ok({ key: key.publicKey })]]);
  const trustStore = {
    judge: (id: string) => trusted.get(id) ?? fail('not_found', `key \`${id}\` is unknown`),
  };
  fixture = createFixture(
    {
      'project/.ai/tools/image/resize.yaml': TOOL,
      'project/.ai/tools/image/resize.ts': 'export const run = () => 1;\n',
      'project/.ai/directives/go.md': DIRECTIVE,
      'project/.ai/knowledge/note.md': '---\r\ntitle: Note\r\n---\r\nText\r\n',
      'project/.ai/policy.yaml': 'unsigned: allow\n',
      'project/AGENTS.md': '# Rules\n',
      'bundle/tools/shell/bash.yaml': toolText('bash'),
    },
    { trustStore },
  );
});
afterEach(() => fixture.end());

const FILES = [
  'project/.ai/tools/image/resize.yaml',
  'project/.ai/directives/go.md',
  'project/.ai/knowledge/note.md',
  'project/.ai/policy.yaml',
  'project/AGENTS.md',
];
const sign = (path: string) => signItem(fixture.path(path), key, clock);
function stateOf(path: string) {
  const trust = { judge: (id: string) => trusted.get(id) ?? fail('not_found', 'unknown key') };
  const verified = verifyItem(fixture.path(path), trust);
  return verified.ok ? verified.output : undefined;
}
const edit = (path: string, from: string, to: string) =>
  fixture.put(path, readFileSync(fixture.path(path), 'utf8').replace(from, to));

test.each(FILES)('%s can be signed, keeps its text and verifies', (path) => {
  const before = readFileSync(fixture.path(path), 'utf8');
  expect(stateOf(path)).toMatchObject({ state: 'unsigned' });
  expect(sign(path)).toMatchObject({ ok: true, output: { statement: { key: key.id } } });
  const after = readFileSync(fixture.path(path), 'utf8');
  expect(stripSignatureLine(after)).toBe(before);
  expect(stateOf(path)).toMatchObject({
    state: 'signed',
    key: key.id,
    created: '2027-01-15T08:00:00.000Z',
  });
  expect(sign(path).ok).toBe(true);
  expect(stripSignatureLine(readFileSync(fixture.path(path), 'utf8'))).toBe(before);
});

test('the line is one comment at the top, after a shebang', () => {
  sign(FILES[0] as string);
  sign(FILES[1] as string);
  const tool = readFileSync(fixture.path(FILES[0] as string), 'utf8').split('\n');
  expect(tool[0]).toBe('#!/usr/bin/env km');
  expect(tool[1]).toMatch(
    /^# kernmantle:signature v1 kind=tool id=image%2Fresize version=1\.0\.0 /,
  );
  const directive = readFileSync(fixture.path(FILES[1] as string), 'utf8');
  expect(directive).toMatch(/^<!-- kernmantle:signature v1 kind=directive .* -->\n# Notes/);
});

test('a signed library knows its items as signed, and the bundle by its list', async () => {
  sign(FILES[0] as string);
  sign(FILES[1] as string);
  const { library } = fixture;
  await library.refresh();
  const state = (kind: 'tool' | 'directive', id: string) => {
    const found = library.find(kind, id);
    return found.ok ? found.output.signature.state : found.error.code;
  };
  expect(state('tool', 'image/resize')).toBe('signed');
  expect(state('directive', 'go')).toBe('signed');
  expect(library.find('directive', 'go')).toMatchObject({ output: { body: DIRECTIVE } });
  expect(state('tool', 'shell/bash')).toBe('unsigned');
});

test('what changed after signing is named', () => {
  const [tool, directive] = FILES as [string, string];
  sign(tool);
  sign(directive);
  edit(directive, 'src/**', '**');
  expect(stateOf(directive)).toMatchObject({
    state: 'changed',
    reason: 'its text is different, its rights are different',
  });
  fixture.put('project/.ai/tools/image/resize.ts', 'export const run = () => evil();\n');
  expect(stateOf(tool)).toMatchObject({ state: 'changed', reason: 'its rights are different' });
});

test('a signed file that is moved, retyped or relabelled is not signed any more', () => {
  const path = 'project/.ai/knowledge/note.md';
  sign(path);
  renameSync(fixture.path(path), fixture.path('project/.ai/knowledge/other.md'));
  expect(stateOf('project/.ai/knowledge/other.md')).toMatchObject({
    state: 'changed',
    reason: 'it was moved or renamed (was `note`)',
  });
  for (const [from, to] of [
    ['id=note', 'id=other'],
    ['version=0.0.0', 'version=9.9.9'],
    ['created=2027', 'created=2030'],
    ['sig=', 'sig=A'],
    ['kind=knowledge', 'kind=directive'],
  ] as const) {
    const file = 'project/.ai/knowledge/other.md';
    const kept = readFileSync(fixture.path(file), 'utf8');
    edit(file, from, to);
    expect(stateOf(file)).toMatchObject({
      state: 'changed',
      reason: 'the signature does not match its line',
    });
    fixture.put(file, kept);
  }
});

test('a broken line is a changed file, not an unsigned one', () => {
  const path = 'project/.ai/knowledge/note.md';
  for (const line of [
    '',
    'v2 x=y',
    'v1',
    'v1 kind=a',
    'v1 kind=%ZZ id=a version=a sha256=a rights=a created=a key=a sig=a',
  ]) {
    fixture.put(path, `<!-- kernmantle:signature ${line} -->\n# Text\n`);
    expect(stateOf(path)?.state).toBe('changed');
  }
});

test('a key that is unknown, revoked or out of its scope makes it untrusted', () => {
  const path = 'project/.ai/knowledge/note.md';
  sign(path);
  trusted.set(key.id, fail('signature_invalid', 'the key is revoked'));
  expect(stateOf(path)).toMatchObject({ state: 'untrusted', reason: 'the key is revoked' });
  trusted.clear();
  expect(stateOf(path)).toMatchObject({ state: 'untrusted', reason: 'unknown key' });
});

test('a key that was revoked is noticed without a change of the file', async () => {
  sign('project/.ai/directives/go.md');
  const { library } = fixture;
  await library.refresh();
  const found = library.find('directive', 'go');
  expect(found.ok && found.output.signature.state).toBe('signed');
  trusted.set(key.id, fail('signature_invalid', 'revoked'));
  expect(found.ok && found.output.signature.state).toBe('untrusted');
});

test('files with errors, outside any root, and behind links are not signed', () => {
  fixture.put('project/.ai/tools/bad.yaml', 'tool_id: other\n');
  expect(sign('project/.ai/tools/bad.yaml')).toMatchObject({ error: { code: 'invalid_item' } });
  fixture.put('project/readme.md', 'x');
  expect(sign('project/readme.md')).toMatchObject({ error: { code: 'invalid_input' } });
  expect(sign('project/.ai/tools/none.yaml').ok).toBe(false);
  symlinkSync('note.md', fixture.path('project/.ai/knowledge/link.md'));
  expect(sign('project/.ai/knowledge/link.md').ok).toBe(false);
});

test('only the line at the top is a signature, but any such line is seen in new content', () => {
  sign('project/.ai/knowledge/note.md');
  const signed = readFileSync(fixture.path('project/.ai/knowledge/note.md'), 'utf8');
  expect(readSignatureLine(`\n${signed}`, 'note.md').line).toBeUndefined();
  expect(hasSignatureLine(`text\n${signed}`)).toBe(true);
  expect(hasSignatureLine('about kernmantle:signature lines\n')).toBe(false);
  writeFileSync(
    fixture.path('project/.ai/knowledge/two.md'),
    `${signed.split('\n')[0]}\n${signed}`,
  );
  expect(stateOf('project/.ai/knowledge/two.md')?.state).toBe('changed');
});

const HIDDEN_DIRECTIVE =
  '<directive name="go" version="1.2.3"><metadata><description>x</description><category>x</category>' +
  '<permissions><read resource="filesystem" path="src/**"/></permissions></metadata>' +
  '<process><step name="a">EVIL</step></process></directive>';

test('a directive in its own signature line is not read', async () => {
  const path = 'project/.ai/directives/go.md';
  sign(path);
  const line = readFileSync(fixture.path(path), 'utf8').split('\n')[0] ?? '';
  const open = line.replace(' -->', '');
  for (const changed of [
    `${open.padEnd(4096)}-->${HIDDEN_DIRECTIVE}`,
    `${open.padEnd(4096)}${HIDDEN_DIRECTIVE}`,
    `${line}${HIDDEN_DIRECTIVE}`,
    `${line}\r${HIDDEN_DIRECTIVE}`,
    `${line}\u2028${HIDDEN_DIRECTIVE}`,
    `${open}\u00a0-->${HIDDEN_DIRECTIVE}`,
  ]) {
    const text = readFileSync(fixture.path(path), 'utf8');
    fixture.put(
      path,
      text.replace(/^.*\n/, () => `${changed}\n`),
    );
    expect(stateOf(path)?.state).toBe('changed');
    await fixture.library.refresh();
    const found = fixture.library.find('directive', 'go');
    expect(found.ok && found.output.signature.state).toBe('changed');
    expect(JSON.stringify(found.ok && found.output.directive)).not.toContain('EVIL');
    fixture.put(path, text);
  }
});

test.each(FILES)('nothing can be added to the signature line of %s', (path) => {
  sign(path);
  const text = readFileSync(fixture.path(path), 'utf8');
  const line = text.split('\n').find((each) => each.includes('kernmantle:signature')) ?? '';
  const whole = line.replace(/\r$/, '');
  const end = line.slice(whole.length);
  for (const changed of [
    `${whole}${' '.repeat(4096)}ANYTHING`,
    `${whole} `,
    ` ${whole}`,
    `${whole}\u00a0`,
    `${whole}\r`,
    whole.replace(' v1', '\u00a0v1'),
    whole.replace(' -->', '').replace(/^# /, '#'),
    whole.replace(/sig=(.)/, (_, first: string) => `sig=%${first.charCodeAt(0).toString(16)}`),
    whole.replace('v1 ', 'v1 extra=1 '),
    whole.replace(/(kind=\S+) (id=\S+)/, '$2 $1'),
    whole.startsWith('#') ? `<!-- ${whole.slice(2)} -->` : `# ${whole.slice(5, -4)}`,
  ]) {
    fixture.put(
      path,
      text.replace(line, () => changed + end),
    );
    expect([changed, stateOf(path)?.state]).toEqual([changed, 'changed']);
  }
  fixture.put(path, text);
  expect(stateOf(path)?.state).toBe('signed');
});

test('places in a signed file are those of the file', async () => {
  const path = 'project/.ai/tools/image/resize.yaml';
  sign(path);
  const text = readFileSync(fixture.path(path), 'utf8');
  fixture.put(path, `${text}no_such_field: 1\n`);
  await fixture.library.refresh();
  const found = fixture.library.find('tool', 'image/resize');
  const line = text.split('\n').length;
  expect(found.ok && found.output.diagnostics).toMatchObject([{ line, column: 1 }]);
});

test('a policy is read without its signature line, and is signed as the text that was read', () => {
  const path = 'project/.ai/policy.yaml';
  sign(path);
  const file = fixture.path(path);
  const trust = { judge: (id: string) => trusted.get(id) ?? fail('not_found', 'unknown key') };
  const text = readFileSync(file, 'utf8');
  const { covered, signed } = examinePolicy(text, file, trust);
  expect(signed).toBe(true);
  expect(covered).toMatch(/^ +\nunsigned: allow\n$/);
  const added = text.replace('\n', ' \rsandbox: none\n');
  expect(examinePolicy(added, file, trust)).toMatchObject({
    signed: false,
    diagnostics: [{ code: 'signature_changed', severity: 'error' }],
  });
  trusted.clear();
  expect(examinePolicy(text, file, trust)).toMatchObject({
    signed: false,
    diagnostics: [{ code: 'signature_untrusted', severity: 'warning' }],
  });
  expect(examinePolicy(added, file, trust).covered).not.toContain('sandbox');
});
