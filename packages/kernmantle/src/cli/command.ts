import { readFileSync } from 'node:fs';
import { type Failure, packagePath } from '@kernmantle/core/base';
import type { Command } from 'commander';
import type { Output } from './terminal/output.ts';
import type { Terminal } from './terminal/terminal.ts';

export interface CommandCall {
  args: readonly (string | readonly string[] | undefined)[];
  options: Readonly<Record<string, unknown>>;
  terminal: Terminal;
  /** This command and its siblings, for completion. */
  commands: readonly Command[];
}

/** Exit code of a command, or a failure that the caller prints and turns into an exit code. */
export type Ending = number | Failure;
export type CommandRun = (call: CommandCall) => Promise<Ending>;

/** Connects a command of the parser with its code, which is loaded when the command runs. */
export function runs(command: Command, load: () => Promise<CommandRun>, output: Output): void {
  command.option('--json', 'answer in JSON').action(async (...values: unknown[]) => {
    // The parser appends the options and the command itself to the arguments.
    const args = values.slice(0, -2) as (string | string[] | undefined)[];
    const options = command.optsWithGlobals<Record<string, unknown>>();
    const { createTerminal } = await import('./terminal/terminal.ts');
    const terminal = createTerminal(options.json === true, output);
    const run = await load();
    const ended = await run({ args, options, terminal, commands: command.parent?.commands ?? [] });
    process.exitCode = typeof ended === 'number' ? ended : terminal.finish(ended, () => {});
  });
}

/** Returns an option or argument as text, undefined if it is absent. */
export const asText = (value: unknown): string | undefined =>
  typeof value === 'string' ? value : undefined;
export const asList = (value: unknown): string[] =>
  Array.isArray(value) ? value.filter((item) => typeof item === 'string') : [];

/** Reads a JSON file of this package. */
export const readOwnJson = (path: string): unknown =>
  JSON.parse(readFileSync(packagePath(path), 'utf8'));

export const version = (): string => (readOwnJson('package.json') as { version: string }).version;
