import { expect, test } from 'vitest';
import type { LimitMeter, SlimEvent } from '../../model/api.ts';
import { createThreadFold } from '../../model/fold-thread.ts';
import { shellWord } from '../../model/format.ts';
import { limitProblem, resumeCommand, wishOf } from './commands.ts';
import { rowOfEvent, type ShownRow, shownRows } from './use-fold.ts';

function foldThread(told: readonly SlimEvent[]) {
  const fold = createThreadFold();
  fold.add(told);
  return fold.read();
}

const events: SlimEvent[] = [
  { seq: 1, ts: 0, turn: 1, type: 'turn_start' },
  { seq: 2, ts: 1, turn: 1, type: 'tool_call', call_id: 'a', tool: 'fs/read_file' },
  { seq: 3, ts: 2, turn: 1, type: 'tool_result', call_id: 'a' },
  { seq: 4, ts: 3, turn: 2, type: 'turn_start' },
  { seq: 5, ts: 4, turn: 2, type: 'tool_call', call_id: 'b', tool: 'fs/write_file' },
  { seq: 6, ts: 5, turn: 2, type: 'permission_denied', call_id: 'b' },
  { seq: 7, ts: 6, turn: 2, type: 'tool_call', call_id: 'c', tool: 'spawn', thread: 'child_1' },
];
const { rows } = foldThread(events);
const wish: Parameters<typeof shownRows>[2] = {
  filter: undefined,
  turned: new Set(),
  areClosed: false,
  children: new Map(),
};
const names = (shown: readonly ShownRow[]) =>
  shown.map((one) => (one.kind === 'live' ? one.text : `${one.depth} ${one.row.name}`));

test('steps stand below their turn', () => {
  expect(names(shownRows(rows, 'me', wish))).toEqual([
    '0 Turn 1',
    '1 fs/read_file',
    '0 Turn 2',
    '1 fs/write_file',
    '1 spawn',
  ]);
});

test('a closed turn keeps its row and says what was refused in it', () => {
  const closed = shownRows(rows, 'me', { ...wish, areClosed: true });
  expect(names(closed)).toEqual(['0 Turn 1', '0 Turn 2']);
  expect(closed.map((one) => (one.kind === 'row' ? one.inside : ''))).toEqual([
    undefined,
    '1 denied',
  ]);
  const opened = shownRows(rows, 'me', { ...wish, areClosed: true, turned: new Set([4]) });
  expect(names(opened)).toEqual(['0 Turn 1', '0 Turn 2', '1 fs/write_file', '1 spawn']);
});

test('a filter leaves out turns that have nothing of it, and opens the others', () => {
  const denied = shownRows(rows, 'me', { ...wish, areClosed: true, filter: 'denied' });
  expect(names(denied)).toEqual(['0 Turn 2', '1 fs/write_file']);
});

test('the rows of an opened child stand below it, with the reply in progress', () => {
  const folded = foldThread(events.slice(0, 2));
  const children = new Map([['child_1', { folded, text: 'so far' }]]);
  expect(names(shownRows(rows, 'me', { ...wish, children })).slice(4)).toEqual([
    '1 spawn',
    '2 Turn 1',
    '3 fs/read_file',
    'so far',
  ]);
});

test('an event leads to the row it belongs to', () => {
  const shown = shownRows(rows, 'me', wish);
  expect(rowOfEvent(shown, 'me', 3)).toBe(1);
  expect(rowOfEvent(shown, 'me', 6)).toBe(3);
  expect(rowOfEvent(shown, 'me', 99)).toBe(-1);
  expect(rowOfEvent(shown, 'another', 3)).toBe(-1);
});

test('a limit can be raised above what was used and up to its ceiling', () => {
  const meter: LimitMeter = { name: 'turns', used: 12, reserved: 0, max: 12 };
  const ceiling = { max: 40, from: 'policy' };
  expect(limitProblem(meter, '', ceiling)).toBeUndefined();
  expect(limitProblem(meter, '20', ceiling)).toBeUndefined();
  expect(limitProblem(meter, '12', ceiling)).toBe('must be above 12 (used)');
  expect(limitProblem(meter, '41', ceiling)).toBe('is above the ceiling: policy 40');
  expect(limitProblem(meter, 'many', ceiling)).toBe('must be a number above 0');
});

test('the command of a sheet says what the sheet says, whatever is typed', () => {
  const wish = wishOf({ turns: '20', spend: '0.80', tokens: '' }, '', "it's `here`", 'why');
  expect(wish).toEqual({
    limits: { turns: 20, spend: '0.80' },
    message: "it's `here`",
    why: 'why',
  });
  expect(resumeCommand('me', wish)).toBe(
    `km threads resume me --turns 20 --spend 0.80 --message 'it'\\''s \`here\`'`,
  );
  expect(shellWord("it's")).toBe(`'it'\\''s'`);
});
