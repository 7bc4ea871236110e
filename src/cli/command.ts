import { readFileSync } from 'node:fs';
import type { Failure } from '../base/index.ts';
import type { Terminal } from './terminal/terminal.ts';

type Option = readonly [flags: string, meaning: string];

/** A command as data: the parser and the help are built from it, its code is loaded when it runs. */
export interface CommandSpec {
  name: string;
  summary: string;
  /** In the parser's notation: `<required>`, `[optional]`, `[many...]`. */
  args?: readonly (readonly [name: string, meaning: string])[];
  options?: readonly Option[];
  /** Needs no project, so it takes none. */
  anywhere?: true;
  examples?: readonly string[];
  /** Commands below this one (`catalog add`); a command has these or `load`. */
  commands?: readonly CommandSpec[];
  load?: () => Promise<CommandRun>;
}

export interface CommandCall {
  args: readonly (string | readonly string[] | undefined)[];
  options: Readonly<Record<string, unknown>>;
  terminal: Terminal;
  /** All there are, for help and completion. */
  commands: readonly CommandSpec[];
}

/** The exit code, or why it could not be done: whoever called says it, and it gives the code. */
export type Ending = number | Failure;
export type CommandRun = (call: CommandCall) => Promise<Ending>;

/** An option or argument as text; undefined when it was not given. */
export const asText = (value: unknown): string | undefined =>
  typeof value === 'string' ? value : undefined;
export const asList = (value: unknown): string[] =>
  Array.isArray(value) ? value.filter((item) => typeof item === 'string') : [];

const PROJECT: Option = [
  '-C, --project <dir>',
  'use the project in this folder (default: the nearest `.ai` upwards)',
];

/** All options of a command; where it works is said last, with the same words everywhere. */
export const optionsOf = ({ options = [], load, anywhere }: CommandSpec): readonly Option[] =>
  load && !anywhere ? [...options, PROJECT] : options;

export function version(): string {
  const text = readFileSync(new URL('../../package.json', import.meta.url), 'utf8');
  return (JSON.parse(text) as { version: string }).version;
}
