// Examples of the documents that this product grew from, as they stand there. Each runs, or `km check`
// prints what to write instead: those words are put in place as they are printed, and the result runs.
import { runCommand } from '@kernmantle/test-support/command-line';
import { makeFixture, TRUSTING } from '@kernmantle/test-support/project';
import { expect, test } from 'vitest';
import { errorsIn, example, type Finding } from './examples.ts';

/** What a hint says to write; nothing where it says to remove something. */
const printedIn = (hint: string): string =>
  /^replace it with\n([^]*)$/.exec(hint)?.[1] ?? /^(?:write|add) `([^`]*)`/.exec(hint)?.[1] ?? '';

/** The element, the attribute or the line that a finding points at. */
const POINTED = /<(\w+)(?:[^>]*\/>|[^]*?<\/\1>)|\w+="[^"]*"/y;

function rewritten(text: string, { line, column, hint = '' }: Finding): string {
  const printed = printedIn(hint);
  if (hint.startsWith('add ')) return `${text}\n${printed}\n`;
  const before =
    text
      .split('\n')
      .slice(0, line - 1)
      .join('\n').length + (line > 1 ? 1 : 0);
  POINTED.lastIndex = before + column - 1;
  const [found = ''] = POINTED.exec(text) ?? [];
  expect(found, hint).not.toBe('');
  const at = before + column - 1;
  return text.slice(0, at) + printed + text.slice(at + found.length);
}

const replace = (...rows: string[]): string => `replace it with\n${rows.join('\n')}`;
const limits = (...rows: string[]): string[] => [
  '<limits>',
  ...rows.map((row) => `  ${row}`),
  '</limits>',
];
const ESCALATE = [
  '<hooks>',
  '  <hook>',
  '    <when>event.name == "limit"</when>',
  '    <directive>request_more_budget</directive>',
  '  </hook>',
  '</hooks>',
];
const INPUT_OUTPUT = [
  '<input_tokens>100000</input_tokens>',
  '<output_tokens>50000</output_tokens>',
];
const FALLBACK = 'write `fallback_id="reasoning"`';

/** The example, the directive it is, what `check` prints for each error, and what is run at the end. */
type Case = readonly [file: string, name: string, hints: readonly string[], words: string];
const RUN = 'run NAME --replies replies.json';
const DIRECTIVES: readonly Case[] = [
  ['request_elevated_permissions.md', '', [], `${RUN} original_directive=a missing_cap=fs.write`],
  ['deploy_with_hooks.md', 'deploy_staging', [], RUN],
  ['deploy_user.md', 'deploy_staging', [], 'exec directive NAME'],
  ['nested_inner.md', 'run_tests', [], 'exec directive NAME'],
  [
    'run_directive.md',
    '',
    [FALLBACK, replace(...limits('<turns>10</turns>', '<tokens>50000</tokens>'))],
    `${RUN} directive_name=a`,
  ],
  [
    'deploy_staging.md',
    '',
    [FALLBACK, replace(...limits('<turns>30</turns>', ...INPUT_OUTPUT), ...ESCALATE)],
    `${RUN} version=v1.2.3`,
  ],
  [
    'deploy_budget.md',
    'deploy_staging',
    [
      replace(
        ...limits(
          '<turns>30</turns>',
          '<tokens>150000</tokens>',
          '<spend currency="USD">5.00</spend>',
          ...INPUT_OUTPUT,
          '<context warn="0.8">180000</context>',
        ),
        ...ESCALATE,
      ),
    ],
    'exec directive NAME',
  ],
  [
    'nested_outer.md',
    'deploy_staging',
    [replace(...limits('<turns>50</turns>', '<tokens>100000</tokens>'))],
    'exec directive NAME',
  ],
  [
    'thread_directive.md',
    '',
    [
      'remove the line, or call a tool of the bundle instead',
      replace(...limits('<turns>5</turns>', '<tokens>10000</tokens>')),
    ],
    'exec directive NAME',
  ],
];

test.each(DIRECTIVES)('%s of the documents', async (file, named, hints, words) => {
  const name = named || file.replace(/\.md$/, '');
  const at = `.ai/directives/${name}.md`;
  const text = example(`directives/${file}`);
  const fixture = makeFixture({
    [at]: text,
    '../home/policy.yaml': TRUSTING,
    'replies.json': JSON.stringify([{ text: '{"action": "fail"}' }, { text: 'Done.' }]),
  });
  try {
    const errors = await errorsIn(fixture);
    expect(errors.map(({ hint }) => hint)).toEqual(hints);
    fixture.write(at, errors.reduceRight(rewritten, text));
    expect(await errorsIn(fixture)).toEqual([]);
    const asked = words.replace('NAME', name).split(' ');
    const done = await runCommand(asked, fixture.root, fixture.env);
    expect(done, done.output).toMatchObject({ code: 0 });
  } finally {
    fixture.remove();
  }
});
