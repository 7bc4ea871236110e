import { expect, test } from 'vitest';
import { fail, ok } from '../../base/index.ts';
import type { Library } from '../../items/index.ts';
import { spawnsBy, stepKind } from './tool-call.ts';

const library = (chains: Record<string, string[]>): Pick<Library, 'chain'> => ({
  chain(id) {
    const links = chains[id]?.map((link) => ({ id: link }));
    if (!links) return fail('not_found', `no \`${id}\``);
    return ok({ links, primitive: 'thread' } as never);
  },
});

test('a tool is a spawn when its chain goes through the base of spawning', () => {
  const known = library({
    'threads/thread_directive': [
      'threads/thread_directive',
      'threads/safety_harness',
      'threads/spawn_thread',
    ],
    mine: ['mine', 'threads/spawn_thread'],
    'threads/wait_thread': ['threads/wait_thread'],
  });
  expect(stepKind(known, 'threads/thread_directive')).toBe('spawn');
  expect(stepKind(known, 'mine')).toBe('spawn');
  expect(stepKind(known, 'threads/wait_thread')).toBe('tool');
  expect(stepKind(known, 'unknown')).toBe('tool');
});

test('what a chain does in the end decides whether it spawns, and who makes the id', () => {
  const links = (...configs: object[]): Pick<Library, 'chain'> => ({
    chain: () =>
      ok({ links: configs.map((config) => ({ tool: { config } })), primitive: 'thread' } as never),
  });
  expect(spawnsBy(links({ function: 'spawn' }), 'x')).toEqual({ makesId: false });
  expect(spawnsBy(links({}, { make_id: true }, { function: 'spawn' }), 'x')).toEqual({
    makesId: true,
  });
  // This tool is built on the bundle's tool and does something else with it.
  expect(spawnsBy(links({ function: 'inject' }, { function: 'spawn' }), 'x')).toBeUndefined();
  expect(spawnsBy(library({ x: ['x'] }), 'unknown')).toBeUndefined();
});
