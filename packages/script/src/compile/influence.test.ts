// Properties over random programs: an output that depends on an input has its label, and no untrusted value
// decides which outputs a guard allows.
import { type Program, program } from '@kernmantle/test-support/random-programs';
import { createWorldFixture, play } from '@kernmantle/test-support/script-world';
import { runs, timeoutMs } from '@kernmantle/test-support/soak';
import fc from 'fast-check';
import { expect, test } from 'vitest';

const RUNS = runs(50, 10_000);

/** Each input has a label with its own name. */
const INPUTS = ['a', 'b', 'c'];

const withInputs = ({ lines }: Program, values: readonly string[], guards = ''): string =>
  [
    ...INPUTS.map((name, at) => `var in_${name} @${name} = ${values[at] ?? 'null'}`),
    guards,
    ...lines,
  ].join('\n');

/** Returns each effect with kind, text and target, but without labels. */
async function effectsOf(text: string) {
  const { effects, fault } = await play(text, { world: createWorldFixture({}, NO_CODE) });
  return { effects: effects.filter(({ kind }) => kind !== 'warning'), fault };
}

const NO_CODE = {
  run: () => ({ ok: false, error: { code: 'x', detail: { message: 'x' } } }) as const,
  close() {},
};

const value = fc.constantFrom(
  '0',
  '1',
  '2',
  '"x"',
  '""',
  'null',
  '[]',
  '[1]',
  '[1, "x"]',
  '{}',
  '{"k": 1}',
  'true',
);

test(
  'outputs without the label of an input are the same whatever that input is',
  async () => {
    let ended = 0;
    await fc.assert(
      fc.asyncProperty(
        program(INPUTS),
        fc.tuple(value, value, value),
        value,
        fc.nat(INPUTS.length - 1),
        async (made, values, other, changed) => {
          fc.pre(values[changed] !== other);
          const label = `in_${INPUTS[changed]}`;
          const before = await effectsOf(withInputs(made, values));
          const after = await effectsOf(withInputs(made, values.with(changed, other)));
          // A program that fails in one run ends there, because labels do not track termination.
          if (before.fault !== '' || after.fault !== '') return;
          ended += 1;
          const without = (effects: typeof before.effects) =>
            effects
              .filter(({ taint }) => !taint.includes(label))
              .map(({ kind, line, text }) => [kind, line, text]);
          expect(without(before.effects)).toEqual(without(after.effects));
        },
      ),
      { numRuns: RUNS },
    );
    // A set of programs that all fail would prove nothing.
    expect(ended).toBeGreaterThan(RUNS / 4);
  },
  timeoutMs(600_000),
);

/** The log never depends on `a`. The replacement is the same in every run. */
const GUARD =
  'guard @closed before in_a = when [ @mx.op.type == "log" => allow "[closed]"  * => allow ]';

test(
  'an untrusted input changes nothing that a guard let pass to a trusted place',
  async () => {
    await fc.assert(
      fc.asyncProperty(
        program(INPUTS, 'log'),
        fc.tuple(value, value, value),
        value,
        async (made, values, other) => {
          const passed = async (given: readonly string[]) => {
            const { effects, fault } = await effectsOf(withInputs(made, given, GUARD));
            const logged = effects.filter(
              ({ kind, text }) => kind === 'log' && text !== '[closed]',
            );
            return { logged: logged.map(({ text, line }) => [line, text]), fault };
          };
          const [one, two] = [await passed(values), await passed(values.with(0, other))];
          if (one.fault === '' && two.fault === '') expect(one.logged).toEqual(two.logged);
        },
      ),
      { numRuns: RUNS },
    );
  },
  timeoutMs(600_000),
);

test('[*] gives the list of a field of each element, with exact marks', async () => {
  const lines = [
    'var secret @k = "k"',
    'var @list = [{ "a": @k }, { "a": 2 }, {}]',
    'var @names = @list[*].a',
    ...['@names', '@names[0]', '@names[1]'].map((shown) => `show ${shown}`),
    'var @deep = [{ "b": { "c": 1 } }]',
    'show @deep[*].b.c',
  ];
  const { effects } = await effectsOf(lines.join('\n'));
  expect(
    effects.map(({ text, labels }) => [JSON.parse(`[${text}]`.replace('[k]', '["k"]'))[0], labels]),
  ).toEqual([
    [['k', 2, null], ['secret']],
    ['k', ['secret']],
    [2, []],
    [[1], []],
  ]);
  const { fault } = await effectsOf('var @t = "text"\nshow @t[*].a');
  expect(fault).toContain('`[*]`');
});
