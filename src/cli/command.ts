import { readFileSync } from 'node:fs';
import { Command } from 'commander';
import type { Failure } from '../base/index.ts';
import type { Terminal } from './terminal/terminal.ts';

export interface CommandCall {
  args: readonly (string | readonly string[] | undefined)[];
  options: Readonly<Record<string, unknown>>;
  terminal: Terminal;
  /** It and those beside it, for completion. */
  commands: readonly Command[];
}

/** The exit code, or why it could not be done: whoever called says it, and it gives the code. */
export type Ending = number | Failure;
export type CommandRun = (call: CommandCall) => Promise<Ending>;

/** A command of the parser, whose code is loaded when it runs. */
export class Row extends Command {
  override createCommand(name?: string): Row {
    return new Row(name);
  }

  examples(...lines: readonly string[]): this {
    return this.addHelpText('after', `\nExamples:\n${lines.map((line) => `  ${line}`).join('\n')}`);
  }

  /** The last word about a row: options that all have come after its own, with the same words. */
  runs(load: () => Promise<CommandRun>, where: 'in a project' | 'anywhere' = 'in a project'): void {
    if (where === 'in a project') {
      const meaning = 'use the project in this folder (default: the nearest `.ai` upwards)';
      this.option('-C, --project <dir>', meaning);
    }
    this.option('--json', 'answer in JSON');
    this.action(async (...given: unknown[]) => {
      // The parser appends the options and the command itself to the arguments.
      const args = given.slice(0, -2) as (string | string[] | undefined)[];
      const options = this.optsWithGlobals<Record<string, unknown>>();
      const { createTerminal } = await import('./terminal/terminal.ts');
      const terminal = createTerminal(options.json === true);
      const run = await load();
      const ended = await run({ args, options, terminal, commands: this.parent?.commands ?? [] });
      process.exitCode = typeof ended === 'number' ? ended : terminal.finish(ended, () => {});
    });
  }
}

/** An option or argument as text; undefined when it was not given. */
export const asText = (value: unknown): string | undefined =>
  typeof value === 'string' ? value : undefined;
export const asList = (value: unknown): string[] =>
  Array.isArray(value) ? value.filter((item) => typeof item === 'string') : [];

export function version(): string {
  const text = readFileSync(new URL('../../package.json', import.meta.url), 'utf8');
  return (JSON.parse(text) as { version: string }).version;
}
