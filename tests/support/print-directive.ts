// Prints a directive in both forms. A parser reads the same directive from the printed text.
import { formatYaml, isObject, type Json, type JsonObject } from '@kernmantle/core/base';
import type { Permissions } from '@kernmantle/core/trust';
import { compact } from '../../packages/core/src/base/read-shape.ts';
import type {
  Directive,
  DirectiveLimits,
  Step,
} from '../../packages/core/src/items/directive/directive.ts';
import type { Form } from '../../packages/core/src/items/directive/findings.ts';

/** A tag to print: attributes, then text or tags. */
interface Node {
  readonly tag: string;
  readonly attributes?: Readonly<Record<string, string | boolean | undefined>>;
  readonly text?: string | undefined;
  readonly raw?: boolean;
  readonly nodes?: readonly Node[];
}

const escape = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');

function opener({ tag, attributes = {} }: Node): string {
  const given = Object.entries(attributes).flatMap(([name, value]) =>
    value === undefined ? [] : [` ${name}="${escape(String(value)).replaceAll('"', '&quot;')}"`],
  );
  return `<${tag}${given.join('')}`;
}

function printNode(node: Node, indent: string): string {
  const { tag, text, raw, nodes = [] } = node;
  if (nodes.length > 0) {
    const beside = text === undefined ? [] : [escape(text).replace(/^(?=.)/gm, `${indent}  `)];
    const inner = [...beside, ...nodes.map((child) => printNode(child, `${indent}  `))];
    return [`${indent}${opener(node)}>`, ...inner, `${indent}</${tag}>`].join('\n');
  }
  if (text === undefined) return `${indent}${opener(node)} />`;
  // Raw text ends at its closing tag, so a closing tag inside it must be hidden.
  const hidden = raw && text.includes(`</${tag}`) ? `<![CDATA[${text}]]>` : text;
  const shown = raw ? hidden : escape(text);
  if (!shown.includes('\n')) return `${indent}${opener(node)}>${shown}</${tag}>`;
  const block = shown.replace(/^(?=.)/gm, `${indent}  `);
  return `${indent}${opener(node)}>\n${block}\n${indent}</${tag}>`;
}

const leaf = (tag: string, text: string | undefined): Node[] =>
  text === undefined || text === '' ? [] : [{ tag, text }];

/** Returns nodes with content. An absent element and an empty one are equal. */
const group = (tag: string, nodes: readonly Node[]): Node[] =>
  nodes.length === 0 ? [] : [{ tag, nodes }];

/** Prints free content. Lists of fewer than two items exist only in YAML. */
function freeNodes(name: string, value: Json): Node[] {
  if (Array.isArray(value)) return value.flatMap((item) => freeNodes(name, item));
  if (!isObject(value)) return [{ tag: name, text: String(value ?? '') }];
  const nodes = Object.entries(value).flatMap(([key, item]) => freeNodes(key, item));
  return [{ tag: name, nodes }];
}

const freeGroup = (tag: string, value: JsonObject | undefined): Node[] =>
  value === undefined || Object.keys(value).length === 0 ? [] : freeNodes(tag, value);

function limitNodes(limits: DirectiveLimits | undefined): Node[] {
  if (!limits) return [];
  const { spend, spend_currency: currency, context, context_warn: warn, ...rest } = limits;
  const counted = Object.entries(rest).map(([name, count]) => ({ tag: name, text: String(count) }));
  const money: Node[] =
    spend === undefined ? [] : [{ tag: 'spend', attributes: { currency }, text: spend }];
  const window: Node[] =
    context === undefined && warn === undefined
      ? []
      : [
          {
            tag: 'context',
            attributes: { warn: warn?.toString() },
            ...(context === undefined ? {} : { text: String(context) }),
          },
        ];
  return [{ tag: 'limits', nodes: [...counted, ...money, ...window] }];
}

function permissionNodes(permissions: Permissions | undefined): Node[] {
  if (!permissions) return [];
  const lists = (filter: object): Node[] =>
    Object.entries(filter).flatMap(([tag, names]) =>
      Array.isArray(names) ? [{ tag, text: names.join(', ') }] : [],
    );
  const entries = permissions.entries.map(({ verb, ...rest }) => ({
    tag: verb,
    attributes: { ...rest, line: undefined, column: undefined },
  }));
  const { orchestration, knowledge, directives, untrusted } = permissions;
  const filters: Node[] = [
    ...(orchestration
      ? [
          {
            tag: 'orchestration',
            attributes: { enabled: orchestration.enabled },
            nodes: lists(orchestration),
          },
        ]
      : []),
    ...(knowledge ? [{ tag: 'knowledge', nodes: lists(knowledge) }] : []),
    ...(directives ? [{ tag: 'directives', nodes: lists(directives) }] : []),
  ];
  return [{ tag: 'permissions', attributes: { untrusted }, nodes: [...entries, ...filters] }];
}

const textOf = (value: Json | undefined): string =>
  typeof value === 'string' ? value : JSON.stringify(value ?? null);

function guardNodes(directive: Directive): Node[] {
  return directive.guards.map(({ on, timing, name, when, verdict }) => ({
    tag: 'guard',
    attributes: { on, timing, name },
    nodes: [
      ...leaf('when', when),
      verdict.kind === 'allow_value'
        ? { tag: 'allow', text: textOf(verdict.value) }
        : { tag: verdict.kind, ...(verdict.text ? { text: verdict.text } : {}) },
    ],
  }));
}

function metadataNodes(directive: Directive): Node[] {
  const { model, deviation_rules: rules, relationships } = directive;
  const { context: purpose, ...ids } = model ?? { context: '' };
  const { text, ...flags } = rules ?? { text: '' };
  return [
    ...leaf('description', directive.description),
    ...leaf('category', directive.category),
    ...leaf('author', directive.author),
    ...leaf('title', directive.title),
    ...group(
      'expect',
      directive.expect.map((call) => ({ tag: 'call', attributes: { ...call } })),
    ),
    ...(model ? [{ tag: 'model', attributes: ids, ...(purpose ? { text: purpose } : {}) }] : []),
    ...limitNodes(directive.limits),
    ...permissionNodes(directive.permissions),
    ...group(
      'hooks',
      directive.hooks.map(({ when, directive: target, inputs }) => ({
        tag: 'hook',
        nodes: [
          ...leaf('when', when),
          ...leaf('directive', target),
          ...freeGroup('inputs', inputs),
        ],
      })),
    ),
    ...group('guards', guardNodes(directive)),
    ...group(
      'relationships',
      Object.entries(relationships).flatMap(([tag, names]: [string, string[]]) =>
        names.map((name) => ({ tag, text: name })),
      ),
    ),
    ...(rules ? [{ tag: 'deviation_rules', attributes: flags, ...(text ? { text } : {}) }] : []),
    ...freeGroup('expose', directive.expose && { ...directive.expose }),
  ];
}

const defaultText = (value: Json | undefined): string | undefined =>
  value === undefined ? undefined : textOf(value);

function fieldNodes(directive: Directive): { inputs: Node[]; outputs: Node[] } {
  return {
    inputs: directive.inputs.map(({ name, type, required, default: value, description }) => ({
      tag: 'input',
      attributes: { name, type, required, default: defaultText(value) },
      ...(description ? { text: description } : {}),
    })),
    outputs: [
      ...directive.outputs.map(({ name, type, required, enum: allowed, description }) => ({
        tag: 'output',
        attributes: { name, type, required, enum: allowed?.join('|') },
        ...(description ? { text: description } : {}),
      })),
      ...leaf('success', directive.success),
      ...leaf('failure', directive.failure),
    ],
  };
}

function stepNode({ name, description, action, condition, text }: Step): Node {
  const parts = [
    ...leaf('description', description),
    ...leaf('condition', condition),
    ...leaf('action', action),
  ];
  return { tag: 'step', attributes: { name }, text, nodes: parts };
}

function processNodes({ process: { mode, steps, script } }: Directive): Node[] {
  if (steps.length === 0 && !script) return [];
  const nodes: Node[] = script
    ? [{ tag: 'script', text: script.text, raw: true }]
    : steps.map(stepNode);
  return [{ tag: 'process', attributes: { mode: mode === 'plan' ? mode : undefined }, nodes }];
}

function formatXml(directive: Directive): string {
  const { name, version } = directive;
  const { inputs, outputs } = fieldNodes(directive);
  const nodes = [
    ...group('metadata', metadataNodes(directive)),
    ...freeGroup('context', directive.context),
    ...group('inputs', inputs),
    ...processNodes(directive),
    ...group(
      'success_criteria',
      directive.success_criteria.map((text) => ({ tag: 'criterion', text })),
    ),
    ...group('outputs', outputs),
    ...directive.opaque.map(({ tag, text }) => ({ tag, text, raw: true })),
  ];
  const body = printNode({ tag: 'directive', attributes: { name, version }, nodes }, '');
  return `\`\`\`xml\n${body}\n\`\`\`\n${directive.around === '' ? '' : `\n${directive.around}\n`}`;
}

const unlessEmpty = <T extends object>(value: T): T | undefined =>
  Object.keys(value).length === 0 ? undefined : value;

function yamlPermissions(permissions: Permissions | undefined): Json | undefined {
  if (!permissions) return undefined;
  const { entries, ...filters } = permissions;
  const listed = entries.map(({ verb, ...rest }) => ({
    [verb]: { ...rest, line: undefined, column: undefined },
  }));
  const named = Object.entries(filters).map(([name, filter]) => ({ [name]: filter }));
  return [...listed, ...named] as Json;
}

function formatFront(directive: Directive): string {
  const { process, relationships, success, failure } = directive;
  const opaque = (tag: string) =>
    unlessEmpty(directive.opaque.filter((part) => part.tag === tag).map(({ text }) => text));
  const content = compact<JsonObject>({
    name: directive.name,
    version: directive.version,
    description: directive.description || undefined,
    category: directive.category || undefined,
    author: directive.author,
    title: directive.title,
    expect: unlessEmpty(directive.expect.map((call) => ({ ...call }))),
    model: directive.model && { ...directive.model },
    limits: directive.limits && { ...directive.limits },
    permissions: yamlPermissions(directive.permissions),
    hooks: unlessEmpty(
      directive.hooks.map(({ when, directive: target, inputs }) => ({
        when,
        directive: target,
        inputs,
      })),
    ),
    guards: unlessEmpty(
      directive.guards.map(({ on, timing, name, when, verdict }) =>
        compact<JsonObject>({
          name,
          on,
          timing,
          when,
          [verdict.kind === 'allow_value' ? 'allow' : verdict.kind]:
            verdict.value ?? verdict.text ?? '',
        }),
      ),
    ),
    relationships: unlessEmpty(
      Object.fromEntries(Object.entries(relationships).filter(([, names]) => names.length > 0)),
    ),
    deviation_rules: directive.deviation_rules && { ...directive.deviation_rules },
    expose: directive.expose && { ...directive.expose },
    context: unlessEmpty(directive.context),
    inputs: unlessEmpty([...directive.inputs]) as Json | undefined,
    process: process.script
      ? { mode: process.mode, script: process.script.text }
      : unlessEmpty([...process.steps]) &&
        ({ mode: process.mode, step: process.steps } as unknown as Json),
    success_criteria: unlessEmpty([...directive.success_criteria]),
    outputs: unlessEmpty({
      ...(directive.outputs.length > 0 ? { output: directive.outputs as unknown as Json } : {}),
      ...(success === undefined ? {} : { success }),
      ...(failure === undefined ? {} : { failure }),
    }),
    template: opaque('template'),
    example: opaque('example'),
    raw: opaque('raw'),
  });
  const plain = JSON.parse(JSON.stringify(content)) as JsonObject;
  return `---\n${formatYaml(plain)}---\n${directive.around === '' ? '' : `\n${directive.around}\n`}`;
}

/** Returns the text of a file with this directive. Comments and the layout of an earlier file are lost. */
export const formatDirective = (directive: Directive, form: Form): string =>
  form === 'xml' ? formatXml(directive) : formatFront(directive);
