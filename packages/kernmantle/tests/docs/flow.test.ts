// The examples of docs/policies-and-guards.md, run.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { ok } from '@kernmantle/core/base';
import { expect, test } from 'vitest';
import { compileGuards, guardProblems } from '../../../core/src/flow/guards/guard-expression.ts';
import { type InputRole, isRisk, type Operation } from '../../../core/src/flow/operation.ts';
import { createFrame } from '../../../core/src/flow/pipeline/create-frame.ts';
import { perform } from '../../../core/src/flow/pipeline/perform.ts';
import { composePolicies } from '../../../core/src/flow/policies/compose.ts';
import { PACK_NAMES, RULE_NAMES } from '../../../core/src/flow/policies/named-rules.ts';
import type { Policy } from '../../../core/src/flow/policies/policy.ts';
import { parsePolicy } from '../../../core/src/flow/policies/read-policy.ts';
import { describe } from '../../../core/src/flow/values/labels.ts';
import { makeValue, type Value } from '../../../core/src/flow/values/value.ts';

const page = readFileSync(
  join(import.meta.dirname, '../../../../docs/policies-and-guards.md'),
  'utf8',
);
const fences = (kind: string): string[] =>
  [...page.matchAll(new RegExp(`^\`\`\`${kind}\\n(.*?)^\`\`\``, 'gms'))].map(
    ([, text = '']) => text,
  );

test('every policy of the page is read without a complaint', async () => {
  const policies = fences('yaml');
  expect(policies.length).toBeGreaterThan(3);
  for (const text of policies) {
    expect(parsePolicy(text, 'policy.yaml', 'user').diagnostics).toEqual([]);
  }
});

/** One line of the table under the first example, performed. */
async function answerTo(line: string, policy: Policy): Promise<string> {
  const [type = '', name = '', risk = '', input = '', role = '', label = ''] = line.split(/\s+/);
  const asked: string[] = [];
  const frame = createFrame({
    policy: composePolicies([policy]),
    ports: { ask: ({ guards }) => (asked.push(...guards), ok({ answer: 'denied' })) },
  });
  const descriptor = describe({ labels: label === '-' ? [] : [label] });
  const outcome = await perform(
    {
      type: type as Operation['type'],
      name: name === '-' ? '' : name,
      opLabels: [name === '-' ? `op:${type}` : `op:${type}:${name}`],
      risk: isRisk(risk) ? [risk] : [],
    },
    [{ name: input, role: role as InputRole, value: makeValue('text', { descriptor }) }],
    ([value]) => ok(value as Value),
    frame,
  );
  if (asked.length > 0) return `asked ${asked[0]}`;
  if (!outcome.ok) return `denied ${outcome.error.detail.guard as string}`;
  const { sources } = outcome.output.meta.descriptor;
  return outcome.output.data === '(hidden)' ? `hidden @${sources[0]?.slice(6)}` : 'allowed';
}

test('what the page says about its first example is what happens', async () => {
  const { policy } = parsePolicy(fences('yaml')[0] ?? '', 'policy.yaml', 'project');
  const lines = (fences('text')[0] ?? '').trim().split('\n');
  expect(lines.length).toBe(8);
  for (const line of lines) {
    const said = line.split(/\s+/).slice(6).join(' ');
    expect(`${line}: ${await answerTo(line, policy as Policy)}`).toBe(`${line}: ${said}`);
  }
});

test('the guard of a directive on the page compiles and refuses', async () => {
  const [, on = '', timing = '', when = '', text = ''] =
    /on="(.*?)" timing="(.*?)">\s*<when>(.*?)<\/when>\s*<deny>(.*?)<\/deny>/s.exec(
      fences('xml')[0] ?? '',
    ) ?? [];
  const source = { on, timing: timing as 'before', when, verdict: { kind: 'deny' as const, text } };
  const guards = compileGuards([source]);
  if (!guards.ok) throw new Error(guards.error.detail.message);
  const secret = makeValue('k', { descriptor: describe({ labels: ['secret'] }) });
  const op = { type: 'tool' as const, name: 'http/get', opLabels: ['op:tool:http/get'] };
  const frame = createFrame({ guards: guards.output });
  const outcome = await perform(op, [{ name: 'a', value: secret }], () => ok(secret), frame);
  expect(outcome).toMatchObject({ ok: false, error: { detail: { reasons: [text] } } });
});

test('the refusal on the page is the one that is given', async () => {
  const shown = JSON.parse(fences('json')[0] ?? '') as object;
  const descriptor = describe({ labels: ['secret'], sources: ['env:API_KEY'] });
  const outcome = await perform(
    { type: 'tool', name: 'http/post', opLabels: [], risk: ['exfil'] },
    [{ name: 'body', role: 'content', value: makeValue('k', { descriptor }) }],
    () => ok(makeValue(1)),
    createFrame(),
  );
  expect(outcome).toMatchObject({ ok: false, error: shown });
});

test('every condition of the page uses names that exist', () => {
  for (const when of (fences('expressions')[0] ?? '').trim().split('\n')) {
    const source = { on: 'op:tool', timing: 'always', verdict: { kind: 'allow' }, when } as const;
    expect(guardProblems(source)).toEqual([]);
  }
});

test('the page lists every rule and no other', () => {
  const listed = [...page.matchAll(/^\| `([a-z-]+)` \| (on|off) \|/gm)];
  expect(listed.map(([, name]) => name)).toEqual(
    [...RULE_NAMES].toSorted(
      (a, b) => Number(PACK_NAMES.includes(a)) - Number(PACK_NAMES.includes(b)),
    ),
  );
});
