// How definitions look in families of languages.

export type Kind = 'function' | 'method' | 'class' | 'variable' | 'interface' | 'type' | 'enum';

interface Rule {
  /** Tried at the start of a line; the group `name` names the definition. */
  readonly pattern: RegExp;
  readonly kind: Kind;
}

export interface Family {
  readonly extensions: readonly string[];
  /** Comments and strings. */
  readonly skip: RegExp;
  /** Bodies by indentation instead of braces. */
  readonly isIndented: boolean;
  readonly top: readonly Rule[];
  /** Inside classes. */
  readonly members: readonly Rule[];
  /** A variable that holds a function. */
  readonly isFunction: RegExp;
}

const NEVER = /(?!)/;
const rule = (kind: Kind, pattern: RegExp): Rule => ({ kind, pattern });

const SLASHES =
  /\/\/[^\n]*|\/\*[\s\S]*?\*\/|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`(?:[^`\\]|\\[\s\S])*`/g;

const EXPORT = String.raw`^(?:export\s+)?(?:default\s+)?(?:declare\s+)?`;
const NAME = String.raw`(?<name>[\w$]+)`;
const WORDS = '(?!(?:if|for|while|switch|catch|return|function|new|throw|await)\\b)';

const SCRIPT: Family = {
  extensions: ['js', 'jsx', 'ts', 'tsx', 'mjs', 'cjs', 'mts', 'cts'],
  skip: SLASHES,
  isIndented: false,
  top: [
    rule('function', new RegExp(String.raw`${EXPORT}(?:async\s+)?function\s*\*?\s*${NAME}`)),
    rule('class', new RegExp(String.raw`${EXPORT}(?:abstract\s+)?class\s+${NAME}`)),
    rule('interface', new RegExp(String.raw`${EXPORT}interface\s+${NAME}`)),
    rule('enum', new RegExp(String.raw`${EXPORT}(?:const\s+)?enum\s+${NAME}`)),
    rule('type', new RegExp(String.raw`${EXPORT}type\s+${NAME}`)),
    rule('variable', new RegExp(String.raw`${EXPORT}(?:const|let|var)\s+${NAME}`)),
  ],
  members: [
    rule(
      'method',
      new RegExp(
        String.raw`^\s+(?:(?:public|private|protected|static|async|override|abstract|get|set)\s+)*\*?${WORDS}(?<name>#?[\w$]+)\s*(?:<[^>]*>)?\(`,
      ),
    ),
  ],
  isFunction:
    /^[^=]*?=\s*(?:async\s*)?(?:function\b|[\w$]+\s*=>|(?:<[^>]*>\s*)?\([^)]*\)\s*(?::[^={]+)?=>)/,
};

const PYTHON: Family = {
  extensions: ['py', 'pyi'],
  skip: /"""[\s\S]*?"""|'''[\s\S]*?'''|#[^\n]*|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'/g,
  isIndented: true,
  top: [
    rule('function', /^(?:async\s+)?def\s+(?<name>\w+)/),
    rule('class', /^class\s+(?<name>\w+)/),
    rule('variable', /^(?<name>[A-Za-z_]\w*)\s*(?::[^=]+)?=(?!=)/),
  ],
  members: [rule('method', /^\s+(?:async\s+)?def\s+(?<name>\w+)/)],
  isFunction: /^\w+\s*=\s*lambda\b/,
};

const GO: Family = {
  extensions: ['go'],
  skip: SLASHES,
  isIndented: false,
  top: [
    rule('method', /^func\s+\([^)]*\)\s*(?<name>\w+)/),
    rule('function', /^func\s+(?<name>\w+)/),
    rule('interface', /^type\s+(?<name>\w+)\s+interface\b/),
    rule('class', /^type\s+(?<name>\w+)\s+struct\b/),
    rule('type', /^type\s+(?<name>\w+)/),
    rule('variable', /^(?:var|const)\s+(?<name>\w+)/),
  ],
  members: [],
  isFunction: NEVER,
};

const PUB = String.raw`^(?:pub(?:\([^)]*\))?\s+)?`;
const RUST_FN = String.raw`(?:(?:async|unsafe|const|extern)\s+)*fn\s+(?<name>\w+)`;

const RUST: Family = {
  extensions: ['rs'],
  skip: /\/\/[^\n]*|\/\*[\s\S]*?\*\/|"(?:[^"\\]|\\[\s\S])*"|'(?:[^'\\\n]|\\.)'/g,
  isIndented: false,
  top: [
    rule('function', new RegExp(`${PUB}${RUST_FN}`)),
    rule('class', new RegExp(String.raw`${PUB}struct\s+(?<name>\w+)`)),
    rule('enum', new RegExp(String.raw`${PUB}enum\s+(?<name>\w+)`)),
    rule('interface', new RegExp(String.raw`${PUB}(?:unsafe\s+)?trait\s+(?<name>\w+)`)),
    rule('type', new RegExp(String.raw`${PUB}type\s+(?<name>\w+)`)),
    rule('variable', new RegExp(String.raw`${PUB}(?:const|static)\s+(?:mut\s+)?(?<name>\w+)`)),
    // Holds methods and has no name of its own.
    rule('class', /^(?:unsafe\s+)?impl\b(?<name>)/),
  ],
  members: [rule('method', new RegExp(String.raw`^\s+(?:pub(?:\([^)]*\))?\s+)?${RUST_FN}`))],
  isFunction: NEVER,
};

const ACCESS = String.raw`^\s*(?:(?:public|private|protected|internal|open|static|final|abstract|sealed|data|partial|override|async|virtual|readonly|suspend|inline)\s+)*`;

const OBJECTS: Family = {
  extensions: ['java', 'kt', 'cs', 'swift', 'scala', 'php'],
  skip: SLASHES,
  isIndented: false,
  top: [
    rule('class', new RegExp(String.raw`${ACCESS}(?:class|struct|record|object)\s+(?<name>\w+)`)),
    rule('interface', new RegExp(String.raw`${ACCESS}(?:interface|protocol|trait)\s+(?<name>\w+)`)),
    rule('enum', new RegExp(String.raw`${ACCESS}enum\s+(?:class\s+)?(?<name>\w+)`)),
    rule('function', new RegExp(String.raw`${ACCESS}(?:fun|func|function|def)\s+(?<name>\w+)`)),
    rule('variable', new RegExp(String.raw`${ACCESS}(?:val|var|let|const)\s+(?<name>\w+)`)),
  ],
  members: [
    rule('method', new RegExp(String.raw`${ACCESS}(?:fun|func|function|def)\s+(?<name>\w+)`)),
    rule(
      'method',
      new RegExp(String.raw`${ACCESS}(?:[\w<>[\],.?]+\s+)?${WORDS}(?<name>\w+)\s*\([^;]*$`),
    ),
  ],
  isFunction: NEVER,
};

const FAMILIES = [SCRIPT, PYTHON, GO, RUST, OBJECTS];

export const familyOf = (file: string): Family | undefined => {
  const extension = /\.(\w+)$/.exec(file)?.[1]?.toLowerCase() ?? '';
  return FAMILIES.find(({ extensions }) => extensions.includes(extension));
};
