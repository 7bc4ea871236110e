// What the condition of a hook can read. Names outside this table are reported when a directive is
// loaded: a misspelt one would never match, and nobody would notice.

import { compact } from '../../base/index.ts';
import {
  type ContextSchema,
  compileExpression,
  templatePaths,
  unknownPaths,
} from '../../expr/index.ts';
import { type GuardSource, guardProblems, keyProblem } from '../../flow/index.ts';
import type { Hook } from './directive.ts';
import {
  attributeOf,
  childOf,
  type Element,
  elementsOf,
  hasTypo,
  objectOf,
  proseOf,
  readChoice,
  sourceOf,
} from './element.ts';
import { type Findings, type Place, quoted } from './findings.ts';

const values = (names: string): ContextSchema =>
  Object.fromEntries(names.split(' ').map((name) => [name, 'value' as const]));

export const HOOK_CONTEXT: ContextSchema = {
  event: {
    ...values('name code kind step turn tool limit current max percent'),
    arguments: 'open',
    result: 'open',
    detail: 'open',
  },
  directive: { ...values('name version'), inputs: 'open' },
  cost: {
    ...values('turns tokens input_tokens output_tokens cache_read_tokens cache_write_tokens'),
    ...values('tool_calls spawns duration_seconds duration spend context_tokens'),
  },
  limits: {
    ...values('turns tokens spawns duration spend spend_currency input_tokens output_tokens'),
    ...values('context context_warn depth tool_calls'),
  },
  permissions: values('granted required'),
  thread: values('id parent depth attempt'),
  labels: 'value',
  token: values('capabilities'),
};

// `<hooks>` and `<guards>`: conditions are compiled here, so that a slip shows when the directive is
// read and not when the hook was needed.

/** Compiles a condition; what is wrong points into the file, behind entities and all. */
function checkWhen(when: Element, findings: Findings): void {
  const { text, offset } = sourceOf(when);
  const compiled = compileExpression(text);
  if (!compiled.ok) {
    const { message, column, hint } = compiled.error.detail;
    const place = offset(typeof column === 'number' ? column - 1 : 0);
    const known = typeof hint === 'string' ? hint : undefined;
    return findings.error('expression_error', place, message, known);
  }
  for (const { path, column, suggestion } of unknownPaths(compiled.output, HOOK_CONTEXT)) {
    const message = `a hook's condition knows nothing called ${quoted(path)}`;
    const known = `it can read ${Object.keys(HOOK_CONTEXT).join(', ')}`;
    const hint = suggestion === undefined ? known : `did you mean \`${suggestion}\``;
    findings.error('path_unknown', offset(column - 1), message, hint);
  }
}

/** Texts inside an element, each with a place: of the text itself in XML, of the key in YAML. */
function textsIn(element: Element): { text: string; place: (index: number) => Place }[] {
  if (element.data !== undefined) {
    return [{ text: JSON.stringify(element.data), place: () => element.at }];
  }
  const { text, offset } = sourceOf(element);
  return [{ text, place: offset }, ...elementsOf(element).flatMap(textsIn)];
}

/** A placeholder nobody fills would be handed to the hook's directive as it is written. */
function checkTemplates(inputs: Element, findings: Findings): void {
  for (const { text, place } of textsIn(inputs)) {
    for (const { path, offset } of templatePaths(text)) {
      const compiled = compileExpression(path.join('.'));
      const [unknown] = compiled.ok ? unknownPaths(compiled.output, HOOK_CONTEXT) : [];
      if (!unknown) continue;
      const message = `${quoted(`\${${path.join('.')}}`)} names nothing that a hook knows and stays as it is`;
      const near = unknown.suggestion && `did you mean \`\${${unknown.suggestion}}\``;
      findings.warning('path_unknown', place(offset), message, near);
    }
  }
}

function requiredText(hook: Element, name: string, findings: Findings): string {
  const { words } = findings;
  const child = childOf(hook, name);
  const text = child ? sourceOf(child).text : '';
  if (text !== '' || child?.unclosed || hasTypo(hook)) return text;
  const example = name === 'when' ? 'event.code == "timeout"' : 'handle_timeout';
  const line = words.form === 'xml' ? `<${name}>${example}</${name}>` : `${name}: ${example}`;
  const message = `this hook has no ${words.tag(name)}`;
  findings.error(`hook_${name}_missing`, child?.at ?? hook.at, message, `add \`${line}\``);
  return '';
}

export function readHooks(element: Element, findings: Findings): Hook[] {
  return elementsOf(element, 'hook').map((hook) => {
    const condition = requiredText(hook, 'when', findings);
    const when = childOf(hook, 'when');
    if (when && condition !== '') checkWhen(when, findings);
    const inputs = childOf(hook, 'inputs');
    if (inputs) checkTemplates(inputs, findings);
    return {
      when: condition,
      directive: requiredText(hook, 'directive', findings),
      inputs: objectOf(inputs),
      ...findings.position(hook.at),
    };
  });
}

const VERDICT = /^(?:allow|deny|retry|ask)$/;
const TIMINGS = ['before', 'after', 'always'] as const;

function readVerdict(guard: Element, findings: Findings): GuardSource['verdict'] | undefined {
  const [verdict, second] = elementsOf(guard).filter(({ name }) => VERDICT.test(name));
  if (!verdict) {
    if (hasTypo(guard)) return undefined;
    const hint = 'add one of `allow`, `deny`, `retry`, `ask`';
    return findings.error('guard_invalid', guard.at, 'this guard gives no verdict', hint);
  }
  if (second) {
    const message = 'a guard gives one verdict, not two';
    return findings.error('guard_invalid', second.at, message, 'write a second guard');
  }
  const text = proseOf(verdict);
  if (verdict.name !== 'allow') {
    return { kind: verdict.name as 'deny' | 'retry' | 'ask', ...(text === '' ? {} : { text }) };
  }
  return text === '' ? { kind: 'allow' } : { kind: 'allow_value', value: text };
}

function readGuard(guard: Element, findings: Findings): GuardSource | undefined {
  const on = attributeOf(guard, 'on');
  if (!on && !hasTypo(guard)) {
    const hint = 'name a label or an operation, e.g. `on="op:tool:http/*"` or `on="secret"`';
    findings.error('guard_invalid', guard.at, 'this guard does not say what it is `on`', hint);
  }
  const verdict = readVerdict(guard, findings);
  const timing = readChoice(guard, 'timing', TIMINGS, findings) ?? 'before';
  const when = childOf(guard, 'when');
  if (!on || !verdict) return undefined;
  const source = compact<GuardSource>({
    name: attributeOf(guard, 'name')?.value,
    on: on.value,
    timing,
    when: when && sourceOf(when).text,
    verdict,
    file: findings.file,
    ...findings.position(guard.at),
  });
  const unknown = keyProblem(on.value);
  if (unknown) findings.error('guard_invalid', on.at, unknown.message, unknown.hint);
  for (const { message, column, hint } of guardProblems(source)) {
    if (column === undefined) findings.error('guard_invalid', on.at, message, hint);
    else {
      const place = when ? sourceOf(when).offset(column - 1) : guard.at;
      findings.error('expression_error', place, message, hint);
    }
  }
  return source;
}

export const readGuards = (element: Element, findings: Findings): GuardSource[] =>
  elementsOf(element, 'guard').flatMap((guard) => readGuard(guard, findings) ?? []);
