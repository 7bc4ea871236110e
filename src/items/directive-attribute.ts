// Attributes that are more than text: yes or no, one of a few words.
import { nearest } from '../base/index.ts';
import { attributeOf, type Element } from './directive-element.ts';
import { type Findings, quoted } from './directive-findings.ts';

export function readFlag(element: Element, name: string, findings: Findings): boolean | undefined {
  const given = attributeOf(element, name);
  if (!given) return undefined;
  if (given.value === 'true' || given.value === 'false') return given.value === 'true';
  findings.error(
    'value_invalid',
    given.at,
    `\`${name}\` is ${quoted(given.value)}, but must be \`true\` or \`false\``,
  );
  return undefined;
}

/** One of a closed set; `undefined` when absent or, after a report, when it is none of them. */
export function readChoice<T extends string>(
  element: Element,
  name: string,
  choices: readonly T[],
  findings: Findings,
  code = 'value_invalid',
): T | undefined {
  const given = attributeOf(element, name);
  if (!given) return undefined;
  const found = choices.find((choice) => choice === given.value);
  if (found !== undefined) return found;
  const near = nearest(given.value, choices);
  findings.error(
    code,
    given.at,
    `\`${name}\` is ${quoted(given.value)}, but must be one of ${choices.map((choice) => `\`${choice}\``).join(', ')}`,
    near === undefined ? undefined : `did you mean \`${near}\``,
  );
  return undefined;
}
