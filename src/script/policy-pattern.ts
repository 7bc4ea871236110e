// Patterns of a script's policy: `cmd:git:push`, `cmd:git:*`, `sh`, `js`, `network`, `fs:w:GLOB`, `op:…`.
// A deny pattern covers everything that begins like it; an allow pattern must cover all of it.
import { matchGlob } from '../base/index.ts';
import type { Operation } from '../flow/index.ts';

export interface Patterns {
  /** Undefined: nothing is closed. */
  readonly allow: readonly string[] | undefined;
  readonly deny: readonly string[];
}

const KINDS = new Set([
  'cmd',
  'sh',
  'bash',
  'js',
  'node',
  'py',
  'python',
  'network',
  'net',
  'fs',
  'op',
  'tool',
]);
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
  const needs = new Set<string>();
  if (op.type === 'run') {
    if (op.subtype === 'cmd') for (const need of commandNeeds(op)) needs.add(need);
    else if (op.subtype) needs.add(op.subtype);
  }
  if ((op.type === 'output' || op.type === 'append') && op.target?.includes('/'))
    needs.add(`fs:w:${op.target}`);
  if (op.type === 'file' && op.target) needs.add(`fs:r:${op.target}`);
  if (op.type === 'tool') needs.add(`tool:${op.name}`);
  return [...needs];
}

/** Every command of every pipe; a shell as a program counts as `sh`. */
function commandNeeds(op: Operation): string[] {
  const text = op.metadata?.['command'];
  if (typeof text !== 'string') return ['cmd'];
  const commands = text
    .split('\n')
    .flatMap((line) => line.match(/(?:'[^']*'|"(?:\\.|[^"\\])*"|\\.|[^|'"\\])+/g) ?? []);
  return commands.map((command) => {
    const words = command.match(/(?:'[^']*'|"(?:\\.|[^"\\])*"|\\.|[^\s'"\\])+/g) ?? [];
    const plain = words.map((word) => word.replace(/['"\\]/g, ''));
    while (plain.length > 0 && /^\w+=/.test(plain[0] ?? '')) plain.shift();
    const program = (plain[0] ?? '').split('/').at(-1) ?? '';
    return SHELLS.has(program) ? 'sh' : ['cmd', program, ...plain.slice(1)].join(':');
  });
}

const parts = (pattern: string): string[] => pattern.split(':');

/** `cmd:git:push` begins `cmd:git:push:origin`. */
function isPrefix(pattern: string, need: string): boolean {
  const [wanted, given] = [parts(pattern).filter((part) => part !== '*'), parts(need)];
  return wanted.every((part, at) => part === given[at]);
}

function coversFile(pattern: string, need: string): boolean {
  const [, mode = '', ...globs] = parts(pattern);
  const [, wanted = '', ...path] = parts(need);
  if (!mode.includes(wanted)) return false;
  const glob = globs.join(':');
  return (
    glob === '' ||
    matchGlob(glob, path.join(':')) ||
    matchGlob(`**/${glob.replace(/^\.?\//, '')}`, path.join(':').replace(/^\//, ''))
  );
}

function denies(pattern: string, need: string): boolean {
  if (pattern.startsWith('fs:')) return need.startsWith('fs:') && coversFile(pattern, need);
  return isPrefix(aliasOf(pattern), need);
}

const aliasOf = (pattern: string): string =>
  pattern.replace(/^bash\b/, 'sh').replace(/^python\b/, 'py');

function allows(pattern: string, need: string): boolean {
  if (pattern.startsWith('fs:')) return need.startsWith('fs:') && coversFile(pattern, need);
  const [wanted, given] = [parts(aliasOf(pattern)), parts(need)];
  if (wanted.at(-1) === '*') return wanted.slice(0, -1).every((part, at) => part === given[at]);
  return wanted.length === 1 ? wanted[0] === given[0] : wanted.join(':') === given.join(':');
}

/** With an `allow` list, `cmd` and `fs` are closed, and every other kind it mentions. */
function isClosed(patterns: readonly string[], need: string): boolean {
  const [kind = ''] = need.split(':', 1);
  return (
    kind === 'cmd' ||
    kind === 'fs' ||
    patterns.some((pattern) => parts(aliasOf(pattern))[0] === kind)
  );
}

/** Why a policy does not let this happen; undefined: it does. Deny wins. */
export function refusal(
  { allow, deny }: Patterns,
  needs: string | readonly string[],
): string | undefined {
  for (const need of typeof needs === 'string' ? [needs] : needs) {
    const against = deny.find((pattern) => denies(pattern, need));
    if (against) return `\`${need}\` is denied by \`${against}\``;
    if (allow && isClosed(allow, need) && !allow.some((pattern) => allows(pattern, need))) {
      return `\`${need}\` is not among what the policy allows`;
    }
  }
  return undefined;
}
