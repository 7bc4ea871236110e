import { heardThread, type ToldResult } from '@kernmantle/test-support/heard-thread';
import { runs } from '@kernmantle/test-support/soak';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { type Json, ok, plainText } from '../../base/index.ts';
import {
  createFrame,
  labelFields,
  makeContainer,
  makeValue,
  type Operation,
  perform,
  type ResultFacts,
  type Value,
  withOrigin,
} from '../../flow/index.ts';
import type { Thread } from '../thread/thread.ts';
import { traceOrigins } from './origins.ts';
import { originsIn } from './thread-rules.ts';

type Risk = NonNullable<Operation['risk']>[number];
const RISKS: readonly Risk[] = ['exfil', 'destructive', 'privileged'];
const ROLES = ['destination', 'command', 'path'] as const;
const KINDS = [undefined, 'account', 'mail'] as const;

/** Arguments of a model: each has the marks of everything that the model has read. */
const written = ({ talk }: Thread, data: Json): Value =>
  makeValue(data, { descriptor: talk.conversation.ownMarks() });
const argument = (value: Value, role: (typeof ROLES)[number], kind?: string) => ({
  name: 'to',
  role,
  value,
  ...(kind === undefined ? {} : { kind }),
});
const operation = (risk: Risk): Operation => ({
  type: 'tool',
  name: 'own/act',
  opLabels: ['op:tool:own/act'],
  risk: [risk],
});

async function originOf(
  thread: Thread,
  given: ReturnType<typeof argument>,
): Promise<string | undefined> {
  const [traced] = await traceOrigins(thread, operation('exfil'), [given]);
  return traced?.origin?.kind;
}
const isMade = async (
  thread: Thread,
  risk: Risk,
  given: ReturnType<typeof argument>,
): Promise<boolean> => {
  const frame = createFrame({ ports: { origins: originsIn(thread) } });
  const done = await perform(operation(risk), [given], () => ok(given.value), frame);
  return done.ok;
};

const told = (content: Json, facts: ResultFacts): ToldResult => {
  const { data, meta } = labelFields(makeValue(content), facts);
  return { content: data, marks: meta.descriptor, facts };
};

test('a field vouches for its kind, a kind for no other', async () => {
  const thread = heardThread(
    [],
    [
      told(
        { iban: 'DE1', note: 'DE2', plain: 'DE3', DE4: 1 },
        {
          free_text: ['note'],
          kinds: { iban: 'account' },
        },
      ),
    ],
  );
  const asked = (data: Json, kind?: string) =>
    originOf(thread, argument(written(thread, data), 'destination', kind));
  expect(await asked('DE1', 'account')).toBe('result');
  expect(await asked('DE3')).toBe('result');
  for (const [data, kind] of [
    ['DE1', undefined],
    ['DE1', 'mail'],
    ['DE3', 'account'],
    ['DE2', undefined],
    ['DE2', 'account'],
    ['DE4', undefined],
    [['DE1', 'DE2'], 'account'],
    [{ x: 'DE1' }, 'account'],
  ] as [Json, string?][]) {
    expect(await asked(data, kind)).toBeUndefined();
  }
  expect(await asked(['DE1', 'DE1'], 'account')).toBe('result');
});

test('of a list the least that is vouched for counts', async () => {
  const facts: ResultFacts = { identifiers: ['channels'], kinds: { channels: 'channel' } };
  const thread = heardThread(['to `general`'], [told({ channels: ['random'] }, facts)]);
  const asked = (data: Json) =>
    originOf(thread, argument(written(thread, data), 'destination', 'channel'));
  expect(await asked('general')).toBe('said');
  expect(await asked('random')).toBe('identifier');
  expect(await asked(['general', 'random'])).toBe('identifier');
  expect(await asked(['general', 'random', 'rando'])).toBeUndefined();
});

test('results of a tool that is gone, and old ones without facts, vouch for nothing that it wrote', async () => {
  const thread = heardThread([], [{ content: { a: 'x' } }]);
  const heard = thread.talk.conversation.trusted().results[0];
  expect(await originOf(thread, argument(written(thread, 'x'), 'destination'))).toBe('result');
  const gone = heardThread([], []);
  gone.talk.conversation.trusted().results.push({ ...heard, tool: 'own/gone' } as never);
  expect(await originOf(gone, argument(written(gone, 'x'), 'destination'))).toBeUndefined();
  const notes = heardThread([], []);
  notes.talk.conversation.trusted().results.push({ ...heard, tool: 'notes' } as never);
  expect(await originOf(notes, argument(written(notes, 'x'), 'destination'))).toBe('result');
});

test('a number in a prompt is no id', async () => {
  const thread = heardThread(['`4711`\n4712', '4713'], []);
  for (const id of ['4711', '4712', '4713', 4711]) {
    expect(
      await originOf(thread, argument(written(thread, id), 'destination', 'mail')),
    ).toBeUndefined();
  }
  expect(await originOf(thread, argument(written(thread, '4711'), 'destination'))).toBe('said');
});

test('of what is passed on its own facts tell, not what it is like', async () => {
  const thread = heardThread(['never send to `evil@e.example`'], []);
  const value = labelFields(makeValue('evil@e.example'), { untrusted: true });
  expect(await originOf(thread, argument(value, 'destination'))).toBeUndefined();
  const list = makeContainer([makeValue('evil@e.example'), value]);
  expect(await originOf(thread, argument(list, 'destination'))).toBeUndefined();
  const named = withOrigin(written(thread, 'evil@e.example'), { reference: '$r1' });
  expect(await originOf(thread, argument(named, 'destination'))).toBeUndefined();
  const own = written(thread, 'evil@e.example');
  expect(await originOf(thread, argument(own, 'destination'))).toBe('said');
});

test('an identifier that is passed on needs nobody’s word, and takes none', async () => {
  const thread = heardThread([], []);
  const facts: ResultFacts = { identifiers: ['*'], kinds: { '*': 'channel' }, untrusted: true };
  const channel = labelFields(makeValue('general'), facts);
  thread.ports.store.approvals = () => Promise.reject(new Error('nobody is asked'));
  expect(await originOf(thread, argument(channel, 'destination', 'channel'))).toBe('identifier');
  await expect(originOf(thread, argument(channel, 'destination', 'mail'))).rejects.toThrow();
});

test('what came in since is heard too, and a new attempt has heard nothing', async () => {
  const thread = heardThread([], []);
  const { conversation } = thread.talk;
  const asked = () => originOf(thread, argument(written(thread, 'a@a.example'), 'destination'));
  expect(await asked()).toBeUndefined();
  conversation.user('a@a.example', written(thread, '').meta.descriptor);
  expect(await asked()).toBeUndefined();
  conversation.user('to a@a.example', makeValue('').meta.descriptor);
  expect(await asked()).toBe('said');
  conversation.clear();
  expect(await asked()).toBeUndefined();
});

// Similar values, so that a mistake is found: pieces, lists and texts of them.
const word = fc.constantFrom('a', 'b', 'ab', 'a@b', 'b@a', '1', '12', 'a/b');
const text = fc.array(word, { minLength: 1, maxLength: 4 }).map((parts) => parts.join(' '));
const NAMES = ['body', 'id', 'to', '__proto__', ''];
const row = fc
  .array(fc.tuple(fc.constantFrom(...NAMES), fc.oneof(word, text)), { maxLength: 5 })
  .map((pairs) => Object.fromEntries(pairs) as Json);
const content: fc.Arbitrary<Json> = fc.oneof(
  row,
  fc.array(row, { maxLength: 3 }).map((rows) => ({ rows })),
  fc.record({ deep: fc.record({ rows: fc.array(row, { maxLength: 2 }) }) }),
);

/** Values in fields of these names, and all other values. */
function split(data: Json, names: readonly string[], isIn = false): [Json[], Json[]] {
  if (typeof data !== 'object' || data === null) return isIn ? [[data], []] : [[], [data]];
  const found: [Json[], Json[]] = [[], []];
  for (const [key, item] of Object.entries(data)) {
    const [inside, outside] = split(
      item,
      names,
      isIn || (!Array.isArray(data) && names.includes(key)),
    );
    found[0].push(...inside);
    found[1].push(...outside);
  }
  return found;
}

test('nothing that stands only in free text steers a risky call', async () => {
  const free = fc.uniqueArray(fc.constantFrom(...NAMES), { minLength: 1, maxLength: 3 });
  await fc.assert(
    fc.asyncProperty(
      content,
      free,
      fc.constantFrom(...RISKS),
      fc.constantFrom(...ROLES),
      fc.constantFrom(...KINDS),
      async (data, free_text, risk, role, kind) => {
        const kinds = { id: 'mail', to: 'account' };
        const named = Object.fromEntries(
          Object.entries(kinds).filter(([name]) => !free_text.includes(name)),
        );
        const thread = heardThread([], [told(data, { free_text, kinds: named })], data);
        const [strangers, others] = split(data, free_text);
        for (const one of strangers.filter((value) => !others.includes(value))) {
          const pieces = plainText(one).split(' ');
          for (const given of [one, [one], ...pieces.filter((piece) => !others.includes(piece))]) {
            const made = await isMade(thread, risk, argument(written(thread, given), role, kind));
            expect(made).toBe(false);
          }
        }
      },
    ),
    { numRuns: runs(150) },
  );
});

test('a field never vouches for a parameter of another kind, nor a piece of it for any', async () => {
  await fc.assert(
    fc.asyncProperty(content, fc.constantFrom(...KINDS), async (data, kind) => {
      const kinds = { id: 'mail', to: 'account' } as const;
      const thread = heardThread([], [told(data, { kinds, free_text: ['body'] })]);
      for (const value of new Set(split(data, []).flat().map(String))) {
        const of = (name: string): boolean => split(data, [name])[0].includes(value);
        const rest = split(data, ['id', 'to', 'body'])[1].includes(value);
        const isRight = kind === 'mail' ? of('id') : kind === 'account' ? of('to') : rest;
        const origin = await originOf(
          thread,
          argument(written(thread, value), 'destination', kind),
        );
        expect(origin).toBe(isRight ? 'result' : undefined);
      }
    }),
    { numRuns: runs(150) },
  );
});
