// Patterns of a script's policy: `cmd:git:push`, `cmd:git:*`, `sh`, `js`, `network`, `fs:w:GLOB`, `op:…`.
// A deny pattern covers everything that begins like it; an allow pattern must cover all of it.
import { relative } from 'node:path';
import { matchGlob } from '../../base/index.ts';
import type { Operation } from '../../flow/index.ts';
import { carriedBy, splitPipes, substituted } from '../compile/command-line.ts';
import type { Patterns } from './environment.ts';

const KINDS = new Set(['cmd', 'sh', 'bash', 'js', 'node', 'py', 'python', 'network', 'fs', 'op']);
const SHELLS = new Set(['sh', 'bash', 'zsh', 'dash', 'fish', 'ksh']);

export function patternProblem(pattern: string): string | undefined {
  const [kind = ''] = pattern.split(':', 1);
  if (!KINDS.has(kind))
    return `begins with \`${kind}\`, which is no kind (${[...KINDS].join(', ')})`;
  return kind === 'fs' && !/^fs:(r|w|rw)(:|$)/.test(pattern)
    ? 'must say `fs:r:…` or `fs:w:…`'
    : undefined;
}

/** What an operation needs, in the words of patterns; undefined when policies have no word for it. */
export function needOf(op: Operation): readonly string[] {
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
/** The shell would run what stands inside. */
const SUBSTITUTION = /\$\(|`|<\(/;

/** Every command of every pipe; a shell as a program counts as `sh`. */
function commandNeeds(op: Operation): string[] {
  const text = op.metadata?.['command'];
  if (typeof text !== 'string') return ['cmd'];
  const commands = [text, ...substituted(text)].join('\n').split('\n').flatMap(splitPipes);
  const needs = commands.flatMap((command) => {
    const words = command.match(/(?:'[^']*'|"(?:\\.|[^"\\])*"|\\.|[^\s'"\\])+/g) ?? [];
    return programNeeds(words.map((word) => word.replace(/['"\\]/g, '')));
  });
  const isShell = SUBSTITUTION.test(text.replace(/'[^']*'|\\./g, ''));
  return isShell ? ['sh', ...needs] : needs;
}

function programNeeds(given: readonly string[]): string[] {
  const words = given.slice(given.findIndex((word) => !/^\w+=/.test(word)));
  const program = (words[0] ?? '').split('/').at(-1) ?? '';
  if (SHELLS.has(program)) return ['sh'];
  const needs = [['cmd', program, ...words.slice(1)].join(':')];
  if (NETWORK.test(program)) needs.push('network');
  const inner = carriedBy(words);
  return inner ? [...needs, ...programNeeds(inner)] : needs;
}

const parts = (pattern: string): string[] => pattern.split(':');

/** `cmd:git:push` begins `cmd:git:push:origin`. */
const isPrefix = (wanted: readonly string[], given: readonly string[]): boolean =>
  wanted.every((part, at) => part === given[at]);

/** Relative globs begin at the project; a denied one bites wherever such a path ends. */
function coversFile(pattern: string, need: string, root: string, isDeny: boolean): boolean {
  const [, mode = '', ...globs] = parts(pattern);
  const [, wanted = '', ...path] = parts(need);
  if (!need.startsWith('fs:') || !mode.includes(wanted)) return false;
  const [glob, place] = [globs.join(':').replace(/^\.\//, ''), path.join(':')];
  if (glob === '' || matchGlob(glob, place)) return true;
  return (
    matchGlob(glob, relative(root, place)) || (isDeny && matchGlob(`**/${glob}`, place.slice(1)))
  );
}

function denies(pattern: string, need: string, root: string): boolean {
  if (pattern.startsWith('fs:')) return coversFile(pattern, need, root, true);
  const wanted = parts(aliasOf(pattern)).filter((part) => part !== '*');
  return isPrefix(wanted, parts(need));
}

const aliasOf = (pattern: string): string =>
  pattern.replace(/^bash\b/, 'sh').replace(/^python\b/, 'py');

function allows(pattern: string, need: string, root: string): boolean {
  if (pattern.startsWith('fs:')) return coversFile(pattern, need, root, false);
  const [wanted, given] = [parts(aliasOf(pattern)), parts(need)];
  if (wanted.at(-1) === '*') return isPrefix(wanted.slice(0, -1), given);
  return wanted.length === 1 ? wanted[0] === given[0] : wanted.join(':') === given.join(':');
}

/** With an `allow` list, `cmd` and `fs` are closed, and every other kind it mentions. */
function isClosed(patterns: readonly string[], need: string): boolean {
  const [kind] = parts(need);
  const isKnown = kind === 'cmd' || kind === 'fs';
  return isKnown || patterns.some((pattern) => parts(aliasOf(pattern))[0] === kind);
}

/** Why a policy does not let this happen; undefined: it does. Deny wins. */
export function refusal(
  { allow, deny, root }: Patterns,
  needs: readonly string[],
): string | undefined {
  // `op:…` is asked of the operation itself, by guards of its own.
  for (const need of needs) {
    const against = deny.find((pattern) => denies(pattern, need, root));
    if (against) return `\`${need}\` is denied by \`${against}\``;
    if (allow && isClosed(allow, need) && !allow.some((pattern) => allows(pattern, need, root))) {
      return `\`${need}\` is not among what the policy allows`;
    }
  }
  return undefined;
}
