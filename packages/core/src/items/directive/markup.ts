import { countBefore, nearest } from '../../base/index.ts';
import type { Element } from './element.ts';
import { decodeEntities, type TextPiece } from './entities.ts';
import { type Findings, quoted } from './findings.ts';
import { childShape, DIRECTIVE, type Shape } from './shape.ts';
import { nameAt, readTag, type Tag } from './tag.ts';

/** Returns the position of a text at or after `from`, or -1. */
export type Finder = (needle: string, from: number) => number;

/** Returns an `indexOf` over one text. It caches the last answer for each needle, so that the total time is linear. */
export function createFinder(text: string): Finder {
  const last = new Map<string, { from: number; at: number }>();
  return (needle, from) => {
    const cached = last.get(needle);
    if (cached && from >= cached.from && (cached.at === -1 || cached.at >= from)) return cached.at;
    const at = text.indexOf(needle, from);
    last.set(needle, { from, at });
    return at;
  };
}

/** Tags that can end an element whose text is not parsed. `<when>`, for example, may contain `a < b`. */
const MARKS =
  /<(\/(?:when|script|template|example|raw|hook|guard|hooks|guards|process|directive)|when)\s*>/g;
// A `<when>` without end must not consume the hooks after it.
const WHEN_BARRIERS = ['/hook', '/guard', '/hooks', '/guards', '/directive', 'when'];

type RawReader = ReturnType<typeof createRawReader>;

/** Returns a function that reads the text of the raw element that opens just before `from`. */
function createRawReader(text: string, start: number, find: Finder) {
  // INVARIANT: at most one pass over the file, however many raw elements it contains.
  MARKS.lastIndex = start;
  const marks = Map.groupBy(text.matchAll(MARKS), ([, name]) => name);

  /** Returns the first mark of that name at or after `from`. */
  function next(name: string, from: number): number | undefined {
    const list = marks.get(name) ?? [];
    return list[countBefore(list.length, (at) => (list[at]?.index ?? 0) < from)]?.index;
  }

  function closer(name: string, from: number): number | undefined {
    const end = next(`/${name}`, from);
    if (end === undefined || name !== 'when') return end;
    return WHEN_BARRIERS.some((barrier) => (next(barrier, from) ?? text.length) < end)
      ? undefined
      : end;
  }

  /** Returns the assumed end of a raw element without closing tag: the next `</`, or the end of a condition's line. */
  function giveUp(name: string, from: number): number {
    const [tag, line] = [find('</', from), name === 'when' ? find('\n', from) : -1];
    return Math.min(tag === -1 ? text.length : tag, line === -1 ? text.length : line);
  }

  const verbatim = (from: number, end: number): TextPiece => ({
    kind: 'text',
    text: text.slice(from, end),
    at: from,
  });

  /** Returns the text and its end, which is just before the closing tag, or the assumed end without one. */
  return (name: string, from: number, decode: boolean): { piece: TextPiece; end: number } => {
    const cdata = /\s*<!\[CDATA\[/y;
    cdata.lastIndex = from;
    if (cdata.test(text)) {
      const close = find(']]>', cdata.lastIndex);
      const end = close === -1 ? undefined : closer(name, close);
      if (end !== undefined) return { piece: verbatim(cdata.lastIndex, close), end };
    }
    const end = closer(name, from) ?? giveUp(name, from);
    const piece = decode ? decodeEntities(text.slice(from, end), from) : verbatim(from, end);
    return { piece, end };
  };
}

const MAX_NESTING = 64;
const MAX_ELEMENTS = 50_000;

interface Cursor {
  readonly text: string;
  readonly findings: Findings;
  readonly find: Finder;
  readonly raw: RawReader;
  readonly stack: Element[];
  /** Number of open elements per name, so that a check needs no walk over the stack. */
  readonly open: Map<string, number>;
  root: Element | undefined;
  elements: number;
  isTooDeep: boolean;
  at: number;
}

const tagText = (name: string): string => `<${quoted(name).slice(1, -1)}>`;
const closerText = (name: string): string => `</${tagText(name).slice(1)}`;

function push({ stack, open }: Cursor, element: Element): void {
  stack.push(element);
  open.set(element.name, (open.get(element.name) ?? 0) + 1);
}

function pop({ stack, open }: Cursor, isClosed: boolean): void {
  const element = stack.pop() as Element;
  open.set(element.name, (open.get(element.name) ?? 1) - 1);
  if (!isClosed && !element.isReported) element.unclosed = true;
}

/** Reads the text from the cursor to `end`. */
function takeText(cursor: Cursor, end: number, isDecoded: boolean): void {
  const { text, at, stack, findings } = cursor;
  cursor.at = end;
  if (end <= at) return;
  const source = text.slice(at, end);
  const unknown = (entity: string, place: number): void => {
    const message = `unknown entity ${quoted(entity)} is kept as text`;
    findings.warning('entity_unknown', place, message, 'write `&amp;` for a plain `&`');
  };
  const plain: TextPiece = { kind: 'text', text: source, at };
  stack.at(-1)?.children.push(isDecoded ? decodeEntities(source, at, unknown) : plain);
}

/** Reads a comment, CDATA section or instruction, or reports that it never ends. */
function takeSection(cursor: Cursor, opener: string, close: string, what: string): void {
  const { at, find, findings } = cursor;
  const end = find(close, at + opener.length);
  if (end === -1) {
    findings.error('tag_unclosed', at, `this ${what} is never closed with \`${close}\``);
    takeText(cursor, at + opener.length, false);
    return;
  }
  cursor.at += opener.length;
  if (what === 'CDATA section') takeText(cursor, end, false);
  cursor.at = end + close.length;
}

function takeStray(cursor: Cursor, end: number): void {
  const message = 'this `<` does not start a tag and is read as text';
  const hint = 'write `&lt;` for a plain `<`';
  cursor.findings.warning('stray_lt', cursor.at, message, hint);
  takeText(cursor, end, false);
}

/** True if the closing tag of an open element comes before that of its parent. */
function isClosedLater({ text, at, find }: Cursor, current: Element, parent: Element): boolean {
  const closer = `</${current.name}`;
  // INVARIANT: only names of the table, which are few, are ever searched for in the whole file.
  if (!Object.hasOwn(parent.shape?.children ?? {}, current.name)) {
    return text.slice(at, at + 2000).includes(closer);
  }
  // The position of `</directive>` is ignored, because hooks have this tag too.
  const outer = parent.name === 'directive' ? -1 : find(`</${parent.name}`, at);
  const own = find(closer, at);
  return own !== -1 && (outer === -1 || own < outer);
}

/** Closes a tag without a closing tag when the next child of its parent begins. */
function closeForgotten(cursor: Cursor, name: string): void {
  const [parent, current] = [cursor.stack.at(-2), cursor.stack.at(-1)];
  if (!current?.shape || !parent?.shape || parent.shape.free) return;
  if (childShape(current.shape, name) || !childShape(parent.shape, name)) return;
  const takesNothing = !current.shape.text && Object.keys(current.shape.children).length === 0;
  if (takesNothing || current.name === name || !isClosedLater(cursor, current, parent)) {
    pop(cursor, false);
  }
}

function attach(cursor: Cursor, element: Element): void {
  const { stack, findings } = cursor;
  cursor.elements++;
  if (cursor.root === undefined) cursor.root = element;
  else if (stack.length < MAX_NESTING) stack.at(-1)?.children.push(element);
  else if (!cursor.isTooDeep) {
    cursor.isTooDeep = true;
    const message = `tags are nested deeper than ${MAX_NESTING} levels; deeper tags are not read`;
    findings.error('too_deep', element.at, message);
  }
}

/** True for prose such as `x <y and z > 3`, which has no shape and is not a valid tag. */
const isProse = (tag: Tag, shape: Shape | undefined): boolean =>
  shape === undefined && (!tag.finished || tag.problems.length > 0);

function reportTag({ findings, at }: Cursor, tag: Tag): void {
  if (!tag.finished) {
    findings.error('tag_unclosed', at, `tag \`${tagText(tag.name)}\` has no \`>\``);
    return;
  }
  for (const { code, at: place, message, hint } of tag.problems) {
    findings.error(code, place, message, hint);
  }
}

function takeOpener(cursor: Cursor): void {
  const { text, at, raw } = cursor;
  const tag = readTag(text, at);
  const { name, attributes } = tag;
  if (cursor.root !== undefined) closeForgotten(cursor, name);
  const isRoot = cursor.root === undefined;
  const shape = isRoot ? DIRECTIVE : childShape(cursor.stack.at(-1)?.shape, name);
  if (isProse(tag, shape)) {
    takeStray(cursor, tag.end);
    return;
  }
  reportTag(cursor, tag);
  const own = { name, at, attributes, shape, isReported: !tag.finished };
  const element: Element = { kind: 'element', children: [], ...own };
  attach(cursor, element);
  cursor.at = tag.end;
  if (tag.selfClosing) return;
  push(cursor, element);
  if (!shape?.raw) return;
  const { piece, end } = raw(name, cursor.at, shape.raw === 'decoded');
  element.children.push(piece);
  cursor.at = end;
  if (!text.startsWith('</', end)) pop(cursor, false);
}

function takeCloser(cursor: Cursor): void {
  const { text, at, open, stack, findings } = cursor;
  const name = nameAt(text, at + 2) as string;
  const bracket = /\s*>/y;
  bracket.lastIndex = at + 2 + name.length;
  cursor.at = bracket.test(text) ? bracket.lastIndex : at + 2 + name.length;
  if ((open.get(name) ?? 0) > 0) {
    while (stack.at(-1)?.name !== name) pop(cursor, false);
    pop(cursor, true);
    return;
  }
  const current = stack.at(-1) as Element;
  // `</turn>` is a typo of `<turns>`, but a second `</hook>` is not a typo of `<hooks>`.
  const isTypo = !childShape(current.shape, name) && nearest(name, [current.name]) !== undefined;
  const hint = isTypo
    ? `did you mean \`${closerText(current.name)}\``
    : `the innermost open tag here is \`${tagText(current.name)}\``;
  findings.error('tag_mismatch', at, `\`${closerText(name)}\` has no open tag`, hint);
  if (isTypo) pop(cursor, true);
}

function takeNext(cursor: Cursor): void {
  const { text } = cursor;
  const bracket = text.indexOf('<', cursor.at);
  takeText(cursor, bracket === -1 ? text.length : bracket, true);
  if (bracket === -1) return;
  const { at } = cursor;
  if (text.startsWith('<!--', at)) takeSection(cursor, '<!--', '-->', 'comment');
  else if (text.startsWith('<![CDATA[', at))
    takeSection(cursor, '<![CDATA[', ']]>', 'CDATA section');
  else if (text.startsWith('<?', at)) takeSection(cursor, '<?', '?>', 'instruction');
  else if (nameAt(text, at + 1) !== undefined) takeOpener(cursor);
  else if (text[at + 1] === '/' && nameAt(text, at + 2) !== undefined) takeCloser(cursor);
  else takeStray(cursor, at + 1);
}

/**
 * Reads the element whose `<` is at `start` and returns it with the offset just after `</directive>`. The
 * form is not XML: people write `a < b` in prose, omit closing tags and put code fences inside. Each such
 * mistake should cause only one diagnostic.
 *
 * INVARIANT: the time is always linear in the text. The reader does not recurse on nesting, and it reads no
 * position more than a fixed number of times. The tree is bounded in depth and size, so that later passes
 * may recurse.
 */
export function readMarkup(text: string, start: number, findings: Findings) {
  const find = createFinder(text);
  const cursor: Cursor = {
    text,
    findings,
    find,
    raw: createRawReader(text, start, find),
    stack: [],
    open: new Map(),
    root: undefined,
    elements: 0,
    isTooDeep: false,
    at: start,
  };
  do takeNext(cursor);
  while (cursor.stack.length > 0 && cursor.at < text.length && cursor.elements < MAX_ELEMENTS);
  if (cursor.elements >= MAX_ELEMENTS) {
    findings.error('too_large', cursor.at, `a directive may contain at most ${MAX_ELEMENTS} tags`);
  }
  while (cursor.stack.length > 0) pop(cursor, false);
  return { root: cursor.root as unknown as Element, end: cursor.at };
}
