// Reads knowledge: Markdown with `title`, `category` and `tags` in front matter. `SKILL.md` files of other
// tools use `name`, and their other fields are ignored.
import {
  anything,
  createLines,
  type Diagnostic,
  type Json,
  lastSegment,
  listOf,
  openYaml,
  type Rule,
  record,
  splitFrontMatter,
  text,
  textLike,
} from '../base/index.ts';
import { type Exposed, exposeRule, readExposed } from './expose.ts';
import { aboutFile, trimmed, yamlFields } from './files/item-file.ts';
import { type ItemFacts, VERSION, versionOf } from './item-kinds.ts';
import { blankSignatureLine } from './signature-line.ts';

const NAMES: ReadonlySet<string> = new Set(
  'title name description category tags version'.split(' '),
);

const EXPOSE: ReadonlySet<string> = new Set(['expose']);

const tags: Rule<unknown> = (value, place) =>
  typeof value === 'string' ? value : listOf(text, 100)(value, place);

const checkFields = record(
  {
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
    expose: exposeRule('knowledge'),
  },
  { open: true },
);

/** Returns a list of tags. Accepts `tags: a, b` too, as people often write it. */
const asList = (value: unknown): string[] => {
  if (typeof value === 'string') return value.split(',').flatMap((tag) => tag.trim() || []);
  return Array.isArray(value) ? value.filter((tag) => typeof tag === 'string') : [];
};

const headingOf = (body: string): string =>
  (/^#{1,6}[ \t]+(\S.*)$/m.exec(body)?.[1] ?? '')
    .trim()
    .replace(/[ \t]#+$/, '')
    .trimEnd();

/** Returns the first line of prose, for lists of items without a description. */
const opening = (body: string): string =>
  /^(?![#>|\-*`<\s]|\d+\.)(.+)$/m.exec(body.slice(0, 4000))?.[1]?.trim() ?? '';

/** Returns the facts of a knowledge file. The id supplies a missing title. Never throws. */
export function knowledgeFacts(source: string, id: string): ItemFacts {
  const { yaml, rest } = splitFrontMatter(blankSignatureLine(source));
  const field = yamlFields(yaml, NAMES);
  const text = (name: string): string => trimmed(field(name));
  const named = text('title') || headingOf(rest) || text('name');
  return {
    title: named || lastSegment(id).replaceAll(/[_-]+/g, ' '),
    description: text('description') || opening(rest),
    category: text('category'),
    tags: asList(field('tags')),
    version: versionOf(text('version')),
  };
}

/** Returns how a knowledge file is exposed to MCP clients. Undefined if it is not. Never throws. */
export function knowledgeExposed(source: string): Exposed | undefined {
  const { yaml } = splitFrontMatter(blankSignatureLine(source));
  return readExposed('knowledge', yamlFields(yaml, EXPOSE)('expose') as Json | undefined);
}

/** Returns the text of a knowledge file without its front matter. */
export const knowledgeText = (source: string): string => splitFrontMatter(source).rest;

/**
 * Returns the problems of a knowledge file. An unknown field is a warning, because the text is still usable.
 */
export function checkKnowledge(content: string, file: string): Diagnostic[] {
  const source = blankSignatureLine(content);
  const { yaml, offset, isOpen } = splitFrontMatter(source);
  if (isOpen) {
    const message = 'the front matter that begins here is never closed';
    const hint = 'write `---` on its own line after the front matter';
    const finding = aboutFile(file, 'front_matter_unclosed', message, { hint });
    return [{ ...finding, text: createLines(source).line(1) }];
  }
  if (yaml === '') return [];
  const { value, place, diagnostics } = openYaml(yaml, file, offset);
  if (value !== null) checkFields(value, place);
  return diagnostics;
}
