// Parses `<path # Section>` with its variants: excluded sections, lists of headings, definitions of code
// files, `as "…"` and `?`.
import type { NodeOf, SectionName, Sections, TemplatePart } from './ast.ts';
import type { Reader } from './cursor.ts';
import { parseSteps, parseTextSteps } from './reference.ts';
import { createParts, parseBare, parseText, parseTrimmed } from './text.ts';

const PATH = /(?:[^<>#{\n]|#(?<! #)|\{(?<! \{))+/y;
const LISTING = /(#{0,6})\?\?\s*(?=>)/y;

/** Parses a file. The reader is at `<`. In a text, `as` is not part of the file. */
export function parseFile(r: Reader, isText = true): NodeOf<'file'> {
  const at = r.pos;
  r.expect('<', 'before a file');
  const path = parsePath(r, at);
  const sections = r.take('#') ? parseSections(r) : undefined;
  const definitions = sections === undefined && r.peek() === '{' ? parseDefinitions(r) : undefined;
  r.blanks();
  if (!r.take('>')) r.failUnclosed(at, '`<` opens a file that is not closed with `>`');
  const isOptional = takesMark(r, isText);
  const steps = isText ? parseTextSteps(r, true) : parseSteps(r);
  const as = isText ? undefined : parseAs(r);
  return { kind: 'file', path, sections, definitions, as, isOptional, steps, at, end: r.pos };
}

const takesMark = (r: Reader, isText: boolean): boolean =>
  (isText ? r.peek() === '?' : r.sees(/\?(?![?]|[ \t]*(?!as[ \t]+["`:])[\w"'`@<[{(])/y)) &&
  r.take('?');

function parsePath(r: Reader, at: number): NodeOf<'template'> {
  const start = r.pos;
  const raw = r.match(PATH);
  if (raw === undefined || raw.trim() === '') {
    r.fail('expected a path after `<`', { at, end: at + 1 });
  }
  return parseTrimmed(r, start, r.pos);
}

function parseSections(r: Reader): Sections {
  r.blanks();
  const at = r.pos;
  const listing = r.match(LISTING);
  if (listing !== undefined) return { include: [], exclude: [], list: listing.indexOf('?') };
  const include = parseSectionNames(r);
  if (!r.take(';')) {
    if (include.length === 0) r.fail('expected a section name after `#`', { at });
    return { include, exclude: [], list: undefined };
  }
  r.blanks();
  if (!r.take('!#')) {
    r.fail('after `;` in a section selector only `!#` may follow', {
      hint: 'exclude sections with `<file # A, B; !# C>`; quote a name that contains `;`',
    });
  }
  return { include, exclude: parseSectionNames(r), list: undefined };
}

function parseSectionNames(r: Reader): SectionName[] {
  const names: SectionName[] = [];
  do {
    r.blanks();
    const name = r.peek() === '"' ? parseText(r) : parseBareSection(r);
    if (name === undefined || name.kind !== 'template') break;
    names.push({ name, isOptional: r.take('?') });
    r.blanks();
  } while (r.take(','));
  return names;
}

function parseBareSection(r: Reader): NodeOf<'template'> | undefined {
  const start = r.pos;
  const raw = r.match(/[^,;>\n]+/y);
  if (raw === undefined) return undefined;
  if (raw.includes('!#')) {
    r.fail('`!#` needs a `;` before it', {
      at: start + raw.indexOf('!#'),
      hint: 'exclude sections with `<file # A; !# B>`',
    });
  }
  const name = raw.trimEnd().replace(/\?$/, '');
  r.pos = start;
  return parseBare(r, start + name.length);
}

function parseDefinitions(r: Reader): string[] {
  const at = r.pos;
  r.pos += 1;
  const close = r.find('}');
  if (close < 0 || close > r.lineEnd()) r.failUnclosed(at, 'the brace is not closed');
  const words = r
    .slice(r.pos, close)
    .trim()
    .split(/\s*,\s*/);
  r.pos = close + 1;
  const listings = words.filter((word) => word.endsWith('??'));
  if (words.includes('')) r.fail('expected a name between the commas', { at });
  if (listings.length > 0 && listings.length < words.length) {
    r.fail('names and `??` cannot be mixed', { at, hint: 'use only names or only `??`' });
  }
  return words;
}

/** Parses `as "…"`, in which `<>` means the file. */
function parseAs(r: Reader): NodeOf<'template'> | undefined {
  if (!r.takeAfterSpace(/as[ \t]+(?=["`]|::)/y)) return undefined;
  const text = parseText(r);
  return text.kind === 'template' ? { ...text, parts: withPlaceholders(text) } : undefined;
}

const PLACEHOLDER = /(<>(?:\.[A-Za-z_]\w*|\[\d+\])*)/;

/** Splits the strings of a template at `<>.field`, which becomes an insert named `<>`. */
function withPlaceholders({ parts, at, end }: NodeOf<'template'>): TemplatePart[] {
  const result = createParts();
  for (const part of parts) {
    const pieces = typeof part === 'string' ? part.split(PLACEHOLDER) : [part];
    for (const raw of pieces) {
      if (typeof raw !== 'string' || !raw.startsWith('<>')) {
        result.add(raw);
        continue;
      }
      const [name = '', ...fields] = raw.replaceAll(']', '').split(/[.[]/);
      const steps = fields.map((field) => ({ kind: 'field', name: field, at }) as const);
      const value = { kind: 'reference', name, steps, isOptional: false, at, end } as const;
      result.add({ kind: 'insert', value, stages: [], raw, mode: { kind: 'plain' }, at, end });
    }
  }
  return result.done();
}
