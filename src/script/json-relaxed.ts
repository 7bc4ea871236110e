// JSON as people and models write it: comments, trailing commas, bare keys, single quotes, line
// breaks in texts. The text is rewritten token by token as strict JSON and read by the usual parser,
// so bounds and own properties hold here as everywhere.
import { fail, type Json, MAX_DEPTH, type Outcome, parseJson } from '../base/index.ts';

const TOKEN =
  /\s+|\/\/[^\n]*|\/\*[\s\S]*?\*\/|"[^"\\]*(?:\\[\s\S][^"\\]*)*"|'[^'\\]*(?:\\[\s\S][^'\\]*)*'|[{}[\],:]|[^\s{}[\],:"'/]+/y;

const CONTROL: Readonly<Record<string, string>> = { '\n': '\\n', '\r': '\\r', '\t': '\\t' };

/** Any quoted text as a JSON string. */
function quoted(token: string): string {
  const inner = token.slice(1, -1).replace(/\\([\s\S])|["\n\r\t]/g, (part, escaped?: string) => {
    if (escaped === undefined) return part === '"' ? '\\"' : (CONTROL[part] as string);
    if (escaped === "'") return "'";
    return escaped === '\n' ? '' : part;
  });
  return `"${inner}"`;
}

const isBlank = (token: string): boolean => /^(?:\s|\/[/*])/.test(token);

function tokensOf(text: string): Outcome<string[]> {
  const tokens: string[] = [];
  for (let at = 0; at < text.length; at = TOKEN.lastIndex) {
    TOKEN.lastIndex = at;
    const token = TOKEN.exec(text)?.[0];
    if (token === undefined) {
      return fail('invalid_input', `unexpected \`${text.slice(at, at + 10)}\` at ${at}`);
    }
    if (!isBlank(token)) tokens.push(token);
  }
  return { ok: true, output: tokens };
}

/** Only a comma after a value may be one too many. */
const isTrailing = (tokens: readonly string[], at: number): boolean =>
  /^[\]}]$/.test(tokens[at + 1] ?? '') && !/^[[{,:]?$/.test(tokens[at - 1] ?? '');

function strict(token: string, at: number, tokens: readonly string[]): string {
  const next = tokens[at + 1];
  if (token === ',' && isTrailing(tokens, at)) return '';
  if (/^["']/.test(token)) return quoted(token);
  return next === ':' && !/^[{}[\],:]$/.test(token) ? JSON.stringify(token) : token;
}

/** Never throws; everything that is JSON is read as JSON. */
export function parseRelaxed(text: string): Outcome<Json> {
  const tokens = tokensOf(text);
  if (!tokens.ok) return tokens;
  return parseJson(tokens.output.map(strict).join(' '));
}

/** Brackets looked at in vain before giving up on a text. */
const BUDGET = 200_000;

/** Where the bracket at `from` is closed (-1: nowhere near enough), and how many brackets that took. */
function closing(text: string, from: number): { end: number; seen: number } {
  const skipped = /"[^"\\]*(?:\\[\s\S][^"\\]*)*"|'[^'\\\n]*(?:\\[\s\S][^'\\\n]*)*'|[{}[\]]/g;
  skipped.lastIndex = from;
  let [depth, seen] = [0, 0];
  for (let found = skipped.exec(text); found; found = skipped.exec(text)) {
    seen++;
    if (/^["']/.test(found[0])) continue;
    depth += /[{[]/.test(found[0]) ? 1 : -1;
    if (depth === 0) return { end: skipped.lastIndex, seen };
    if (depth > MAX_DEPTH) break;
  }
  return { end: -1, seen };
}

function structure(text: string): Json | undefined {
  if (!/^[[{]/.test(text)) return undefined;
  const parsed = parseJson(text);
  const read = parsed.ok ? parsed : parseRelaxed(text);
  return read.ok && typeof read.output === 'object' ? (read.output ?? undefined) : undefined;
}

/** The contents of fenced blocks. */
function fencedIn(text: string): string[] {
  const blocks: string[][] = [];
  let open: string[] | undefined;
  for (const line of text.split('\n')) {
    if (!line.trimStart().startsWith('```')) open?.push(line);
    else if (open) {
      blocks.push(open);
      open = undefined;
    } else open = [];
  }
  return blocks.map((lines) => lines.join('\n'));
}

/** The first list or object in chatty text, fenced ones before others; undefined when there is none. */
export function findJson(text: string): Json | undefined {
  for (const block of fencedIn(text)) {
    const found = structure(block.trim());
    if (found !== undefined) return found;
  }
  let budget = BUDGET;
  for (const { index } of text.matchAll(/[{[]/g)) {
    if (budget <= 0) return undefined;
    const { end, seen } = closing(text, index);
    budget -= seen;
    const found = end === -1 ? undefined : structure(text.slice(index, end));
    if (found !== undefined) return found;
  }
  return undefined;
}
