// `<limits>`: whole numbers, money as a decimal. Zero is a limit like any other: none allowed.
import { compact } from './compact.ts';
import { attributeOf, childOf, type Element, proseOf } from './directive-element.ts';
import { type Findings, quoted } from './directive-findings.ts';
import type { DirectiveLimits } from './directive-value.ts';
import type { Words } from './directive-words.ts';

/** In the order in which they are printed. */
export const COUNTED = [
  ...(['turns', 'tokens', 'spawns', 'duration', 'input_tokens', 'output_tokens'] as const),
  ...(['context', 'depth', 'tool_calls'] as const),
];

/** Money is counted in nano-units, so finer decimals could not be kept. */
const DECIMAL = /^(\d{1,12})(?:\.(\d{1,9}))?$/;
const CURRENCY = /^[A-Z]{3}$/;

/** The decimal without trailing zeros: `10.00` and `10` are one value. Undefined: not a decimal. */
export function normalizeDecimal(text: string): string | undefined {
  const [match, whole = '', fraction = ''] = DECIMAL.exec(text) ?? [];
  if (match === undefined) return undefined;
  const [int, rest] = [whole.replace(/^0+(?=\d)/, ''), fraction.replace(/0+$/, '')];
  return rest === '' ? int : `${int}.${rest}`;
}

export function readLimits(
  element: Element | undefined,
  findings: Findings,
  words: Words,
): DirectiveLimits | undefined {
  if (!element) return undefined;

  function invalid(child: Element, rule: string): undefined {
    const text = proseOf(child);
    const given = text === '' ? 'is empty' : `is ${quoted(text)}`;
    const hint = text.startsWith('-')
      ? '0 means none allowed; leave the limit out for the default'
      : /^\d[\d_, ]*\d$/.test(text)
        ? `write ${quoted(text.replace(/[_, ]/g, ''))}`
        : 'leave the limit out for the default';
    findings.error(
      'limit_invalid',
      child.at,
      `limit ${words.tag(child.name)} ${given}, but must be ${rule}`,
      hint,
    );
    return undefined;
  }

  function count(name: string): number | undefined {
    const child = childOf(element, name);
    if (!child) return undefined;
    const text = proseOf(child);
    if (text === '' && name === 'context' && attributeOf(child, 'warn')) return undefined;
    const value = /^\d{1,15}$/.test(text) ? Number(text) : undefined;
    return value ?? invalid(child, 'a whole number, 0 or more');
  }

  function spend(): string | undefined {
    const child = childOf(element, 'spend');
    if (!child) return undefined;
    return (
      normalizeDecimal(proseOf(child)) ??
      invalid(child, 'a decimal number such as `5.00`, 0 or more')
    );
  }

  function currency(): string | undefined {
    const given = attributeOf(childOf(element, 'spend'), 'currency');
    if (!given || CURRENCY.test(given.value)) return given?.value;
    findings.error(
      'currency_invalid',
      given.at,
      `currency ${quoted(given.value)} must be a code of three capital letters`,
      `e.g. ${words.attribute('currency', 'USD')}`,
    );
    return undefined;
  }

  function warn(): number | undefined {
    const given = attributeOf(childOf(element, 'context'), 'warn');
    if (!given) return undefined;
    const share = /^\d{0,3}(?:\.\d{1,9})?$/.test(given.value)
      ? Number(given.value || 'x')
      : Number.NaN;
    if (share > 0 && share <= 1) return share;
    findings.error(
      'limit_invalid',
      given.at,
      `\`warn\` is ${quoted(given.value)}, but must be a share of the context above 0 and up to 1`,
      'leave it out for 0.8',
    );
    return undefined;
  }

  const counted = Object.fromEntries(COUNTED.map((name) => [name, count(name)]));
  return compact<DirectiveLimits>({
    ...(counted as Record<(typeof COUNTED)[number], number | undefined>),
    spend: spend(),
    spend_currency: currency(),
    context_warn: warn(),
  });
}
