// Cases 1-8 and 44 of the port: the fence, the journal, and commits that share a group.
import { isObject, type Json, type JsonObject } from '@kernmantle/core/base';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import type {
  Commit,
  EventFields,
  Store,
  StoredEvent,
  WantedFields,
} from '../../../packages/core/src/store/port.ts';
import { runs } from '../soak.ts';
import {
  aCommit,
  aThread,
  begin,
  codeOf,
  event,
  must,
  type OpenStage,
  owner,
  pictureOf,
  type Stage,
  TTL,
  type Writer,
  writerOf,
} from './stage.ts';

export type InStage = (work: (stage: Stage) => Promise<void>) => () => Promise<void>;

export const staged =
  (open: OpenStage): InStage =>
  (work) =>
  async () => {
    const stage = await open();
    try {
      await work(stage);
    } finally {
      await stage.close();
    }
  };

const numbers = (events: readonly StoredEvent[]): number[] => events.map(({ seq }) => seq);
const upTo = (count: number): number[] => Array.from({ length: count }, (_, index) => index + 1);

/** Runs one of several writers of a thread: it claims, commits and crashes. */
async function writeShared(
  store: Store,
  thread: string,
  name: string,
  crashes: readonly boolean[],
): Promise<void> {
  const left: Promise<unknown>[] = [];
  for (const crashesHere of crashes) {
    const claimed = await store.claim(thread, owner(name), { force: true });
    if (!claimed.ok) continue;
    const writer = writerOf(store, claimed.output);
    await writer.commit({ events: [event(name), event(name)] });
    // A crash releases no lease and does not wait for the last answer.
    if (crashesHere) left.push(writer.commit());
    else if ((await writer.commit()).ok) await store.release(writer);
  }
  await Promise.all(left);
}

/** A commit whose parts would each be a reason for a refusal. */
const REFUSED: Record<string, Partial<Commit>> = {
  settle: { settle: [{ key: 'unknown', actual: {} }] },
  raise: { raise: { tokens: 1n } },
  charge: { charge: { tokens: 10n ** 9n } },
  reserve: { reserve: [{ key: 'k', amounts: { tokens: 10n ** 9n } }] },
  child: { children: [aThread('taken')] },
  childReserve: {
    children: [aThread('new', { reserve: [{ key: 'k', amounts: { tokens: 10n ** 9n } }] })],
  },
  use: { use: [{ approval: 'ap_none', binding: {} }] },
  secret: { secrets: [{ number: 1, sealed: Buffer.from('other') }] },
  quiet: { expect: { seq: 0, epoch: 0, quiet: true } },
};

/** Parts that a commit writes unless it is refused. */
const WRITTEN: Record<string, Partial<Commit>> = {
  status: { status: 'waiting' },
  cost: { cost: { turns: 3 } },
  result: { result: { done: true } },
  attempt: { attempt: 4 },
  heard: { acknowledged: 1 },
  settle: { settle: [{ key: 'open', actual: { tokens: 5n } }] },
  charge: { charge: { spawns: 1n } },
  reserve: { reserve: [{ key: 'more', amounts: { tokens: 1n } }] },
  children: { children: [aThread('born')] },
  tell: { tell: [{ thread: 'taken', kind: 'message', payload: {}, key: 'm', by: 'me' }] },
  ask: { ask: [{ id: 'ap_new', kind: 'question', binding: { q: 1 }, shown: {} }] },
  secrets: { secrets: [{ number: 2, sealed: Buffer.from('sealed') }] },
  audit: {
    audit: [
      {
        surface: 's',
        caller: 'c',
        subject: 's',
        operation: 'o',
        target: 't',
        decision: 'denied',
        reason: 'r',
      },
    ],
  },
  release: { release: true },
};

async function settledStage(store: Store): Promise<Writer> {
  await begin(store, 'taken');
  const writer = await begin(store, 't', { budget: { tokens: 100n, spawns: 5n } });
  await writer.must({
    reserve: [{ key: 'open', amounts: { tokens: 10n } }],
    secrets: [{ number: 1, sealed: Buffer.from('first') }],
  });
  must(await store.signal({ thread: 't', kind: 'message', payload: 1, key: 'k', by: 'me' }));
  return writer;
}

function refusals(inStage: InStage): void {
  test(
    'a wrong sequence is a conflict and changes nothing',
    inStage(async ({ store }) => {
      const writer = await begin(store, 't');
      await writer.must();
      const before = await pictureOf(store, ['t']);
      for (const seq of [writer.seq - 1, writer.seq + 1]) {
        const answer = await store.commit('t', aCommit({ ...writer, seq }, { status: 'failed' }));
        expect(codeOf(answer)).toBe('conflict');
      }
      expect(await pictureOf(store, ['t'])).toBe(before);
    }),
  );

  test(
    'an old epoch is stale, also when the sequence fits',
    inStage(async ({ store, another }) => {
      const writer = await begin(store, 't');
      const other = await another();
      must(await other.claim('t', owner('there'), { force: true }));
      expect(codeOf(await writer.commit())).toBe('stale_epoch');
      const unknown = await store.commit('nobody', aCommit({ seq: 0, epoch: 1 }));
      expect(codeOf(unknown)).toBe('not_found');
    }),
  );

  test(
    'a lease that ran out refuses although nobody came, until it is renewed',
    inStage(async ({ store, clock }) => {
      const writer = await begin(store, 't');
      clock.pass(TTL - 1);
      expect((await writer.must()).lease_ms).toBe(1);
      clock.pass(1);
      expect(codeOf(await writer.commit())).toBe('lease_expired');
      must(await store.renew([writer], TTL));
      expect((await writer.must()).lease_ms).toBe(TTL);
    }),
  );

  test(
    'a commit without events is refused',
    inStage(async ({ store }) => {
      const writer = await begin(store, 't');
      const events = [] as unknown as Commit['events'];
      expect(codeOf(await writer.commit({ events, status: 'failed' }))).toBe('invalid_input');
      expect(must(await store.thread('t')).status).toBe('running');
    }),
  );

  test(
    'an event that is too large is refused, the rest of the group is written',
    inStage(async ({ store }) => {
      const writers = [await begin(store, 'a'), await begin(store, 'b'), await begin(store, 'c')];
      const answers = await Promise.all(
        writers.map((writer, index) =>
          writer.commit({ events: [event(index === 1 ? 'x'.repeat(9_000_000) : 'small')] }),
        ),
      );
      expect(answers.map(codeOf)).toEqual(['ok', 'invalid_input', 'ok']);
      expect(must(await store.thread('b')).seq).toBe(1);
      const cyclic: { self?: unknown } = {};
      cyclic.self = cyclic;
      const strange = [{ type: 'note', data: cyclic as never }] as const;
      expect(codeOf(await (writers[1] as Writer).commit({ events: strange }))).toBe(
        'invalid_input',
      );
    }),
  );
}

const crashPlans = fc.array(fc.array(fc.boolean(), { minLength: 1, maxLength: 5 }), {
  minLength: 1,
  maxLength: 8,
});

function properties(inStage: InStage): void {
  test(
    'numbers have no gap, whoever writes and crashes',
    inStage(async ({ store, another }) => {
      const other = await another();
      let run = 0;
      await fc.assert(
        fc.asyncProperty(crashPlans, async (plans) => {
          run += 1;
          const id = `t${run}`;
          must(await store.createThread(aThread(id)));
          await Promise.all(
            plans.map((crashes, index) =>
              writeShared(index % 2 === 0 ? store : other, id, `w${index}`, crashes),
            ),
          );
          const { seq } = must(await store.thread(id));
          expect(numbers(must(await store.read(id)))).toEqual(upTo(seq));
        }),
        { numRuns: runs(12) },
      );
    }),
  );

  test(
    'a refused commit leaves no trace, whatever it carries',
    inStage(async ({ store }) => {
      const [bad, good] = [fc.constantFrom(...Object.keys(REFUSED)), Object.keys(WRITTEN)];
      const writer = await settledStage(store);
      const all = ['t', 'taken', 'born', 'new'];
      await fc.assert(
        fc.asyncProperty(bad, fc.subarray(good), async (refused, carried) => {
          const before = await pictureOf(store, all);
          const parts = carried.map((name) => WRITTEN[name] ?? {});
          // An acknowledged signal does not count as pending, so a quiet commit would be accepted.
          const quiet = refused === 'quiet' ? { acknowledged: 0 } : {};
          const own: Partial<Commit> = Object.assign({}, ...parts, REFUSED[refused], quiet);
          expect(codeOf(await writer.commit(own))).not.toBe('ok');
          expect(await pictureOf(store, all)).toBe(before);
        }),
        { numRuns: runs(60) },
      );
      await writer.must();
    }),
  );
}

/** Writes the same number into every row. A reader must never see two numbers. */
async function writeAlike(writer: Writer, count: number): Promise<void> {
  for (let n = 1; n <= count; n++) {
    const key = `k${n}`;
    await writer.must({ reserve: [{ key, amounts: { tokens: 1n } }], cost: { n }, result: { n } });
    await writer.must({
      settle: [{ key, actual: { tokens: 1n } }],
      status: n % 2 === 0 ? 'running' : 'terminating',
      cost: { n },
      result: { n },
    });
    await new Promise((resolve) => setImmediate(resolve));
  }
}

/** Returns the value at this path. Null if the path does not exist. */
function valueAt(data: JsonObject, path: readonly string[]): Json {
  let value: Json = data;
  for (const name of path) value = (isObject(value) ? value[name] : null) ?? null;
  return value;
}

function together(inStage: InStage): void {
  test(
    'events, status, cost, result and what was used appear together to a reader',
    inStage(async ({ store, another }) => {
      const other = await another();
      const writer = await begin(store, 't', { budget: { tokens: 1000n } });
      const state = { isDone: false };
      const work = writeAlike(writer, runs(60)).finally(() => {
        state.isDone = true;
      });
      let seen = 0;
      while (!state.isDone) {
        const { seq, cost, result, status } = must(await other.thread('t'));
        const n = Number(cost['n'] ?? 0);
        expect(result).toEqual(n === 0 ? undefined : { n });
        // Each number has two commits, after the first event of the thread.
        const isSecond = (seq - 1) % 2 === 0;
        expect(Math.ceil((seq - 1) / 2)).toBe(n);
        if (n > 0 && isSecond) expect(status).toBe(n % 2 === 0 ? 'running' : 'terminating');
        const [state] = must(await other.budgets(['t']));
        const total = Number((state?.used.tokens ?? 0n) + (state?.reserved.tokens ?? 0n));
        expect(total).toBeGreaterThanOrEqual(n);
        seen += 1;
        await new Promise((resolve) => setImmediate(resolve));
      }
      await work;
      expect(seen).toBeGreaterThan(1);
      const [last] = must(await other.budgets(['t']));
      expect(last?.used.tokens).toBe(BigInt(runs(60)));
      expect(last?.reserved.tokens).toBe(0n);
    }),
  );

  test(
    'parallel commits of 200 threads keep their order, and a bad one fails alone',
    inStage(async ({ store }) => {
      const names = Array.from({ length: 200 }, (_, index) => `t${index}`);
      const writers = await Promise.all(
        names.map((name) => begin(store, name, { budget: { tokens: 5n } })),
      );
      const work = writers.map(async (writer, index) => {
        for (let round = 0; round < 5; round++) {
          const isBad = index % 7 === 0 && round === 2;
          const amounts = { tokens: isBad ? 100n : 1n };
          const reserve = [{ key: `${index}.${round}`, amounts }];
          const answer = await writer.commit({ events: [event(`${round}`)], reserve });
          expect(codeOf(answer)).toBe(isBad ? 'tokens_exceeded' : 'ok');
          // After the answer, a read finds the commit.
          expect(must(await store.thread(writer.thread)).seq).toBe(writer.seq);
        }
      });
      await Promise.all(work);
      for (const [index, { thread }] of writers.entries()) {
        const events = must(await store.read(thread, { after: 1 }));
        const rounds = index % 7 === 0 ? ['0', '1', '3', '4'] : ['0', '1', '2', '3', '4'];
        expect(events.map(({ data }) => data['text'])).toEqual(rounds);
      }
    }),
  );

  test(
    'commits and the end of a lease that were asked for in order are made in order',
    inStage(async ({ store }) => {
      const writer = await begin(store, 't');
      const { seq, epoch } = writer;
      const answers = await Promise.all([
        store.commit('t', aCommit({ seq, epoch })),
        store.commit('t', aCommit({ seq: seq + 1, epoch })),
        store.release(writer),
        store.commit('t', aCommit({ seq: seq + 2, epoch })),
      ]);
      expect(answers.map(codeOf)).toEqual(['ok', 'ok', 'ok', 'lease_expired']);
    }),
  );

  test(
    'a journal of more than one page is read whole, page by page, and from its end',
    inStage(async ({ store }) => {
      const writer = await begin(store, 't');
      const many = Array.from({ length: 5250 }, (_, index) => event(`${index}`));
      await writer.must({ events: [event('first'), ...many] });
      await writer.must({ events: [event('second'), ...many] });
      const pages: StoredEvent[] = [];
      for (;;) {
        const page = must(await store.read('t', { after: pages.at(-1)?.seq ?? 0 }));
        expect(page.length).toBeLessThanOrEqual(10_000);
        if (page.length === 0) break;
        pages.push(...page);
      }
      expect(numbers(pages)).toEqual(upTo(10_503));
      expect(numbers(must(await store.read('t', { last: 2 })))).toEqual([10_502, 10_503]);
      const [first] = must(await store.read('t', { after: 1, limit: 1 }));
      const counted = (threads: string[], type = first?.type ?? '') =>
        store.countEvents(threads, type);
      expect(must(await counted(['t']))).toBe(10_502);
      expect(must(await counted(['t', 'nobody']))).toBe(10_502);
      expect(must(await counted(['t'], 'nothing'))).toBe(0);
      expect(must(await counted([]))).toBe(0);
      expect(numbers(must(await store.read('t', { after: 5, limit: 2 })))).toEqual([6, 7]);
      const ofTypes = async (types: string[], after = 0) =>
        numbers(must(await store.read('t', { after, limit: 3, types })));
      expect(await ofTypes(['status'])).toEqual([1]);
      expect(await ofTypes(['status', first?.type ?? ''])).toEqual([1, 2, 3]);
      expect(await ofTypes(['status', first?.type ?? ''], 7)).toEqual([8, 9, 10]);
      expect(await ofTypes(['nothing'])).toEqual([]);
      expect(await ofTypes([])).toEqual([]);
    }),
  );
  test(
    'fields of many journals are those of the whole events',
    inStage(async ({ store }) => {
      const name = fc.constantFrom('model', 'spend', 'a"b', "c'd", '', 'no\\ne', 'é\u0000');
      const small = fc.jsonValue({ maxDepth: 1 });
      const few = { maxKeys: 3 };
      const nested = fc.dictionary(name, fc.oneof(small, fc.dictionary(name, small, few)), few);
      const data = fc.dictionary(name, fc.oneof(small, nested));
      const some = fc.tuple(fc.constantFrom('one', 'two', "th'ree"), data);
      const rows = fc.sample(fc.array(some, { maxLength: 12 }), { numRuns: 8, seed: 11 });
      const ids = rows.map((_, at) => `t${at}`);
      for (const [at, id] of ids.entries()) {
        const writer = await begin(store, id);
        const events = (rows[at] ?? []).map(([type, given]) => ({
          type,
          data: JSON.parse(JSON.stringify(given)) as JsonObject,
        }));
        await writer.must({ events: [event('first'), ...events] });
      }
      const asked = [...ids.toReversed(), 'nobody'];
      const odd = [['spend'], ['a"b', 'model'], ["c'd"], [''], ['model', '', 'model'], ['no\\ne']];
      const wishes: WantedFields[] = [
        { one: [['model']], "th'ree": odd },
        { "th'ree": [['é\u0000', 'spend']], two: [], one: [['a"b'], ['a"b', 'spend', 'model']] },
      ];
      for (const wanted of wishes) {
        const whole: EventFields[][] = [];
        for (const id of asked) {
          const events = must(await store.read(id, { types: Object.keys(wanted) }));
          whole.push(
            events.map(({ type, data: all }) => ({
              type,
              values: (wanted[type] ?? []).map((path) => valueAt(all, path)),
            })),
          );
        }
        expect(must(await store.fieldsOf(asked, wanted))).toEqual(whole);
      }
      expect(must(await store.fieldsOf([], { one: [['model']] }))).toEqual([]);
    }),
  );
}

export function journalCases(open: OpenStage): void {
  const inStage = staged(open);
  refusals(inStage);
  properties(inStage);
  together(inStage);
}
