// Reads the words of commands without running them, for the keys of operations and for policies. In doubt,
// a text counts as more commands rather than fewer.
import { shellQuote } from '@kernmantle/core/base';

const PIECE = /'[^']*'|"(?:\\.|[^"\\])*"|\\.|\$(?:\{(\w+)[^}]*\}|(\w+))|[^'"\\$]+|./gs;
const INSIDE = /\\.|\$(?:\{(\w+)[^}]*\}|(\w+))/gs;

const splitWords = (text: string): string =>
  text.replaceAll(/\S+|\s+/g, (part) => (/\s/.test(part) ? ' ' : shellQuote(part)));

const insideQuotes = (text: string): string =>
  text.replaceAll(/\s/g, ' ').replaceAll(/["\\$`]/g, '\\$&');

/** Returns the command with the values of its variables, for checks only. Only a quoted value stays one word. */
export function withVariables(line: string, variables: Readonly<Record<string, string>>): string {
  const valueOf = (name: string | undefined): string | undefined =>
    name !== undefined && Object.hasOwn(variables, name) ? variables[name] : undefined;
  if (!line.includes('$')) return line;
  return line.replaceAll(PIECE, (piece: string, braced?: string, bare?: string) => {
    if (piece.startsWith('"')) {
      return piece.replaceAll(INSIDE, (part: string, one?: string, other?: string) => {
        const value = valueOf(one ?? other);
        return value === undefined ? part : insideQuotes(value);
      });
    }
    const value = valueOf(braced ?? bare);
    return value === undefined ? piece : splitWords(value);
  });
}

/** Returns the keys of a line, such as `op:cmd:git:push`: the leading plain words of each command of a pipe. */
export function commandKeys(lines: readonly string[]): string[] {
  const keys = new Set<string>();
  for (const line of lines) {
    for (const command of [line, ...substituted(line)].flatMap(splitPipes)) {
      for (const one of withNestedCommands(wordsOf(command))) {
        const words = leadingWords(one);
        if (words.length > 0) keys.add(`op:cmd:${words.join(':')}`);
      }
    }
  }
  return [...keys];
}

/** Returns the commands in `$( … )` and backticks, which run too unless single quotes or a backslash protect them. */
export function substituted(line: string): string[] {
  const read = line.replaceAll(/\\.|'[^']*'/gs, (part) => ' '.repeat(part.length));
  const opened = [...read.matchAll(/\$\((?!\()/g)].map(({ index }) => line.slice(index + 2));
  const ticks = read.split('`').filter((_, at) => at % 2 === 1);
  return [...opened, ...ticks].map((text) => text.replace(/[)"].*$/s, ''));
}

export const splitPipes = (line: string): string[] =>
  (line.match(/(?:'[^']*'|"(?:\\.|[^"\\])*"|\\.|[^|'"\\])+/g) ?? []).map((part) => part.trim());

const MAX_WORDS = 4;

/** Programs that run another program, with their options that take a value. */
const CARRIERS: Readonly<Record<string, string>> = {
  builtin: '',
  busybox: '',
  chroot: '',
  command: '',
  coproc: '',
  doas: 'uC',
  env: 'uCS',
  exec: 'a',
  fakeroot: 'ls',
  flock: 'wE',
  ionice: 'cnp',
  nice: 'n',
  nohup: '',
  nsenter: 'tSG',
  parallel: 'jNaISE',
  proxychains: 'f',
  runuser: 'ugGs',
  setpriv: '',
  setsid: '',
  stdbuf: 'ioe',
  strace: 'eoPspuE',
  sudo: 'ughpCrtTUDR',
  'systemd-run': 'pEuMH',
  time: 'of',
  timeout: 'sk',
  torsocks: '',
  unshare: '',
  watch: 'n',
  xargs: 'nIPLdaEs',
};
/** Programs that run the text after `-c` as a shell. */
const SHELLS = /^(?:(?:ba|da|z|k|fi)?sh|su|runuser|script)$/;

const WORD = /(?:'[^']*'|"(?:\\.|[^"\\])*"|\\.|[^\s'"\\])+/g;
const wordsOf = (command: string): string[] => command.match(WORD) ?? [];
const bareWord = (word: string): string =>
  word.replace(/'([^']*)'|"((?:\\.|[^"\\])*)"|\\(.)/g, (_, single, double, one) =>
    String(single ?? double?.replace(/\\(.)/g, '$1') ?? one ?? ''),
  );
const programOf = (word: string): string => bareWord(word).split('/').at(-1) ?? '';

/** Long options of these programs that take the next word. */
const VALUED =
  /^--(?:unset|chdir|signal|kill-after|arg-file|delimiter|eof|input|output|error|format|argv0)$/;
const SPLIT = /^(?:-[A-RT-Za-z0-9]*S|--split-string(?:=|$))/;

/** Returns the words after `-exec` of `find`. They can contain further commands. */
function commandOfFind(words: readonly string[]): string[] {
  const isFind = programOf(words[0] ?? '') === 'find';
  const at = words.findIndex(
    (word, index) =>
      /^-(?:exec|ok)(?:dir)?$/.test(bareWord(word)) &&
      (isFind || /^[;+]$/.test(bareWord(words[index - 1] ?? ''))),
  );
  return at < 0 ? [] : words.slice(at + 1);
}

/** Returns the words of the command that a program runs; `undefined` if it runs none. */
export function commandRunBy(words: readonly string[]): string[] | undefined {
  const begin = words.findIndex((word) => !/^\w+=/.test(word));
  const program = programOf(words[begin] ?? '');
  const found = commandOfFind(words.slice(Math.max(begin, 0)));
  if (found.length > 0) return found;
  const valued = Object.hasOwn(CARRIERS, program) ? CARRIERS[program] : undefined;
  if (begin < 0 || valued === undefined) return undefined;
  let at = begin + 1;
  for (; at < words.length; at++) {
    const word = bareWord(words[at] ?? '');
    if (program === 'env' && SPLIT.test(word)) {
      const text = word.replace(SPLIT, '');
      return wordsOf(text === '' ? bareWord(words[at + 1] ?? '') : text);
    }
    if (VALUED.test(word) || (/^-\w$/.test(word) && valued.includes(word[1] ?? ''))) at += 1;
    else if (!/^-|^\d+(?:\.\d+)?[smhd]?$|^\w+=/.test(word)) break;
  }
  return at < words.length ? words.slice(at) : undefined;
}

/** Returns the text that a shell runs; `undefined` if there is none. */
function shellText(allWords: readonly string[]): string | undefined {
  const words = allWords.slice(allWords.findIndex((word) => !/^\w+=/.test(word)));
  const program = programOf(words[0] ?? '');
  if (program === 'eval') return words.slice(1).map(bareWord).join(' ');
  if (!SHELLS.test(program)) return undefined;
  const at = words.findIndex((word) => /^(?:-\w*c|--command(?:=.*)?)$/s.test(bareWord(word)));
  const [, own] = /^--command=(.*)$/s.exec(bareWord(words[at] ?? '')) ?? [];
  return at < 0 ? undefined : (own ?? bareWord(words[at + 1] ?? ''));
}

const MAX_CARRIED = 20;

/** Returns a command and all commands that it runs, directly or indirectly. */
function withNestedCommands(words: readonly string[]): string[] {
  const found: string[] = [];
  const open = [words];
  for (let next = open.pop(); next && found.length < MAX_CARRIED; next = open.pop()) {
    found.push(next.join(' '));
    const inner = commandRunBy(next);
    if (inner) open.push(inner);
    const text = shellText(next);
    const commands = text?.split(/[;&|\n(){}]+/) ?? [];
    open.push(...[...commands, ...(text ? substituted(text) : [])].map(wordsOf));
  }
  return found;
}

/** Matches the parts of a shell text between operators. */
const SHELL_PARTS = /(?:'[^']*'|"(?:\\.|[^"\\])*"|\\.|[^;&|\n(){}'"\\])+/g;
const KEYWORDS = /^(?:if|then|else|elif|while|until|do|case|function|!)$/;

/** Drops leading redirections: `>file program` means `program >file`. */
function withoutRedirections(words: readonly string[]): readonly string[] {
  const at = words.findIndex(
    (word, index) => !/^\d*[<>]/.test(word) && !/^\d*(?:[<>]|>>|>\|)$/.test(words[index - 1] ?? ''),
  );
  return words.slice(Math.max(at, 0));
}

/** Returns the unquoted words of each command that a line or a shell text runs, with the program first. */
export function commandsIn(source: string, isShell: boolean): string[][] {
  const text = source.replaceAll(/\\\r?\n/g, '');
  const lines = [text, ...substituted(text)];
  const commands = isShell
    ? lines.flatMap((line) => line.match(SHELL_PARTS) ?? [])
    : lines.flatMap((line) => line.split('\n')).flatMap(splitPipes);
  return commands
    .map(wordsOf)
    .map((words) => words.slice(words.findIndex((word) => !KEYWORDS.test(word))))
    .map(withoutRedirections)
    .flatMap(withNestedCommands)
    .map((command) => {
      const words = wordsOf(command);
      const own = words.slice(words.findIndex((word) => !/^\w+=/.test(word))).map(bareWord);
      return [own[0]?.split('/').at(-1) ?? '', ...own.slice(1)];
    });
}

function leadingWords(command: string): string[] {
  const words: string[] = [];
  for (const raw of wordsOf(command)) {
    const word = words.length === 0 ? bareWord(raw) : raw.replace(/^(['"])(.*)\1$/, '$2');
    if (words.length === 0 && /^\w+=/.test(word)) continue;
    if (word === '' || words.length === MAX_WORDS) break;
    if (words.length > 0 && !/^[A-Za-z0-9][\w.-]*$/.test(word)) break;
    words.push(words.length === 0 ? (word.split('/').at(-1) ?? word) : word);
  }
  return words;
}
