import { expect, test } from 'vitest';
import { fail, type JsonObject, ok } from '../../base/index.ts';
import type { JournalEvent } from '../../journal/index.ts';
import type { ThreadStatus } from '../../store/index.ts';
import { createNotifier } from './notify.ts';

type NotifyPorts = Parameters<typeof createNotifier>[0];

const row: { directive: string; kind: string; parent?: string } = {
  directive: 'look',
  kind: 'thread',
};

function make(settings: JsonObject | undefined, more: Partial<NotifyPorts> = {}) {
  const sent: unknown[] = [];
  const troubles: string[] = [];
  const notifier = createNotifier({
    settings: () => settings,
    now: () => 0,
    thread: () => row,
    scheduleOf: async (id) => ok(id === 't_s' ? 'nightly' : ''),
    post: async (url, notice) => {
      sent.push([url, notice]);
      return ok(null);
    },
    run: async (command, notice) => {
      sent.push([command, notice]);
      return ok(null);
    },
    trouble: (message) => void troubles.push(message),
    ...more,
  });
  return { notifier, sent, troubles };
}
const ended = (status: ThreadStatus, code = 'loop_detected'): JournalEvent => ({
  type: 'thread_end',
  data: { status, reason: 'the canary is out', code, cost: { canary: 1 } },
});

const asked = (action: string): JournalEvent => ({
  type: 'approval',
  data: { kind: 'question', state: 'pending', approval: 'ap_1', action },
});

test('a failed run is told, without a word of what was said in it', async () => {
  const { notifier, sent } = make({ webhook: 'https://example.org/hook' });
  notifier.event('a', ended('failed'));
  await notifier.settled();
  expect(sent).toEqual([
    [
      'https://example.org/hook',
      {
        event: 'failed',
        thread_id: 'a',
        directive: 'look',
        status: 'failed',
        code: 'loop_detected',
        at: '1970-01-01T00:00:00.000Z',
      },
    ],
  ]);
});

test.each([
  ['limit', ended('limit'), 'limit'],
  ['denied', ended('denied'), 'failed'],
  ['stuck', asked('stuck'), 'stuck'],
  ['an approval', asked('escalate'), 'approval'],
])('%s is told', async (_, event, kind) => {
  const { notifier, sent } = make({ command: ['tell', 'me'] });
  notifier.event('a', event);
  await notifier.settled();
  expect(sent).toMatchObject([[['tell', 'me'], { event: kind }]]);
  expect(JSON.stringify(sent)).not.toContain('canary');
});

const answered: JournalEvent = {
  type: 'approval',
  data: {
    kind: 'capability',
    state: 'approved',
    approval: 'ap_1',
    capability: 'fs.read',
    by: 'me',
  },
};
const QUIET: [string, JournalEvent, typeof row | undefined][] = [
  ['a normal end', ended('completed'), undefined],
  [
    'an error on the way',
    { type: 'error', data: { code: 'stuck', detail: { message: '' } } },
    undefined,
  ],
  ['an answered approval', answered, undefined],
  ['the end of a child', ended('failed'), { ...row, parent: 'b' }],
  ['the end of a hook', ended('failed'), { ...row, kind: 'hook', parent: 'b' }],
];
test.each(QUIET)('%s is not told', async (_, event, about = row) => {
  const { notifier, sent } = make({ webhook: 'https://x.org' }, { thread: () => about });
  notifier.event('a', event);
  await notifier.settled();
  expect(sent).toEqual([]);
});

test('a notice names the schedule that started the thread, and a tick that started none', async () => {
  const { notifier, sent } = make({ webhook: 'https://x.org' });
  notifier.event('t_s', ended('failed'));
  notifier.schedule({
    event: 'schedule_missed',
    schedule: 'nightly',
    directive: 'look',
    status: '3',
    code: '',
  });
  await notifier.settled();
  // The name of a schedule is looked up, so a notice without a thread can be first.
  expect(sent.toReversed()).toMatchObject([
    ['https://x.org', { event: 'failed', thread_id: 't_s', schedule: 'nightly' }],
    ['https://x.org', { event: 'schedule_missed', schedule: 'nightly', status: '3' }],
  ]);
});

test('`on` chooses, a text is a line of shell, both ways are used', async () => {
  const { notifier, sent } = make({ webhook: 'https://x.org', command: 'tell', on: ['limit'] });
  notifier.event('a', ended('failed'));
  notifier.event('a', ended('limit'));
  await notifier.settled();
  expect(sent).toMatchObject([
    ['https://x.org', {}],
    [['/bin/sh', '-c', 'tell'], {}],
  ]);
});

test('a code that is no code is left out, and without settings nothing happens', async () => {
  const { notifier, sent } = make({ webhook: 'https://x.org' });
  notifier.event('a', ended('failed', 'my canary: 1'));
  await notifier.settled();
  expect(sent).toMatchObject([['https://x.org', { code: '' }]]);
  const silent = make(undefined);
  silent.notifier.event('a', ended('failed'));
  expect(silent.sent).toEqual([]);
});

test('nobody could be told: that is recorded, and the run goes on', async () => {
  const refusing = make(
    { webhook: 'x', command: 'y' },
    {
      post: async () => fail('network_error', 'the canary is unreachable'),
      run: () => Promise.reject(new Error('canary')),
    },
  );
  refusing.notifier.event('a', ended('failed'));
  await refusing.notifier.settled();
  expect(refusing.troubles).toEqual([
    'a notice was not delivered: network_error',
    'a notice was not delivered: internal_error',
  ]);
});

test('what a hook asks is told about the thread it serves', async () => {
  const threads: Record<string, { directive: string; parent?: string; kind: string }> = {
    root: { directive: 'look', kind: 'thread' },
    hook: { directive: 'judge', kind: 'hook', parent: 'root' },
    inner: { directive: 'inner', kind: 'hook', parent: 'hook' },
  };
  const { notifier, sent } = make({ webhook: 'https://x.org' }, { thread: (id) => threads[id] });
  notifier.event('hook', asked('escalate'));
  notifier.event('inner', asked('escalate'));
  notifier.event('hook', ended('failed'));
  await notifier.settled();
  const about = ['https://x.org', { thread_id: 'root', directive: 'look' }];
  expect(sent).toMatchObject([about, about]);
});
