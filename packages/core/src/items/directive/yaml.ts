// Reads the YAML form into the same elements as the XML form. A tag or attribute is a key, a repeated tag is
// a list, and the text beside attributes is the key `text`.
import {
  createLines,
  isObject,
  type Json,
  type JsonObject,
  type Position,
  parseYaml,
  setOwn,
} from '../../base/index.ts';
import { type Attribute, childOf, type Element } from './element.ts';
import type { TextPiece } from './entities.ts';
import { type Findings, type LazyOffset, offsetOf, quoted } from './findings.ts';
import { childShape, DIRECTIVE, METADATA, type Shape, takesAttribute } from './shape.ts';

/** Maximum number of entries per list. Real directives have fewer, and the locations of more would take too long. */
const MAX_ITEMS = 1000;

/** Maximum length of front matter, against untrusted files. Real front matter is a hundred times shorter. */
const MAX_LENGTH = 512 * 1024;

type Scalar = string | number | boolean | null;

/** One node of the front matter while it is read. */
interface Location {
  readonly findings: Findings;
  /** The key or index that leads to this node. */
  readonly step: string | number;
  place(part: 'key' | 'value'): LazyOffset;
  below(step: string | number): Location;
}

const isScalar = (value: Json): value is Scalar => typeof value !== 'object' || value === null;
const scalarText = (value: Scalar): string => (value === null ? '' : String(value));
const nameOf = ({ step }: Location): string => quoted(String(step));

/** Returns free content with its lists and objects. Scalars become text, as they are between tags. */
function freeData(value: Json): Json {
  if (isScalar(value)) return scalarText(value);
  if (Array.isArray(value)) return value.map(freeData);
  const result: JsonObject = {};
  for (const [key, item] of Object.entries(value)) setOwn(result, key, freeData(item));
  return result;
}

/** Returns the offset of a scalar's first character: after its quote, or on the line after `|`. */
function contentStart(text: string, at: number, value: string): number {
  const mark = text[at];
  if (mark === '"' || mark === "'") return at + 1;
  if (mark !== '|' && mark !== '>') return at;
  const newline = text.indexOf('\n', at);
  const start = text.indexOf((value.split('\n')[0] ?? '').trim(), newline + 1);
  return newline === -1 || start === -1 ? at : start;
}

function textPiece({ findings, place }: Location, value: Scalar): TextPiece {
  const content = scalarText(value);
  const at = place('value');
  return {
    kind: 'text',
    text: content,
    get at() {
      return contentStart(findings.text, offsetOf(at), content);
    },
  };
}

function wrong(spot: Location, expected: string): void {
  const message = `${nameOf(spot)} must be ${expected}`;
  spot.findings.error('value_invalid', spot.place('value'), message);
}

function bounded<T>(spot: Location, items: T[]): T[] {
  if (items.length <= MAX_ITEMS) return items;
  const message = `${nameOf(spot)} may contain at most ${MAX_ITEMS} items, not ${items.length}`;
  spot.findings.error('too_large', spot.place('key'), message);
  return items.slice(0, MAX_ITEMS);
}

/** Returns an attribute as text. Only `default` and `enum` may have structured values. */
function attributeText(name: string, value: Json): string | undefined {
  if (isScalar(value)) return scalarText(value);
  if (name === 'default') return JSON.stringify(value);
  if (name === 'enum' && Array.isArray(value)) return value.map(String).join('|');
  return undefined;
}

function addAttribute(spot: Location, to: Attribute[], name: string, value: Json): void {
  if (value === null) return;
  const text = attributeText(name, value);
  if (text === undefined) wrong(spot, 'one value, not a list or mapping');
  else to.push({ name, value: text, at: spot.place('key') });
}

/** Returns the children for a key: one, or one for each item of a list if the child may repeat. */
function childrenOf(
  spot: Location,
  name: string,
  value: Json,
  shape: Shape | undefined,
): Element[] {
  if (!Array.isArray(value) || !shape?.repeat) return [build(spot, name, value, shape)];
  return bounded(spot, value).map((item, index) => build(spot.below(index), name, item, shape));
}

/** Returns the elements of a list item under a container: `- read: {…}`, or the fields of the container's child. */
function listItem(spot: Location, item: Json, shape: Shape): Element[] {
  const keys = isObject(item) ? Object.keys(item) : [];
  const only = keys.length === 1 ? (keys[0] ?? '') : undefined;
  const isWrapped =
    only !== undefined &&
    (Object.hasOwn(shape.children, only) || (shape.any && isObject((item as JsonObject)[only])));
  if (isObject(item) && (shape.list === undefined || isWrapped)) {
    return keys.flatMap((key) =>
      childrenOf(spot.below(key), key, item[key] as Json, childShape(shape, key)),
    );
  }
  if (shape.list !== undefined) {
    return [build(spot, shape.list, item, childShape(shape, shape.list))];
  }
  wrong(spot, 'a mapping such as `read: { resource: filesystem, path: "src/**" }`');
  return [];
}

function fillFrom(spot: Location, element: Element, value: JsonObject, shape: Shape): void {
  const { aliases = {}, flat = {}, textKeys = [] } = shape;
  const later: [string, Json][] = [];
  for (const [fieldName, item] of bounded(spot, Object.entries(value))) {
    const below = spot.below(fieldName);
    const name = Object.hasOwn(aliases, fieldName) ? (aliases[fieldName] ?? '') : fieldName;
    if (Object.hasOwn(flat, name)) later.push([name, item]);
    else if (takesAttribute(shape, name)) addAttribute(below, element.attributes, name, item);
    else if (shape.text && isScalar(item) && ['text', ...textKeys].includes(name)) {
      element.children.push(textPiece(below, item));
    } else element.children.push(...childrenOf(below, name, item, childShape(shape, name)));
  }
  for (const [name, item] of later) {
    const [tag, key] = flat[name] as readonly [string, string];
    const below = spot.below(name);
    const child = childOf(element, tag) ?? build(below, tag, null, childShape(shape, tag));
    if (!element.children.includes(child)) element.children.push(child);
    addAttribute(below, child.attributes, key, item);
  }
}

function build(spot: Location, name: string, value: Json, shape: Shape | undefined): Element {
  const isData = shape === undefined || shape.free || shape.gone;
  const element: Element = {
    kind: 'element',
    name,
    at: spot.place('key'),
    attributes: [],
    children: [],
    shape,
    yaml: true,
    ...(isData ? { data: freeData(value) } : {}),
  };
  if (isData) return element;
  if (isScalar(value)) {
    if (shape.text) element.children.push(textPiece(spot, value));
    else if (value !== null) wrong(spot, shape.list ? 'a list' : 'a mapping');
  } else if (isObject(value)) fillFrom(spot, element, value, shape);
  else if (shape.list !== undefined || shape.mixed) {
    bounded(spot, value).forEach((item, index) => {
      const below = spot.below(index);
      const [name = '', ...more] = isObject(item) ? Object.keys(item) : [];
      const isAttribute = isObject(item) && more.length === 0 && takesAttribute(shape, name);
      if (isAttribute)
        addAttribute(below.below(name), element.attributes, name, item[name] ?? null);
      else element.children.push(...listItem(below, item, shape));
    });
  } else wrong(spot, shape.text ? 'text' : 'a mapping');
  return element;
}

/** Builds the directive. Metadata may be at the top level, because front matter needs no extra level. */
function buildRoot(spot: Location, value: JsonObject): Element {
  const [own, hoisted]: [JsonObject, JsonObject] = [{}, {}];
  for (const [key, item] of Object.entries(value)) {
    const isHoisted = !childShape(DIRECTIVE, key) && Object.hasOwn(METADATA.children, key);
    setOwn(isHoisted ? hoisted : own, key, item);
  }
  const root = build(spot, 'directive', own, DIRECTIVE);
  if (Object.keys(hoisted).length === 0) return root;
  const metadata = childOf(root, 'metadata') ?? build(spot, 'metadata', {}, METADATA);
  if (!root.children.includes(metadata)) root.children.unshift(metadata);
  fillFrom(spot, metadata, hoisted, METADATA);
  return root;
}

/** Reads the front matter between two offsets of the file. */
export function readYaml(start: number, end: number, findings: Findings): Element {
  const { text } = findings;
  const isTooLong = end - start > MAX_LENGTH;
  if (isTooLong) {
    const message = `front matter may be at most ${MAX_LENGTH} characters long`;
    findings.error('too_large', start, message);
  }
  const yaml = text.slice(start, end);
  const document = parseYaml(isTooLong ? 'name: x' : yaml);
  const lines = createLines(yaml);
  const offset = (position: Position): number => start + lines.offset(position);
  const spotAt = (path: readonly (string | number)[]): Location => ({
    findings,
    step: path.at(-1) ?? 'directive',
    place: (part) => () => offset(document.locate(path, part)),
    below: (step) => spotAt([...path, step]),
  });
  for (const problem of document.problems) {
    const message = `the front matter is not valid YAML: ${problem.message}`;
    findings.error('yaml_syntax', offset(problem), message);
  }
  const outer = document.value;
  const inner = isObject(outer) ? outer.directive : undefined;
  if (isObject(inner)) return buildRoot(spotAt(['directive']), inner);
  if (!isObject(outer) && document.problems.length === 0) {
    findings.error('value_invalid', start, 'the front matter must be a mapping of keys to values');
  }
  return buildRoot(spotAt([]), isObject(outer) ? outer : {});
}
