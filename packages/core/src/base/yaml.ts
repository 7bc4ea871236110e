// Reads and writes YAML; no other file uses the library. Text is untrusted: its size, its nesting and the
// values of its aliases are bounded, and no tag creates an object. Every path of a value has a location.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { Node } from 'yaml';
import { setOwn } from './json.ts';
import { fail, type Json, type JsonObject, messageOf, type Outcome, ok } from './outcome.ts';
import type { Position } from './text.ts';
import type * as Yaml from './yaml-library.ts';

const MAX_YAML_DEPTH = 64;
const MAX_NODES = 200_000;
const MAX_BYTES = 2 * 1024 * 1024;
const MAX_PROBLEMS = 100;
const NO_KEY = 'the key is a list or a map; write a text, a number, true, false or null';

interface YamlProblem extends Position {
  message: string;
}

export interface YamlDocument {
  /** The readable part of the document. Null for an empty document. */
  value: Json;
  problems: YamlProblem[];
  /**
   * Returns the location of a path's value (or, with `key`, of its key), or of the nearest existing ancestor.
   */
  locate(path: readonly (string | number)[], part?: 'key' | 'value'): Position;
}

class TooMuch extends Error {}

// The library is loaded on first use, because most commands never read YAML and should start fast.
let loaded: typeof Yaml | undefined;
const LIBRARY = import.meta.url.endsWith('.ts') ? './yaml-library.ts' : '../yaml-library.js';
const library = (): typeof Yaml =>
  (loaded ??= createRequire(import.meta.url)(LIBRARY) as typeof Yaml);

/**
 * Documents that the build has parsed: shipped files that every command reads. The key is the whole
 * text, so a changed file is parsed.
 */
let shippedValues: ReadonlyMap<string, Json> | undefined;

function shippedDocuments(): ReadonlyMap<string, Json> {
  if (shippedValues || import.meta.url.endsWith('.ts')) return shippedValues ?? new Map();
  try {
    const file = new URL(/* @vite-ignore */ '../../../../src/known-yaml.json', import.meta.url);
    shippedValues = new Map(JSON.parse(readFileSync(file, 'utf8')) as [string, Json][]);
  } catch {
    shippedValues = new Map();
  }
  return shippedValues;
}

const RECENT_CHARACTERS = 1_000_000;
/** Cache of documents without a problem, because several projects share most files. */
const recent = new Map<string, Json>();
let recentCharacters = 0;

/** A text with an anchor is not cached, because its value can be much longer than the text. */
function remember(text: string, value: Json): void {
  if (value === null || text.includes('&') || text.length > RECENT_CHARACTERS / 16) return;
  recentCharacters += text.length;
  if (recentCharacters > RECENT_CHARACTERS) {
    recent.clear();
    recentCharacters = text.length;
  }
  recent.set(text, structuredClone(value));
}

/** Returns a cached document. Only a problem needs locations, so only `locate` loads the library. */
const cachedDocument = (text: string, value: Json): YamlDocument => ({
  value: structuredClone(value),
  problems: [],
  locate: (path, part) => read(text).locate(path, part),
});

/** True for indentation or brackets deeper than any real file, so that the library's recursion is bounded. */
function isTooDeep(text: string): boolean {
  let depth = 0;
  for (let i = 0; i < text.length; i++) {
    const char = text[i];
    if (char === '[' || char === '{') {
      if (++depth > 10 * MAX_YAML_DEPTH) return true;
    } else if ((char === ']' || char === '}') && depth > 0) depth--;
  }
  return /^(?: *[-?:] ){200}/m.test(text) || /^ {2000}/m.test(text);
}

export function parseYaml(text: string): YamlDocument {
  const start: Position = { line: 1, column: 1 };
  const refuse = (message: string): YamlDocument => ({
    value: null,
    problems: [{ ...start, message }],
    locate: () => start,
  });
  const before = shippedDocuments().get(text) ?? recent.get(text);
  if (before !== undefined) return cachedDocument(text, before);
  if (text.length > MAX_BYTES) return refuse(`YAML text is longer than ${MAX_BYTES} characters`);
  if (isTooDeep(text)) return refuse('YAML is nested too deeply');
  try {
    const document = read(text);
    if (document.problems.length === 0) remember(text, document.value);
    return document;
  } catch (error) {
    if (error instanceof TooMuch) return refuse(error.message);
    if (error instanceof RangeError) return refuse('YAML is nested too deeply');
    throw error;
  }
}

const READING = {
  prettyErrors: false,
  schema: 'core',
  version: '1.2',
  // `convert` checks keys, because the library compares every key with every other.
  uniqueKeys: false,
  strict: true,
  logLevel: 'silent',
} as const;

function read(text: string): YamlDocument {
  const { isAlias, isMap, isScalar, isSeq, LineCounter, parseDocument } = library();
  const lines = new LineCounter();
  const document = parseDocument(text, { ...READING, lineCounter: lines });
  const place = (offset: number): Position => {
    const { line, col } = lines.linePos(offset);
    return { line: Math.max(1, line), column: Math.max(1, col) };
  };
  const problems: YamlProblem[] = [];
  for (const error of [...document.errors, ...document.warnings].slice(0, MAX_PROBLEMS)) {
    problems.push({ ...place(error.pos[0]), message: error.message });
  }

  // Anchors are added in document order, so an alias finds earlier nodes without a walk of the tree.
  const anchors = new Map<string, unknown>();
  const checked = new Set<unknown>();
  const report = (offset: number, message: string): void => {
    if (problems.length < MAX_PROBLEMS) problems.push({ ...place(offset), message });
  };

  /** Returns undefined for a list or mapping as a key, because its text could double with every level. */
  const keyText = (key: unknown): string | undefined => {
    const anchor = (key as { anchor?: string } | null)?.anchor;
    if (anchor !== undefined) anchors.set(anchor, key);
    const target = isAlias(key) ? anchors.get(key.source) : key;
    return isScalar(target) ? String(target.value) : target === null ? 'null' : undefined;
  };

  let nodes = 0;
  const convert = (node: unknown, depth: number): Json => {
    if (++nodes > MAX_NODES) throw new TooMuch(`YAML expands to more than ${MAX_NODES} values`);
    if (depth > MAX_YAML_DEPTH) throw new TooMuch(`YAML is nested deeper than ${MAX_YAML_DEPTH}`);
    if (isAlias(node)) {
      if (anchors.has(node.source)) return convert(anchors.get(node.source), depth + 1);
      report(node.range?.[0] ?? 0, `alias \`*${node.source}\` has no anchor above it`);
      return null;
    }
    const anchor = (node as { anchor?: string } | null)?.anchor;
    if (anchor !== undefined) anchors.set(anchor, node);
    if (isSeq(node)) return node.items.map((item) => convert(item, depth + 1));
    if (isMap(node)) {
      const result: JsonObject = {};
      for (const { key, value } of node.items) {
        const name = keyText(key);
        const read = convert(value, depth + 1);
        if (name === undefined) {
          const isLost = isAlias(key) && !anchors.has(key.source);
          const message = isLost ? `alias \`*${key.source}\` has no anchor above it` : NO_KEY;
          if (!checked.has(node)) report((key as Node | null)?.range?.[0] ?? 0, message);
          continue;
        }
        // The first value of a repeated key counts, because `locate` finds the first one.
        if (!Object.hasOwn(result, name)) setOwn(result, name, read);
        else if (!checked.has(node)) {
          report((key as Node | null)?.range?.[0] ?? 0, `key \`${name}\` occurs twice here`);
        }
      }
      checked.add(node);
      return result;
    }
    if (!isScalar(node)) return null;
    const { value } = node;
    if (typeof value === 'string' || typeof value === 'boolean' || value === null) return value;
    if (typeof value === 'number' && Number.isFinite(value)) return value;
    report(
      node.range?.[0] ?? 0,
      `\`${typeof value === 'number' ? value : typeof value}\` is not a JSON value`,
    );
    return null;
  };

  const locate: YamlDocument['locate'] = (path, part = 'value') => {
    let node: unknown = document.contents;
    let offset = (document.contents as Node | null)?.range?.[0] ?? 0;
    for (const [index, step] of path.entries()) {
      if (isAlias(node)) node = anchors.get(node.source);
      if (isMap(node)) {
        const pair = node.items.find(({ key }) => keyText(key) === String(step));
        if (!pair) break;
        const keyNode = pair.key as Node | null;
        const last = index === path.length - 1;
        const spot = last && part === 'key' ? keyNode : ((pair.value as Node | null) ?? keyNode);
        offset = spot?.range?.[0] ?? offset;
        node = pair.value;
      } else if (isSeq(node)) {
        node = node.items[Number(step)];
        offset = (node as Node | undefined)?.range?.[0] ?? offset;
      } else break;
    }
    return place(offset);
  };

  return { value: convert(document.contents, 0), problems, locate };
}

interface YamlValue {
  readonly path: readonly string[];
  readonly value: Json;
}

/** Returns the text with these values. Comments, order and all other values stay. */
export function withYamlValues(text: string, values: readonly YamlValue[]): Outcome<string> {
  const { problems } = parseYaml(text);
  const [problem] = problems;
  if (problem) return fail('config_invalid', `line ${problem.line}: ${problem.message}`);
  const document = library().parseDocument(text, READING);
  try {
    for (const { path, value } of values) document.setIn(path, document.createNode(value));
    return ok(document.toString({ lineWidth: 0 }));
  } catch (error) {
    return fail('config_invalid', messageOf(error));
  }
}

export const formatYaml = (value: Json): string => library().stringify(value, { lineWidth: 0 });

interface FrontMatterParts {
  /** The YAML text. Empty if the file has no such block. */
  yaml: string;
  /** Number of lines before the YAML text, which converts its locations to locations in the file. */
  offset: number;
  /** The text after the block. The whole text if the file has no such block. */
  rest: string;
  /** True if a `---` opens a block and no line closes it. */
  isOpen: boolean;
}

/** Matches text that may precede the block: a byte order mark, a shebang, blank lines and comment lines. */
const LEAD = /^\uFEFF?(?:#![^\n]*\n)?(?:[ \t]*\r?\n|<!--[^\n]{0,4096}-->[ \t]*\r?\n)*/;

/** Offsets of the YAML text of a block and of the rest of the file. */
interface FrontMatterPlace {
  start: number;
  end: number;
  after: number;
}

/** Returns the block that opens at `lead`. `open`: no line closes it. Undefined: no block opens there. */
export function frontMatterAt(text: string, lead: number): FrontMatterPlace | 'open' | undefined {
  const open = /---[ \t]*\r?\n/y;
  open.lastIndex = lead;
  if (!open.test(text)) return undefined;
  const start = open.lastIndex;
  const close = /^(?:---|\.\.\.)[ \t]*\r?(?:\n|$)/gm;
  close.lastIndex = start;
  const match = close.exec(text);
  return match ? { start, end: match.index, after: match.index + match[0].length } : 'open';
}

/** Splits a Markdown file into the YAML block between two `---` lines at its top, and the rest. */
export function splitFrontMatter(text: string): FrontMatterParts {
  const block = frontMatterAt(text, LEAD.exec(text)?.[0].length ?? 0);
  if (block === undefined || block === 'open') {
    return { yaml: '', offset: 0, rest: text, isOpen: block === 'open' };
  }
  const offset = text.slice(0, block.start).split('\n').length - 1;
  const { start, end, after } = block;
  return { yaml: text.slice(start, end), offset, rest: text.slice(after), isOpen: false };
}
