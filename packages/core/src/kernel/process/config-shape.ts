// Defines the shape of the config of `subprocess`. It is checked when a tool is loaded, where a placeholder
// may become any value, and again after the placeholders of a call were filled in.
import {
  anything,
  fillable,
  fillableText,
  isObject,
  listOf,
  mapping,
  oneOf,
  type Rule,
  record,
  text,
  textLike,
  wholeBetween,
  wrongType,
} from '../../base/index.ts';

export const RUNTIMES = ['node', 'python'] as const;
const SHELLS = ['bash', 'sh', 'zsh'] as const;
const MAX_OUTPUT = 64 * 1024 * 1024;
const MAX_MEMORY_MB = 1024 * 1024;
const MAX_COUNT = 1024 * 1024;
const MAX_GRACE_MS = 60_000;
/** No interpreter starts with less memory. */
const MIN_MEMORY_MB = 16;
const MIN_COUNT = 16;

const names: Rule<unknown> = (value, place) =>
  Array.isArray(value) && value.every((each) => typeof each === 'string')
    ? value
    : wrongType(place, 'a list of names', value);

const pathspecs: Rule<unknown> = (value, place) =>
  value === 'none' || Array.isArray(value)
    ? value
    : wrongType(place, 'a list of paths, or `none`', value);

type Unfilled = <T>(rule: Rule<T>) => Rule<T>;

const fields = (words: Unfilled, others: Unfilled) => ({
  command: words(text),
  args: others(listOf(anything)),
  args_from: others(names),
  args_last: others(listOf(anything)),
  shell: words(oneOf(SHELLS)),
  script: words(text),
  runtime: words(oneOf(RUNTIMES)),
  module: words(text),
  function: words(textLike(/^[\w$]*$/, 'the name of an exported function')),
  stdin: anything,
  cwd: words(text),
  env: others(mapping),
  ok_exit_codes: others(listOf(anything)),
  max_output: others(wholeBetween(0, MAX_OUTPUT)),
  output: words(oneOf(['text', 'json'])),
  grace_ms: others(wholeBetween(0, MAX_GRACE_MS)),
  home_files: others(names),
  dependencies: others(names),
  max_memory_mb: others(wholeBetween(MIN_MEMORY_MB, MAX_MEMORY_MB)),
  max_processes: others(wholeBetween(MIN_COUNT, MAX_COUNT)),
  max_open_files: others(wholeBetween(MIN_COUNT, MAX_COUNT)),
  pathspecs: others(pathspecs),
});

const asIs: Unfilled = (rule) => rule;
/** The shape after placeholders were filled in. The other fields were checked before. */
export const filledProcess: Rule<unknown> = record(fields(asIs, asIs), { open: true });

const FIELDS = fields(fillableText, fillable);
const MCP = 'this is the tool `mcp/mcp_stdio` of the bundle: remove the file and call that';
const moved = { input_format: MCP, output_format: MCP };
const ofCommand = record(FIELDS, { required: ['command'], moved });
const ofShell = record(FIELDS, { required: ['script'], moved });
/** A module gets the whole config, so it may have fields that are unknown here. */
const ofModule = record(FIELDS, { required: ['module'], open: true });

/** Checks the config of a program, of a shell with a text, or of a runtime with a module. */
export const processConfig: Rule<unknown> = (value, place) => {
  if (!isObject(value)) return wrongType(place, 'a mapping', value);
  const isSet = (name: string): boolean => (value[name] ?? null) !== null;
  const rule = isSet('runtime') ? ofModule : isSet('shell') ? ofShell : ofCommand;
  return rule(value, place);
};
