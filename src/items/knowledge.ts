// Knowledge: Markdown with `title`, `category` and `tags` in front matter. `SKILL.md` files of other
// tools name themselves with `name`; their further fields are theirs.
import {
  anything,
  createLines,
  type Diagnostic,
  didYouMean,
  getOwn,
  type Json,
  listOf,
  openYaml,
  parseYaml,
  type Rule,
  type RulePlace,
  record,
  splitFrontMatter,
  text,
  textLike,
} from '../base/index.ts';
import { type Header, readYamlHeader } from './files/item-file.ts';
import { lastSegment } from './files/item-place.ts';
import { NO_VERSION, VERSION } from './item-kinds.ts';
import { blankSignatureLine } from './signature-line.ts';

/** What is shown and searched of any item. */
export interface ItemFacts {
  title: string;
  description: string;
  category: string;
  tags: string[];
  version: string;
}

const NAMES: ReadonlySet<string> = new Set(
  'title name description category tags version'.split(' '),
);

/** `tags: a, b` is what people write, too. */
const tags: Rule<string[]> = (value, place) =>
  typeof value === 'string'
    ? value.split(',').flatMap((tag) => tag.trim() || [])
    : listOf(text, 100)(value, place);

const FIELDS = {
  title: text,
  name: text,
  description: text,
  category: text,
  tags,
  version: textLike(VERSION, 'a version such as "1.0.0"', 'put it in quotes: "1.0.0"'),
  author: text,
  license: text,
  metadata: anything,
  'allowed-tools': anything,
};

const asText = (value: unknown): string => (typeof value === 'string' ? value.trim() : '');
const asList = (value: unknown): string[] => {
  if (typeof value === 'string') return value.split(',').flatMap((tag) => tag.trim() || []);
  return Array.isArray(value) ? value.filter((tag) => typeof tag === 'string') : [];
};

const headingOf = (body: string): string =>
  (/^#{1,6}[ \t]+(\S.*)$/m.exec(body)?.[1] ?? '')
    .trim()
    .replace(/[ \t]#+$/, '')
    .trimEnd();

/** The first line of prose: what a list shows when nobody wrote a description. */
const opening = (body: string): string =>
  /^(?![#>|\-*`<\s]|\d+\.)(.+)$/m.exec(body.slice(0, 4000))?.[1]?.trim() ?? '';

/** The fields of the front matter, by the quick look or, when that is not enough, by the parser. */
function fieldsOf(yaml: string): (name: string) => unknown {
  if (yaml === '') return () => undefined;
  const header: Header | undefined = readYamlHeader(yaml, NAMES);
  if (header) return (name) => header.get(name);
  const { value } = parseYaml(yaml);
  return (name) => getOwn(value, name);
}

/** What a knowledge file says about itself; the id gives what it does not say. Never throws. */
export function knowledgeFacts(source: string, id: string): ItemFacts {
  const { yaml, rest } = splitFrontMatter(blankSignatureLine(source));
  const field = fieldsOf(yaml);
  const named = asText(field('title')) || headingOf(rest) || asText(field('name'));
  const version = asText(field('version'));
  return {
    title: named || lastSegment(id).replaceAll(/[_-]+/g, ' '),
    description: asText(field('description')) || opening(rest),
    category: asText(field('category')),
    tags: asList(field('tags')),
    version: VERSION.test(version) ? version : NO_VERSION,
  };
}

/** The text a reader wants: without front matter. */
export const knowledgeText = (source: string): string => splitFrontMatter(source).rest;

/** Mistakes in a knowledge file. Fields of others are a warning: the text is still knowledge. */
export function checkKnowledge(content: string, file: string): Diagnostic[] {
  const source = blankSignatureLine(content);
  const { yaml, offset, isOpen } = splitFrontMatter(source);
  const lines = createLines(source);
  const diagnostics: Diagnostic[] = [];
  if (isOpen) {
    const message = 'the front matter that begins here is never closed';
    const hint = 'write `---` on a line of its own after it';
    const severity = 'error';
    const text = lines.line(1);
    diagnostics.push({
      file,
      line: 1,
      column: 1,
      code: 'front_matter_unclosed',
      severity,
      message,
      hint,
      text,
    });
  }
  if (yaml === '') return diagnostics;
  const opened = openYaml(yaml, file, offset);
  checkFields(opened.value, opened.place);
  return [...diagnostics, ...opened.diagnostics];
}

function checkFields(value: Json, place: RulePlace): void {
  const known: { [key: string]: Json } = {};
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    if (value !== null) record(FIELDS)(value, place);
    return;
  }
  for (const [name, field] of Object.entries(value)) {
    if (Object.hasOwn(FIELDS, name)) known[name] = field;
    else {
      place.child(name).report({
        code: 'unknown_field',
        severity: 'warning',
        message: `unknown field \`${name}\``,
        hint: didYouMean(name, Object.keys(FIELDS)),
        at: 'key',
      });
    }
  }
  record(FIELDS)(known, place);
}
