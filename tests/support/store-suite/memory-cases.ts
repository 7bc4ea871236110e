// Cases of the rows of memory: bounds, marks, endorsement, expiry and concurrent writers.
import { expect, test } from 'vitest';
import { memoryHash, type NewMemory } from '../../../packages/core/src/store/memory.ts';
import { type InStage, staged } from './journal-cases.ts';
import { codeOf, must, type OpenStage } from './stage.ts';

const CLEAN = { labels: [], taint: ['src:llm', 'src:user'], sources: ['tool:a'] };
const FOREIGN = { labels: ['untrusted'], taint: ['untrusted', 'src:network'], sources: ['tool:b'] };
const place = { tenant: '', project: 'p', scope: 'project', owner: '' } as const;
const note = (text: string, more: Partial<NewMemory> = {}): NewMemory => ({
  ...place,
  text,
  subject: '',
  marks: CLEAN,
  thread: 't',
  seq: 1,
  expires: null,
  endorsed_by: null,
  ...more,
});
function rows(inStage: InStage): void {
  test(
    'a row is found in its own place only, and the same write makes one row',
    inStage(async ({ store, clock, another }) => {
      const other = await another();
      const row = must(await store.changeMemory({ kind: 'write', row: note('one') }));
      clock.pass(5);
      must(await other.changeMemory({ kind: 'write', row: note('one') }));
      const elsewhere = [
        { tenant: 'other' },
        { project: 'q' },
        { scope: 'directive', owner: 'd' },
        { scope: 'user' },
      ] as const;
      for (const more of elsewhere) {
        must(await store.changeMemory({ kind: 'write', row: note('else', more) }));
      }
      const found = must(await other.memories(place));
      expect(found).toEqual([{ ...row, created: row.created + 5 }]);
      const all = must(await store.memories({ tenant: '', project: 'p' }));
      expect(all.map(({ scope }) => scope).toSorted()).toEqual(['directive', 'project', 'user']);
      expect(must(await store.memories({ ...place, id: row.id }))).toHaveLength(1);
      expect(must(await store.memories({ ...place, id: "x' OR '1'='1" }))).toEqual([]);
      const key = { tenant: '', project: 'q', id: row.id };
      expect(codeOf(await store.changeMemory({ kind: 'forget', key }))).toBe('not_found');
      must(await store.changeMemory({ kind: 'forget', key: { ...key, project: 'p' } }));
      expect(must(await store.memories(place))).toEqual([]);
    }),
  );

  test(
    'a row that is replaced keeps its marks and loses the word of a person',
    inStage(async ({ store }) => {
      const write = (row: NewMemory) => store.changeMemory({ kind: 'write', row });
      const first = must(await write(note('a', { subject: 's', marks: FOREIGN })));
      const key = { tenant: '', project: 'p', id: first.id };
      const hash = memoryHash(first);
      const endorse = () => store.changeMemory({ kind: 'endorse', key, hash, by: 'ann' });
      expect(must(await endorse()).endorsed_by).toEqual({ how: 'endorsed', by: 'ann', hash });
      // The same text with the same marks is the same row.
      expect(must(await write(note('a', { subject: 's', marks: FOREIGN }))).endorsed_by?.how).toBe(
        'endorsed',
      );
      const second = must(await write(note('b', { subject: 's' })));
      expect(second.id).toBe(first.id);
      expect(second.endorsed_by).toBeNull();
      expect(second.marks).toEqual({
        labels: ['untrusted'],
        taint: ['src:llm', 'src:network', 'src:user', 'untrusted'],
        sources: ['tool:a', 'tool:b'],
      });
      expect(codeOf(await endorse())).toBe('conflict');
      expect(must(await store.memories(place))).toEqual([second]);
    }),
  );

  test(
    'a row ends at its time, and a prune removes it',
    inStage(async ({ store, clock }) => {
      const expires = clock.now() + 1000;
      must(await store.changeMemory({ kind: 'write', row: note('short', { expires }) }));
      must(await store.changeMemory({ kind: 'write', row: note('long') }));
      expect(must(await store.memories(place))).toHaveLength(2);
      clock.pass(1001);
      expect(must(await store.memories(place)).map(({ text }) => text)).toEqual(['long']);
      must(await store.prune({ before: 0 }));
      expect(must(await store.memories(place))).toHaveLength(1);
    }),
  );
}

function bounds(inStage: InStage): void {
  test(
    'a full place refuses a new row and takes a changed one',
    inStage(async ({ store }) => {
      const write = (row: NewMemory) => store.changeMemory({ kind: 'write', row });
      // 2 MB are reached with few large rows. Marks count too.
      const sources = Array.from({ length: 100 }, (_, at) => `file:${at}${'x'.repeat(5000)}`);
      const large = { marks: { ...CLEAN, sources } };
      let refused = 'ok';
      let count = 0;
      while (refused === 'ok' && count < 10) {
        refused = codeOf(await write(note(`${count}`, large)));
        if (refused === 'ok') count += 1;
      }
      expect([refused, count]).toEqual(['quota_exceeded', 4]);
      must(await write(note('0', large)));
      must(await write(note('elsewhere', { ...large, scope: 'directive', owner: 'd' })));
    }),
  );

  test(
    'two writers lose nothing and never exceed a bound together',
    inStage(async ({ store, another }) => {
      const stores = [store, await another()];
      const sources = [`file:${'x'.repeat(100_000)}`];
      const results = await Promise.all(
        stores.flatMap((one, at) =>
          Array.from({ length: 15 }, (_, number) => {
            const row = note(`${at} ${number}`, { marks: { ...CLEAN, sources } });
            return one.changeMemory({ kind: 'write', row });
          }),
        ),
      );
      const refused = results.filter((one) => !one.ok).map(codeOf);
      expect(refused).toEqual(Array.from({ length: 10 }, () => 'quota_exceeded'));
      const written = results.flatMap((one) => (one.ok ? [one.output.id] : []));
      const found = must(await store.memories(place)).map(({ id }) => id);
      expect(new Set(found)).toEqual(new Set(written));
    }),
  );
}

export function memoryCases(open: OpenStage): void {
  const inStage = staged(open);
  rows(inStage);
  bounds(inStage);
}
