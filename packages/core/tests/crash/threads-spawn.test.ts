// A process that dies in the middle of a spawn: before there is a child, when there is one and its
// parent has not heard of it, and before the model has its id. Nobody is lost and nobody comes twice.
import { endLives, live, openRegistry, rowsOf } from '@kernmantle/test-support/crash-driver';
import { type CrashStage, crashStage, EXPECTED } from '@kernmantle/test-support/crash-project';
import { ofToday } from '@kernmantle/test-support/soak';
import { afterEach, expect, test } from 'vitest';
import { type JsonObject, plainText } from '../../src/base/index.ts';

let made: CrashStage | undefined;
afterEach(async () => {
  await endLives();
  await made?.provider.close();
  made?.fixture.remove();
});

const MOMENTS = [
  // The fourth call of the first thread is its first spawn.
  ['the intent is written', 'lead tool_call 4', 0],
  ['the child exists', 'part signal 1', 1],
  ['the spawn is noted', 'lead spawn 1', 1],
  ['two are spawned at once, the second exists', 'part signal 3', 3],
] as const;

test.each(ofToday(MOMENTS, 2))('dying when %s', async (_, moment, children) => {
  made = await crashStage();
  const first = live(made, moment);
  await first.over;
  const store = await openRegistry(made);
  const partsOf = async () => (await rowsOf(store)).filter(({ directive }) => directive === 'part');
  const before = await partsOf();
  expect(before).toHaveLength(children);
  const next = live(made);
  await next.over;
  // The model was given every id: else it could not have waited for them.
  expect(next.lines.at(-1)).toContain('all done');
  const after = await partsOf();
  expect(after).toHaveLength(EXPECTED.children);
  const ids = new Set(after.map(({ id }) => id));
  for (const { id } of before) expect(ids).toContain(id);
  expect(new Set(after.map(({ inputs }) => plainText((inputs as JsonObject).tag))).size).toBe(
    EXPECTED.children,
  );
  const [lead] = (await rowsOf(store)).filter(({ parent }) => parent === undefined);
  expect(lead?.cost).toMatchObject({ ...EXPECTED.lead, spawns: EXPECTED.children });
  const journal = await store.read(lead?.id ?? '');
  expect(JSON.stringify(journal)).not.toContain('outcome_unknown');
  await store.close();
});
