// Matches operations against the patterns of a script's policy: `cmd:git:push`, `cmd:git:*`, `sh`, `js`,
// `network`, `fs:w:GLOB`, `op:…`. A deny pattern matches everything that begins with it. An allow pattern
// must match the whole. A word after `*` may be at any position, and `a|b` matches either. Dangerous
// operations have the same patterns in the bundle; `allow` opens them only together with a `danger`
// pattern.
import { isAbsolute, relative, resolve } from 'node:path';
import { matchGlob, plainText } from '@kernmantle/core/base';
import type { Argument, ClosedFiles, Operation } from '@kernmantle/core/flow';
import { commandRunBy, commandsIn, splitPipes, substituted } from './command-words.ts';
import type { Patterns } from './environment.ts';

const KINDS = new Set(['cmd', 'sh', 'bash', 'js', 'node', 'py', 'python', 'network', 'fs', 'op']);
const SHELLS = new Set(['sh', 'bash', 'zsh', 'dash', 'fish', 'ksh']);

export function patternProblem(pattern: string): string | undefined {
  const [kind = ''] = pattern.split(':', 1);
  if (!KINDS.has(kind))
    return `begins with \`${kind}\`, which is not a kind (${[...KINDS].join(', ')})`;
  return kind === 'fs' && !/^fs:(r|w|rw)(:|$)/.test(pattern)
    ? 'must begin with `fs:r`, `fs:w` or `fs:rw`'
    : undefined;
}

/** Returns the needs of an operation as patterns; empty if no pattern describes it. */
function needOf(op: Operation): readonly string[] {
  const { type, subtype, target, name } = op;
  switch (type) {
    case 'run':
      if (subtype === 'cmd') return commandNeeds(op);
      return subtype ? [subtype] : [];
    case 'output':
    case 'append':
      return target?.includes('/') ? [`fs:w:${target}`] : [];
    case 'file':
    case 'import':
      return target ? [`fs:r:${target}`] : [];
    default:
      return type === 'tool' && name.startsWith('http/') ? ['network'] : [];
  }
}

const NETWORK = /^(?:curl|wget|ssh|scp|sftp|rsync|ftp|telnet|nc|ncat)$/;
/** Matches constructs whose content a shell would run. */
const SUBSTITUTION = /\$\(|`|<\(/;

/** Returns the needs of every command of every pipe. A shell as a program counts as `sh`. */
const commandNeeds = (op: Operation): string[] =>
  textsRun(op)?.flatMap((text) => needsOfText(text)) ?? ['cmd'];

/** Returns the text of the command as written and with the values of its variables. */
function textsRun({ metadata }: Operation): string[] | undefined {
  const texts = [metadata?.['command'], metadata?.['expanded']];
  const present = texts.filter((text) => typeof text === 'string');
  return present.length === 0 ? undefined : present;
}

function needsOfText(text: string): string[] {
  const commands = [text, ...substituted(text)].join('\n').split('\n').flatMap(splitPipes);
  const needs = commands.flatMap((command) => {
    const words = command.match(/(?:'[^']*'|"(?:\\.|[^"\\])*"|\\.|[^\s'"\\])+/g) ?? [];
    return programNeeds(words.map((word) => word.replace(/['"\\]/g, '')));
  });
  const isShell = SUBSTITUTION.test(text.replace(/'[^']*'|\\./g, ''));
  return isShell ? ['sh', ...needs] : needs;
}

function programNeeds(allWords: readonly string[]): string[] {
  const words = allWords.slice(allWords.findIndex((word) => !/^\w+=/.test(word)));
  const program = (words[0] ?? '').split('/').at(-1) ?? '';
  if (SHELLS.has(program)) return ['sh'];
  const needs = [['cmd', program, ...words.slice(1)].join(':')];
  if (NETWORK.test(program)) needs.push('network');
  const inner = commandRunBy(words);
  return inner ? [...needs, ...programNeeds(inner)] : needs;
}

const parts = (pattern: string): string[] => pattern.split(':');

const aliasOf = (pattern: string): string =>
  pattern.replace(/^bash\b/, 'sh').replace(/^python\b/, 'py');

/** Matches one word of a pattern, or `a|b`. A `*` at the end matches any rest. */
const isWord = (expected: string, word: string | undefined): boolean =>
  word !== undefined &&
  expected
    .split('|')
    .some((one) => one === word || (one.endsWith('*') && word.startsWith(one.slice(0, -1))));

/** `-[fs]T*` matches `-T…`, also after any of these letters, which are flags without a value. */
const isGrouped = (expected: string, word: string): boolean =>
  expected.split('|').some((one) => {
    const [, letters = '', flag = ''] = /^-\[(\w+)\](\w)\*$/.exec(one) ?? [];
    const at = word.indexOf(flag);
    return (
      flag !== '' &&
      word[0] === '-' &&
      at > 0 &&
      word
        .slice(1, at)
        .split('')
        .every((letter) => letters.includes(letter))
    );
  });

/** `-f` matches `-rf`; `--force` matches `--force=…` and abbreviations, as programs accept them. */
function isFlag(expected: string, word: string): boolean {
  if (isWord(expected, word) || isGrouped(expected, word)) return true;
  const [name = ''] = word.split('=', 1);
  return expected
    .split('|')
    .some((one) =>
      /^-\w$/.test(one)
        ? /^-\w+$/.test(word) && word.includes(one.charAt(1))
        : one.startsWith('--') && name.length > 2 && name.startsWith('--') && one.startsWith(name),
    );
}

/** Splits a pattern into the words before the first `*` and the words after it. */
function split(pattern: string): { head: string[]; tail: string[]; isOpen: boolean } {
  const words = parts(aliasOf(pattern));
  const at = words.indexOf('*');
  if (at < 0) return { head: words, tail: [], isOpen: false };
  return {
    head: words.slice(0, at),
    tail: words.slice(at).filter((word) => word !== '*'),
    isOpen: true,
  };
}

const begins = (head: readonly string[], words: readonly string[]): boolean =>
  head.every((word, at) => isWord(word, words[at]));

/** True if a deny pattern matches the start of a need. Flags after `*` match in every spelling. */
function denyMatches(pattern: string, need: string): boolean {
  const { head, tail } = split(pattern);
  const words = parts(need);
  const rest = words.slice(head.length);
  return begins(head, words) && tail.every((word) => rest.some((one) => isFlag(word, one)));
}

/** True if an allow pattern matches all words. After `*` the rest must contain the named words. */
function allowMatches(pattern: string, need: string): boolean {
  const { head, tail, isOpen } = split(pattern);
  const words = parts(need);
  if (!begins(head, words)) return false;
  if (!isOpen) return head.length === 1 || head.length === words.length;
  const rest = words.slice(head.length);
  return tail.every((word) => rest.some((one) => isWord(word, one)));
}

const atHome = (glob: string, { home }: Patterns['world']): string =>
  home === undefined ? glob : glob.replace(/^~(?=\/|$)/, home);

/** Returns the glob of a deny pattern. For a folder it also matches everything in the folder. */
const whole = (glob: string): string => glob.replace(/((?:^|\/)[^/*?]+)\/*$/, '$1/**');

/** True if a file pattern matches. Relative globs start at the project, but a deny glob matches in any folder. */
function coversFile(pattern: string, need: string, { world }: Patterns, isDeny: boolean): boolean {
  const [, mode = '', ...globs] = parts(pattern);
  const [, access = '', ...path] = parts(need);
  if (!need.startsWith('fs:') || !mode.includes(access)) return false;
  const written = globs.join(':').replace(/^\.\//, '');
  const expanded = atHome(written, world);
  const glob = isDeny ? whole(expanded) : expanded;
  const place = path.join(':');
  if (glob === '' || matchGlob(glob, place)) return true;
  return (
    matchGlob(glob, relative(world.root, place)) ||
    (isDeny && matchGlob(`**/${glob}`, place.slice(1)))
  );
}

const denies = (pattern: string, need: string, patterns: Patterns): boolean =>
  pattern.startsWith('fs:')
    ? coversFile(pattern, need, patterns, true)
    : denyMatches(pattern, need);

const allows = (pattern: string, need: string, patterns: Patterns): boolean =>
  pattern.startsWith('fs:')
    ? coversFile(pattern, need, patterns, false)
    : allowMatches(pattern, need);

/** True if an `allow` list closes the kind of a need: `cmd`, `fs` or another kind that the list mentions. */
function isClosed(patterns: readonly string[], need: string): boolean {
  const [kind] = parts(need);
  const isKnown = kind === 'cmd' || kind === 'fs';
  return isKnown || patterns.some((pattern) => parts(aliasOf(pattern))[0] === kind);
}

/** Returns a file need, and the same need for the resolved path if that differs. */
function realNeed(need: string, { world }: Patterns): string[] {
  const [, kind, path] = /^(fs:\w+):(.*)$/s.exec(need) ?? [];
  const real = path === undefined ? undefined : world.realPath?.(path);
  return real === undefined || real === path ? [need] : [need, `${kind}:${real}`];
}

/** Returns the commands of a shell text. Command patterns do not match them, but they may be dangerous. */
function hiddenNeeds(op: Operation): string[] {
  const texts = op.type === 'run' ? (textsRun(op) ?? []) : [];
  return texts
    .flatMap((text) => commandsIn(text, op.subtype === 'sh'))
    .map((words) => ['cmd', ...words].join(':'));
}

/** True if a pattern matches a need. Letter case is ignored for files, because some disks ignore it. */
const isDangerous = (pattern: string, need: string, patterns: Patterns): boolean =>
  denies(pattern, need, patterns) ||
  (need.startsWith('fs:') && denies(pattern.toLowerCase(), need.toLowerCase(), patterns));

function danger(patterns: Patterns, needs: readonly string[]): string | undefined {
  const dangerPatterns = patterns.world.dangers?.() ?? [];
  for (const need of needs) {
    const match = dangerPatterns.find((pattern) => isDangerous(pattern, need, patterns));
    if (!match || patterns.danger.some((pattern) => allows(pattern, need, patterns))) continue;
    return `\`${need}\` is dangerous (\`${match}\`); add a pattern for it to \`danger\` in the policy`;
  }
  return undefined;
}

function refusalOfNeed(
  patterns: Patterns,
  need: string,
  names: readonly string[],
): string | undefined {
  const { allow, deny } = patterns;
  const against = deny.find((pattern) => names.some((name) => denies(pattern, name, patterns)));
  if (against) return `\`${need}\` is denied by \`${against}\``;
  if (!allow) return undefined;
  if (isClosed(allow, need) && !allow.some((pattern) => allows(pattern, need, patterns)))
    return `\`${need}\` is not allowed by the policy`;
  return danger(patterns, names);
}

/** Returns the reason why a policy refuses these needs; `undefined` if it allows them. Deny wins. */
export function refusal(
  patterns: Patterns,
  needs: readonly string[],
  hidden: readonly string[] = [],
): string | undefined {
  // Separate guards check the patterns `op:…`.
  for (const need of needs) {
    const reason = refusalOfNeed(patterns, need, realNeed(need, patterns));
    if (reason) return reason;
  }
  return patterns.allow && danger(patterns, hidden);
}

/** Returns the parts of an absolute glob that match below a folder. */
function below(glob: readonly string[], folder: readonly string[]): string[] {
  const [first, ...rest] = glob;
  const [name, ...deeper] = folder;
  if (first === undefined) return [];
  if (name === undefined) return [glob.join('/')];
  if (first === '**') return [...below(rest, folder), ...below(glob, deeper)];
  return matchGlob(first, name) ? below(rest, deeper) : [];
}

/** Returns file globs relative to the project, for the sandbox. A bare name matches in every folder. */
const globsIn = (patterns: readonly string[], mode: string, world: Patterns['world']) =>
  patterns.flatMap((pattern) => {
    const [, modes = '', written = ''] = /^fs:(r|w|rw)(?::(?:\.\/)?(.*))?$/s.exec(pattern) ?? [];
    if (!modes.includes(mode)) return [];
    const glob = whole(atHome(written, world)).replace(/(?:\*\*\/)+/g, '**/');
    if (isAbsolute(glob)) return below(glob.split('/'), world.root.split('/'));
    return written.includes('/') ? [glob] : [glob || '**', `**/${glob || '**'}`];
  });

/** Returns the denied files, which are checked one by one. The caller passes resolved paths. */
export function closedFiles(patterns: Patterns): ClosedFiles {
  const { deny, world } = patterns;
  const denied = { r: globsIn(deny, 'r', world), w: globsIn(deny, 'w', world) };
  return {
    refusal(mode, path, isProcess) {
      const need = `fs:${mode}:${resolve(world.root, path)}`;
      if (!isProcess) return refusalOfNeed(patterns, need, [need]);
      const against = denied[mode].find((glob) => matchGlob(glob, path));
      return against && `\`${need}\` is denied by \`${against}\``;
    },
    globs: [...denied.r, ...denied.w],
  };
}

const textsIn = (inputs: readonly Argument[], expected: Argument['role']): string[] =>
  inputs.flatMap(({ role, value }) => {
    if (role !== expected || value.data === null) return [];
    return Array.isArray(value.data) ? value.data.map(plainText) : [value.text];
  });

/** Returns the files that a tool reads or changes. A command of a tool counts as `sh`. */
function toolNeeds(op: Operation, inputs: readonly Argument[], { world }: Patterns): string[] {
  const kind = op.metadata?.['effect'] === 'read' ? 'fs:r' : 'fs:w';
  const files = textsIn(inputs, 'path').map((path) => `${kind}:${resolve(world.root, path)}`);
  return textsIn(inputs, 'command').length > 0 ? ['sh', ...files] : files;
}

/** Matches a program name that the shell computes, so that it is unknown before the run. */
const UNREAD = /^cmd:[^:]*[$`*?{]/;

function unknownProgram({ danger: open }: Patterns, op: Operation): string | undefined {
  const text = op.type === 'run' && op.subtype === 'cmd' ? textsRun(op)?.at(-1) : undefined;
  const need = text && needsOfText(text).find((one) => UNREAD.test(one));
  if (!need || open.some((pattern) => allowMatches(pattern, need))) return undefined;
  return `the program of \`${need}\` is computed when it runs; write its name, or add a pattern for it to \`danger\``;
}

/** Returns the reason why a policy refuses an operation; `undefined` if it allows it. */
export function refusalOf(
  patterns: Patterns,
  op: Operation,
  inputs: readonly Argument[] = [],
): string | undefined {
  const evals = op.type === 'tool' ? inputs : [];
  const needs = [...needOf(op), ...toolNeeds(op, evals, patterns)];
  if (!patterns.allow) return refusal(patterns, needs);
  const commands = textsIn(evals, 'command').flatMap((text) => commandsIn(text, true));
  const hidden = commands.map((words) => ['cmd', ...words].join(':'));
  return refusal(patterns, needs, [...hiddenNeeds(op), ...hidden]) ?? unknownProgram(patterns, op);
}
