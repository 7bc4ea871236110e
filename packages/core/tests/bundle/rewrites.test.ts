// Every rewrite that `km check` prints for an old form, taken as it is printed: the result checks clean
// and runs with a scripted model.
import { runCommand } from '@kernmantle/test-support/command-line';
import { makeFixture } from '@kernmantle/test-support/project';
import { expect, test } from 'vitest';

const directive = (metadata: string) => `<directive name="old" version="1.0.0">
  <metadata>
    <description>An old form</description>
    <category>test</category>
    ${metadata}
    <permissions />
  </metadata>
  <process><step name="go">Do it</step></process>
</directive>
`;
const OLD_HOOKS = [
  'on_permission_denied',
  'on_cost_exceeded',
  'on_limit_exceeded',
  'on_timeout',
  'on_error',
  'on_failure',
];
const MODEL = '<model tier="fast">a test</model>';
const LIMITS = '<limits><turns>5</turns></limits>';
const cost = (more: string) => `<cost><max_turns>5</max_turns>${more}</cost>`;

const FORMS: readonly (readonly [string, string, string])[] = [
  ...['stop', 'warn', 'escalate'].map((word) => {
    const old = cost(
      `<max_total_tokens>90000</max_total_tokens><on_exceeded>${word}</on_exceeded>`,
    );
    return [`on_exceeded=${word}`, old, MODEL + old] as const;
  }),
  ...[
    '<cost><context turns="6" spawn_threshold="3">50000</context><duration>300</duration><spend currency="USD">1.00</spend></cost>',
    cost('<max_input_tokens>90000</max_input_tokens><max_output_tokens>900</max_output_tokens>'),
    cost('<max_context_tokens>90000</max_context_tokens><max_cost_usd>0.50</max_cost_usd>'),
    cost('<context_warning_threshold>0.7</context_warning_threshold>'),
  ].map((old) => [old, old, MODEL + old] as const),
  ...OLD_HOOKS.map((tag) => {
    const old = `<${tag}><directive_name>handle_execution_failure</directive_name></${tag}>`;
    return [tag, old, `${MODEL}${LIMITS}<hooks>${old}</hooks>`] as const;
  }),
  ...OLD_HOOKS.map((tag) => {
    const old = `<${tag} />`;
    return [`${tag} alone`, old, `${MODEL}${LIMITS}<hooks>${old}</hooks>`] as const;
  }),
  ...(
    [
      ['directive_name', '<directive_name>handle_timeout</directive_name>'],
      ['condition', '<condition>event.code == "timeout"</condition>'],
    ] as const
  ).map(([tag, old]) => {
    const rest =
      tag === 'condition'
        ? '<directive>handle_timeout</directive>'
        : '<when>event.code == "timeout"</when>';
    return [tag, old, `${MODEL}${LIMITS}<hooks><hook>${old}${rest}</hook></hooks>`] as const;
  }),
];

test.each(FORMS)('the rewrite of %s checks clean and runs', async (_, old, metadata) => {
  const fixture = makeFixture({
    '.ai/directives/old.md': directive(metadata),
    'replies.json': JSON.stringify([{ text: 'Done.' }]),
  });
  try {
    const refused = await runCommand(['check', '--json'], fixture.root, fixture.env);
    expect(refused.code, refused.output).toBe(3);
    const hint = refused.output.match(/"hint":"replace it with\\n((?:[^"\\]|\\.)*)"/)?.[1] ?? '';
    const printed = JSON.parse(`"${hint}"`) as string;
    expect(printed).not.toBe('');
    fixture.write('.ai/directives/old.md', directive(metadata.replace(old, () => printed)));
    const checked = await runCommand(['check'], fixture.root, fixture.env);
    expect(checked, checked.output).toMatchObject({ code: 0 });
    const args = ['run', 'old', '--replies', 'replies.json'];
    const done = await runCommand(args, fixture.root, fixture.env);
    expect(done, done.output).toMatchObject({ code: 0 });
  } finally {
    fixture.remove();
  }
});

test('a hook that warns does not lift the limit, and the rewrite says so', async () => {
  const old = cost('<on_exceeded>warn</on_exceeded>');
  const fixture = makeFixture({ '.ai/directives/old.md': directive(MODEL + old) });
  const checked = await runCommand(['check'], fixture.root, fixture.env);
  fixture.remove();
  expect(checked.output).toContain('a run stops at its limit, also after a warning');
});

const yamlDirective = (metadata: string) => `---
name: old
version: 1.0.0
description: An old form
category: test
model: { tier: fast, context: a test }
${metadata}
permissions: []
process:
  steps:
    - { name: go, action: Do it }
---
`;
const YAML_COST = `cost:
  max_turns: 5
  max_total_tokens: 90000
  max_context_tokens: 90000
  context_warning_threshold: 0.7
  max_cost_usd: 0.50
  on_exceeded: `;
const inHook = (old: string) =>
  `${MODEL}${LIMITS}<hooks><hook><when>event.code == "timeout"</when><directive>handle_timeout</directive>${old}</hook></hooks>`;

/** The old form, the whole file around it, and the first words of what `check` says to do. */
const OTHERS: readonly (readonly [string, string, RegExp])[] = [
  [
    'fallback="balanced"',
    directive(`<model tier="fast" fallback="balanced">a test</model>${LIMITS}`),
    /^write `([^`]*)`$/,
  ],
  ...['on_success', 'on_failure'].map((tag) => {
    const old = `<${tag}>retry</${tag}>`;
    return [old, directive(inHook(old)), /^remove it()/] as const;
  }),
  ...['stop', 'warn', 'escalate'].map((word) => {
    const old = `${YAML_COST}${word}`;
    return [old, yamlDirective(old), /^replace it with\n([^]*)$/] as const;
  }),
];

test.each(OTHERS)('what is said to do about %s checks clean and runs', async (old, text, said) => {
  const fixture = makeFixture({
    '.ai/directives/old.md': text,
    'replies.json': JSON.stringify([{ text: 'Done.' }]),
  });
  try {
    const refused = await runCommand(['check', '--json'], fixture.root, fixture.env);
    expect(refused.code, refused.output).toBe(3);
    const diagnostics = JSON.parse(refused.output) as { hint?: string }[];
    const [printed] = diagnostics.flatMap(({ hint = '' }) => said.exec(hint)?.slice(1) ?? []);
    expect(printed, refused.output).toBeTypeOf('string');
    fixture.write(
      '.ai/directives/old.md',
      text.replace(old, () => printed ?? ''),
    );
    const checked = await runCommand(['check'], fixture.root, fixture.env);
    expect(checked, checked.output).toMatchObject({ code: 0 });
    const args = ['run', 'old', '--replies', 'replies.json'];
    const done = await runCommand(args, fixture.root, fixture.env);
    expect(done, done.output).toMatchObject({ code: 0 });
  } finally {
    fixture.remove();
  }
});
