// Reads inputs and outputs, which are named fields with a type. A default is text in the file and becomes a
// value of the declared type.
import { compact, isObject, type Json, nearest, parseJson } from '../../base/index.ts';
import type { DirectiveInput, DirectiveOutput, OutputType } from './directive.ts';
import {
  attributeOf,
  childOf,
  type Element,
  elementsOf,
  hasTypo,
  proseOf,
  readChoice,
  readFlag,
} from './element.ts';
import { type Findings, quoted } from './findings.ts';

const OUTPUT_TYPES: readonly OutputType[] = ['string', 'number', 'boolean', 'object', 'array'];
const INPUT_TYPES = [...OUTPUT_TYPES, 'integer', 'any'] as const;
/** Matches a valid name of a field. Paths in templates consist of such names. */
const FIELD_NAME = /^[A-Za-z_][A-Za-z0-9_]{0,79}$/;
const HOOK_ACTION = /^(?:continue|retry|skip|fail|abort|retry_with_fallback)$/;

/** Returns the name of a field, from the attribute of the long form or the tag of the short one. */
function fieldName(field: Element, tag: string, findings: Findings): string | undefined {
  const attribute = field.name === tag ? attributeOf(field, 'name') : undefined;
  const name = field.name === tag ? attribute?.value : field.name;
  if (name === undefined || name === '') {
    if (hasTypo(field)) return undefined;
    const hint = `add ${findings.words.attribute('name', `my_${tag}`)}`;
    return findings.error(`${tag}_name_missing`, field.at, `this ${tag} has no name`, hint);
  }
  if (FIELD_NAME.test(name)) return name;
  const rule = 'must consist of letters, digits and `_`, and must not start with a digit';
  const message = `${tag} name ${quoted(name)} ${rule}`;
  return findings.error(`${tag}_name_invalid`, attribute?.at ?? field.at, message);
}

const FITS: Readonly<Record<string, (value: unknown) => boolean>> = {
  array: Array.isArray,
  integer: Number.isSafeInteger,
  object: isObject,
};

function readDefault(field: Element, type: string, findings: Findings): Json | undefined {
  const attribute = attributeOf(field, 'default');
  if (!attribute) return undefined;
  if (type === 'string' || type === 'any') return attribute.value;
  const parsed = parseJson(attribute.value);
  const value = parsed.ok ? parsed.output : undefined;
  const fits = FITS[type]?.(value) ?? typeof value === type;
  if (fits) return value;
  const [article, form] = [/^[aio]/.test(type) ? 'an' : 'a', type === 'object' ? ' in JSON' : ''];
  const message = `default ${quoted(attribute.value)} is not ${article} ${type}${form}`;
  const hint = 'change the default or the `type`';
  return findings.error('input_default_invalid', attribute.at, message, hint);
}

function readFields<T extends { name: string }>(
  parent: Element,
  tag: 'input' | 'output',
  findings: Findings,
  read: (field: Element, name: string) => T,
): T[] {
  const fields = new Map<string, T>();
  for (const field of elementsOf(parent)) {
    if (!field.shape || (tag === 'output' && /^(success|failure)$/.test(field.name))) continue;
    const name = fieldName(field, tag, findings);
    if (name === undefined) continue;
    const value = read(field, name);
    if (fields.has(name)) {
      const message = `${tag} ${quoted(name)} is declared twice`;
      findings.error(`${tag}_duplicate`, field.at, message, 'remove or rename one of the two');
    } else fields.set(name, value);
  }
  return [...fields.values()];
}

export function readInputs(element: Element, findings: Findings): DirectiveInput[] {
  return readFields(element, 'input', findings, (field, name) => {
    const type = readChoice(field, 'type', INPUT_TYPES, findings, 'type_unknown') ?? 'string';
    return compact<DirectiveInput>({
      name,
      type,
      required: readFlag(field, 'required', findings) ?? false,
      default: readDefault(field, type, findings),
      description: proseOf(field),
    });
  });
}

/** Returns the allowed values of an output. A text such as `retry|fail` lists them, any other is a description. */
function readEnum(field: Element, type: OutputType): { enum?: string[]; description: string } {
  const [text, members] = [proseOf(field), attributeOf(field, 'enum')?.value];
  const split = (words: string) => words.split('|').map((word) => word.trim());
  if (members !== undefined) return { enum: split(members), description: text };
  const isList = type === 'string' && /^[\w.-]+(?:\s*\|\s*[\w.-]+)+$/.test(text);
  return isList ? { enum: split(text), description: '' } : { description: text };
}

export function readOutputs(element: Element, findings: Findings): DirectiveOutput[] {
  return readFields(element, 'output', findings, (field, name) => {
    // A hook directive's `context` is an object, because the harness needs its fields.
    const usual: OutputType = name === 'context' ? 'object' : 'string';
    const type = readChoice(field, 'type', OUTPUT_TYPES, findings, 'type_unknown') ?? usual;
    const { enum: allowed, description } = readEnum(field, type);
    const isVerdict = name === 'action' && allowed?.every((word) => HOOK_ACTION.test(word));
    return compact<DirectiveOutput>({
      name,
      type,
      required: isVerdict === true || (readFlag(field, 'required', findings) ?? false),
      enum: allowed,
      description,
    });
  });
}

/** Returns the text of `success` or `failure`, for results without a text of their own. */
export const outcomeText = (outputs: Element | undefined, name: string): string | undefined =>
  childOf(outputs, name) ? proseOf(childOf(outputs, name)) : undefined;

/** Reports placeholders that read an undeclared input, because they would stay as written. */
export function reportUnknownInputs(
  texts: readonly { text: string; offset: (index: number) => number }[],
  names: readonly string[],
  findings: Findings,
): void {
  for (const { text, offset } of texts) {
    for (const match of text.matchAll(/\$\{inputs\.([A-Za-z_]\w{0,79})/g)) {
      const name = match[1] ?? '';
      if (names.includes(name)) continue;
      const near = nearest(name, names);
      const message = `${quoted(`\${inputs.${name}}`)} is not a declared input and stays as written`;
      const hint = near ? `did you mean \`\${inputs.${near}}\`` : 'declare the input in `inputs`';
      findings.warning('input_unknown', offset(match.index), message, hint);
    }
  }
}
