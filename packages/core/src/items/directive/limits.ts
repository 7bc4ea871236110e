// Reads `<limits>`. It parses both old forms of `<cost>` only to print their replacement.
import { compact, getOwn, isObject, type Json } from '../../base/index.ts';
import { COMPACT_MODES } from '../../flow/index.ts';
import { COUNTED_LIMITS, type DirectiveLimits } from './directive.ts';
import { attributeOf, childOf, dataOf, type Element, proseOf } from './element.ts';
import { type Findings, quoted } from './findings.ts';

type Replacement = ReturnType<typeof translate>;

type NewHook = Readonly<{ when: string; directive: string }>;

const WARN: NewHook = { when: 'event.name == "warning"', directive: 'warn_approaching_limit' };
const ESCALATE: NewHook = { when: 'event.name == "limit"', directive: 'request_more_budget' };

/** Hooks that replace a word of `on_exceeded`. */
const HOOKS: Readonly<Record<string, NewHook>> = { warn: WARN, escalate: ESCALATE };

/** Hooks that replace a tag of the oldest form, whose name was the trigger of the hook. */
const OLD_HOOKS: Readonly<Record<string, NewHook>> = {
  on_permission_denied: {
    when: 'event.code == "permission_denied"',
    directive: 'request_elevated_permissions',
  },
  on_cost_exceeded: ESCALATE,
  on_limit_exceeded: ESCALATE,
  on_timeout: { when: 'event.code == "timeout"', directive: 'handle_timeout' },
  on_error: { when: 'event.name == "error"', directive: 'handle_execution_failure' },
  on_failure: { when: 'event.name == "error"', directive: 'handle_execution_failure' },
};

/** Returns a hint with the current form for a tag of the oldest form of hooks. Undefined for any other tag. */
export function oldHookHint(element: Element, parent: Element): string | undefined {
  if (parent.name === 'hooks' && Object.hasOwn(OLD_HOOKS, element.name)) {
    const own = childOf(element, 'directive_name') ?? childOf(element, 'directive');
    const { when = '', directive = '' } = OLD_HOOKS[element.name] ?? {};
    return `replace it with\n${hookXml({ when, directive: proseOf(own) || directive })}`;
  }
  if (parent.name !== 'hook') return undefined;
  if (element.name === 'directive_name') {
    return `replace it with\n<directive>${proseOf(element)}</directive>`;
  }
  if (element.name === 'condition') return `replace it with\n<when>${proseOf(element)}</when>`;
  return /^on_(?:success|failure)$/.test(element.name)
    ? 'remove it: the directive of the hook returns what to do in its output `action`'
    : undefined;
}

const hookXml = ({ when, directive }: NewHook): string => `<hook>
    <when>${when}</when>
    <directive>${directive}</directive>
  </hook>`;

function lookup(value: Json, ...path: string[]): string | undefined {
  let current: Json | undefined = value;
  for (const step of path) current = getOwn(current, step);
  if (isObject(current)) current = getOwn(current, 'text');
  return typeof current === 'string' && current !== '' ? current : undefined;
}

/** Returns the limits and the hook that replace a `<cost>` element of either old form. */
function translate(cost: Json) {
  const turns = lookup(cost, 'max_turns') ?? lookup(cost, 'context', 'turns');
  const spend = lookup(cost, 'max_cost_usd') ?? lookup(cost, 'spend');
  const currency = lookup(cost, 'spend', 'currency') ?? (lookup(cost, 'max_cost_usd') && 'USD');
  const context = lookup(cost, 'max_context_tokens');
  const warn = lookup(cost, 'context_warning_threshold');
  const rows: [name: string, text: string | undefined, attribute?: [string, string] | undefined][] =
    [
      ['turns', turns],
      ['tokens', lookup(cost, 'max_total_tokens') ?? lookup(cost, 'context')],
      ['spawns', lookup(cost, 'context', 'spawn_threshold') ?? lookup(cost, 'spawn_threshold')],
      ['duration', lookup(cost, 'duration')],
      ['spend', spend, currency === undefined ? undefined : ['currency', currency]],
      ['input_tokens', lookup(cost, 'max_input_tokens')],
      ['output_tokens', lookup(cost, 'max_output_tokens')],
      ['context', context ?? (warn && ''), warn === undefined ? undefined : ['warn', warn]],
    ];
  const limits = rows.flatMap(([name, text, attribute]) =>
    text === undefined ? [] : [{ name, text, attribute }],
  );
  return { limits, hook: HOOKS[lookup(cost, 'on_exceeded')?.trim() ?? ''] };
}

function printXml({ limits, hook }: Replacement): string {
  const rows = limits.map(({ name, text, attribute }) => {
    const opener = attribute ? `${name} ${attribute[0]}="${attribute[1]}"` : name;
    return text === '' ? `  <${opener} />` : `  <${opener}>${text}</${name}>`;
  });
  const block = ['<limits>', ...rows, '</limits>'].join('\n');
  return hook
    ? `${block}
<hooks>
  ${hookXml(hook)}
</hooks>`
    : block;
}

function printYaml({ limits, hook }: Replacement): string {
  const rows = limits.flatMap(({ name, text, attribute }) => [
    ...(text === '' ? [] : [`  ${name}: ${text}`]),
    ...(attribute ? [`  ${name}_${attribute[0]}: ${attribute[1]}`] : []),
  ]);
  const block = rows.length === 0 ? 'limits: {}' : ['limits:', ...rows].join('\n');
  return hook
    ? `${block}
hooks:
  - when: ${hook.when}
    directive: ${hook.directive}`
    : block;
}

export function reportCost(cost: Element, findings: Findings): void {
  const { words } = findings;
  const replacement = translate(dataOf(cost));
  const also = replacement.hook ? ` and ${words.tag('hooks')}` : '';
  const stops = replacement.hook === WARN ? '; a run stops at its limit, also after a warning' : '';
  const message = `${words.tag('cost')} is not supported; write ${words.tag('limits')}${also} instead${stops}`;
  const block = words.form === 'xml' ? printXml(replacement) : printYaml(replacement);
  findings.error('cost_removed', cost.at, message, `replace it with\n${block}`);
}

export function reportRetired(model: Element, findings: Findings): void {
  const fallback = attributeOf(model, 'fallback');
  if (fallback) {
    const hint = `write ${findings.words.attribute('fallback_id', fallback.value)}`;
    const message = '`fallback` is now called `fallback_id`';
    findings.error('fallback_renamed', fallback.at, message, hint);
  }
  const parallel = attributeOf(model, 'parallel');
  if (parallel) {
    const message =
      '`parallel` has no effect: calls of tools that only read run concurrently anyway';
    findings.note('parallel_ignored', parallel.at, message, 'it can be removed');
  }
}

/** Attributes of `<context>`. An element with one of them needs no number. */
const CONTEXT = ['warn', 'compact', 'at', 'keep'];
const COMPACT_RULE = '`auto`, `results` or `off`';

const between =
  (least: number, most: number) =>
  (text: string): number | undefined => {
    const value = /^\d{0,3}(?:\.\d{1,9})?$/.test(text) ? Number(text) : Number.NaN;
    return text !== '' && value >= least && value <= most ? value : undefined;
  };

/** Matches a decimal. Money is counted in nano-units, so more decimals cannot be stored. */
const DECIMAL = /^(\d{1,12})(?:\.(\d{1,9}))?$/;
const CURRENCY = /^[A-Z]{3}$/;

/** Returns a decimal without trailing zeros, because `10.00` and `10` are one value. Undefined for other text. */
function normalizeDecimal(text: string): string | undefined {
  const [match, whole = '', fraction = ''] = DECIMAL.exec(text) ?? [];
  if (match === undefined) return undefined;
  const [int, rest] = [whole.replace(/^0+(?=\d)/, ''), fraction.replace(/0+$/, '')];
  return rest === '' ? int : `${int}.${rest}`;
}

export function readLimits(element: Element, findings: Findings): DirectiveLimits {
  const { words } = findings;

  function invalid(child: Element, rule: string): undefined {
    const text = proseOf(child);
    const problem = text === '' ? 'is empty' : `is ${quoted(text)}`;
    const hint = text.startsWith('-')
      ? '0 means none allowed; leave the limit out for the default'
      : /^\d[\d_, ]*\d$/.test(text)
        ? `write ${quoted(text.replace(/[_, ]/g, ''))}`
        : 'leave the limit out for the default';
    const message = `limit ${words.tag(child.name)} ${problem}, but must be ${rule}`;
    return findings.error('limit_invalid', child.at, message, hint);
  }

  function count(name: string): number | undefined {
    const child = childOf(element, name);
    if (!child) return undefined;
    const text = proseOf(child);
    if (text === '' && name === 'context' && CONTEXT.some((one) => attributeOf(child, one))) {
      return undefined;
    }
    const value = /^\d{1,15}$/.test(text) ? Number(text) : undefined;
    return value ?? invalid(child, 'a whole number, 0 or more');
  }

  function spend(): string | undefined {
    const child = childOf(element, 'spend');
    const value = normalizeDecimal(proseOf(child));
    if (!child || value !== undefined) return value;
    return invalid(child, 'a decimal number such as `5.00`, 0 or more');
  }

  function currency(): string | undefined {
    const attribute = attributeOf(childOf(element, 'spend'), 'currency');
    if (!attribute || CURRENCY.test(attribute.value)) return attribute?.value;
    const message = `currency ${quoted(attribute.value)} must be a code of three capital letters`;
    const hint = `e.g. ${words.attribute('currency', 'USD')}`;
    return findings.error('currency_invalid', attribute.at, message, hint);
  }

  function warn(): number | undefined {
    const attribute = attributeOf(childOf(element, 'context'), 'warn');
    if (!attribute) return undefined;
    const isDecimal = /^\d{0,3}(?:\.\d{1,9})?$/.test(attribute.value);
    const share = isDecimal ? Number(attribute.value) : 0;
    if (share > 0 && share <= 1) return share;
    const rule = 'must be a share of the context above 0 and up to 1';
    const message = `\`warn\` is ${quoted(attribute.value)}, but ${rule}`;
    return findings.error('limit_invalid', attribute.at, message, 'leave it out for 0.8');
  }

  function setting<Value>(
    name: string,
    rule: string,
    read: (text: string) => Value | undefined,
  ): Value | undefined {
    const attribute = attributeOf(childOf(element, 'context'), name);
    const value = attribute && read(attribute.value);
    if (!attribute || value !== undefined) return value;
    const message = `\`${name}\` is ${quoted(attribute.value)}, but must be ${rule}`;
    return findings.error('value_invalid', attribute.at, message);
  }

  const counted = Object.fromEntries(COUNTED_LIMITS.map((name) => [name, count(name)]));
  return compact<DirectiveLimits>({
    ...(counted as Record<(typeof COUNTED_LIMITS)[number], number | undefined>),
    spend: spend(),
    spend_currency: currency(),
    context_warn: warn(),
    context_compact: setting('compact', COMPACT_RULE, (text) =>
      COMPACT_MODES.find((mode) => mode === text),
    ),
    context_compact_at: setting('at', 'a share from 0.3 to 0.95', between(0.3, 0.95)),
    context_keep: setting('keep', 'a number of turns from 1 to 50', (text) =>
      /^\d+$/.test(text) ? between(1, 50)(text) : undefined,
    ),
  });
}
