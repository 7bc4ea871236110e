// Cases about commits that a store refuses: the reported problem, and the meaning of an absent limit.
import { expect, test } from 'vitest';
import type { Commit, Store } from '../../../packages/core/src/store/port.ts';
import { staged } from './journal-cases.ts';
import { aCommit, aThread, bear, begin, codeOf, must, type OpenStage, pictureOf } from './stage.ts';

type Part = Partial<Omit<Commit, 'expect'>> & { expect?: Partial<Commit['expect']> };

const question = { kind: 'question', shown: {} } as const;
const secret = (byte: number) => [{ number: 1, sealed: Uint8Array.of(byte) }];

/** Problems of a commit. The port reports the first of these that a commit has. */
const PROBLEMS: readonly (readonly [code: string, part: Part])[] = [
  ['stale_epoch', { expect: { epoch: 9 } }],
  ['conflict', { expect: { seq: 9 } }],
  ['signalled', { expect: { quiet: true } }],
  ['thread_exists', { children: [aThread('child')] }],
  ['not_found', { settle: [{ key: 'none', actual: {} }] }],
  ['invalid_input', { raise: { spend: 1n } }],
  ['tokens_exceeded', { charge: { tokens: 11n } }],
  ['input_tokens_exceeded', { reserve: [{ key: 'own', amounts: { input_tokens: 11n } }] }],
  [
    'output_tokens_exceeded',
    { children: [aThread('new', { reserve: [{ key: 'c', amounts: { output_tokens: 11n } }] })] },
  ],
  ['conflict', { secrets: secret(2) }],
  ['invalid_input', { ask: [{ ...question, id: 'ap_1', binding: { q: 2 } }] }],
  ['invalid_input', { ask: [{ ...question, id: 'ap_2', binding: { q: 2 }, thread: 'other' }] }],
  ['approval_pending', { use: [{ approval: 'ap_1', binding: { q: 1 } }] }],
  ['not_found', { use: [{ approval: 'ap_0', binding: { q: 1 } }] }],
];

const both = <T>(a: readonly T[] = [], b: readonly T[] = []): T[] => [...a, ...b];

/** Returns one commit with the problems of two. */
function joined(a: Part, b: Part): Part {
  const lists = {
    ...(a.children && b.children && { children: both(a.children, b.children) }),
    ...(a.ask && b.ask && { ask: both(a.ask, b.ask) }),
    ...(a.use && b.use && { use: both(a.use, b.use) }),
  };
  return { ...a, ...b, ...lists, expect: { ...a.expect, ...b.expect } };
}

/** Creates a thread with every one of the problems, and another thread outside its tree. */
async function prepare(store: Store) {
  await begin(store, 'other');
  const writer = await begin(store, 't', {
    budget: { tokens: 10n, input_tokens: 10n, output_tokens: 10n },
    secrets: secret(1),
  });
  await bear(store, writer, 'child');
  await writer.must({ ask: [{ ...question, id: 'ap_1', binding: { q: 1 } }] });
  must(await store.signal({ thread: 't', kind: 'message', payload: 1, key: 'k', by: 'me' }));
  const { epoch, seq } = writer;
  return ({ expect: more, ...part }: Part) => {
    const commit = aCommit({ epoch, seq }, part);
    return store.commit('t', { ...commit, expect: { ...commit.expect, ...more } });
  };
}

export function refusalCases(open: OpenStage): void {
  const inStage = staged(open);

  test(
    'a commit with two problems reports the first one of the port',
    inStage(async ({ store }) => {
      const commit = await prepare(store);
      const before = await pictureOf(store, ['t', 'child', 'other']);
      for (const [at, [code, part]] of PROBLEMS.entries()) {
        const alone = await commit(part);
        expect(codeOf(alone)).toBe(code);
        for (const [later, second] of PROBLEMS.slice(at + 1)) {
          expect(await commit(joined(part, second)), `${code}, ${later}`).toEqual(alone);
        }
      }
      expect(await pictureOf(store, ['t', 'child', 'other'])).toBe(before);
    }),
  );

  test(
    'a kind without a limit is not limited, and cannot be raised',
    inStage(async ({ store }) => {
      const root = await begin(store, 'root', { budget: { tokens: 10n } });
      const child = await bear(store, root, 'child');
      expect(await child.commit({ raise: { tokens: 99n } })).toMatchObject({
        error: {
          code: 'invalid_input',
          detail: {
            message: 'the tokens limit of thread `child` is none and cannot become 99',
            thread: 'child',
            limit: 'tokens',
          },
        },
      });
      const amounts = { spend: 10n ** 18n };
      await child.must({ charge: amounts, reserve: [{ key: 'k', amounts }] });
      expect(must(await store.budgets(['child', 'root']))).toMatchObject([
        { limits: {}, used: amounts, reserved: amounts },
        { limits: { tokens: 10n }, used: amounts, reserved: amounts },
      ]);
    }),
  );

  test(
    'a journal has as many events as its store allows',
    inStage(async ({ store, maxEvents, setSeq }) => {
      const writer = await begin(store, 't');
      writer.seq = (maxEvents ?? 2 ** 24) - 1;
      await setSeq('t', writer.seq);
      await writer.must();
      const before = await pictureOf(store, ['t']);
      const next = await writer.commit();
      expect(codeOf(next)).toBe(maxEvents === undefined ? 'ok' : 'invalid_input');
      expect((await pictureOf(store, ['t'])) === before).toBe(maxEvents !== undefined);
    }),
  );
}
