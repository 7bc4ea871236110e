import { createFixture, type Fixture, toolText } from '@kernmantle/test-support/library';
import { afterEach, expect, test } from 'vitest';

let fixture: Fixture;
afterEach(() => fixture.end());

async function chain(files: Record<string, string>, id: string) {
  fixture = createFixture(files);
  await fixture.library.refresh();
  const found = fixture.library.chain(id);
  return found.ok
    ? [...found.output.links.map((link) => link.id), found.output.primitive]
    : `${found.error.code}: ${found.error.detail.message}`;
}

const on = (id: string, executor: string) => toolText(id, `executor_id: ${executor}\n`);

test('a chain is followed by full ids, bare names and aliases down to a primitive', async () => {
  const files = {
    'project/.ai/tools/threads/anthropic_thread.yaml': on('anthropic_thread', 'anthropic_messages'),
    'bundle/tools/llm/anthropic_messages.yaml': on('anthropic_messages', 'http_client'),
    'project/.ai/tools/resize.yaml': on('resize', 'python_runtime'),
    'bundle/tools/runtime/python.yaml': on('python', 'subprocess'),
  };
  expect(await chain(files, 'anthropic_thread')).toEqual([
    'threads/anthropic_thread',
    'llm/anthropic_messages',
    'http_client',
  ]);
  fixture.end();
  expect(await chain(files, 'resize')).toEqual(['resize', 'runtime/python', 'subprocess']);
});

test('a file may describe a primitive; a project cannot stand in for one', async () => {
  const files = {
    'project/.ai/tools/http_client.yaml': toolText('http_client', ''),
    'project/.ai/tools/subprocess.yaml': on('subprocess', 'http_client'),
    'project/.ai/tools/run.yaml': on('run', 'subprocess'),
  };
  expect(await chain(files, 'http_client')).toEqual(['http_client', 'http_client']);
  fixture.end();
  expect(await chain(files, 'run')).toEqual(['run', 'subprocess']);
});

test('a circle names its tools', async () => {
  const files = {
    'project/.ai/tools/x.yaml': on('x', 'a'),
    'project/.ai/tools/a.yaml': on('a', 'b'),
    'project/.ai/tools/b.yaml': on('b', 'a'),
  };
  expect(await chain(files, 'x')).toBe('config_invalid: the chain of `x` has a cycle: a -> b -> a');
});

test.each([
  [on('b', 'htp_client'), /tool `b` runs on `htp_client` \(in the chain of `a`\).*`http_client`/],
  [toolText('b', ''), /tool `b` has no `executor_id` and is not a primitive/],
  [on('b', 'twice'), /`twice` is ambiguous: 2 tool items have this name: p\/twice, q\/twice/],
  ['tool_id: b\nfoo: 1\n', /tool `b` cannot be used: .*b\.yaml:2:1: unknown field `foo`/],
])('a link that is missing, ambiguous or broken is named: %#', async (text, expected) => {
  const files = {
    'project/.ai/tools/a.yaml': on('a', 'b'),
    'project/.ai/tools/b.yaml': text,
    'project/.ai/tools/p/twice.yaml': on('twice', 'subprocess'),
    'project/.ai/tools/q/twice.yaml': on('twice', 'subprocess'),
  };
  expect(await chain(files, 'a')).toMatch(expected);
});

test('a chain without end is refused', async () => {
  const files = Object.fromEntries(
    Array.from({ length: 40 }, (_, i) => [
      `project/.ai/tools/t${i}.yaml`,
      on(`t${i}`, `t${i + 1}`),
    ]),
  );
  expect(await chain(files, 't0')).toMatch(/more than 16 links/);
});
