// `allow`, `allow VALUE`, `deny "…"`, `retry "…"`, `ask "…"` in the arms of a guard.
import { plainText } from '../base/index.ts';
import type { LabelChange, Value, Verdict } from '../flow/index.ts';
import type { LabelEdit, VerdictExpression } from './ast.ts';
import type { Compiler, Eval } from './env.ts';
import { ruling } from './ruling.ts';
import { textOf } from './text-of.ts';
import { andThen as then } from './wait.ts';

const DEFAULT_TEXT = { deny: 'denied', retry: 'try again', ask: 'may this be done?' } as const;

const list = (value: Value | undefined): readonly string[] => {
  if (!value) return [];
  return Array.isArray(value.data) ? value.data.map(plainText) : [plainText(value.data)];
};

export function compileVerdict(c: Compiler, node: VerdictExpression): Eval {
  const evaluate = node.value && c.expression(node.value, 'value');
  const { decision, options } = node;
  const edit = node.labels;
  const [add, remove] = ['addLabels', 'removeLabels'].map((name) => {
    const entry = options?.entries.get(name);
    return entry && c.expression(entry, 'value');
  });
  return (env) =>
    then(evaluate?.(env), (value) => {
      if (decision !== 'allow')
        return ruling({ kind: decision, text: value ? textOf(value) : DEFAULT_TEXT[decision] });
      return then(add?.(env), (added) =>
        then(remove?.(env), (removed) =>
          ruling(allowed(value, merged(edit, list(added), list(removed)))),
        ),
      );
    });
}

function merged(
  edit: LabelEdit | undefined,
  add: readonly string[],
  remove: readonly string[],
): LabelChange | undefined {
  if (!edit && add.length === 0 && remove.length === 0) return undefined;
  return {
    clear: edit?.clear ?? false,
    add: [...(edit?.add ?? []), ...add],
    remove: [...(edit?.remove ?? []), ...remove],
  };
}

const allowed = (value: Value | undefined, labels: LabelChange | undefined): Verdict => ({
  ...(value ? { kind: 'allow_value' as const, value } : { kind: 'allow' as const }),
  ...(labels ? { labels } : {}),
});
