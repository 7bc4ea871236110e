// `<cost>` is gone. Both of its old forms are read far enough to print what to write instead.
import { isObject, type Json } from '../base/index.ts';
import { attributeOf, dataOf, type Element } from './directive-element.ts';
import type { Findings } from './directive-findings.ts';
import type { Form, Words } from './directive-words.ts';

interface Replacement {
  limits: { name: string; attribute?: [string, string]; text: string }[];
  hook?: { when: string; directive: string };
}

const HOOKS: Readonly<Record<string, { when: string; directive: string }>> = {
  warn: { when: 'event.name == "warning"', directive: 'warn_approaching_limit' },
  escalate: { when: 'event.name == "limit"', directive: 'request_more_budget' },
};

function lookup(value: Json, ...path: string[]): string | undefined {
  let found: Json | undefined = value;
  for (const step of path) {
    found = isObject(found) && Object.hasOwn(found, step) ? found[step] : undefined;
  }
  if (isObject(found)) found = Object.hasOwn(found, 'text') ? found.text : undefined;
  return typeof found === 'string' && found !== '' ? found : undefined;
}

/** The equivalent of a `<cost>` element, whichever of its two forms it has. */
function translate(cost: Json): Replacement {
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
  const limits: Replacement['limits'] = [];
  for (const [name, text, attribute] of rows) {
    if (text !== undefined) limits.push({ name, text, ...(attribute ? { attribute } : {}) });
  }
  const hook = HOOKS[lookup(cost, 'on_exceeded')?.trim() ?? ''];
  return { limits, ...(hook ? { hook } : {}) };
}

function printXml({ limits, hook }: Replacement): string {
  const rows = limits.map(({ name, text, attribute }) => {
    const opener = attribute ? `${name} ${attribute[0]}="${attribute[1]}"` : name;
    return text === '' ? `  <${opener} />` : `  <${opener}>${text}</${name}>`;
  });
  const block = ['<limits>', ...rows, '</limits>'];
  if (!hook) return block.join('\n');
  const lines = [
    ...block,
    '<hooks>',
    '  <hook>',
    `    <when>${hook.when}</when>`,
    `    <directive>${hook.directive}</directive>`,
    '  </hook>',
    '</hooks>',
  ];
  return lines.join('\n');
}

function printYaml({ limits, hook }: Replacement): string {
  const rows = limits.flatMap(({ name, text, attribute }) => [
    ...(text === '' ? [] : [`  ${name}: ${text}`]),
    ...(attribute ? [`  ${name}_${attribute[0]}: ${attribute[1]}`] : []),
  ]);
  const block = rows.length === 0 ? ['limits: {}'] : ['limits:', ...rows];
  if (!hook) return block.join('\n');
  return [...block, 'hooks:', `  - when: ${hook.when}`, `    directive: ${hook.directive}`].join(
    '\n',
  );
}

const print = (replacement: Replacement, form: Form): string =>
  form === 'xml' ? printXml(replacement) : printYaml(replacement);

export function reportCost(cost: Element, findings: Findings, words: Words): void {
  const replacement = translate(dataOf(cost));
  const also = replacement.hook ? ` and ${words.tag('hooks')}` : '';
  findings.error(
    'cost_removed',
    cost.at,
    `${words.tag('cost')} is no longer read; write ${words.tag('limits')}${also} instead`,
    `replace it with\n${print(replacement, words.form)}`,
  );
}

/** What became of two attributes of `<model>`. */
export function reportRetired(model: Element, findings: Findings, words: Words): void {
  const fallback = attributeOf(model, 'fallback');
  if (fallback) {
    findings.error(
      'fallback_renamed',
      fallback.at,
      `\`fallback\` is now called \`fallback_id\``,
      `write ${words.attribute('fallback_id', fallback.value)}`,
    );
  }
  const parallel = attributeOf(model, 'parallel');
  if (parallel) {
    findings.note(
      'parallel_ignored',
      parallel.at,
      '`parallel` has no effect: calls of tools that only read run concurrently anyway',
      'it can be removed',
    );
  }
}
