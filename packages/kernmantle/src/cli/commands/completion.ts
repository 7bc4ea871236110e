// Implements `completion`: a script for each shell, and one function that lists the possible next
// words: commands, options, and ids of directives, tools, knowledge, threads and servers.
import { readFileSync } from 'node:fs';
import { fail, ok, packagePath, shellQuote } from '@kernmantle/core/base';
import type { Runtime } from '@kernmantle/core/runtime';
import type { Command, Option } from 'commander';
import { asList, asText, type CommandCall, type CommandRun } from '../command.ts';

const KINDS = ['directive', 'tool', 'knowledge'] as const;
/** Options with a fixed set of values. */
const WORDS: Readonly<Record<string, readonly string[]>> = {
  kind: KINDS,
  decision: ['allowed', 'denied', 'failed'],
  surface: ['cli', 'library', 'mcp', 'web', 'script', 'thread', 'harness'],
  client: ['claude-code', 'claude-desktop', 'cursor', 'vscode'],
  scope: ['project', 'user'],
  role: ['view', 'steer', 'approve'],
};
const MAX_THREADS = 50;
/**
 * Shells expand the words that are offered, and an id can be untrusted. Only plain ids are offered.
 */
const IS_PLAIN = /^[\w./-]+$/;

async function threadIds(runtime: Runtime): Promise<string[]> {
  if (!runtime.registry.isThere()) return [];
  const threads = await runtime.threads();
  if (!threads.ok) return [];
  const page = await threads.output.store.query({ order_by: 'updated', limit: MAX_THREADS });
  return page.ok ? ['last', ...page.output.rows.map(({ id }) => id)] : [];
}

/** Offers whole ids, and the last part of an id after the first typed character. */
function idsOf(runtime: Runtime, kind: string, current: string): string[] {
  const ids = runtime.library.all().flatMap((item) => (item.kind === kind ? [item.id] : []));
  if (current === '' || current.includes('/')) return ids;
  const byName = Map.groupBy(ids, (id) => id.slice(id.lastIndexOf('/') + 1));
  const names = [...byName].flatMap(([name, same]) => (same.length === 1 ? [name] : []));
  return [...new Set([...ids, ...names])];
}

async function serverNames(runtime: Runtime): Promise<string[]> {
  const { knownServers } = await import('@kernmantle/core/items');
  return knownServers(runtime).map(({ name }) => name);
}

/** The parsed words of a command line before the cursor. */
interface Typed {
  command: Command | undefined;
  /** The word at the cursor, or an empty text. */
  current: string;
  /** Arguments of the command before the cursor, without options and their values. */
  before: string[];
  /** The option whose value is at the cursor. */
  option: Option | undefined;
  project: string | undefined;
  store: string | undefined;
}

function readLine(words: readonly string[], all: readonly Command[]): Typed {
  const current = words.at(-1) ?? '';
  const rest = words.slice(0, -1);
  let command: Command | undefined;
  for (let level = all; ; level = command.commands) {
    const next = level.find((one) => one.name() === rest[0]);
    if (!next) break;
    [command] = [next, rest.shift()];
  }
  const before: string[] = [];
  let option: Option | undefined;
  let [project, store]: (string | undefined)[] = [];
  for (const word of rest) {
    if (option?.name() === 'project') project = word;
    if (option?.name() === 'store') store = word;
    if (option) option = undefined;
    else if (!word.startsWith('-')) before.push(word);
    else {
      const match = command?.options.find(({ long, short }) => word === long || word === short);
      option = match?.required ? match : undefined;
    }
  }
  return { command, current, before, option, project, store };
}

/** Name of the argument at the cursor. `<threads...>` becomes `threads`. */
const takenBy = ({ option, command, before }: Typed): string => {
  if (option) return /<([a-z]+)/.exec(option.flags)?.[1] ?? '';
  const taken = command?.registeredArguments ?? [];
  const last = taken.at(-1);
  return (taken[before.length] ?? (last?.variadic ? last : undefined))?.name() ?? '';
};

/** Ids in the project for this kind of argument. Undefined for kinds that no project has. */
function listOf(
  kind: string,
  current: string,
): ((runtime: Runtime) => string[] | Promise<string[]>) | undefined {
  if (/^threads?$/.test(kind)) return threadIds;
  if (kind === 'server') return serverNames;
  return KINDS.some((one) => one === kind) ? (runtime) => idsOf(runtime, kind, current) : undefined;
}

async function wordsFor(typed: Typed, all: readonly Command[], call: CommandCall) {
  const { command, current, before, option } = typed;
  if (!command) return all.map((one) => one.name());
  if (!option && current.startsWith('-')) return flags(command);
  if (command.commands.length > 0) return command.commands.map((one) => one.name());
  const taken = takenBy(typed);
  const kind = taken === 'id' ? (option?.name() ?? before[0] ?? '') : taken;
  if (Object.hasOwn(WORDS, kind)) return WORDS[kind] ?? [];
  if (kind === 'shell') return Object.keys(SHELLS);
  const list = listOf(kind, current);
  if (!list) return [];
  let ids: string[] = [];
  // Completing a command or an option must not load the rest of the program.
  const { withRuntime } = await import('../project.ts');
  const { project, store } = typed;
  await withRuntime({ ...call, options: { project, store } }, async (runtime) => {
    ids = await list(runtime);
    return 0;
  });
  return ids;
}

/** Returns no words if it cannot list them. The shell then offers files. */
async function complete(words: readonly string[], call: CommandCall): Promise<string[]> {
  const typed = readLine(words, call.commands);
  const offered = await wordsFor(typed, call.commands, call);
  return offered.filter((word) => word.startsWith(typed.current) && IS_PLAIN.test(word));
}

const flags = ({ options }: Command): string[] => [
  ...options.flatMap(({ long }) => long ?? []),
  '--help',
];

const filled = (shell: string, commands: string): string =>
  readFileSync(packagePath(`bundle/completion/${shell}`), 'utf8')
    .trimEnd()
    .replace('@COMMANDS@', () => commands);

const bash = (commands: readonly Command[]): string =>
  filled('bash', commands.map((command) => command.name()).join(' '));

function zsh(commands: readonly Command[]): string {
  const top = commands.map((command) => {
    const about = command.description().replaceAll(':', '\\:');
    return `    ${shellQuote(`${command.name()}:${about}`)}`;
  });
  return filled('zsh', top.join('\n'));
}

/** Writes all commands and options with their descriptions. Other words are completed at run time. */
function fish(commands: readonly Command[]): string {
  const lines: string[] = [];
  const add = (name: string, list: readonly Command[], above: string): void => {
    for (const command of list) {
      const where = above === '' ? '__fish_use_subcommand' : above;
      const about = shellQuote(command.description());
      lines.push(`complete -c ${name} -n '${where}' -a ${command.name()} -d ${about}`);
      const here = `${above === '' ? '' : `${above}; and `}__fish_seen_subcommand_from ${command.name()}`;
      for (const { long, description } of command.options) {
        if (long === undefined) continue;
        const meaning = shellQuote(description);
        lines.push(`complete -c ${name} -n '${here}' -l ${long.slice(2)} -d ${meaning}`);
      }
      add(name, command.commands, here);
    }
  };
  for (const name of ['km', 'kernmantle']) add(name, commands, '');
  return filled('fish', lines.join('\n'));
}

const SHELLS: Readonly<Record<string, (commands: readonly Command[]) => string>> = {
  bash,
  zsh,
  fish,
};

export const run: CommandRun = async (call) => {
  const { args, terminal, commands } = call;
  const shell = asText(args[0]) ?? '';
  if (shell === 'words') {
    const words = await complete(asList(args[1]), call);
    return terminal.finish(ok(words), (list) => list.forEach((word) => terminal.out(word)));
  }
  const make = Object.hasOwn(SHELLS, shell) ? SHELLS[shell] : undefined;
  return make
    ? terminal.finish(ok(make(commands)), terminal.out)
    : fail(
        'usage',
        `shell \`${shell}\` has no completion script; use one of ${Object.keys(SHELLS).join(', ')}`,
      );
};
