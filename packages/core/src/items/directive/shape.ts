// The table of tags and attributes of a directive. The XML reader, the YAML reader and the search for
// unknown names all use it, so the two forms stay equal.
import { PERMISSION_FIELDS } from '../../trust/index.ts';

export interface Shape {
  readonly attributes: readonly string[];
  /** Attributes that are listed only because a later rule explains their removal. */
  readonly retired?: readonly string[];
  readonly children: Readonly<Record<string, Shape>>;
  /** The shape of children with other names. Absent: other names are unknown. */
  readonly any?: Shape;
  readonly text?: boolean;
  /** `decoded`: text up to the closing tag with entities decoded. `verbatim`: without decoding. */
  readonly raw?: 'decoded' | 'verbatim';
  /** True if it may occur several times. In YAML it is a list. */
  readonly repeat?: boolean;
  /** In YAML a list directly under the name contains elements of this name. */
  readonly list?: string;
  /** In YAML a list directly under the name contains mappings from tag to content. */
  readonly mixed?: boolean;
  /** Keys that mean the text in YAML, besides `text`. */
  readonly textKeys?: readonly string[];
  /** Keys that YAML accepts for a child, such as the plural. */
  readonly aliases?: Readonly<Record<string, string>>;
  /** Keys that YAML accepts for an attribute of a child, named like the resulting field. */
  readonly flat?: Readonly<Record<string, readonly [child: string, attribute: string]>>;
  /** True for any content that is read as data: hook inputs, context. */
  readonly free?: boolean;
  /** True for a removed element, whose content is not checked: one rule reports all of it. */
  readonly gone?: boolean;
}

const shape = (parts: Partial<Shape>): Shape => ({ attributes: [], children: {}, ...parts });

const TEXT = shape({ text: true });
const TEXTS = shape({ text: true, repeat: true });
const VERBATIM = shape({ text: true, raw: 'verbatim', repeat: true });
const WHEN = shape({ text: true, raw: 'decoded' });
/** Elements that are opaque wherever they occur. */
const OPAQUE: Record<string, Shape> = { template: VERBATIM, example: VERBATIM, raw: VERBATIM };
const FREE = shape({ free: true, text: true, repeat: true });
const FREE_PART = shape({ free: true, text: true });

const PERMISSION = shape({ attributes: PERMISSION_FIELDS, repeat: true });
const FILTER = { allow_categories: TEXTS, deny_categories: TEXTS, deny_directives: TEXTS };
const FIELD = { text: true, textKeys: ['description'], repeat: true };

/** Named values: each is a tag with the attribute `name`, or a tag of that name. */
const fields = (tag: string, attributes: string[], others: Shape['children'] = {}): Shape =>
  shape({
    list: tag,
    children: { [tag]: shape({ ...FIELD, attributes: ['name', ...attributes] }), ...others },
    any: shape({ ...FIELD, attributes }),
  });

/** A list of tags of one name. */
const listed = (tag: string, parts: Partial<Shape>): Shape =>
  shape({ list: tag, children: { [tag]: shape({ ...parts, repeat: true }) } });

const LIMITS = shape({
  flat: { spend_currency: ['spend', 'currency'], context_warn: ['context', 'warn'] },
  children: {
    turns: TEXT,
    tokens: TEXT,
    spawns: TEXT,
    duration: TEXT,
    spend: shape({ attributes: ['currency'], text: true }),
    input_tokens: TEXT,
    output_tokens: TEXT,
    context: shape({ attributes: ['warn'], text: true }),
    depth: TEXT,
    tool_calls: TEXT,
  },
});

const EXPECT = listed('call', { attributes: ['tool', 'succeeds'] });

export const METADATA: Shape = shape({
  children: {
    description: TEXT,
    category: TEXT,
    author: TEXT,
    title: TEXT,
    expect: EXPECT,
    model: shape({
      attributes: ['tier', 'model_id', 'fallback_id', 'tools'],
      retired: ['fallback', 'parallel'],
      text: true,
      textKeys: ['context'],
    }),
    limits: LIMITS,
    cost: shape({ gone: true }),
    permissions: shape({
      attributes: ['untrusted'],
      mixed: true,
      children: {
        read: PERMISSION,
        write: PERMISSION,
        execute: PERMISSION,
        orchestration: shape({
          attributes: ['enabled'],
          children: { ...FILTER, allow_directives: TEXTS },
        }),
        knowledge: shape({ children: FILTER }),
        directives: shape({ children: FILTER }),
      },
    }),
    hooks: listed('hook', { children: { when: WHEN, directive: TEXT, inputs: FREE_PART } }),
    guards: listed('guard', {
      attributes: ['on', 'timing', 'name'],
      children: { when: WHEN, allow: TEXT, deny: TEXT, retry: TEXT, ask: TEXT },
    }),
    relationships: shape({
      children: { requires: TEXTS, suggests: TEXTS, extends: TEXTS, related: TEXTS },
    }),
    deviation_rules: shape({ attributes: ['auto_fix', 'ask_first', 'escalate'], text: true }),
    expose: FREE_PART,
  },
});

export const DIRECTIVE: Shape = shape({
  attributes: ['name', 'version'],
  children: {
    metadata: METADATA,
    inputs: fields('input', ['type', 'required', 'default']),
    process: shape({
      attributes: ['mode'],
      list: 'step',
      aliases: { steps: 'step' },
      children: {
        step: shape({
          attributes: ['name'],
          text: true,
          repeat: true,
          children: { description: TEXT, action: TEXT, condition: TEXT, ...OPAQUE },
        }),
        script: shape({ text: true, raw: 'verbatim' }),
      },
    }),
    outputs: fields('output', ['type', 'required', 'enum'], { success: TEXT, failure: TEXT }),
    context: FREE_PART,
    expect: EXPECT,
    success_criteria: shape({
      list: 'criterion',
      aliases: { criteria: 'criterion' },
      children: { criterion: TEXTS },
    }),
    ...OPAQUE,
  },
});

/** True if a rule reads this attribute. */
export const takesAttribute = ({ attributes, retired }: Shape, name: string): boolean =>
  attributes.includes(name) || retired?.includes(name) === true;

const own = <T>(table: Readonly<Record<string, T>>, name: string): T | undefined =>
  Object.hasOwn(table, name) ? table[name] : undefined;

/** Returns the shape of a child by its name. Undefined if the parent does not have that name. */
export function childShape(parent: Shape | undefined, name: string): Shape | undefined {
  if (parent === undefined) return undefined;
  const childEntry = own(parent.children, name);
  if (childEntry) return childEntry;
  if (parent.free || parent.gone) return own(OPAQUE, name) ?? FREE;
  return parent.any;
}

/** Returns the tag under which a misplaced tag belongs, if exactly one has it. */
export function homeOf(name: string): string | undefined {
  const homes: string[] = [];
  const seek = (tag: string, { children }: Shape): void => {
    if (Object.hasOwn(children, name)) homes.push(tag);
    for (const [childName, child] of Object.entries(children)) seek(childName, child);
  };
  seek('directive', DIRECTIVE);
  return homes.length === 1 ? homes[0] : undefined;
}
