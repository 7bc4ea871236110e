// Cases 23-26 of the port: threads that a commit of their parent creates.
import { expect, test } from 'vitest';
import type { Commit } from '../../../packages/core/src/store/port.ts';
import { type InStage, staged } from './journal-cases.ts';
import {
  aThread,
  bear,
  begin,
  codeOf,
  event,
  must,
  type OpenStage,
  owner,
  pictureOf,
  TTL,
  writerOf,
} from './stage.ts';

const spawn = (): Partial<Commit> => ({
  events: [{ type: 'spawn', data: { thread_id: 'child' } }],
  charge: { spawns: 1n },
  reserve: [{ key: 'apart', amounts: { tokens: 5n }, standing: true }],
  children: [
    aThread('child', {
      budget: { tokens: 5n },
      events: [{ type: 'thread_start', data: {} }],
      reserve: [{ key: 'hooks', amounts: { tokens: 1n }, from: 'apart', standing: true }],
      secrets: [{ number: 1, sealed: Buffer.from('s') }],
      start: { queue: {} },
    }),
  ],
});

function births(inStage: InStage): void {
  test(
    'child, count, event and job are one, wherever it breaks',
    inStage(async ({ store, faults }) => {
      const parent = await begin(store, 'parent', { budget: { tokens: 10n, spawns: 1n } });
      const all = ['parent', 'child'];
      const before = await pictureOf(store, all);
      let broken = 0;
      for (let step = 1; ; step++) {
        faults.breakAt(step);
        const answer = await parent.commit(spawn());
        faults.breakAt(undefined);
        if (answer.ok) break;
        broken += 1;
        expect(await pictureOf(store, all)).toBe(before);
        expect(must(await store.take(owner(), { count: 5, projects: ['one'] }))).toEqual([]);
      }
      expect(broken).toBeGreaterThan(4);
      const { used, reserved } = must(await store.budgets(['parent']))[0] ?? {};
      expect([used?.spawns, reserved?.tokens]).toEqual([1n, 5n]);
      const [taken] = must(await store.take(owner(), { count: 5, projects: ['one'] }));
      expect(taken).toMatchObject({ thread: 'child', epoch: 1, acknowledged: 0 });
      expect(taken?.open).toEqual([{ key: 'hooks', amounts: { tokens: 1n }, from: 'apart' }]);
      expect(must(await store.read('child')).map(({ type }) => type)).toEqual([
        'status',
        'thread_start',
      ]);
      expect(must(await store.secrets('child'))).toHaveLength(1);
    }),
  );

  test(
    'a taken id refuses the commit, and the parent goes on',
    inStage(async ({ store }) => {
      const parent = await begin(store, 'parent', { budget: { spawns: 5n } });
      await begin(store, 'other');
      const before = await pictureOf(store, ['parent', 'other']);
      const children = [aThread('fresh'), aThread('other')];
      const answer = await parent.commit({ children, charge: { spawns: 2n } });
      expect(codeOf(answer)).toBe('thread_exists');
      const twice = await parent.commit({ children: [aThread('same'), aThread('same')] });
      expect(codeOf(twice)).toBe('thread_exists');
      const bad = await parent.commit({ children: [aThread('no/id')] });
      expect(bad).toMatchObject({
        error: { code: 'invalid_input', detail: { suggestion: 'no_id' } },
      });
      expect(await pictureOf(store, ['parent', 'other'])).toBe(before);
      expect(codeOf(await store.thread('fresh'))).toBe('not_found');
      expect(codeOf(await store.createThread(aThread('other')))).toBe('thread_exists');
      await parent.must({ children: [aThread('fresh')] });
    }),
  );
}

function families(inStage: InStage): void {
  test(
    'a child knows its chain and its depth; a hook is not deeper',
    inStage(async ({ store }) => {
      const root = await begin(store, 'root');
      const mid = await bear(store, root, 'mid');
      await bear(store, mid, 'leaf');
      await mid.must({ children: [aThread('hook', { kind: 'hook', detached: true })] });
      const rows = await Promise.all(['root', 'mid', 'leaf', 'hook'].map((id) => store.thread(id)));
      expect(
        rows.map(must).map(({ chain, depth, root: top, parent }) => [chain, depth, top, parent]),
      ).toEqual([
        [['root'], 0, 'root', undefined],
        [['mid', 'root'], 1, 'root', 'root'],
        [['leaf', 'mid', 'root'], 2, 'root', 'mid'],
        [['hook', 'mid', 'root'], 1, 'root', 'mid'],
      ]);
      expect(must(await store.thread('hook'))).toMatchObject({ kind: 'hook', detached: true });
    }),
  );

  test(
    'a detached child lives on its reservation after the end of its parent',
    inStage(async ({ store, clock }) => {
      const parent = await begin(store, 'parent', { budget: { tokens: 10n } });
      const { children } = await parent.must({
        reserve: [{ key: 'apart', amounts: { tokens: 8n }, standing: true }],
        children: [aThread('child', { detached: true, budget: { tokens: 8n } })],
      });
      const [held] = children;
      const child = held && writerOf(store, held);
      await parent.must({ status: 'completed', release: true });
      clock.pass(1);
      await child?.must({ reserve: [{ key: 'c', amounts: { tokens: 8n }, from: 'apart' }] });
      await child?.must({ settle: [{ key: 'c', actual: { tokens: 3n } }] });
      await child?.must({
        events: [event('end')],
        status: 'completed',
        settle: [{ key: 'apart', actual: {} }],
        release: true,
      });
      const states = must(await store.budgets(['child', 'parent']));
      expect(states.map(({ used, reserved }) => [used.tokens, reserved.tokens])).toEqual([
        [3n, 0n],
        [3n, 0n],
      ]);
    }),
  );

  test(
    'a birth is a status event, running with a lease and spawning in the queue',
    inStage(async ({ store }) => {
      const here = must(await store.createThread(aThread('here', { events: [event('first')] })));
      expect(here).toMatchObject({ epoch: 1, lease_ms: TTL, acknowledged: 0, open: [] });
      expect(here.row).toMatchObject({ status: 'running', seq: 2, owner: 'here' });
      const later = must(await store.createThread(aThread('later', { start: { queue: {} } })));
      expect(later).toMatchObject({ epoch: 0, lease_ms: 0, row: { status: 'spawning', seq: 1 } });
      for (const [id, status] of [
        ['here', 'running'],
        ['later', 'spawning'],
      ] as const) {
        const [first] = must(await store.read(id));
        expect(first).toMatchObject({ seq: 1, type: 'status', data: { status } });
      }
      expect(codeOf(await writerOf(store, later).commit())).not.toBe('ok');
    }),
  );
}

export function spawnCases(open: OpenStage): void {
  const inStage = staged(open);
  births(inStage);
  families(inStage);
}
