// The language as data: every line of tests/cases/expr is one test.
import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { type Json, type JsonObject, type Outcome, ok } from '../../src/base/index.ts';
import { compileExpression, expandEnv, fillBody, fillTemplate } from '../../src/expr/index.ts';

const FOLDER = 'packages/core/tests/cases/expr';

type Case = JsonObject;

function readCases(file: string): { title: string; line: Case }[] {
  const lines = readFileSync(`${FOLDER}/${file}`, 'utf8').split('\n');
  return lines.flatMap((text, index) => {
    if (text.trim() === '' || text.startsWith('//')) return [];
    const line = JSON.parse(text) as Case;
    const subject = line.expr ?? line.template ?? line.body ?? line.env_template ?? null;
    return [{ title: `${index + 1}: ${JSON.stringify(subject)}`, line }];
  });
}

function answer(line: Case): Outcome<Json> {
  const { expr, template, body, env_template, context = null, ...rest } = line;
  const named = (list: Json | undefined) => new Set((list ?? []) as string[]);
  if (typeof expr === 'string') {
    const compiled = compileExpression(expr);
    return compiled.ok ? compiled.output.value(context) : compiled;
  }
  if (template !== undefined) return ok(fillTemplate(template, context));
  if (body !== undefined) return fillBody(body, context as JsonObject, named(rest.required));
  const expanded = expandEnv(
    env_template as Json,
    context as Record<string, string>,
    named(rest.env),
  );
  return expanded.ok ? ok(expanded.output.value) : expanded;
}

for (const file of readdirSync(FOLDER).filter((name) => name.endsWith('.jsonl'))) {
  describe(file, () => {
    test.each(readCases(file))('$title', ({ line }) => {
      const outcome = answer(line);
      if (!outcome.ok) {
        const { code, detail } = outcome.error;
        expect({ code, ...detail }).toMatchObject((line.error ?? { code: 'none' }) as JsonObject);
        return;
      }
      expect(outcome.output).toStrictEqual(line.value);
      // Once more as text: keys such as `__proto__` are invisible to the line above.
      expect(JSON.stringify(outcome.output)).toBe(JSON.stringify(line.value));
    });
  });
}
