// Reads the YAML form into the same elements as the XML form. One rule covers it: a tag or attribute
// is a key, a repeated tag a list, the text beside attributes the key `text`.
import {
  isObject,
  type Json,
  type JsonObject,
  type Position,
  parseYaml,
  setOwn,
} from '../../base/index.ts';
import { type Attribute, childOf, type Element } from './element.ts';
import type { TextPiece } from './entities.ts';
import { type Findings, offsetOf, type Place, quoted } from './findings.ts';
import { childShape, DIRECTIVE, METADATA, type Shape } from './shape.ts';

/** More than any honest directive has; looking up the places of more would take too long. */
const MAX_ITEMS = 1000;

/** Honest front matter is a hundred times shorter; a stranger's should not keep anybody waiting. */
const MAX_LENGTH = 512 * 1024;

type Path = readonly (string | number)[];
type Scalar = string | number | boolean | null;

/** The front matter while it is read. */
interface Front {
  readonly findings: Findings;
  readonly place: (path: Path, part: 'key' | 'value') => Place;
}

const isScalar = (value: Json): value is Scalar => typeof value !== 'object' || value === null;
const scalarText = (value: Scalar): string => (value === null ? '' : String(value));
const nameOf = (path: Path): string => quoted(String(path.at(-1) ?? 'directive'));

/** Free content keeps its lists and objects; scalars are text, as they are between tags. */
function freeData(value: Json): Json {
  if (isScalar(value)) return scalarText(value);
  if (Array.isArray(value)) return value.map(freeData);
  const result: JsonObject = {};
  for (const [key, item] of Object.entries(value)) setOwn(result, key, freeData(item));
  return result;
}

/** Where the characters of a scalar begin: after its quote, or on the line after `|`. */
function contentStart(text: string, at: number, value: string): number {
  const mark = text[at];
  if (mark === '"' || mark === "'") return at + 1;
  if (mark !== '|' && mark !== '>') return at;
  const newline = text.indexOf('\n', at);
  const found = text.indexOf((value.split('\n')[0] ?? '').trim(), newline + 1);
  return newline === -1 || found === -1 ? at : found;
}

function textPiece(front: Front, value: Scalar, path: Path): TextPiece {
  const content = scalarText(value);
  const place = front.place(path, 'value');
  return {
    kind: 'text',
    text: content,
    get at() {
      return contentStart(front.findings.text, offsetOf(place), content);
    },
  };
}

function wrong({ findings, place }: Front, path: Path, expected: string): void {
  findings.error('value_invalid', place(path, 'value'), `${nameOf(path)} must be ${expected}`);
}

function bounded<T>({ findings, place }: Front, items: T[], path: Path): T[] {
  if (items.length <= MAX_ITEMS) return items;
  const message = `${nameOf(path)} may hold at most ${MAX_ITEMS} items, not ${items.length}`;
  findings.error('too_large', place(path, 'key'), message);
  return items.slice(0, MAX_ITEMS);
}

/** An attribute is text; the two that may be more are written out. */
function attributeText(name: string, value: Json): string | undefined {
  if (isScalar(value)) return scalarText(value);
  if (name === 'default') return JSON.stringify(value);
  if (name === 'enum' && Array.isArray(value)) return value.map(String).join('|');
  return undefined;
}

function addAttribute(front: Front, to: Attribute[], name: string, value: Json, path: Path): void {
  if (value === null) return;
  const text = attributeText(name, value);
  if (text === undefined) wrong(front, path, 'one value, not a list or mapping');
  else to.push({ name, value: text, at: front.place(path, 'key') });
}

/** The children that a key stands for: one, or one for each item of a list. */
function childrenOf(
  front: Front,
  name: string,
  value: Json,
  path: Path,
  shape: Shape | undefined,
): Element[] {
  if (!Array.isArray(value) || !shape?.repeat) return [build(front, name, value, path, shape)];
  const items = bounded(front, value, path);
  return items.map((item, index) => build(front, name, item, [...path, index], shape));
}

/** An item of a list under a container: `- read: {…}`, or the fields of the usual child. */
function listItem(front: Front, item: Json, path: Path, shape: Shape): Element[] {
  const keys = isObject(item) ? Object.keys(item) : [];
  const only = keys.length === 1 ? (keys[0] ?? '') : undefined;
  const isWrapped =
    only !== undefined &&
    (Object.hasOwn(shape.children, only) || (shape.any && isObject((item as JsonObject)[only])));
  if (isObject(item) && (shape.list === undefined || isWrapped)) {
    return keys.flatMap((key) =>
      childrenOf(front, key, item[key] as Json, [...path, key], childShape(shape, key)),
    );
  }
  if (shape.list !== undefined) {
    return [build(front, shape.list, item, path, childShape(shape, shape.list))];
  }
  wrong(front, path, 'a mapping such as `read: { resource: filesystem, path: "src/**" }`');
  return [];
}

function fillFrom(
  front: Front,
  element: Element,
  value: JsonObject,
  path: Path,
  shape: Shape,
): void {
  const flat: [string, Json][] = [];
  for (const [given, item] of bounded(front, Object.entries(value), path)) {
    const below = [...path, given];
    const name = Object.hasOwn(shape.aliases, given) ? (shape.aliases[given] ?? '') : given;
    if (Object.hasOwn(shape.flat, name)) flat.push([name, item]);
    else if (shape.attributes.includes(name) || shape.retired.includes(name)) {
      addAttribute(front, element.attributes, name, item, below);
    } else if (shape.text && isScalar(item) && ['text', ...shape.textKeys].includes(name)) {
      element.children.push(textPiece(front, item, below));
    } else {
      element.children.push(...childrenOf(front, name, item, below, childShape(shape, name)));
    }
  }
  for (const [name, item] of flat) {
    const [tag, key] = shape.flat[name] as readonly [string, string];
    const below = [...path, name];
    const child = childOf(element, tag) ?? build(front, tag, null, below, childShape(shape, tag));
    if (!element.children.includes(child)) element.children.push(child);
    addAttribute(front, child.attributes, key, item, below);
  }
}

function build(
  front: Front,
  name: string,
  value: Json,
  path: Path,
  shape: Shape | undefined,
): Element {
  const isData = shape === undefined || shape.free || shape.gone;
  const element: Element = {
    kind: 'element',
    name,
    at: front.place(path, 'key'),
    attributes: [],
    children: [],
    shape,
    yaml: true,
    ...(isData ? { data: freeData(value) } : {}),
  };
  if (isData) return element;
  if (isScalar(value)) {
    if (shape.text) element.children.push(textPiece(front, value, path));
    else if (value !== null) wrong(front, path, shape.list ? 'a list' : 'a mapping');
  } else if (isObject(value)) fillFrom(front, element, value, path, shape);
  else if (shape.list !== undefined || shape.mixed) {
    bounded(front, value, path).forEach((item, index) => {
      element.children.push(...listItem(front, item, [...path, index], shape));
    });
  } else wrong(front, path, shape.text ? 'text' : 'a mapping');
  return element;
}

/** Metadata may stand at the top: front matter has no use for the extra level. */
function buildRoot(front: Front, value: JsonObject, path: Path): Element {
  const [own, hoisted]: [JsonObject, JsonObject] = [{}, {}];
  for (const [key, item] of Object.entries(value)) {
    const isHoisted = !childShape(DIRECTIVE, key) && Object.hasOwn(METADATA.children, key);
    setOwn(isHoisted ? hoisted : own, key, item);
  }
  const root = build(front, 'directive', own, path, DIRECTIVE);
  if (Object.keys(hoisted).length === 0) return root;
  const metadata = childOf(root, 'metadata') ?? build(front, 'metadata', {}, path, METADATA);
  if (!root.children.includes(metadata)) root.children.unshift(metadata);
  fillFrom(front, metadata, hoisted, path, METADATA);
  return root;
}

/** Turns YAML's lines and columns into offsets of the file. */
function createOffsets(text: string, start: number, end: number): (position: Position) => number {
  const starts = [start];
  for (let at = text.indexOf('\n', start); at !== -1 && at < end; at = text.indexOf('\n', at + 1)) {
    starts.push(at + 1);
  }
  return ({ line, column }) => (starts[line - 1] ?? end) + column - 1;
}

/** Reads the front matter between two offsets of the file. */
export function readYaml(start: number, end: number, findings: Findings): Element {
  const { text } = findings;
  const isTooLong = end - start > MAX_LENGTH;
  if (isTooLong) {
    const message = `front matter may be at most ${MAX_LENGTH} characters long`;
    findings.error('too_large', start, message);
  }
  const document = parseYaml(isTooLong ? 'name: x' : text.slice(start, end));
  const offset = createOffsets(text, start, end);
  const place: Front['place'] = (path, part) => () => offset(document.locate(path, part));
  const front: Front = { findings, place };
  for (const problem of document.problems) {
    const message = `the front matter is not valid YAML: ${problem.message}`;
    findings.error('yaml_syntax', offset(problem), message);
  }
  const outer = document.value;
  const inner = isObject(outer) ? outer.directive : undefined;
  if (isObject(inner)) return buildRoot(front, inner, ['directive']);
  if (!isObject(outer) && document.problems.length === 0) {
    findings.error('value_invalid', start, 'the front matter must be a mapping of keys to values');
  }
  return buildRoot(front, isObject(outer) ? outer : {}, []);
}
