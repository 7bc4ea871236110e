// Defines the table of tags and attributes of a directive. The XML reader, the YAML reader and the check of
// names all use the table, so that the two forms stay equal.
import { PERMISSION_FIELDS } from '../../trust/index.ts';

export interface Shape {
  readonly attributes: readonly string[];
  /** Removed attributes. The reader accepts them, because another rule reports their removal. */
  readonly retired?: readonly string[];
  readonly children: Readonly<Record<string, Shape>>;
  /** Shape of children with other names. Absent: other names are invalid. */
  readonly any?: Shape;
  readonly text?: boolean;
  /** Reads text up to the closing tag. `decoded`: with decoded entities. Absent: the content is parsed. */
  readonly raw?: 'decoded' | 'verbatim';
  /** True if the element may occur several times. In YAML it is a list. */
  readonly repeat?: boolean;
  /** Name of the elements in a YAML list directly under the name. Absent: such a list is invalid. */
  readonly list?: string;
  /** True if a YAML list directly under the name contains mappings from tag to content. */
  readonly mixed?: boolean;
  /** Keys of the element's text in YAML, besides `text`. */
  readonly textKeys?: readonly string[];
  /** Children by further keys that YAML accepts for them, such as the plural. */
  readonly aliases?: Readonly<Record<string, string>>;
  /** Attributes of children by further keys that YAML accepts for them, such as the name of the resulting field. */
  readonly flat?: Readonly<Record<string, readonly [child: string, attribute: string]>>;
  /** True for an element whose content is read as data, such as hook inputs and context. */
  readonly free?: boolean;
  /** True for a removed element. Its content is not checked, because one rule reports the whole element. */
  readonly gone?: boolean;
}

const shape = (parts: Partial<Shape>): Shape => ({ attributes: [], children: {}, ...parts });

const TEXT = shape({ text: true });
const TEXTS = shape({ text: true, repeat: true });
const VERBATIM = shape({ text: true, raw: 'verbatim', repeat: true });
const WHEN = shape({ text: true, raw: 'decoded' });
/** Elements whose text is never parsed. */
const OPAQUE: Record<string, Shape> = { template: VERBATIM, example: VERBATIM, raw: VERBATIM };
const FREE = shape({ free: true, text: true, repeat: true });
const FREE_PART = shape({ free: true, text: true });

const PERMISSION = shape({ attributes: PERMISSION_FIELDS, repeat: true });
const FILTER = { allow_categories: TEXTS, deny_categories: TEXTS, deny_directives: TEXTS };
const FIELD = { text: true, textKeys: ['description'], repeat: true };

/** Returns the shape of named values: each is a tag with the attribute `name`, or a tag of that name. */
const fields = (tag: string, attributes: string[], others: Shape['children'] = {}): Shape =>
  shape({
    list: tag,
    children: { [tag]: shape({ ...FIELD, attributes: ['name', ...attributes] }), ...others },
    any: shape({ ...FIELD, attributes }),
  });

/** Returns the shape of a list of tags with one name. */
const listed = (tag: string, parts: Partial<Shape>): Shape =>
  shape({ list: tag, children: { [tag]: shape({ ...parts, repeat: true }) } });

const LIMITS = shape({
  flat: {
    spend_currency: ['spend', 'currency'],
    context_warn: ['context', 'warn'],
    context_compact: ['context', 'compact'],
    context_compact_at: ['context', 'at'],
    context_keep: ['context', 'keep'],
  },
  children: {
    turns: TEXT,
    tokens: TEXT,
    spawns: TEXT,
    duration: TEXT,
    spend: shape({ attributes: ['currency'], text: true }),
    input_tokens: TEXT,
    output_tokens: TEXT,
    context: shape({ attributes: ['warn', 'compact', 'at', 'keep'], text: true }),
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
      attributes: ['on', 'timing', 'name', 'closes'],
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
      attributes: ['rounds'],
      list: 'criterion',
      aliases: { criteria: 'criterion' },
      children: { criterion: shape({ attributes: ['holds'], text: true, repeat: true }) },
    }),
    ...OPAQUE,
  },
});

export const takesAttribute = ({ attributes, retired }: Shape, name: string): boolean =>
  attributes.includes(name) || retired?.includes(name) === true;

const own = <T>(table: Readonly<Record<string, T>>, name: string): T | undefined =>
  Object.hasOwn(table, name) ? table[name] : undefined;

/** Returns the shape of a child by its name. Undefined if the parent has no such child. */
export function childShape(parent: Shape | undefined, name: string): Shape | undefined {
  if (parent === undefined) return undefined;
  const childEntry = own(parent.children, name);
  if (childEntry) return childEntry;
  if (parent.free || parent.gone) return own(OPAQUE, name) ?? FREE;
  return parent.any;
}

/** Returns the tag that a misplaced tag belongs to. Undefined unless exactly one tag has such a child. */
export function homeOf(name: string): string | undefined {
  const homes: string[] = [];
  const seek = (tag: string, { children }: Shape): void => {
    if (Object.hasOwn(children, name)) homes.push(tag);
    for (const [childName, child] of Object.entries(children)) seek(childName, child);
  };
  seek('directive', DIRECTIVE);
  return homes.length === 1 ? homes[0] : undefined;
}
