import { readFileSync } from 'node:fs';
import type { Command } from 'commander';
import { fail, ok, packagePath } from '../../base/index.ts';
import { asText, type CommandRun } from '../command.ts';

/** Long options of a command, without what they take. */
const flags = ({ options }: Command): string[] => [
  ...options.flatMap(({ long }) => long ?? []),
  '--help',
];

/** Every command path with the words that may follow it. */
const words = (commands: readonly Command[], path = ''): [string, string[]][] =>
  commands.flatMap((command) => {
    const here = `${path}${command.name()}`;
    const below = command.commands.map((one) => one.name());
    return [[here, [...below, ...flags(command)]], ...words(command.commands, `${here} `)];
  });

/** The script of a shell as the bundle has it, with our commands in it. */
const filled = (shell: string, commands: string, cases: readonly string[]): string =>
  readFileSync(packagePath(`bundle/completion/${shell}`), 'utf8')
    .trimEnd()
    .replace('@COMMANDS@', () => commands)
    .replace('@CASES@', () => cases.join('\n'));

function bash(commands: readonly Command[]): string {
  const cases = words(commands).map(
    ([path, next]) => `    '${path}') words='${next.join(' ')}' ;;`,
  );
  return filled('bash', commands.map((command) => command.name()).join(' '), cases);
}

const quoted = (text: string): string => text.replaceAll("'", "'\\''");

function zsh(commands: readonly Command[]): string {
  const top = commands.map(
    (command) => `    '${command.name()}:${quoted(command.description()).replaceAll(':', '\\:')}'`,
  );
  const cases = words(commands).map(
    ([path, next]) => `    '${path}') compadd -- ${next.join(' ')} ;;`,
  );
  return filled('zsh', top.join('\n'), cases);
}

function fish(commands: readonly Command[]): string {
  const lines: string[] = [];
  for (const command of commands) {
    for (const name of ['km', 'kernmantle']) {
      const offer = (where: string, one: Command): void => {
        const about = quoted(one.description());
        lines.push(`complete -c ${name} -n ${where} -a ${one.name()} -d '${about}'`);
      };
      const inside = `'__fish_seen_subcommand_from ${command.name()}'`;
      offer('__fish_use_subcommand', command);
      for (const below of command.commands) offer(inside, below);
      for (const flag of flags(command)) {
        lines.push(`complete -c ${name} -n ${inside} -l ${flag.slice(2)}`);
      }
    }
  }
  return lines.join('\n');
}

const SHELLS: Readonly<Record<string, (commands: readonly Command[]) => string>> = {
  bash,
  zsh,
  fish,
};

export const run: CommandRun = async ({ args, terminal, commands }) => {
  const shell = asText(args[0]) ?? '';
  const make = Object.hasOwn(SHELLS, shell) ? SHELLS[shell] : undefined;
  return make
    ? terminal.finish(ok(make(commands)), terminal.out)
    : fail('usage', `no completion for \`${shell}\`; there are: bash, zsh, fish`);
};
