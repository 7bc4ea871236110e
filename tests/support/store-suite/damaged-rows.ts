// Tests approvals and signals with one damaged text, in any store that stores texts.
import { expect } from 'vitest';
import type {
  Approval,
  Decision,
  NewApproval,
  Store,
} from '../../../packages/core/src/store/port.ts';
import { begin, codeOf, must } from './stage.ts';

/** Texts that are not the object of the row. */
export const ODD_TEXTS = ['{"torn', '', 'null', '[1]', '"text"'];

/** Texts that are not JSON. */
export const TORN_TEXTS = ['{"torn', ''];

/** Writes a text into a column of the row that the condition names. */
export type DamageRow = (
  table: 'approvals' | 'signals',
  column: string,
  where: string,
  text: string,
) => Promise<void>;

const yes: Decision = { decision: 'approved', who: 'me', channel: 'cli', why: 'fine' };
const no: Decision = { ...yes, decision: 'denied' };

/** Checks that one damaged approval hides no other, is reported, and cannot be approved. */
export async function expectDamagedApproval(
  store: Store,
  thread: string,
  damage: DamageRow,
  column: 'binding' | 'shown' | 'answer',
  odd: string,
): Promise<void> {
  const ask = (name: string): NewApproval => ({
    id: `${thread}_${name}`,
    kind: 'capability',
    binding: { capability: name },
    shown: { text: 'may I' },
  });
  const [open, given, whole] = [ask('open'), ask('given'), ask('whole')];
  const writer = await begin(store, thread);
  await writer.must({ ask: [open, given, whole] });
  for (const { id } of [given, whole]) must(await store.decide(id, { ...yes, answer: 'words' }));
  for (const { id } of [open, given]) await damage('approvals', column, `id = '${id}'`, odd);
  const rows = new Map(must(await store.approvals({ thread })).map((row) => [row.id, row]));
  const named = (id: string, state: Approval['state']) => {
    const question = expect.stringContaining(`approval \`${id}\` is damaged: its \`${column}\``);
    expect(rows.get(id)).toMatchObject({ state, binding: {}, shown: { question } });
  };
  named(open.id, 'pending');
  named(given.id, 'denied');
  expect(rows.get(whole.id)).toMatchObject({ ...whole, state: 'approved', answer: 'words' });
  const approved = must(await store.approvals({ thread, state: 'approved' }));
  expect(approved.map(({ id }) => id)).toEqual([whole.id]);
  for (const binding of [given.binding, {}]) {
    const used = await writer.commit({ use: [{ approval: given.id, binding }] });
    expect(['permission_denied', 'approval_denied']).toContain(codeOf(used));
  }
  await writer.must({ use: [{ approval: whole.id, binding: whole.binding }] });
  expect(await store.decide(open.id, yes)).toMatchObject({
    error: { code: 'conflict', detail: { approval: open.id } },
  });
  // The same request can be created again, because a damaged one can never be approved.
  const anew = await writer.must({ ask: [{ ...open, id: `${open.id}_anew` }] });
  expect(anew.approvals).toMatchObject([{ id: `${open.id}_anew`, state: 'pending' }]);
  expect(must(await store.decide(open.id, no)).state).toBe('denied');
}

/** Checks that one damaged signal hides no other and stops no commit. Its reason names it. */
export async function expectDamagedSignal(
  store: Store,
  thread: string,
  damage: DamageRow,
  odd: string,
): Promise<void> {
  const writer = await begin(store, thread);
  for (const [key, kind] of Object.entries({ a: 'inject', b: 'pause', c: 'inject' })) {
    must(await store.signal({ thread, kind, payload: { content: key }, key, by: 'me' }));
  }
  await damage('signals', 'payload', `thread = '${thread}' AND number = 2`, odd);
  const expected = [
    { number: 1, payload: { content: 'a' } },
    {
      number: 2,
      kind: 'pause',
      payload: { reason: 'signal 2 (`pause`) is damaged: its payload is not JSON' },
    },
    { number: 3, payload: { content: 'c' } },
  ];
  expect(must(await store.signals(thread))).toMatchObject(expected);
  expect((await writer.must()).signals).toMatchObject(expected);
  expect(codeOf(await writer.commit({ expect: { seq: 0, epoch: 0, quiet: true } }))).toBe(
    'signalled',
  );
}
