// What the condition of a hook can read. Names outside this table are reported when a directive is
// loaded: a misspelt one would never match, and nobody would notice.

import { compact } from '../../base/index.ts';
import {
  type CompiledExpression,
  type ContextSchema,
  compileExpression,
  templatePaths,
  unknownPaths,
} from '../../expr/index.ts';
import { type GuardSource, guardProblems } from '../../flow/index.ts';
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
import { type DirectiveWords, type Findings, type Place, quoted } from './findings.ts';

export const HOOK_CONTEXT: ContextSchema = {
  event: {
    name: 'value',
    code: 'value',
    kind: 'value',
    step: 'value',
    turn: 'value',
    tool: 'value',
    limit: 'value',
    current: 'value',
    max: 'value',
    percent: 'value',
    arguments: 'open',
    result: 'open',
    detail: 'open',
  },
  directive: { name: 'value', version: 'value', inputs: 'open' },
  cost: {
    turns: 'value',
    tokens: 'value',
    input_tokens: 'value',
    output_tokens: 'value',
    cache_read_tokens: 'value',
    cache_write_tokens: 'value',
    tool_calls: 'value',
    spawns: 'value',
    duration_seconds: 'value',
    duration: 'value',
    spend: 'value',
    context_tokens: 'value',
  },
  limits: {
    turns: 'value',
    tokens: 'value',
    spawns: 'value',
    duration: 'value',
    spend: 'value',
    spend_currency: 'value',
    input_tokens: 'value',
    output_tokens: 'value',
    context: 'value',
    context_warn: 'value',
    depth: 'value',
    tool_calls: 'value',
  },
  permissions: { granted: 'value', required: 'value' },
  thread: { id: 'value', parent: 'value', depth: 'value', attempt: 'value' },
  labels: 'value',
  token: { capabilities: 'value' },
};

// `<hooks>` and `<guards>`: conditions are compiled here, so that a slip shows when the directive is
// read and not when the hook was needed.

const hintOf = (hint: unknown): string | undefined => (typeof hint === 'string' ? hint : undefined);

/** Compiles a condition; a syntax error points into the file, behind entities and all. */
function compileWhen(when: Element, findings: Findings): CompiledExpression | undefined {
  const { text, offset } = sourceOf(when);
  const compiled = compileExpression(text);
  if (compiled.ok) return compiled.output;
  const { message, column, hint } = compiled.error.detail;
  const place = offset(typeof column === 'number' ? column - 1 : 0);
  findings.error('expression_error', place, message, hintOf(hint));
  return undefined;
}

function checkPaths(when: Element, expression: CompiledExpression, findings: Findings): void {
  const { offset } = sourceOf(when);
  for (const { path, column, suggestion } of unknownPaths(expression, HOOK_CONTEXT)) {
    findings.error(
      'path_unknown',
      offset(column - 1),
      `a hook's condition knows nothing called ${quoted(path)}`,
      suggestion === undefined
        ? `it can read ${Object.keys(HOOK_CONTEXT).join(', ')}`
        : `did you mean \`${suggestion}\``,
    );
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
      findings.warning(
        'path_unknown',
        place(offset),
        `${quoted(`\${${path.join('.')}}`)} names nothing that a hook knows and stays as it is`,
        unknown.suggestion === undefined ? undefined : `did you mean \`\${${unknown.suggestion}}\``,
      );
    }
  }
}

function requiredText(
  hook: Element,
  name: string,
  findings: Findings,
  words: DirectiveWords,
): string {
  const child = childOf(hook, name);
  const text = child ? sourceOf(child).text : '';
  if (text !== '' || child?.unclosed || hasTypo(hook)) return text;
  const example = name === 'when' ? 'event.code == "timeout"' : 'handle_timeout';
  findings.error(
    `hook_${name}_missing`,
    child?.at ?? hook.at,
    `this hook has no ${words.tag(name)}`,
    words.form === 'xml' ? `add \`<${name}>${example}</${name}>\`` : `add \`${name}: ${example}\``,
  );
  return '';
}

export function readHooks(
  element: Element | undefined,
  findings: Findings,
  words: DirectiveWords,
): Hook[] {
  if (!element) return [];
  return elementsOf(element, 'hook').map((hook) => {
    const condition = requiredText(hook, 'when', findings, words);
    const when = childOf(hook, 'when');
    const expression = when && condition !== '' ? compileWhen(when, findings) : undefined;
    if (when && expression) checkPaths(when, expression, findings);
    const inputs = childOf(hook, 'inputs');
    if (inputs) checkTemplates(inputs, findings);
    return {
      when: condition,
      directive: requiredText(hook, 'directive', findings, words),
      inputs: objectOf(inputs),
      ...findings.position(hook.at),
    };
  });
}

const VERDICTS = ['allow', 'deny', 'retry', 'ask'] as const;
const TIMINGS = ['before', 'after', 'always'] as const;

function readVerdict(guard: Element, findings: Findings): GuardSource['verdict'] | undefined {
  const given = elementsOf(guard).filter(({ name }) =>
    VERDICTS.some((verdict) => verdict === name),
  );
  const [verdict, second] = given;
  if (!verdict && hasTypo(guard)) return undefined;
  if (!verdict || second) {
    findings.error(
      'guard_invalid',
      second?.at ?? guard.at,
      second ? 'a guard gives one verdict, not two' : 'this guard gives no verdict',
      second ? 'write a second guard' : 'add one of `allow`, `deny`, `retry`, `ask`',
    );
    return undefined;
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
    findings.error(
      'guard_invalid',
      guard.at,
      'this guard does not say what it is `on`',
      'name a label or an operation, e.g. `on="op:tool:http/*"` or `on="secret"`',
    );
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
  for (const { message, column, hint } of guardProblems(source)) {
    const place =
      when && column !== undefined
        ? sourceOf(when).offset(column - 1)
        : column === undefined
          ? on.at
          : guard.at;
    const code = column === undefined ? 'guard_invalid' : 'expression_error';
    findings.error(code, place, message, hint);
  }
  return source;
}

export function readGuards(element: Element | undefined, findings: Findings): GuardSource[] {
  if (!element) return [];
  return elementsOf(element, 'guard').flatMap((guard) => readGuard(guard, findings) ?? []);
}
