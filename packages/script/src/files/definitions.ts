// Selects definitions of a code file: `<a.ts { greet, *Service, *fn }>`. The scanner is not a parser: it
// removes comments and strings, and finds the end of a definition by brackets or indentation.
import { createLines } from '@kernmantle/core/base';
import { makeValue, type Value } from '@kernmantle/core/flow';
import { raise } from '../fault.ts';

type Kind = 'function' | 'method' | 'class' | 'variable' | 'interface' | 'type' | 'enum';

/** A pattern for the start of a line. Its group `name` is the name of the definition. */
type Rule = readonly [kind: Kind, pattern: RegExp];

interface Family {
  readonly extensions: readonly string[];
  /** Matches comments and strings. Absent: the comments and strings of C. */
  readonly skip?: RegExp;
  /** True if bodies are indented instead of enclosed in braces. */
  readonly isIndented?: true;
  readonly top: readonly Rule[];
  /** Rules for the lines inside of a class. */
  readonly members?: readonly Rule[];
  /** Matches a variable whose value is a function. */
  readonly isFunction?: RegExp;
}

const SLASHES =
  /\/\/[^\n]*|\/\*[\s\S]*?\*\/|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`(?:[^`\\]|\\[\s\S])*`/g;

const EXPORT = String.raw`^(?:export\s+)?(?:default\s+)?(?:declare\s+)?`;
const NAME = String.raw`(?<name>[\w$]+)`;
const WORDS = '(?!(?:if|for|while|switch|catch|return|function|new|throw|await)\\b)';

const SCRIPT: Family = {
  extensions: ['js', 'jsx', 'ts', 'tsx', 'mjs', 'cjs', 'mts', 'cts'],
  top: [
    ['function', new RegExp(String.raw`${EXPORT}(?:async\s+)?function\s*\*?\s*${NAME}`)],
    ['class', new RegExp(String.raw`${EXPORT}(?:abstract\s+)?class\s+${NAME}`)],
    ['interface', new RegExp(String.raw`${EXPORT}interface\s+${NAME}`)],
    ['enum', new RegExp(String.raw`${EXPORT}(?:const\s+)?enum\s+${NAME}`)],
    ['type', new RegExp(String.raw`${EXPORT}type\s+${NAME}`)],
    ['variable', new RegExp(String.raw`${EXPORT}(?:const|let|var)\s+${NAME}`)],
  ],
  members: [
    [
      'method',
      new RegExp(
        String.raw`^\s+(?:(?:public|private|protected|static|async|override|abstract|get|set)\s+)*\*?${WORDS}(?<name>#?[\w$]+)\s*(?:<[^>]*>)?\(`,
      ),
    ],
  ],
  isFunction:
    /^[^=]*?=\s*(?:async\s*)?(?:function\b|[\w$]+\s*=>|(?:<[^>]*>\s*)?\([^)]*\)\s*(?::[^={]+)?=>)/,
};

const PYTHON: Family = {
  extensions: ['py', 'pyi'],
  skip: /"""[\s\S]*?"""|'''[\s\S]*?'''|#[^\n]*|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'/g,
  isIndented: true,
  top: [
    ['function', /^(?:async\s+)?def\s+(?<name>\w+)/],
    ['class', /^class\s+(?<name>\w+)/],
    ['variable', /^(?<name>[A-Za-z_]\w*)\s*(?::[^=]+)?=(?!=)/],
  ],
  members: [['method', /^\s+(?:async\s+)?def\s+(?<name>\w+)/]],
  isFunction: /^\w+\s*=\s*lambda\b/,
};

const GO: Family = {
  extensions: ['go'],
  top: [
    ['method', /^func\s+\([^)]*\)\s*(?<name>\w+)/],
    ['function', /^func\s+(?<name>\w+)/],
    ['interface', /^type\s+(?<name>\w+)\s+interface\b/],
    ['class', /^type\s+(?<name>\w+)\s+struct\b/],
    ['type', /^type\s+(?<name>\w+)/],
    ['variable', /^(?:var|const)\s+(?<name>\w+)/],
  ],
};

const PUB = String.raw`^(?:pub(?:\([^)]*\))?\s+)?`;
const RUST_FN = String.raw`(?:(?:async|unsafe|const|extern)\s+)*fn\s+(?<name>\w+)`;

const RUST: Family = {
  extensions: ['rs'],
  skip: /\/\/[^\n]*|\/\*[\s\S]*?\*\/|"(?:[^"\\]|\\[\s\S])*"|'(?:[^'\\\n]|\\.)'/g,
  top: [
    ['function', new RegExp(`${PUB}${RUST_FN}`)],
    ['class', new RegExp(String.raw`${PUB}struct\s+(?<name>\w+)`)],
    ['enum', new RegExp(String.raw`${PUB}enum\s+(?<name>\w+)`)],
    ['interface', new RegExp(String.raw`${PUB}(?:unsafe\s+)?trait\s+(?<name>\w+)`)],
    ['type', new RegExp(String.raw`${PUB}type\s+(?<name>\w+)`)],
    ['variable', new RegExp(String.raw`${PUB}(?:const|static)\s+(?:mut\s+)?(?<name>\w+)`)],
    // An `impl` has methods but no name.
    ['class', /^(?:unsafe\s+)?impl\b(?<name>)/],
  ],
  members: [['method', new RegExp(String.raw`^\s+(?:pub(?:\([^)]*\))?\s+)?${RUST_FN}`)]],
};

const ACCESS = String.raw`^\s*(?:(?:public|private|protected|internal|open|static|final|abstract|sealed|data|partial|override|async|virtual|readonly|suspend|inline)\s+)*`;

const OBJECTS: Family = {
  extensions: ['java', 'kt', 'cs', 'swift', 'scala', 'php'],
  top: [
    ['class', new RegExp(String.raw`${ACCESS}(?:class|struct|record|object)\s+(?<name>\w+)`)],
    ['interface', new RegExp(String.raw`${ACCESS}(?:interface|protocol|trait)\s+(?<name>\w+)`)],
    ['enum', new RegExp(String.raw`${ACCESS}enum\s+(?:class\s+)?(?<name>\w+)`)],
    ['function', new RegExp(String.raw`${ACCESS}(?:fun|func|function|def)\s+(?<name>\w+)`)],
    ['variable', new RegExp(String.raw`${ACCESS}(?:val|var|let|const)\s+(?<name>\w+)`)],
  ],
  members: [
    ['method', new RegExp(String.raw`${ACCESS}(?:fun|func|function|def)\s+(?<name>\w+)`)],
    [
      'method',
      new RegExp(String.raw`${ACCESS}(?:[\w<>[\],.?]+\s+)?${WORDS}(?<name>\w+)\s*\([^;]*$`),
    ],
  ],
};

const FAMILIES = [SCRIPT, PYTHON, GO, RUST, OBJECTS];

const familyOf = (file: string): Family | undefined => {
  const extension = /\.(\w+)$/.exec(file)?.[1]?.toLowerCase() ?? '';
  return FAMILIES.find(({ extensions }) => extensions.includes(extension));
};

interface Definition {
  readonly name: string;
  readonly kind: Kind;
  readonly from: number;
  readonly to: number;
}

const OPEN = '([{';
const CLOSE = ')]}';

/** Yields every line between two offsets that starts inside of `depth` brackets. */
function* linesAt(
  text: string,
  from: number,
  to: number,
  depth: number,
): Generator<{ at: number; text: string }> {
  let level = 0;
  for (let at = from; at < to; ) {
    const stop = text.indexOf('\n', at);
    const end = stop === -1 ? to : Math.min(to, stop);
    const line = text.slice(at, end);
    if (level === depth) yield { at, text: line };
    for (const char of line) {
      if (OPEN.includes(char)) level++;
      else if (CLOSE.includes(char)) level = Math.max(0, level - 1);
    }
    at = end + 1;
  }
}

/** True if the line continues: it ends with an operator, or the next line begins with one. */
const isContinued = (before: string, after: string): boolean =>
  /(?:[=+\-*/%&|^<>?:,.([{]|=>)\s*$/.test(before) || /^\s*(?:[.?:|&+*/%=<>,)\]}]|=>)/.test(after);

/** Returns the end of the definition at `from` by its brackets. */
function bracketEnd(text: string, from: number, hasBody: boolean): number {
  let level = 0;
  for (let at = from; at < text.length; at++) {
    const char = text.charAt(at);
    if (OPEN.includes(char)) level++;
    else if (CLOSE.includes(char)) {
      level--;
      if (level < 0) return at;
      const isLast = hasBody && level === 0 && char === '}';
      if (isLast && /^[ \t;,)]*(?:\n|$)/.test(text.slice(at + 1, at + 200))) return at + 1;
    } else if (level === 0 && char === ';') return at + 1;
    else if (level === 0 && char === '\n' && !hasBody) {
      const next = text.slice(at + 1, at + 200);
      if (!isContinued(text.slice(Math.max(from, at - 200), at), next)) return at;
    }
  }
  return text.length;
}

/** Returns the end of an indented definition: the first line that is not indented more than its start. */
function indentEnd(text: string, from: number): number {
  let indent: number | undefined;
  for (const line of linesAt(text, from, text.length, 0)) {
    const column = line.text.search(/\S/);
    if (indent === undefined) indent = column;
    else if (column !== -1 && column <= indent) return line.at;
  }
  return text.length;
}

const HAS_BODY = new Set<Kind>(['function', 'method', 'class', 'interface', 'enum']);

function define(text: string, family: Family, at: number, kind: Kind, name: string): Definition {
  const to = family.isIndented ? indentEnd(text, at) : bracketEnd(text, at, HAS_BODY.has(kind));
  return { name, kind, from: at, to };
}

function match(rules: Family['members'], line: string): { kind: Kind; name: string } | undefined {
  for (const [kind, pattern] of rules ?? []) {
    const name = pattern.exec(line)?.groups?.['name'];
    if (name !== undefined) return { kind, name };
  }
  return undefined;
}

function membersOf(text: string, family: Family, { from, to }: Definition): Definition[] {
  const found: Definition[] = [];
  for (const line of linesAt(text, from, to, family.isIndented ? 0 : 1)) {
    const member = line.at > from ? match(family.members, line.text) : undefined;
    if (member) found.push(define(text, family, line.at, 'method', member.name));
  }
  return found;
}

function scan(source: string, family: Family): Definition[] {
  const text = source.replace(family.skip ?? SLASHES, (part) => part.replace(/[^\n]/g, ' '));
  const found: Definition[] = [];
  for (const { at, text: line } of linesAt(text, 0, text.length, 0)) {
    const top = match(family.top, line);
    if (!top) continue;
    const isFunction = top.kind === 'variable' && family.isFunction?.test(text.slice(at, at + 400));
    const definition = define(text, family, at, isFunction ? 'function' : top.kind, top.name);
    if (top.name !== '') found.push(definition);
    if (top.kind === 'class') found.push(...membersOf(text, family, definition));
  }
  return found;
}

const KIND_WORDS = new Map<string, Kind>([
  ['fn', 'function'],
  ['class', 'class'],
  ['var', 'variable'],
  ['interface', 'interface'],
  ['type', 'type'],
  ['enum', 'enum'],
]);

/** True if a word selects the definition: a kind (`*fn`), a name, or a name with `*` (not for methods). */
function isNamed({ name, kind }: Definition, word: string): boolean {
  const selectedKind = word.startsWith('*') ? KIND_WORDS.get(word.slice(1)) : undefined;
  if (selectedKind) return kind === selectedKind;
  if (!word.includes('*')) return name === word;
  const parts = word.split('*').map((part) => part.replace(/[$()+.?[\\\]^{|}]/g, '\\$&'));
  return kind !== 'method' && new RegExp(`^${parts.join('.*')}$`).test(name);
}

/** Returns the selected definitions. A method inside of a selected class is not repeated. */
function selectedDefinitions(
  definitions: readonly Definition[],
  words: readonly string[],
): Definition[] {
  let covered = 0;
  return definitions.filter((definition) => {
    const isWanted = definition.from >= covered && words.some((word) => isNamed(definition, word));
    if (isWanted) covered = definition.to;
    return isWanted;
  });
}

function codeOf(source: string, { from, to }: Definition): string {
  const lines = source.slice(from, to).trimEnd().split('\n');
  const indent = /^[ \t]*/.exec(lines[0] ?? '')?.[0] ?? '';
  return lines
    .map((line) => (line.startsWith(indent) ? line.slice(indent.length) : line))
    .join('\n');
}

function listing(
  value: Value,
  definitions: readonly Definition[],
  words: readonly string[],
): Value {
  const kinds = words.map((word) => word.slice(0, -2));
  const unknown = kinds.find((word) => word !== '' && !KIND_WORDS.has(word));
  if (unknown !== undefined) raise('invalid_input', `\`${unknown}??\` is not a kind of definition`);
  const isListed = ({ kind }: Definition): boolean =>
    kind !== 'method' && kinds.some((word) => word === '' || KIND_WORDS.get(word) === kind);
  const names = definitions.filter(isListed).map(({ name }) => name);
  return textual(value, [...new Set(names)].toSorted(), '\n', (name) => name);
}

function textual<T extends string | { code: string }>(
  { meta }: Value,
  items: readonly T[],
  separator: string,
  print: (item: T) => string,
): Value {
  const { descriptor, origin } = meta;
  if (items.length === 0) return makeValue([], { descriptor, origin });
  return makeValue([...items], { descriptor, origin, text: items.map(print).join(separator) });
}

/** Returns the selected definitions in file order, or sorted names if a word ends with `??`. */
export function selectDefinitions(value: Value, words: readonly string[]): Value {
  const { filename } = value.meta.origin;
  const file = typeof filename === 'string' ? filename : 'this value';
  const family = familyOf(file);
  if (!family) {
    return raise('invalid_input', `definitions cannot be read from \`${file}\``, {
      hint: 'use JavaScript, TypeScript, Python, Go, Rust, Java, Kotlin, C#, Swift, Scala or PHP',
    });
  }
  const source = value.text.replaceAll('\r\n', '\n');
  const all = scan(source, family);
  const listings = words.filter((word) => word.endsWith('??'));
  if (listings.length > 0 && listings.length < words.length) {
    raise('invalid_input', 'names and `??` cannot be mixed; use only names or only `??`');
  }
  if (listings.length > 0) return listing(value, all, words);
  const lines = createLines(source);
  const items = selectedDefinitions(all, words).map((definition) => ({
    name: definition.name,
    code: codeOf(source, definition),
    type: definition.kind,
    line: lines.at(definition.from).line,
  }));
  return textual(value, items, '\n\n', ({ code }) => code);
}
