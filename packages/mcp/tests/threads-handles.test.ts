// Tests which threads a client can name: only its own, by their handles. Two clients, a viewer, a
// person's thread, another project and a restart use the real runtime.
import { type JsonObject, type Outcome, plainText } from '@kernmantle/core/base';
import type { Runtime } from '@kernmantle/core/runtime';
import { signAsUser } from '@kernmantle/test-support/attacks';
import { pollMs } from '@kernmantle/test-support/soak';
import {
  directive,
  directiveText,
  openStage,
  type Play,
  READ,
  read,
  type Stage,
} from '@kernmantle/test-support/thread-project';
import { expect, test, vi } from 'vitest';
import { createMcpHost } from '../src/index.ts';
import { handlesOf, withHandles } from '../src/server/handles.ts';
import type { HostCall, McpClient, McpHost } from '../src/server/host.ts';
import { onThread, startDirective } from './support/threads.ts';

const client = (id: string, role: McpClient['role'] = 'steer'): McpClient => ({
  id,
  name: 'outside',
  role,
});
const [ann, bob] = [client('token-ann'), client('token-bob')];

const hostOf = (runtime: Runtime): McpHost =>
  withHandles(createMcpHost(runtime, '1.0.0', () => {}));

async function staged(play: Play, files: Record<string, string> = {}): Promise<Stage> {
  const names = [
    ...Object.keys(files),
    ...Object.keys(play).map((name) => `.ai/directives/${name}.md`),
  ];
  const made = await openStage(
    {
      ...Object.assign(
        {},
        ...Object.keys(play).map((name) => directive(name, { permissions: READ })),
      ),
      ...files,
      '../home/policy.yaml': '{}\n',
    },
    play,
  );
  signAsUser(
    made.fixture,
    ...names.filter((name) => name.endsWith('.md') && !name.includes('unsigned')),
  );
  return made;
}

const callAs =
  (host: McpHost, who: McpClient) =>
  async (request: JsonObject, more: Partial<HostCall> = {}): Promise<Outcome<JsonObject>> =>
    (await host.call('execute', request, {
      client: who,
      signal: new AbortController().signal,
      ...more,
    })) as Outcome<JsonObject>;

const tool = (id: string, parameters: JsonObject): JsonObject => ({
  item_type: 'tool',
  item_id: id,
  parameters,
});

function outputOf(outcome: Outcome<JsonObject>): JsonObject {
  if (!outcome.ok) throw new Error(`${outcome.error.code}: ${outcome.error.detail.message}`);
  return outcome.output;
}

/** Files are checked every 20 ms. */
const seenAnew = () => new Promise((resolve) => setTimeout(resolve, 40));

/** All calls that can name a thread. */
const ways = (name: string): JsonObject[] => [
  ...['status', 'wait', 'pause', 'resume', 'cancel'].map((action) =>
    onThread(name, action, action === 'wait' ? { wait_ms: 1 } : {}),
  ),
  onThread(name, 'inject', { message: 'x' }),
  tool('threads/wait_thread', { thread_id: name, timeout_ms: 1 }),
  tool('threads/wait_all', { thread_ids: [name], timeout_ms: 1 }),
  tool('threads/read_transcript', { thread_id: name }),
  tool('threads/thread_registry', { action: 'get_status', thread_id: name }),
  tool('threads/thread_registry', { action: 'get_events', thread_id: name }),
  ...['paused', 'running'].map((status) =>
    tool('threads/thread_registry', { action: 'update_status', thread_id: name, status }),
  ),
  tool('threads/thread_registry', { action: 'log_event', thread_id: name, event_type: 'x' }),
  tool('threads/inject_message', { thread_id: name, content: 'x' }),
  tool('threads/pause_thread', { thread_id: name }),
  tool('threads/resume_thread', { thread_id: name }),
  tool('threads/interrupt_thread', { thread_id: name }),
  tool('threads/terminate_thread', { thread_id: name }),
  tool('threads/kill_thread', { thread_id: name }),
  { item_type: 'artifact', item_id: name, parameters: {} },
];

test('a thread is for the client that was handed it; every other name is refused, by all tools', async () => {
  const { runtime, threads } = await staged({ look: [read('notes/a.txt'), { text: 'done' }] });
  const host = hostOf(runtime);
  const [asAnn, asBob] = [callAs(host, ann), callAs(host, bob)];
  const started = outputOf(await asAnn(startDirective('look')));
  expect(started).toMatchObject({ status: 'completed' });
  const handle = plainText(started.handle);
  const id = handle.split('.')[0] ?? '';
  expect((await threads.store.thread(id)).ok).toBe(true);
  const own = await threads.run({ directive: 'look' });
  const others = own.ok ? String(own.output.thread_id) : '';
  const elsewhere = handlesOf({ ...host, project: '/elsewhere' }, ann).handleOf(id);

  for (const name of [
    id,
    others,
    handle.slice(0, -1),
    `${handle}A`,
    `${others}.${handle.split('.')[1]}`,
    elsewhere,
    'x',
    '',
  ]) {
    for (const way of ways(name)) {
      const refused = await asAnn(way);
      expect(refused.ok, `${name} ${JSON.stringify(way)}`).toBe(false);
      expect(JSON.stringify(refused)).not.toContain('events');
    }
  }
  for (const way of ways(handle)) expect((await asBob(way)).ok, JSON.stringify(way)).toBe(false);
  // The refused calls had no effect.
  const row = await threads.store.thread(others);
  expect(row.ok && row.output.status).toBe('completed');

  const status = outputOf(await asAnn(onThread(handle, 'status')));
  expect(status).toMatchObject({ thread_id: handle, status: 'completed' });
  const transcript = outputOf(
    await asAnn(tool('threads/read_transcript', { thread_id: handle, last_n: 50 })),
  );
  expect(JSON.stringify(transcript).replaceAll(handle, '')).not.toContain(id);
  // A query lists only the threads of this client.
  const query = (more: JsonObject = {}) =>
    tool('threads/thread_registry', { action: 'query', ...more });
  const listed = outputOf(await asAnn(query()));
  expect(listed).toMatchObject({ threads: [{ thread_id: handle, directive: 'look' }] });
  expect(JSON.stringify(listed).replaceAll(handle, '')).not.toContain(id);
  for (const other of [{ status: 'running' }, { directive_name: 'other' }, { limit: 0 }]) {
    expect(outputOf(await asAnn(query(other))), JSON.stringify(other)).toMatchObject({
      threads: [],
    });
  }
  expect(outputOf(await asBob(query()))).toMatchObject({ threads: [] });
  expect(await runtime.call('execute', query(), { surface: 'mcp' })).toMatchObject({
    output: { threads: [] },
  });
  // The audit names threads but contains no handle.
  const rows = await runtime.audit.read({ limit: 1000 });
  expect(JSON.stringify(rows)).toContain(id);
  expect(JSON.stringify(rows).includes(handle.split('.')[1] ?? '')).toBe(false);
  // The surface without handles cannot name any thread.
  const bare = await runtime.call('execute', onThread(id, 'status'), {
    surface: 'mcp',
  });
  expect(bare).toMatchObject({ ok: false, error: { code: 'permission_denied' } });
  const nameless = await runtime.call('execute', startDirective('look'), { surface: 'mcp' });
  expect(nameless).toMatchObject({ ok: false, error: { detail: { missing: 'handle' } } });
});

test('what a transcript says of other threads makes no handle of them', async () => {
  const { runtime, threads } = await staged({ look: [{ text: 'done' }] });
  const own = await threads.run({ directive: 'look' });
  const others = own.ok ? String(own.output.thread_id) : '';
  const asAnn = callAs(hostOf(runtime), ann);
  const started = outputOf(
    await asAnn(startDirective('look', { initial_message: JSON.stringify({ thread_id: others }) })),
  );
  const shown = outputOf(
    await asAnn(tool('threads/read_transcript', { thread_id: started.handle ?? '', last_n: 50 })),
  );
  expect(JSON.stringify(shown)).toContain(others);
  expect(JSON.stringify(shown)).not.toContain(`${others}.`);
});

test('a child of a handed thread is read by the name that the transcript gives it', async () => {
  const spawning = {
    permissions: `${READ}<execute resource="spawn" action="thread"/>`,
  };
  const { runtime } = await staged(
    {
      work: [
        { tool_calls: [{ name: 'execute', arguments: startDirective('part') }] },
        { text: 'done' },
      ],
      part: [{ text: 'part done' }],
    },
    directive('work', spawning),
  );
  const asAnn = callAs(hostOf(runtime), ann);
  const started = outputOf(await asAnn(startDirective('work')));
  expect(started).toMatchObject({ status: 'completed' });
  const { events } = outputOf(
    await asAnn(tool('threads/read_transcript', { thread_id: started.handle ?? '', last_n: 50 })),
  ) as { events: JsonObject[] };
  const child = events.find(({ type }) => type === 'spawn')?.thread_id ?? '';
  const status = outputOf(await asAnn(onThread(child, 'status')));
  expect(status).toMatchObject({ directive: 'part', status: 'completed', thread_id: child });
  expect(status).not.toHaveProperty('parent');
  expect(await callAs(hostOf(runtime), bob)(onThread(child, 'status'))).toMatchObject({
    ok: false,
  });
});

test('after a restart a client with a token still has its handle; another process has none', async () => {
  const { runtime, fixture } = await staged({ look: [{ text: 'done' }] });
  const started = outputOf(await callAs(hostOf(runtime), ann)(startDirective('look')));
  await runtime.close();
  const again = await fixture.open();
  try {
    const host = hostOf(again);
    const status = onThread(started.handle, 'status');
    expect(await callAs(host, ann)(status)).toMatchObject({ output: { status: 'completed' } });
    expect(await callAs(host, client('stdio:new'))(status)).toMatchObject({ ok: false });
  } finally {
    await again.close();
  }
});

test('`directives` decides about starting and steering, `effects` about everything else', async () => {
  const made = await staged({ look: [{ text: 'done' }], unsigned_look: [{ text: 'done' }] });
  const asAnn = callAs(hostOf(made.runtime), ann);
  const write = tool('fs/write_file', { path: 'x.txt', content: 'x' });
  expect(await asAnn(startDirective('look'))).toMatchObject({ ok: true });
  expect(await asAnn(startDirective('unsigned_look'))).toMatchObject({
    error: { code: 'permission_denied' },
  });
  expect(await asAnn(write)).toMatchObject({ error: { code: 'permission_denied' } });
  // A signed directive that extends an unsigned one gets the permissions of the unsigned one,
  // because nobody signed the whole.
  const file = '.ai/directives/lying.md';
  const extending = '<relationships><extends>unsigned_look</extends></relationships>';
  const lying = directiveText('lying', { permissions: READ }).replace(
    '<metadata>',
    `<metadata>${extending}`,
  );
  made.fixture.write(file, lying);
  signAsUser(made.fixture, file);
  await seenAnew();
  expect(await asAnn(startDirective('lying'))).toMatchObject({
    error: { code: 'permission_denied', detail: { missing: 'spawn.thread' } },
  });
  const policy = (text: string) => {
    made.fixture.write(`${made.fixture.home}/policy.yaml`, text);
    return seenAnew();
  };
  await policy('surfaces: { mcp: { directives: none, effects: [read, idempotent, write] } }\n');
  expect(await asAnn(startDirective('look'))).toMatchObject({
    error: { code: 'permission_denied' },
  });
  await policy('surfaces: { mcp: { directives: none } }\n');
  expect(await asAnn(startDirective('look'))).toMatchObject({
    error: { code: 'permission_denied' },
  });
});

test('a viewer looks: it starts, steers and changes nothing, whatever the policy allows', async () => {
  const made = await staged({ look: [{ text: 'done' }] });
  made.fixture.write(
    `${made.fixture.home}/policy.yaml`,
    'surfaces: { mcp: { directives: all, effects: [read, idempotent, write], open: [fs.write, net.http, net.websocket, project.use] } }\n',
  );
  const runtime = await made.fixture.open();
  try {
    const host = hostOf(runtime);
    const viewer = client('token-ann', 'view');
    const asViewer = callAs(host, viewer);
    const started = outputOf(await callAs(host, ann)(startDirective('look')));
    const read = await asViewer(tool('fs/read_file', { path: 'notes/a.txt' }));
    expect(read).toMatchObject({ ok: true });
    // The same token with a smaller role keeps its handles for reading.
    expect(await asViewer(onThread(started.handle, 'status'))).toMatchObject({ ok: true });
    expect(await asViewer(onThread(started.handle, 'wait'))).toMatchObject({ ok: true });
    for (const request of [
      startDirective('look'),
      tool('fs/write_file', { path: 'x.txt', content: 'x' }),
      onThread(started.handle, 'cancel'),
      onThread(started.handle, 'inject', { message: 'x' }),
      tool('threads/pause_thread', { thread_id: started.handle ?? '' }),
      { item_type: 'knowledge', item_id: 'x', action: 'create', content: 'x' },
    ] as JsonObject[]) {
      expect(await asViewer(request), JSON.stringify(request)).toMatchObject({
        error: { code: 'permission_denied' },
      });
    }
    const copied = await host.call(
      'load',
      { item_type: 'tool', item_id: 'fs/read_file', destination: 'project' },
      { client: viewer, signal: new AbortController().signal },
    );
    expect(copied).toMatchObject({ error: { code: 'permission_denied' } });
    const ready = await asViewer({ item_type: 'directive', item_id: 'look' });
    expect(ready).toMatchObject({ ok: true, output: { can_spawn_thread: false } });
    const rows = await runtime.audit.read({ limit: 50 });
    const callers = rows.ok ? rows.output.map(({ caller }) => caller) : [];
    expect(callers).toContain('outside@token-ann');
  } finally {
    await runtime.close();
  }
});

test('another project is refused, at both places where one can be named', async () => {
  const { runtime, fixture } = await staged({ look: [{ text: 'done' }] });
  const asAnn = callAs(hostOf(runtime), ann);
  const path = fixture.home;
  for (const request of [
    { ...tool('fs/read_file', { path: 'notes/a.txt' }), project_path: path },
    startDirective('look', { project_path: path }),
  ] as JsonObject[]) {
    expect(await asAnn(request)).toMatchObject({
      error: { code: 'permission_denied', detail: { missing: 'project.use' } },
    });
  }
});

test('a client waits 20 s if it says nothing and 45 s at most, whatever it says', async () => {
  const { runtime } = await staged({ look: [async () => await new Promise<never>(() => {})] });
  const asAnn = callAs(hostOf(runtime), ann);
  const started = outputOf(await asAnn(startDirective('look', { wait_ms: 0 })));
  expect(started).toMatchObject({ status: 'running', handle: started.thread_id });
  const { handle = '' } = started;
  const waits = async (request: JsonObject): Promise<number> => {
    const timers = vi.spyOn(globalThis, 'setTimeout');
    const giveUp = new AbortController();
    const waiting = asAnn(request, { signal: giveUp.signal });
    await vi.waitFor(() => {
      expect(timers.mock.calls.some(([, ms = 0]) => ms >= 20_000 && ms <= 86_400_000)).toBe(true);
    }, pollMs);
    const found = timers.mock.calls.map(([, ms = 0]) => ms).filter((ms) => ms >= 20_000);
    timers.mockRestore();
    giveUp.abort();
    await waiting;
    return Math.min(...found);
  };
  expect(await waits(onThread(handle, 'wait'))).toBe(20_000);
  expect(await waits(onThread(handle, 'wait', { wait_ms: 1e9 }))).toBe(45_000);
  expect(await waits(tool('threads/wait_thread', { thread_id: handle }))).toBe(20_000);
  expect(await waits(tool('threads/wait_all', { thread_ids: [handle], timeout_ms: 1e9 }))).toBe(
    45_000,
  );
  expect(await asAnn(onThread(handle, 'cancel'))).toMatchObject({ ok: true });
});

test('a client chooses neither the loop nor the id of a thread', async () => {
  const { runtime, threads } = await staged({ look: [{ text: 'done' }] });
  const parameters = { directive_name: 'look', thread_id: 'mine', runner: 'plain' };
  const refused = await callAs(hostOf(runtime), ann)(tool('threads/spawn_thread', parameters));
  expect(refused).toMatchObject({ error: { code: 'permission_denied' } });
  expect(await threads.store.thread('mine')).toMatchObject({ ok: false });
});

test('a script that a viewer calls is a viewer too', async () => {
  const script = `tool_id: scribe
version: "1.0.0"
category: test
description: Writes although it says that it reads
executor_id: script
config:
  script: |
    /var @done = @tool("fs/write_file", {path: "x.txt", content: "x"})
    /show @done
requires: [fs.write]
effect: read
`;
  const made = await staged({}, { '.ai/tools/scribe.yaml': script });
  signAsUser(made.fixture, '.ai/tools/scribe.yaml');
  made.fixture.write(
    `${made.fixture.home}/policy.yaml`,
    'surfaces: { mcp: { effects: [read, idempotent, write], open: [fs.write, net.http, net.websocket, project.use] } }\n',
  );
  const runtime = await made.fixture.open();
  try {
    const asViewer = callAs(hostOf(runtime), client('token-ann', 'view'));
    expect(await asViewer(tool('scribe', {}))).toMatchObject({
      error: { code: 'permission_denied' },
    });
  } finally {
    await runtime.close();
  }
});
