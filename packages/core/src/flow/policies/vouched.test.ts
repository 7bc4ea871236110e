// Which decisions an untrusted value may still make, by the declaration of the tool that returned it.
import { runs } from '@kernmantle/test-support/soak';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { ModelReader } from '../frame.ts';
import type { Argument, InputRole, Operation, OperationRisk } from '../operation.ts';
import { describe, EMPTY } from '../values/labels.ts';
import { labelFields } from '../values/result-fields.ts';
import { elementOf, makeContainer, makeValue, type Value } from '../values/value.ts';
import { composePolicies } from './compose.ts';

const policy = composePolicies([]);
const stranger = describe({ labels: ['untrusted'] });
const READER: ModelReader = { marks: stranger, from: 'mail/read' };

const call = (risk: readonly OperationRisk[], more: Partial<Operation> = {}): Operation => ({
  type: 'tool',
  name: 'own/call',
  opLabels: ['op:tool:own/call'],
  risk,
  ...more,
});
const send = call(['exfil']);
const look = call(['exfil'], { follows: true });
const wipe = call(['destructive']);

const argument = (value: Value, role: InputRole, kind?: string, name = 'to'): Argument => ({
  name,
  role,
  value,
  ...(kind === undefined ? {} : { kind }),
});
const objections = (
  op: Operation,
  inputs: readonly Argument[],
  influence = EMPTY,
  reader?: ModelReader,
): readonly string[] =>
  policy
    .judge(op, [], inputs, influence, reader)
    .map(({ guard, input }) => `${guard} ${input ?? ''}`);

const answer = labelFields(
  makeValue({ channels: ['general', 'evil'], body: 'www.a.example', ids: [4] }),
  { free_text: ['body'], identifiers: ['channels'], kinds: { channels: 'channel', ids: 'id' } },
);
const channel = elementOf(elementOf(answer, 'channels'), 0);
const body = elementOf(answer, 'body');
const DESTINATION = 'policy:untrusted-destination to';

test('an identifier decides for a parameter of its kind, where no model has read it', () => {
  expect(objections(send, [argument(channel, 'destination', 'channel')])).toEqual([]);
  expect(objections(wipe, [argument(channel, 'path', 'channel')])).toEqual([]);
  expect(
    objections(send, [argument(elementOf(answer, 'channels'), 'destination', 'channel')]),
  ).toEqual([]);
  for (const kind of [undefined, 'id', 'Channel']) {
    expect(objections(send, [argument(channel, 'destination', kind)])).toEqual([DESTINATION]);
  }
});

test('an address from a directory decides for its kind', () => {
  const facts = { directory: true, untrusted: true, kinds: { mail: 'address' } } as const;
  const book = labelFields(makeValue({ mail: 'ann@a.example' }), facts);
  const mail = elementOf(book, 'mail');
  expect(objections(send, [argument(mail, 'destination', 'address')])).toEqual([]);
  expect(objections(send, [argument(mail, 'destination', 'account')])).toEqual([DESTINATION]);
});

test('an egress read may follow a stranger’s address that is passed on unread and unchanged', () => {
  expect(objections(look, [argument(body, 'destination')])).toEqual([]);
  expect(objections(look, [argument(body, 'destination', 'url')])).toEqual([]);
  expect(objections(send, [argument(body, 'destination')])).toEqual([DESTINATION]);
  const made = makeValue(`https://${body.text}`, { descriptor: body.meta.descriptor });
  expect(objections(look, [argument(made, 'destination')])).toEqual([DESTINATION]);
  expect(objections(look, [argument(makeContainer([body]), 'destination')])).toEqual([DESTINATION]);
  expect(objections(look, [argument(body, 'path')])).toEqual([DESTINATION]);
  const planned = describe({ taint: ['src:llm'] });
  expect(objections(look, [argument(body, 'destination')], planned)).toEqual([]);
  expect(objections(look, [argument(body, 'destination')], stranger)).toEqual([
    'policy:untrusted-destination condition',
  ]);
  const words = argument(makeValue('private'), 'content', undefined, 'text');
  expect(objections(look, [argument(body, 'destination'), words])).toEqual([DESTINATION]);
  const limit = argument(makeValue({ max: 9 }), 'content', undefined, 'limit');
  const given = [argument(body, 'destination'), limit];
  expect(objections({ ...look, fixed: { limit: { max: 9 } } }, given)).toEqual([]);
  expect(objections({ ...look, fixed: { limit: { max: 8 } } }, given)).toEqual([DESTINATION]);
  expect(
    objections(call(['exfil', 'privileged'], { follows: true }), [argument(body, 'destination')]),
  ).toEqual(['policy:no-untrusted-privileged to']);
});

test('what a reference stands for is passed on like what a tool told', () => {
  const text = makeValue('www.a.example', { descriptor: stranger, origin: { reference: '$r1' } });
  expect(objections(look, [argument(text, 'destination')])).toEqual([]);
  expect(objections(send, [argument(text, 'destination')])).toEqual([DESTINATION]);
});

test('a condition that strangers decide is judged with what leaves', () => {
  expect(objections(send, [argument(makeValue('ann'), 'destination')], stranger)).toEqual([
    'policy:untrusted-destination condition',
  ]);
  expect(objections(look, [], stranger)).toEqual(['policy:untrusted-destination condition']);
  expect(objections(call([]), [], stranger)).toEqual([]);
});

test('a model that has read it may name a thing of a directory as where to, never to destroy it', () => {
  const named = (role: InputRole, kind: 'identifier' | 'directory' | 'reference'): Argument => ({
    ...argument(makeValue('general', { descriptor: stranger }), role, 'channel'),
    origin: { kind },
  });
  expect(objections(send, [named('destination', 'identifier')], EMPTY, READER)).toEqual([]);
  expect(objections(send, [named('destination', 'directory')], EMPTY, READER)).toEqual([]);
  expect(objections(send, [named('content', 'identifier')], EMPTY, READER)).toEqual([DESTINATION]);
  expect(objections(look, [named('destination', 'reference')], EMPTY, READER)).toEqual([
    DESTINATION,
  ]);
  expect(objections(wipe, [named('path', 'identifier')], EMPTY, READER)).toEqual([
    'policy:no-untrusted-destructive to',
  ]);
  expect(objections(wipe, [named('path', 'directory')], EMPTY, READER)).toEqual([
    'policy:no-untrusted-destructive to',
  ]);
});

test('secrets do not leave, whatever a tool says of them', () => {
  const secret = describe({ labels: ['secret', 'untrusted'] });
  const key = labelFields(makeValue({ key: 'k' }, { descriptor: secret }), { directory: true });
  for (const op of [send, look]) {
    expect(objections(op, [argument(elementOf(key, 'key'), 'destination')])).toContain(
      'policy:no-secret-exfil to',
    );
  }
});

test('no list of arguments passes with one part that nobody vouches for', () => {
  const good = fc.constant(channel);
  const bad = fc.oneof(
    fc.constant(body),
    fc.constant(makeValue('general', { descriptor: stranger })),
    fc.constant(makeValue('evil', { ...channel.meta })),
  );
  fc.assert(
    fc.property(fc.array(good), bad, fc.array(good), (before, one, after) => {
      const list = makeContainer([...before, one, ...after]);
      for (const value of [list, makeContainer(new Map([['a', list]])), makeContainer([list])]) {
        for (const op of [send, wipe]) {
          const role = op === send ? 'destination' : 'path';
          expect(objections(op, [argument(value, role, 'channel')])).not.toEqual([]);
        }
      }
    }),
    { numRuns: runs(100) },
  );
});
