import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Directive } from '../../packages/core/src/items/directive/directive.ts';
import { parseDirective } from '../../packages/core/src/items/directive/parse.ts';
import { formatDirective } from './print-directive.ts';
import { runs } from './soak.ts';

const word = fc
  .stringMatching(/^[a-z][a-z0-9_]{0,8}$/)
  .filter((text) => !/^(text|when|script)$/.test(text));
/** Generates one line as a person writes it: no blanks around it, no control characters. */
const line = fc
  .string({
    unit: fc.constantFrom(...'abc XYZ 012 <>&"\'`{}$|.,:;#-[]()*!?%@\\/äß→'.split(''), '😀'),
    maxLength: 30,
  })
  .map((text) => text.trim().replace(/\s+/g, ' '))
  .filter((text) => text !== '');
const prose = fc.array(line, { minLength: 1, maxLength: 3 }).map((lines) => lines.join('\n'));
const maybe = <T>(arbitrary: fc.Arbitrary<T>) => fc.option(arbitrary, { nil: undefined });
const count = fc.nat({ max: 1e9 });

/** Generates data that both forms can express: text at the leaves, no empty objects, lists of two or more. */
const free = fc.letrec<{ value: unknown }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 2 },
    prose,
    fc.dictionary(word, tie('value'), { minKeys: 1, maxKeys: 3, noNullPrototype: true }),
    fc.dictionary(word, fc.array(prose, { minLength: 2, maxLength: 3 }), {
      minKeys: 1,
      maxKeys: 2,
      noNullPrototype: true,
    }),
  ),
})).value;
const object = fc.dictionary(word, free, { maxKeys: 3, noNullPrototype: true });

const named = <T extends { name: string }>(arbitrary: fc.Arbitrary<T>) =>
  fc.uniqueArray(arbitrary, { selector: ({ name }) => name, maxLength: 4 });
const input = fc.oneof(
  fc.record({
    name: word,
    type: fc.constant('string'),
    required: fc.boolean(),
    default: maybe(line),
    description: prose,
  }),
  fc.record({
    name: word,
    type: fc.constant('integer'),
    required: fc.boolean(),
    default: maybe(fc.integer()),
    description: fc.constant(''),
  }),
  fc.record({
    name: word,
    type: fc.constant('object'),
    required: fc.boolean(),
    default: maybe(object),
    description: prose,
  }),
);
const output = fc.record({
  name: word.filter((name) => name !== 'action'),
  type: fc.constantFrom('string', 'number', 'boolean', 'object', 'array'),
  required: fc.boolean(),
  enum: maybe(fc.uniqueArray(word, { minLength: 2, maxLength: 3 })),
  description: prose.filter((text) => !text.includes('|')),
});
const names = fc.uniqueArray(word, { maxLength: 3 });
const permission = fc.oneof(
  fc.record({
    verb: fc.constantFrom('read', 'write'),
    resource: fc.constant('filesystem'),
    path: word.map((name) => `${name}/**`),
  }),
  fc.record({
    verb: fc.constant('execute'),
    resource: fc.constant('net'),
    action: fc.constant('http'),
    host: word,
  }),
);
const filter = fc
  .record({ allow_categories: names, deny_categories: names }, { requiredKeys: [] })
  .map((lists) => Object.fromEntries(Object.entries(lists).filter(([, list]) => list.length > 0)));

const directive = fc.record({
  name: word,
  version: fc.constant('1.2.3'),
  description: prose,
  category: word,
  author: maybe(line),
  title: maybe(line.filter((text) => !text.includes('${'))),
  model: maybe(fc.record({ tier: word, fallback_id: maybe(word), context: prose })),
  limits: maybe(
    fc.record(
      {
        turns: count,
        duration: count,
        spend: fc.constantFrom('0', '5', '0.25'),
        context: count,
        context_warn: fc.constantFrom(0.5, 1),
      },
      { requiredKeys: [] },
    ),
  ),
  permissions: maybe(
    fc.record({
      entries: fc.array(permission, { maxLength: 3 }),
      knowledge: filter,
      untrusted: fc.constantFrom('show' as const, 'reference' as const),
      orchestration: fc.record({ enabled: fc.boolean() }),
    }),
  ),
  hooks: fc.array(
    fc.record({
      when: fc.constantFrom('cost.turns < 3', '"<&>" in labels'),
      directive: word,
      inputs: object,
    }),
    { maxLength: 2 },
  ),
  guards: fc.array(
    fc.record({
      on: fc.constantFrom('secret', 'op:tool:http/*'),
      timing: fc.constantFrom('before', 'after'),
      when: fc.constant('1 < 2'),
      verdict: fc.record({ kind: fc.constantFrom('deny', 'ask', 'retry'), text: prose }),
    }),
    { maxLength: 2 },
  ),
  relationships: fc.record({ requires: names, suggests: names, extends: names, related: names }),
  deviation_rules: maybe(fc.record({ auto_fix: fc.boolean(), text: prose })),
  expose: maybe(fc.constant({ mcp: 'prompt' })),
  inputs: named(input),
  process: fc.oneof(
    fc
      .record({
        mode: fc.constantFrom('free', 'plan'),
        steps: named(
          fc.record({ name: word, action: maybe(prose), condition: prose, text: maybe(prose) }),
        ),
      })
      .map((process) => (process.steps.length === 0 ? { mode: 'free', steps: [] } : process)),
    fc.record({
      mode: fc.constant('free'),
      steps: fc.constant([]),
      script: fc.record({ text: prose.filter((text) => !text.startsWith('<![CDATA[')) }),
    }),
  ),
  outputs: named(output),
  success: maybe(prose),
  context: object,
  success_criteria: fc.array(prose, { maxLength: 3 }),
  expect: fc.array(fc.record({ tool: word, succeeds: fc.constantFrom('always', 'last') }), {
    maxLength: 3,
  }),
  opaque: fc.array(fc.record({ tag: fc.constantFrom('template'), text: prose }), { maxLength: 2 }),
  around: fc.constantFrom('', '# Notes\n\ntext'),
});

const common = (value: unknown): unknown =>
  JSON.parse(
    JSON.stringify(value, (key, item: unknown) =>
      /^(places|line|column|file)$/.test(key) ? undefined : item,
    ),
  );

test('what is printed is read back, and both forms are one value', () => {
  fc.assert(
    fc.property(directive, (generated) => {
      const given = generated as unknown as Directive;
      for (const form of ['xml', 'yaml'] as const) {
        const parsed = parseDirective(formatDirective(given, form), `${given.name}.md`);
        expect(parsed.diagnostics.filter(({ severity }) => severity === 'error')).toEqual([]);
        expect(common(parsed.directive)).toEqual(common(given));
      }
    }),
    { numRuns: runs(75, 1500) },
  );
});
