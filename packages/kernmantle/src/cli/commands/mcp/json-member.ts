// Adds one member to a JSON file and keeps every other character, because a person owns the file:
// its order, numbers and formatting. A file that is not plain JSON is not changed.
import {
  fail,
  getOwn,
  isObject,
  type Json,
  type JsonObject,
  jsonEqual,
  messageOf,
  type Outcome,
  ok,
  setOwn,
} from '@kernmantle/core/base';

interface Member {
  readonly key: string;
  readonly start: number;
  readonly end: number;
}

interface Members {
  readonly list: readonly Member[];
  /** Offset after the opening brace; `to` is that of the closing one. */
  readonly from: number;
  readonly to: number;
}

const BLANK = /\s*/y;
// Only applied to a text that is valid JSON.
const STRING = /"(?:[^"\\]|\\.)*"/y;
const PLAIN = /[^\s,\]}]+/y;

const matchAt = (pattern: RegExp, text: string, at: number): number => {
  pattern.lastIndex = at;
  return pattern.test(text) ? pattern.lastIndex : at;
};

/** Returns the offset after the value that begins here. */
function endOfValue(text: string, at: number): number {
  const first = text.charAt(at);
  if (first === '"') return matchAt(STRING, text, at);
  if (first !== '{' && first !== '[') return matchAt(PLAIN, text, at);
  let depth = 0;
  for (let i = at; i < text.length; i += 1) {
    const char = text.charAt(i);
    if (char === '"') i = matchAt(STRING, text, i) - 1;
    else if (char === '{' || char === '[') depth += 1;
    else if (char === '}' || char === ']') depth -= 1;
    if (depth === 0) return i + 1;
  }
  return text.length;
}

function membersAt(text: string, open: number): Members {
  const list: Member[] = [];
  let at = matchAt(BLANK, text, open + 1);
  while (text.charAt(at) !== '}') {
    const keyEnd = matchAt(STRING, text, at);
    const key = JSON.parse(text.slice(at, keyEnd)) as string;
    const start = matchAt(BLANK, text, matchAt(BLANK, text, keyEnd) + 1);
    const end = endOfValue(text, start);
    list.push({ key, start, end });
    at = matchAt(BLANK, text, end);
    if (text.charAt(at) === ',') at = matchAt(BLANK, text, at + 1);
  }
  return { list, from: open + 1, to: at };
}

/** Indentation of each level in the file. Undefined if the file is one line. */
const indentOf = (text: string): string | undefined =>
  /^\s*\{[^\S\n]*\r?\n([ \t]+)"/.exec(text)?.[1] ??
  (/^\s*\{\s*\}\s*$/.test(text) ? '  ' : undefined);

/** Formats a value like the file, at this depth. */
function written(value: Json, indent: string | undefined, depth: number): string {
  if (indent === undefined) return JSON.stringify(value);
  return JSON.stringify(value, null, indent).replaceAll('\n', `\n${indent.repeat(depth)}`);
}

function inserted(
  text: string,
  { list, from, to }: Members,
  [key, value]: readonly [string, Json],
  depth: number,
): string {
  const indent = indentOf(text);
  const gap = indent === undefined ? ' ' : `\n${indent.repeat(depth)}`;
  const member = `${JSON.stringify(key)}: ${written(value, indent, depth)}`;
  const last = list.at(-1);
  if (last) return `${text.slice(0, last.end)},${gap}${member}${text.slice(last.end)}`;
  const close = indent === undefined ? '' : `\n${indent.repeat(depth - 1)}`;
  const before = indent === undefined ? '' : gap;
  return `${text.slice(0, from)}${before}${member}${close}${text.slice(to)}`;
}

const isTwice = ({ list }: Members, key: string): boolean =>
  list.filter((member) => member.key === key).length > 1;

function edited(text: string, section: string, name: string, value: JsonObject): Outcome<string> {
  const root = membersAt(text, text.indexOf('{'));
  const member = root.list.find(({ key }) => key === section);
  if (!member) return ok(inserted(text, root, [section, { [name]: value }], 1));
  if (text.charAt(member.start) !== '{') {
    return fail('config_invalid', `\`${section}\` must be an object`);
  }
  const inner = membersAt(text, member.start);
  if (isTwice(root, section) || isTwice(inner, name)) {
    return fail('config_invalid', `\`${section}\` or \`${name}\` occurs twice`);
  }
  const own = inner.list.find(({ key }) => key === name);
  if (!own) return ok(inserted(text, inner, [name, value], 2));
  const replacement = written(value, indentOf(text), 2);
  return ok(`${text.slice(0, own.start)}${replacement}${text.slice(own.end)}`);
}

/** Returns the text with `section.name` set to the value, unchanged if it is set already. */
export function withMember(
  text: string,
  section: string,
  name: string,
  value: JsonObject,
): Outcome<string> {
  const mark = text.startsWith('\uFEFF') ? '\uFEFF' : '';
  const plain = text.slice(mark.length);
  if (plain.trim() === '') {
    return ok(`${mark}${JSON.stringify({ [section]: { [name]: value } }, null, 2)}\n`);
  }
  let before: Json;
  try {
    before = JSON.parse(plain) as Json;
  } catch (error) {
    return fail('config_invalid', `it is not plain JSON (${messageOf(error)})`);
  }
  if (!isObject(before)) return fail('config_invalid', 'it must be an object');
  const servers = getOwn(before, section);
  if (isObject(servers) && jsonEqual(getOwn(servers, name) ?? null, value)) return ok(text);
  const done = edited(plain, section, name, value);
  if (!done.ok) return done;
  // INVARIANT: apart from this member, the new text always parses to the same value as before.
  const expected = structuredClone(before);
  const members = { ...(isObject(servers) ? servers : {}) };
  setOwn(members, name, value);
  setOwn(expected, section, members);
  return jsonEqual(JSON.parse(done.output) as Json, expected)
    ? ok(`${mark}${done.output}`)
    : fail('config_invalid', 'its formatting cannot be preserved');
}
