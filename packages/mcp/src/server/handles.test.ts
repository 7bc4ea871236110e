import { fail, ok } from '@kernmantle/core/base';
import { runs } from '@kernmantle/test-support/soak';
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { handlesOf } from './handles.ts';

const host = (byte: number, project = '/project') => ({
  key: () => ok(new Uint8Array(32).fill(byte)),
  project,
});
const id = fc.stringMatching(/^[A-Za-z0-9_-]{1,80}$/);
const who = fc.string({ maxLength: 60 }).map((text) => ({ id: text }));

test('a handle names its thread, for its client alone', () => {
  fc.assert(
    fc.property(id, who, who, (thread, client, other) => {
      const handle = handlesOf(host(1), client).handleOf(thread);
      expect(handlesOf(host(1), client).idOf(handle)).toBe(thread);
      expect(handlesOf(host(1), other).idOf(handle)).toBe(
        other.id === client.id ? thread : undefined,
      );
      expect(handlesOf(host(2), client).idOf(handle)).toBeUndefined();
      expect(handlesOf(host(1, '/other'), client).idOf(handle)).toBeUndefined();
    }),
    { numRuns: runs(100) },
  );
});

test('nothing but the whole handle is one: no part of it, no id, no change, no guess', () => {
  const handles = handlesOf(host(1), { id: 'a' });
  fc.assert(
    fc.property(id, id, fc.nat(), fc.string(), (thread, other, at, text) => {
      const handle = handles.handleOf(thread);
      const cut = at % handle.length;
      const changed = `${handle.slice(0, cut)}${handle[cut] === 'x' ? 'y' : 'x'}${handle.slice(cut + 1)}`;
      const [, mark = ''] = handle.split('.');
      const forged = [
        thread,
        handle.slice(0, cut),
        handle.slice(cut + 1),
        changed,
        `${handle} `,
        `${handle}=`,
        handle.toUpperCase() === handle ? 'x' : handle.toUpperCase(),
        `${thread}.`,
        `${thread}.${'A'.repeat(32)}`,
        text,
        ...(other === thread ? [] : [`${other}.${mark}`]),
      ];
      for (const each of forged) expect(handles.idOf(each)).toBeUndefined();
    }),
    { numRuns: runs(100) },
  );
});

test('without a key nothing is named', () => {
  const handles = handlesOf({ key: () => fail('io_error', 'gone'), project: '/p' }, { id: 'a' });
  expect(handles.handleOf('x')).toBe('');
  expect(handles.idOf(`x.${'A'.repeat(32)}`)).toBeUndefined();
});
