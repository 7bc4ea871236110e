import { compact, didYouMean, type JsonObject } from '../../base/index.ts';
import {
  type CompiledExpression,
  type ContextSchema,
  compileExpression,
  templatePaths,
  unknownPaths,
  unknownValues,
} from '../../expr/index.ts';
import { type GuardSource, guardProblems, keyProblem } from '../../flow/index.ts';
import type { Grant } from '../../trust/index.ts';
import type { Directive, Hook } from './directive.ts';
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
import { type Findings, type LazyOffset, quoted } from './findings.ts';
import {
  ALL_FIELDS,
  EVENT_FIELDS,
  EVENT_NAMES,
  type EventName,
  HOOK_CONTEXT,
} from './hook-context.ts';
import { grantLine } from './permissions.ts';

/** Returns an object with these fields, which are null. Every read of a field calls `onRead`. */
function varying(names: readonly string[], onRead: () => null): JsonObject {
  const fields = names.map((name) => [name, { get: onRead }] as const);
  return Object.defineProperties({}, Object.fromEntries(fields));
}

/**
 * Returns whether a condition can match an event of this name with any values of these fields. It cannot
 * match if it is false before it reads one of the fields.
 */
export function mayMatch(
  expression: CompiledExpression,
  name: EventName,
  fields: readonly string[],
): boolean {
  let hasLooked = expression.paths.some(({ path }) => path.length === 1 && path[0] === 'event');
  const look = (): null => {
    hasLooked = true;
    return null;
  };
  const event = Object.assign(varying(fields, look), { name });
  const { event: _, ...others } = HOOK_CONTEXT;
  const context = Object.assign(varying(Object.keys(others), look), { event });
  const holds = expression.test(context);
  return hasLooked || !holds.ok || holds.output;
}

/** Returns the events that a condition can match. */
const namedEvents = (expression: CompiledExpression): EventName[] =>
  EVENT_NAMES.filter((name) => mayMatch(expression, name, ALL_FIELDS));

/** Returns why none of these events has this path of `event`. Undefined if one has it. */
function absentField(path: readonly string[], events: readonly EventName[]): string | undefined {
  const [root, field = 'name'] = path;
  if (root !== 'event' || field === 'name' || !ALL_FIELDS.includes(field)) return undefined;
  if (events.length === 0 || events.some((name) => EVENT_FIELDS[name].includes(field))) {
    return undefined;
  }
  return `an event \`${events.join('`, `')}\` has no ${quoted(`event.${field}`)}`;
}

const fieldsOf = (events: readonly EventName[]): string =>
  `it has ${[...new Set(events.flatMap((name) => EVENT_FIELDS[name]))].join(', ')}`;

/**
 * Compiles a condition when the directive is read, so that a mistake is reported before a run. `whose` names the
 * condition in messages. Returns undefined if it cannot be compiled.
 */
function checkCondition(
  text: string,
  offset: (index: number) => LazyOffset,
  [whose, context]: readonly [whose: string, context: ContextSchema],
  findings: Findings,
): CompiledExpression | undefined {
  const compiled = compileExpression(text);
  if (!compiled.ok) {
    const { message, column, hint } = compiled.error.detail;
    const place = offset(typeof column === 'number' ? column - 1 : 0);
    const hintText = typeof hint === 'string' ? hint : undefined;
    return findings.error('expression_error', place, message, hintText);
  }
  for (const { path, value, column, known: list } of unknownValues(compiled.output, context)) {
    const message = `${quoted(path)} is never ${quoted(value)}`;
    const hint = didYouMean(value, list) ?? `one of ${list.join(', ')}`;
    findings.error('value_unknown', offset(column - 1), message, hint);
  }
  for (const { path, column, suggestion } of unknownPaths(compiled.output, context)) {
    const message = `the condition of ${whose} cannot read ${quoted(path)}`;
    const fields = `it can read ${Object.keys(context).join(', ')}`;
    const hint = suggestion === undefined ? fields : `did you mean \`${suggestion}\``;
    findings.error('path_unknown', offset(column - 1), message, hint);
  }
  return compiled.output;
}

/** Checks the condition of a hook. Returns the events that it can match. */
function checkWhen(when: Element, findings: Findings): readonly EventName[] {
  const { text, offset } = sourceOf(when);
  const compiled = checkCondition(text, offset, ['a hook', HOOK_CONTEXT], findings);
  if (!compiled) return EVENT_NAMES;
  const events = namedEvents(compiled);
  for (const { path, column } of compiled.paths) {
    const message = absentField(path, events);
    if (message) findings.error('path_unknown', offset(column - 1), message, fieldsOf(events));
  }
  return events;
}

const MAX_ROUNDS = 1000;

/**
 * Returns the criteria with a condition. `outputs`: the declared outputs, undefined for any. `hasHooks`: a hook can
 * demand rounds. Without hooks and conditions, `rounds` would have no effect, so it is refused.
 */
export function readGoal(
  element: Element,
  { outputs, hasHooks }: { outputs: readonly string[] | undefined; hasHooks: boolean },
  findings: Findings,
): Directive['goal'] {
  const { cost = 'open', directive = 'open' } = HOOK_CONTEXT;
  const fields = outputs && Object.fromEntries(outputs.map((name) => [name, 'open' as const]));
  const context: ContextSchema = { outputs: fields ?? 'open', text: 'value', cost, directive };
  const criteria = elementsOf(element, 'criterion').flatMap((criterion) => {
    const holds = attributeOf(criterion, 'holds');
    if (!holds) return [];
    checkCondition(holds.value, () => holds.at, ['a criterion', context], findings);
    return [{ text: proseOf(criterion) || holds.value, holds: holds.value }];
  });
  const { value, at = element.at } = attributeOf(element, 'rounds') ?? {};
  if (value === undefined) return criteria.length === 0 ? undefined : { criteria };
  const rounds = Number(value);
  if (!/^\d+$/.test(value) || rounds < 1 || rounds > MAX_ROUNDS) {
    const message = `\`rounds\` is ${quoted(value)}, but must be a number from 1 to ${MAX_ROUNDS}`;
    return findings.error('value_invalid', at, message);
  }
  if (criteria.length === 0 && !hasHooks) {
    const message = '`rounds` has no effect without a criterion with `holds` or a hook';
    return findings.error('value_invalid', at, message, 'add a condition, or remove `rounds`');
  }
  return { criteria, rounds };
}

/**
 * Returns the texts inside of an element with their locations. In YAML it is the location of the key.
 */
function textsIn(element: Element): { text: string; place: (index: number) => LazyOffset }[] {
  if (element.data !== undefined) {
    return [{ text: JSON.stringify(element.data), place: () => element.at }];
  }
  const { text, offset } = sourceOf(element);
  return [{ text, place: offset }, ...elementsOf(element).flatMap(textsIn)];
}

/**
 * Reports a placeholder that is never filled. An invalid path below a valid name is an error. Any other
 * placeholder is a warning, because it may be text for the hook's directive.
 */
function checkTemplates(inputs: Element, events: readonly EventName[], findings: Findings): void {
  for (const { text, place } of textsIn(inputs)) {
    for (const { path, offset } of templatePaths(text)) {
      const absent = absentField(path, events);
      if (absent) findings.error('path_unknown', place(offset), absent, fieldsOf(events));
      const compiled = compileExpression(path.join('.'));
      const [unknown] = compiled.ok ? unknownPaths(compiled.output, HOOK_CONTEXT) : [];
      if (!unknown) continue;
      const placeholder = quoted(`\${${path.join('.')}}`);
      const near = unknown.suggestion && `did you mean \`\${${unknown.suggestion}}\``;
      if (Object.hasOwn(HOOK_CONTEXT, path[0] ?? '')) {
        findings.error(
          'path_unknown',
          place(offset),
          `${placeholder} is not a field that a hook can read`,
          near,
        );
      } else {
        const message = `${placeholder} is not a field that a hook can read and stays as written`;
        findings.warning('path_unknown', place(offset), message, near);
      }
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
    const events = when && condition !== '' ? checkWhen(when, findings) : EVENT_NAMES;
    const inputs = childOf(hook, 'inputs');
    if (inputs) checkTemplates(inputs, events, findings);
    return {
      when: condition,
      directive: requiredText(hook, 'directive', findings),
      inputs: objectOf(inputs),
      ...findings.position(hook.at),
    };
  });
}

/** Inputs of a hook's directive that the harness fills unless the hook does. */
const FILLED_INPUTS = new Set(
  'event detail transcript original_directive limit current max percent'.split(' '),
);

interface HookProblem {
  readonly code: string;
  readonly message: string;
  readonly hint?: string | undefined;
}

/**
 * Returns why a hook cannot run this directive, merged with all that it extends. `missing` are rights that
 * the directive needs and that the thread with the hook does not declare.
 */
export function hookProblems(
  { directive: name, inputs }: Hook,
  target: Directive,
  missing: readonly Grant[],
): HookProblem[] {
  const problems: HookProblem[] = [];
  if (!target.outputs.some((output) => output.name === 'action')) {
    const message = `directive ${quoted(name)} cannot be a hook: it declares no output \`action\``;
    const hint =
      'add `<action type="string">retry|continue|skip|fail|abort</action>` to its outputs';
    problems.push({ code: 'hook_action_missing', message, hint });
  }
  const names = target.inputs.map((input) => input.name);
  for (const input of Object.keys(inputs).filter((one) => !names.includes(one))) {
    const message = `directive ${quoted(name)} has no input ${quoted(input)}`;
    const hint = didYouMean(input, names) ?? `it has ${names.join(', ') || 'none'}`;
    problems.push({ code: 'hook_input_unknown', message, hint });
  }
  for (const input of target.inputs) {
    const isFilled = Object.hasOwn(inputs, input.name) || FILLED_INPUTS.has(input.name);
    if (!input.required || input.default !== undefined || isFilled) continue;
    const message = `directive ${quoted(name)} needs the input ${quoted(input.name)}`;
    const hint = `add \`<${input.name}>…</${input.name}>\` to the hook's \`<inputs>\``;
    problems.push({ code: 'hook_input_missing', message, hint });
  }
  for (const { capability, scope } of missing) {
    const message = `directive ${quoted(name)} needs ${quoted(capability)}, and a hook has at most the rights of its thread`;
    const line = grantLine(capability, 'xml', scope);
    const hint = line && `add \`${line}\` to \`<permissions>\``;
    problems.push({ code: 'hook_rights_missing', message, hint });
  }
  return problems;
}

const VERDICT = /^(?:allow|deny|retry|ask)$/;
const TIMINGS = ['before', 'after', 'always'] as const;

function readVerdict(guard: Element, findings: Findings): GuardSource['verdict'] | undefined {
  const [verdict, second] = elementsOf(guard).filter(({ name }) => VERDICT.test(name));
  if (!verdict) {
    if (hasTypo(guard)) return undefined;
    const hint = 'add one of `allow`, `deny`, `retry`, `ask`';
    return findings.error('guard_invalid', guard.at, 'this guard has no verdict', hint);
  }
  if (second) {
    const message = 'a guard must have one verdict, not two';
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
    findings.error('guard_invalid', guard.at, 'this guard has no `on`', hint);
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
    closes: attributeOf(guard, 'closes')
      ?.value.split(',')
      .map((glob) => glob.trim()),
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
