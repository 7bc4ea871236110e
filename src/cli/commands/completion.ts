import { fail, type Outcome, ok } from '../../base/index.ts';
import { asText, type CommandRun, type CommandSpec, optionsOf } from '../command.ts';

/** Long options of a command, without what they take. */
const flags = (spec: CommandSpec): string[] => [
  ...optionsOf(spec).flatMap(([text]) => /--[a-z-]+/.exec(text)?.[0] ?? []),
  ...(spec.load ? ['--json'] : []),
  '--help',
];

/** Every command path with the words that may follow it. */
function words(specs: readonly CommandSpec[], path = ''): [string, string[]][] {
  return specs.flatMap((spec) => {
    const here = path === '' ? spec.name : `${path} ${spec.name}`;
    const below = (spec.commands ?? []).map(({ name }) => name);
    return [[here, [...below, ...flags(spec)]], ...words(spec.commands ?? [], here)] as [
      string,
      string[],
    ][];
  });
}

function bash(commands: readonly CommandSpec[]): string {
  const cases = words(commands).map(
    ([path, next]) => `    '${path}') words='${next.join(' ')}' ;;`,
  );
  const top = commands.map(({ name }) => name).join(' ');
  return [
    '_km() {',
    '  local current="${COMP_WORDS[COMP_CWORD]}" path="${COMP_WORDS[1]}" words',
    '  if [ "$COMP_CWORD" -gt 2 ]; then case "$path" in trust|catalog|mcp) path="$path ${COMP_WORDS[2]}" ;; esac; fi',
    `  if [ "$COMP_CWORD" -eq 1 ]; then words='${top}'; else`,
    '  case "$path" in',
    ...cases,
    '  esac; fi',
    '  COMPREPLY=($(compgen -W "$words" -- "$current"))',
    '  [ ${#COMPREPLY[@]} -gt 0 ] || COMPREPLY=($(compgen -f -- "$current"))',
    '}',
    'complete -F _km km kernmantle',
  ].join('\n');
}

const quoted = (text: string): string => text.replaceAll("'", "'\\''");

function zsh(commands: readonly CommandSpec[]): string {
  const top = commands.map(
    ({ name, summary }) => `    '${name}:${quoted(summary).replaceAll(':', '\\:')}'`,
  );
  const cases = words(commands).map(
    ([path, next]) => `    '${path}') compadd -- ${next.join(' ')} ;;`,
  );
  return [
    '#compdef km kernmantle',
    '_km() {',
    '  local -a commands=(',
    ...top,
    '  )',
    '  if (( CURRENT == 2 )); then _describe command commands; return; fi',
    '  local path="$words[2]"',
    '  if (( CURRENT > 3 )); then case "$path" in trust|catalog|mcp) path="$path $words[3]" ;; esac; fi',
    '  case "$path" in',
    ...cases,
    '  esac',
    '  _files',
    '}',
    'compdef _km km kernmantle',
  ].join('\n');
}

function fish(commands: readonly CommandSpec[]): string {
  const lines: string[] = [];
  for (const spec of commands) {
    for (const name of ['km', 'kernmantle']) {
      lines.push(
        `complete -c ${name} -n __fish_use_subcommand -a ${spec.name} -d '${quoted(spec.summary)}'`,
      );
      const inside = `-n '__fish_seen_subcommand_from ${spec.name}'`;
      for (const below of spec.commands ?? []) {
        lines.push(`complete -c ${name} ${inside} -a ${below.name} -d '${quoted(below.summary)}'`);
      }
      for (const flag of flags(spec))
        lines.push(`complete -c ${name} ${inside} -l ${flag.slice(2)}`);
    }
  }
  return lines.join('\n');
}

const SHELLS: Readonly<Record<string, (commands: readonly CommandSpec[]) => string>> = {
  bash,
  zsh,
  fish,
};

function completionFor(shell: string, commands: readonly CommandSpec[]): Outcome<string> {
  const make = Object.hasOwn(SHELLS, shell) ? SHELLS[shell] : undefined;
  return make
    ? ok(make(commands))
    : fail('usage', `no completion for \`${shell}\`; there are: bash, zsh, fish`);
}

export const run: CommandRun = async ({ args, terminal, commands }) =>
  terminal.finish(completionFor(asText(args[0]) ?? '', commands), (script) => terminal.out(script));
