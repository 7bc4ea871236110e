// Every example on the page is run. A block opens with its kind; `given` sets the context.
import { readFileSync } from 'node:fs';
import { type Json, type JsonObject, type Outcome, ok } from '@kernmantle/core/base';
import {
  compileExpression,
  expandEnv,
  fillBody,
  fillTemplate,
  unknownPaths,
} from '@kernmantle/core/expr';
import { parseDirective } from '@kernmantle/core/items';
import { describe, expect, test } from 'vitest';
import { HOOK_CONTEXT } from '../../../core/src/items/directive/hook-context.ts';

const PAGE = readFileSync('docs/expressions.md', 'utf8');

interface Block {
  kind: string;
  lines: string[];
}

function blocks(): Block[] {
  return Array.from(PAGE.matchAll(/^```(\w+)\n(.*?)^```$/gms), ([, kind = '', text = '']) => ({
    kind,
    lines: text.split('\n').filter((line) => line !== ''),
  }));
}

interface Setting {
  given: JsonObject;
  names: ReadonlySet<string>;
}

const RUN: Readonly<Record<string, (left: string, setting: Setting) => Outcome<Json>>> = {
  expr(left, { given }) {
    const compiled = compileExpression(left);
    return compiled.ok ? compiled.output.value(given) : compiled;
  },
  template: (left, { given }) => ok(fillTemplate(JSON.parse(left) as Json, given)),
  body: (left, { given, names }) => fillBody(JSON.parse(left) as Json, given, names),
  env(left, { given, names }) {
    const expanded = expandEnv(JSON.parse(left) as Json, given as Record<string, string>, names);
    return expanded.ok ? ok(expanded.output.value) : expanded;
  },
};

/** The result as the page writes it, so that a difference reads like a correction of the page. */
function written(outcome: Outcome<Json>): string {
  if (outcome.ok) return JSON.stringify(outcome.output);
  const { kind, column, message, hint } = outcome.error.detail;
  if (kind !== 'syntax') return `error: ${message}`;
  const help = typeof hint === 'string' ? `; ${hint}` : '';
  return `syntax error in column ${Number(column)}: ${message}${help}`;
}

const expected = (right: string): string =>
  /^(syntax )?error/.test(right) ? right : JSON.stringify(JSON.parse(right));

for (const [index, { kind, lines }] of blocks().entries()) {
  const run = RUN[kind];
  if (run === undefined) continue;
  describe(`block ${index + 1} (${kind})`, () => {
    const setting = { given: {} as JsonObject, names: new Set<string>() };
    for (const line of lines) {
      const [, word, rest = ''] = /^(given|required|declared) (.*)$/.exec(line) ?? [];
      if (word === 'given') setting.given = JSON.parse(rest) as JsonObject;
      else if (word !== undefined) setting.names = new Set(rest.split(' '));
      else {
        const [left = '', right = ''] = line.split(/ +=> +/);
        const now = { ...setting };
        test(line, () => expect(written(run(left, now))).toBe(expected(right)));
      }
    }
  });
}

test('the page shows every kind of example', () => {
  const kinds = new Set(blocks().map(({ kind }) => kind));
  for (const kind of [...Object.keys(RUN), 'xml']) expect(kinds).toContain(kind);
});

test('the directive at the top is sound, and its conditions read known names only', () => {
  const source =
    blocks()
      .find(({ kind }) => kind === 'xml')
      ?.lines.join('\n') ?? '';
  const { directive, diagnostics } = parseDirective(source, 'tidy_inbox.md');
  expect(diagnostics).toEqual([]);
  const [failed, late] = directive?.hooks ?? [];
  const context = {
    event: { name: 'error', code: 'timeout', detail: { seconds: 30 } },
    directive: { name: 'tidy_inbox' },
    cost: { turns: 19 },
    limits: { turns: 20 },
  };
  for (const hook of [failed, late]) {
    const compiled = compileExpression(hook?.when ?? '');
    if (!compiled.ok) throw new Error(compiled.error.detail.message);
    expect(unknownPaths(compiled.output, HOOK_CONTEXT)).toEqual([]);
    expect(compiled.output.test(context)).toEqual({ ok: true, output: true });
  }
  expect(fillTemplate(failed?.inputs ?? null, context)).toEqual({
    what: 'timeout in tidy_inbox',
    detail: { seconds: 30 },
  });
});
