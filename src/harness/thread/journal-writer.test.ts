import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate as roundOver } from 'node:timers/promises';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { fail, type Outcome, ok, systemClock } from '../../base/index.ts';
import { openStore, type Store } from '../../store/index.ts';
import type { JournalEvent } from './journal-event.ts';
import { createJournalWriter, type JournalWriter } from './journal-writer.ts';

const ID = 'a_thread';
let dir: string;
let store: Store;
let journal: JournalWriter;
let told: string[];

function must<T>(outcome: Outcome<T>): T {
  if (!outcome.ok) throw new Error(outcome.error.detail.message);
  return outcome.output;
}

const open = (atOnce = false): JournalWriter =>
  createJournalWriter(
    ID,
    { seq: 0, epoch: 1, turn: 1 },
    {
      store,
      atOnce,
      transcribe: (events, first) =>
        void told.push(...events.map(({ type }, index) => `${first + index} ${type}`)),
    },
  );

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'km-log-'));
  store = must(openStore({ file: join(dir, 'registry.db'), clock: systemClock }));
  must(
    store.createThread(
      {
        id: ID,
        directive: 'd',
        version: '1.0.0',
        runner: 'safety',
        project: '/project',
        limits: {},
        budget: { tokens: 100n },
        inputs: {},
      },
      { lease: { owner: 'me', ttlMs: 30_000 } },
    ),
  );
  told = [];
  journal = open();
});
afterEach(() => {
  store.close();
  rmSync(dir, { recursive: true });
});

const marks = { labels: [], taint: [], sources: [] };
const EVENTS = {
  tool_result: {
    type: 'tool_result',
    data: { call_id: 'c', content: null, is_error: false, marks },
  },
  assistant_message: { type: 'assistant_message', data: { content: [], injected: true } },
  turn_start: {
    type: 'turn_start',
    data: { max_tokens: 1, model: 'm', provider: 'p', key: 'k' },
  },
  snapshot: { type: 'snapshot', data: { reason: '' } },
} satisfies Record<string, JournalEvent>;

const soon = (type: keyof typeof EVENTS) =>
  journal.appendSoon([EVENTS[type]], { cost: { of: type } });
const written = (): string[] => must(store.read(ID)).map(({ type }) => type);
const cost = () => must(store.thread(ID)).cost;

test('what is to be written soon goes in with the next event, before it, and is told then', () => {
  must(soon('assistant_message'));
  expect([written(), told, journal.seq()]).toEqual([[], [], 1]);
  must(journal.note(EVENTS.snapshot));
  expect(written()).toEqual(['assistant_message', 'snapshot']);
  expect(told).toEqual(['1 assistant_message', '2 snapshot']);
  expect(cost()).toEqual({ of: 'assistant_message' });
  expect(journal.seq()).toBe(2);
});

test('with nothing after it, it is written by the end of the round', async () => {
  must(soon('tool_result'));
  await roundOver();
  expect(written()).toEqual(['tool_result']);
});

test('flush writes it now, and says whether this process may still act', () => {
  must(soon('tool_result'));
  expect(journal.flush()).toBe(true);
  expect(written()).toEqual(['tool_result']);
  must(store.claim(ID, 'another', 30_000, { force: true }));
  must(soon('tool_result'));
  expect(journal.flush()).toBe(false);
  expect(journal.lost()?.error.code).toBe('stale_epoch');
  expect(written()).toEqual(['tool_result']);
  expect(soon('tool_result').ok).toBe(false);
});

test('an event that is refused beforehand takes nothing with it that was waiting', () => {
  must(soon('tool_result'));
  const refused = journal.note(EVENTS.turn_start, {
    first: () => fail('spend_exceeded', 'no more'),
  });
  expect(refused).toMatchObject({ error: { code: 'spend_exceeded' } });
  expect(written()).toEqual(['tool_result']);
  expect(journal.lost()).toBeUndefined();
  must(journal.note(EVENTS.snapshot));
  expect(written()).toEqual(['tool_result', 'snapshot']);
});

test('what was used is charged before more is set aside', () => {
  must(store.reserve([ID], { tokens: 90n }, 'first'));
  const settle = [{ key: 'first', actual: { tokens: 10n } }];
  must(journal.appendSoon([EVENTS.assistant_message], { settle }));
  const first = () => store.reserve([ID], { tokens: 90n }, 'second');
  expect(journal.note(EVENTS.turn_start, { first })).toEqual(ok(null));
  expect(written()).toEqual(['assistant_message', 'turn_start']);
});

test('what is charged by two that wait is charged by both', () => {
  for (const key of ['first', 'second']) {
    must(store.reserve([ID], { tokens: 40n }, key));
    const settle = [{ key, actual: { tokens: 5n } }];
    must(journal.appendSoon([EVENTS.assistant_message], { settle }));
  }
  journal.flush();
  expect(must(store.budget(ID))).toMatchObject({ used: { tokens: 10n }, reserved: { tokens: 0n } });
});

test('a journal that writes at once lets nothing wait', () => {
  journal = open(true);
  must(soon('tool_result'));
  expect(written()).toEqual(['tool_result']);
});
