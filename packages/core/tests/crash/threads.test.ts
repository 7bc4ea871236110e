// Processes that are killed at any moment, while hooks write and ask and a person decides in between:
// nothing acknowledged is lost, no side effect is repeated, every child and every hook is there once and
// known to its parent, books are what the provider counts, and the whole tree goes on.
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { endLives, kill, live, openRegistry, rowsOf } from '@kernmantle/test-support/crash-driver';
import {
  type CrashStage,
  crashStage,
  EXPECTED,
  linesOf,
  probeTools,
  TOKENS,
} from '@kernmantle/test-support/crash-project';
import { expectSame } from '@kernmantle/test-support/expect-same';
import { budgetOf } from '@kernmantle/test-support/registry-reads';
import { isSoak, timeoutMs } from '@kernmantle/test-support/soak';
import { afterEach, expect, test } from 'vitest';
import { getOwn, type JsonObject, plainText } from '../../src/base/index.ts';
import { isInTranscript } from '../../src/journal/index.ts';
import { formatMoney, parseMoney } from '../../src/llm/index.ts';
import {
  readTranscript,
  type Store,
  type StoredEvent,
  type ThreadRow,
} from '../../src/store/index.ts';

const KILLS = isSoak ? [30, 200] : [8];

let made: CrashStage | undefined;
afterEach(async () => {
  await endLives();
  await made?.provider.close();
  made?.fixture.remove();
});

const eventCount = (rows: readonly ThreadRow[]): number =>
  rows.reduce((sum, { seq }) => sum + seq, 0);
/** Each is replayed from its beginning: all of them in the long form, else enough to find what is not the same. */
const REPLAYS = isSoak ? undefined : 40;
const chance = (below: number): number => Math.floor(Math.random() * below);

/** Lives until a random moment: a number of events, and then a little longer. */
async function liveAndDie(stage: CrashStage, store: Store): Promise<void> {
  const before = eventCount(await rowsOf(store));
  const life = live(stage);
  await life.said('up');
  await life.said('event', chance(40));
  await sleep(chance(12));
  await kill(life);
  const acknowledged = life.lines.filter((line) => line.startsWith('event ')).length;
  expect(eventCount(await rowsOf(store))).toBeGreaterThanOrEqual(before + acknowledged);
}

/** A person says yes or no to whatever is asked; no to a call would leave it undone. */
async function decideAll(store: Store): Promise<void> {
  const asked = await store.approvals({ state: 'pending' });
  for (const { id, kind } of asked.ok ? asked.output : []) {
    const decision = kind === 'question' && chance(2) === 0 ? 'denied' : 'approved';
    const done = await store.decide(id, { decision, who: 'ann', channel: 'cli', why: 'so' });
    expect(done.ok).toBe(true);
  }
}

async function journalOf(store: Store, id: string): Promise<StoredEvent[]> {
  const events = await store.read(id);
  if (!events.ok) throw new Error(events.error.detail.message);
  return events.output;
}

interface Books {
  tokens: bigint;
  spend: bigint;
}
const costOf = ({ tokens, spend }: JsonObject): Books => {
  const money = parseMoney(spend as string);
  return { tokens: BigInt(tokens as number), spend: money.ok ? money.output : -1n };
};
const sum = (list: readonly Books[]): Books => ({
  tokens: list.reduce((all, one) => all + one.tokens, 0n),
  spend: list.reduce((all, one) => all + one.spend, 0n),
});

/** What a thread itself used is its cost without its children's; with everything below it, the books. */
async function checkBooks(
  store: Store,
  rows: readonly ThreadRow[],
  row: ThreadRow,
): Promise<Books> {
  const below = rows.filter(({ parent }) => parent === row.id);
  const hooks = below.filter(({ kind }) => kind === 'hook');
  // What it shows is all that it and everybody below it used, hooks too.
  const [own, theirs] = [costOf(row.cost), sum(below.map(({ cost }) => costOf(cost)))];
  const books = [{ tokens: own.tokens - theirs.tokens, spend: own.spend - theirs.spend }];
  for (const one of below) books.push(await checkBooks(store, rows, one));
  const all = sum(books);
  const budget = await budgetOf(store, row.id);
  if (!budget.ok) throw new Error(budget.error.detail.message);
  const { used, reserved } = budget.output;
  expect(reserved, row.id).toMatchObject({ tokens: 0n, spend: 0n, spawns: 0n });
  expect({ tokens: used.tokens, spend: used.spend }, row.id).toEqual(all);
  expect(used.spawns, row.id).toBe(BigInt(row.cost.spawns as number));
  const ofHooks = sum(hooks.map(({ cost }) => costOf(cost)));
  expect(row.cost.hooks, row.id).toMatchObject({
    tokens: Number(ofHooks.tokens),
    spend: formatMoney(ofHooks.spend),
  });
  return all;
}

/** Every event that people may see, once and in order. */
async function checkTranscript({ fixture }: CrashStage, store: Store, id: string): Promise<void> {
  const read = readTranscript(join(fixture.root, '.ai', 'threads'), id);
  if (!read.ok) throw new Error(read.error.detail.message);
  expect(read.output.problems).toEqual([]);
  const shown = (await journalOf(store, id)).filter(({ type }) => isInTranscript(type));
  expect(
    read.output.lines.map(({ seq, type }) => `${seq} ${type}`),
    id,
  ).toEqual(shown.map(({ seq, type }) => `${seq} ${type}`));
}

/** Ids of calls that were said to be unknown. */
async function unknownIn(store: Store, rows: readonly ThreadRow[]): Promise<Set<string>> {
  const unknown = new Set<string>();
  for (const { id } of rows) {
    for (const { type, data } of await journalOf(store, id)) {
      const isUnknown = JSON.stringify(data.content ?? null).includes('outcome_unknown');
      if (type === 'tool_result' && isUnknown) unknown.add(plainText(data.call_id));
    }
  }
  return unknown;
}

async function checkEffects(
  stage: CrashStage,
  store: Store,
  rows: readonly ThreadRow[],
): Promise<void> {
  const runs = rows.filter(({ directive }) => directive === 'lead').length;
  const places = Array.from({ length: runs }, (_, run) => EXPECTED.places(`r${run}`)).flat();
  const atOf = (line: string): string => line.split(' ')[0] ?? '';
  for (const name of ['look', 'put']) {
    expect(new Set(linesOf(stage, name).map(atOf)), name).toEqual(new Set(places));
  }
  // Made again under the same key, and no key for two calls.
  const put = new Set(linesOf(stage, 'put'));
  expect(put.size).toBe(places.length);
  expect(new Set([...put].map((line) => line.split(' ')[1])).size).toBe(places.length);
  const written = linesOf(stage, 'write').map(atOf);
  expect(new Set(written).size).toBe(written.length);
  const unknown = await unknownIn(store, rows);
  const hooked = Array.from({ length: runs }, (_, run) => EXPECTED.hooked(`r${run}`)).flat();
  const missing = [...places, ...hooked].filter((place) => !written.includes(place));
  expect(missing.filter((place) => !unknown.has(`write_${place}`))).toEqual([]);
  // Only a write is ever unknown: a spawn finds its child.
  expect([...unknown].filter((call) => !call.startsWith('write_'))).toEqual([]);
}

async function checkTree(store: Store, rows: readonly ThreadRow[], lead: ThreadRow): Promise<void> {
  expect(lead.result).toMatchObject({ status: 'completed', text: 'all done' });
  expect(lead.cost).toMatchObject({ ...EXPECTED.lead, spawns: EXPECTED.children });
  const children = rows.filter(({ parent, kind }) => parent === lead.id && kind === 'thread');
  const journal = await journalOf(store, lead.id);
  const named = (type: string) => journal.filter((event) => event.type === type);
  const ids = new Set(children.map(({ id }) => id));
  for (const type of ['spawn', 'child_end']) {
    const told = named(type).map(({ data }) => plainText(data.thread_id));
    expect(told, type).toHaveLength(ids.size);
    expect(new Set(told), type).toEqual(ids);
  }
  const tags = new Set(children.map(({ inputs }) => plainText((inputs as JsonObject).tag)));
  expect(tags.size).toBe(EXPECTED.children);
  expect(children).toHaveLength(EXPECTED.children);
  for (const child of children) expect(child.cost).toMatchObject(EXPECTED.part);
}

/**
 * The provider's own count: every request it saw was begun by somebody, every answer that was read is
 * charged as reported, and what was begun and never read at its worst case, once.
 */
async function checkInvoice(
  { provider }: CrashStage,
  store: Store,
  rows: readonly ThreadRow[],
): Promise<void> {
  let [begun, read] = [0, 0];
  for (const row of rows) {
    const below = rows.filter(({ parent }) => parent === row.id);
    const own = costOf(row.cost).tokens - sum(below.map(({ cost }) => costOf(cost))).tokens;
    let charged = 0;
    const events = await journalOf(store, row.id);
    for (const { type, data } of events) {
      if (type === 'turn_start') begun += 1;
      // Lost with its process, or broken off when that was closed.
      if (type === 'cost_update' && data.charged_unread !== undefined) {
        charged += Number(data.tokens);
      }
      if (type === 'turn_end') charged += Number(getOwn(data.charged, 'tokens') ?? 0);
      if (type !== 'assistant_message' || data.injected === true) continue;
      read += 1;
      charged += TOKENS;
    }
    const told = events.map(({ type, data }) => `${type} ${JSON.stringify(data).slice(0, 300)}`);
    expect(own, `${row.id}\n${told.join('\n')}`).toBe(BigInt(charged));
  }
  expect(provider.count()).toBeLessThanOrEqual(begun);
  expect(provider.count()).toBeGreaterThanOrEqual(read);
}

/** However often it was left and taken up: its journal is what the harness does with what it was told. */
async function checkReplays({ fixture }: CrashStage, rows: readonly ThreadRow[]): Promise<void> {
  const runtime = await fixture.open({ tools: probeTools(() => 'never run') });
  const threads = await runtime.threads();
  if (!threads.ok) throw new Error(threads.error.detail.message);
  for (const { id } of rows) {
    const report = await threads.output.replay(id);
    const why = `${id}: ${JSON.stringify(report.ok ? report.output.difference : report)}`;
    expectSame(report, {}, why);
  }
  await runtime.close();
}

test.each(KILLS)(
  'killed %i times, a tree loses nothing, repeats no write and goes on',
  // Each life needs a second or two to be up, more on a busy machine.
  { timeout: timeoutMs(60_000 + Math.max(...KILLS) * 10_000) },
  async (kills) => {
    made = await crashStage({ asks: true });
    const store = await openRegistry(made);
    for (let count = 0; count < kills; count++) {
      await liveAndDie(made, store);
      // Some are asked again before anybody has answered.
      if (chance(3) > 0) await decideAll(store);
    }
    // Whoever comes last finds one thread to go on with, or begins one that nobody disturbs.
    let last = '';
    for (let asked = 0; asked < 5 && !last.includes('"completed"'); asked++) {
      await decideAll(store);
      const life = live(made);
      await life.over;
      last = life.lines.at(-1) ?? '';
    }
    expect(last).toContain('"completed"');
    const rows = await rowsOf(store);
    const stuck = rows.filter(({ status }) => status !== 'completed');
    expect(stuck.map(({ id, status }) => `${id} ${status}`)).toEqual([]);
    await checkInvoice(made, store, rows);
    for (const lead of rows.filter(({ parent }) => parent === undefined)) {
      await checkTree(store, rows, lead);
      await checkBooks(store, rows, lead);
    }
    await checkEffects(made, store, rows);
    for (const { id } of rows) await checkTranscript(made, store, id);
    await checkReplays(made, rows.slice(0, REPLAYS));
    await store.close();
  },
);
