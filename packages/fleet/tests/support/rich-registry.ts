// A registry with something in every table, made through the port alone.
import { type Outcome, systemClock } from '@kernmantle/core/base';
import type { Commit, NewThread, Store } from '../../../core/src/store/port.ts';
import { openSqliteStore } from '../../../core/src/store/sqlite/store.ts';

export function must<T>(outcome: Outcome<T>): T {
  if (!outcome.ok) throw new Error(`${outcome.error.code}: ${outcome.error.detail.message}`);
  return outcome.output;
}

/** A process that is certainly not there any more. */
const LOST = 'lost:1';
const STATE = { waiting: null, last: null, outcome: null, paused: null, refused: 0 };
const NEW = { ...STATE, stamp: '', open: [] };
const UNENDING = { expires: null, endorsed_by: null };
const owner = (name = 'me') => ({ owner: name, ttlMs: 60_000 });

const thread = (id: string, project: string, more: Partial<NewThread> = {}): NewThread => ({
  id,
  directive: 'deploy',
  version: '1.0.0',
  runner: 'safety',
  project,
  limits: { turns: 10, note: 'süß 🙂' },
  budget: { tokens: 1000n, spend: 9_007_199_254_740_993n },
  inputs: { nul: '\u0000', line: '\u2028', quote: `"'\\` },
  events: [{ type: 'thread_start', data: { text: '\u0000 and \ud83d\ude42' }, turn: 0 }],
  start: { lease: owner() },
  ...more,
});

async function write(store: Store, id: string, more: Partial<Commit> = {}): Promise<void> {
  const { seq, epoch } = must(await store.thread(id));
  const events = more.events ?? [{ type: 'note', data: { id }, turn: 1 }];
  must(await store.commit(id, { expect: { seq, epoch }, ...more, events }));
}

const audit = (caller: string) => ({
  surface: 'thread',
  caller,
  subject: 'me',
  operation: 'tool:text/count',
  target: 'a.txt',
  decision: 'allowed' as const,
  reason: 'ünï',
});

async function fillTree(store: Store, name: string, project: string, elsewhere: string) {
  const [child, hook] = [`${name}_child`, `${name}_hook`];
  const root = thread(name, project, { tenant: name === 'b' ? 'acme' : '' });
  must(await store.createThread(root));
  await write(store, name, {
    charge: { spawns: 1n },
    reserve: [
      { key: `${name}:apart`, amounts: { tokens: 400n, spend: 3n }, standing: true },
      { key: `${name}:turn`, amounts: { tokens: 10n } },
    ],
    children: [
      thread(child, elsewhere, {
        detached: true,
        reserve: [{ key: `${child}:turn`, amounts: { tokens: 20n }, from: `${name}:apart` }],
      }),
      thread(hook, project, { kind: 'hook', items: 'sha256:old' }),
    ],
    ask: [
      { id: `${name}_ap`, kind: 'question', binding: { b: 2, a: 1 }, shown: { x: 1 }, uses: 3 },
    ],
    secrets: [{ number: 1, sealed: Buffer.from([0, 1, 254, 255]) }],
    audit: [audit(name)],
    cost: { turns: 1, spend: '0.000000001' },
  });
  const decision = { decision: 'approved', who: 'me', channel: 'cli', why: 'yes' } as const;
  must(await store.decide(`${name}_ap`, { ...decision, answer: ['a', null] }));
  await write(store, child, { use: [{ approval: `${name}_ap`, binding: { a: 1, b: 2 } }] });
  must(await store.putArtifact(child, Buffer.from(`of ${name}`)));
  for (const id of [name, child]) must(await store.putArtifact(id, Buffer.alloc(70_000, 7)));
  const say = (id: string, key: string) =>
    store.signal({ thread: id, kind: 'message', payload: { key }, key, by: 'me' });
  must(await say(name, 'one'));
  must(await say(child, 'two'));
  await write(store, child, { acknowledged: 1, status: 'waiting', release: true });
  await write(store, hook, { status: 'completed', result: { text: 'done' }, release: true });
  const many = Array.from({ length: 700 }, (_, n) => ({ type: 'note', data: { n }, turn: 2 }));
  await write(store, name, { events: [many[0] ?? { type: 'x', data: {} }, ...many.slice(1)] });
  await write(store, name, { acknowledged: 1, status: 'paused', release: true });
}

/** Two schedules, one of which waits, with a fire that started a thread. */
async function fillSchedules(store: Store, project: string, elsewhere: string): Promise<void> {
  const given = {
    tenant: '',
    body: '{"süß": "\\u0000"}',
    signature: 'sig',
    next: 1_900_000_000_000,
  };
  for (const [id, where] of [
    ['sch_1', project],
    ['sch_2', elsewhere],
  ] as const) {
    const added = { ...given, ...NEW, id, project: where, name: 'nightly' };
    must(await store.fire({ row: added, set: {}, audit: audit('schedules') }));
  }
  const [row] = must(await store.schedules({ project, name: 'nightly' })).rows;
  if (!row) throw new Error('the schedule is not there');
  must(
    await store.fire({
      row,
      set: { waiting: 5, last: 5, outcome: 'waiting', refused: 2 },
      fires: [
        { tick: 4, outcome: 'started', reason: '', thread: 'a' },
        { tick: 5, outcome: 'waiting', reason: 'ünï' },
      ],
    }),
  );
}

/** Threads of `project`, and children that work in `elsewhere`. Nobody holds any of them. */
export async function fillRegistry(
  file: string,
  project: string,
  elsewhere: string,
  identity: Uint8Array,
): Promise<void> {
  const isGone = (name: string): boolean => name === LOST;
  const options = { file, clock: systemClock, identity, isGone };
  const store = must(await openSqliteStore(options));
  for (const name of ['a', 'b', 'c']) await fillTree(store, name, project, elsewhere);
  must(await store.createThread(thread('old', project)));
  await write(store, 'old', { status: 'failed', release: true });
  must(await store.prune({ before: Date.now() + 1000 }));
  must(await store.createThread(thread('queued', project, { start: { queue: { priority: 3 } } })));
  must(await store.createThread(thread('killed', project)));
  must(
    await store.signal({ thread: 'killed', kind: 'kill', payload: null, key: 'kill', by: 'me' }),
  );
  await write(store, 'killed', { acknowledged: 1, status: 'killed', release: true });
  must(await store.createThread(thread('lost', project, { start: { lease: owner(LOST) } })));
  must(await store.sweep());
  must(await store.ask({ id: 'loose', kind: 'call', binding: { tool: 'x' }, shown: {}, uses: 2 }));
  const decision = { decision: 'approved', who: 'me', channel: 'web', why: '' } as const;
  must(await store.decide('loose', decision));
  must(await store.use('loose', { tool: 'x' }));
  must(await store.audit([{ ...audit('me'), decision: 'denied' }]));
  for (const place of [project, elsewhere].map((one) => ({
    tenant: '',
    project: one,
    owner: '',
  }))) {
    const marks = { labels: ['untrusted'], taint: ['untrusted'], sources: ['tool:x'] };
    const row = { ...place, scope: 'project', text: 'a note', subject: '', marks } as const;
    must(
      await store.changeMemory({
        kind: 'write',
        row: { ...row, thread: 'a', seq: 1, ...UNENDING },
      }),
    );
  }
  await fillSchedules(store, project, elsewhere);
  await store.close();
}
