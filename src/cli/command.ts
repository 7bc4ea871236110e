import type { Fault } from '../base/index.ts';
import type { Terminal } from './terminal/terminal.ts';

/** A command as data: the parser and the help are built from it, its code is loaded when it runs. */
export interface CommandSpec {
  name: string;
  summary: string;
  /** In the parser's notation: `<required>`, `[optional]`, `[many...]`. */
  args?: readonly (readonly [name: string, meaning: string])[];
  options?: readonly (readonly [flags: string, meaning: string])[];
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

/** Resolves to the exit code. */
export type CommandRun = (call: CommandCall) => Promise<number>;

export const EXIT = {
  done: 0,
  failed: 1,
  usage: 2,
  invalid: 3,
  denied: 4,
  limit: 5,
  provider: 6,
  needsInput: 7,
  interrupted: 130,
} as const;

const BY_CODE: Readonly<Record<string, number>> = {
  usage: EXIT.usage,
  invalid_item: EXIT.invalid,
  config_invalid: EXIT.invalid,
  permission_denied: EXIT.denied,
  signature_invalid: EXIT.denied,
  sandbox_missing: EXIT.denied,
  quota_exceeded: EXIT.limit,
  rate_limit: EXIT.provider,
  provider_error: EXIT.provider,
  model_unavailable: EXIT.provider,
  needs_input: EXIT.needsInput,
  cancelled: EXIT.interrupted,
};

export function exitCodeOf(fault: Fault): number {
  const { code, detail } = fault;
  if (code === 'expression_error') return detail.kind === 'syntax' ? EXIT.invalid : EXIT.failed;
  if (code.endsWith('_exceeded')) return EXIT.limit;
  return BY_CODE[code] ?? EXIT.failed;
}

/** An option or argument as text; undefined when it was not given. */
export const asText = (value: unknown): string | undefined =>
  typeof value === 'string' ? value : undefined;
export const asList = (value: unknown): string[] =>
  Array.isArray(value) ? value.filter((item) => typeof item === 'string') : [];
