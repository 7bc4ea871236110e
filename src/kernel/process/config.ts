// What a tool's config says about the process to start. Read once, here: afterwards the types are
// the proof. `{param}` is already filled in, so every element is one argument, whatever it holds.
import {
  fail,
  getOwn,
  isObject,
  type Json,
  type JsonObject,
  type Outcome,
  ok,
} from '../../base/index.ts';

export interface ProcessConfig {
  /** What is run: a program with arguments, a shell script, or a module in one of the runtimes. */
  program:
    | { kind: 'command'; command: string; args: readonly string[] }
    | { kind: 'shell'; shell: string; script: string; args: readonly string[] }
    | { kind: 'module'; runtime: ScriptRuntime; module: string; function: string };
  stdin: string | undefined;
  /** From the project's root. */
  cwd: string;
  env: Readonly<Record<string, string>>;
  okExitCodes: ReadonlySet<number>;
  maxOutput: number;
  output: 'text' | 'json';
  graceMs: number;
  /** Files of the real home folder to show read-only; honoured for bundle tools alone. */
  homeFiles: readonly string[];
  dependencies: readonly string[];
}

export const RUNTIMES = ['node', 'python'] as const;
export type ScriptRuntime = (typeof RUNTIMES)[number];

const SHELLS = ['bash', 'sh', 'zsh'];
const DEFAULT_OUTPUT = 1024 * 1024;
const MAX_OUTPUT = 64 * 1024 * 1024;
const DEFAULT_GRACE_MS = 2000;

const invalid = (field: string, message: string) =>
  fail('config_invalid', `\`config.${field}\` ${message}`, { config_path: `config.${field}` });

/** One argument, or several when a list parameter stood alone in its place; nothing for null. */
function argument(value: Json): string[] {
  if (value === null) return [];
  if (Array.isArray(value)) return value.flatMap(argument);
  return [typeof value === 'string' ? value : JSON.stringify(value)];
}

/** `--key value`; a flag for true, nothing for false or null, repeated for a list. */
export function optionsFrom(names: readonly string[], parameters: JsonObject): string[] {
  return names.flatMap((name) => {
    const option = `--${name.replaceAll('_', '-')}`;
    const value = getOwn(parameters, name);
    if (value === undefined || value === null || value === false) return [];
    if (value === true) return [option];
    // A value that looks like an option would be read as one; joined it cannot be.
    return (Array.isArray(value) ? value : [value]).flatMap((item) =>
      argument(item).flatMap((text) =>
        text.startsWith('-') ? [`${option}=${text}`] : [option, text],
      ),
    );
  });
}

function listOf(config: JsonObject, field: string): Outcome<Json[]> {
  const value = getOwn(config, field) ?? [];
  return Array.isArray(value) ? ok(value) : invalid(field, 'must be a list');
}

function namesOf(config: JsonObject, field: string): Outcome<string[]> {
  const list = listOf(config, field);
  if (!list.ok) return list;
  return list.output.every((item) => typeof item === 'string')
    ? ok(list.output)
    : invalid(field, 'must be a list of names');
}

function allArguments(config: JsonObject, parameters: JsonObject): Outcome<string[]> {
  const first = listOf(config, 'args');
  if (!first.ok) return first;
  const names = namesOf(config, 'args_from');
  if (!names.ok) return names;
  const last = listOf(config, 'args_last');
  if (!last.ok) return last;
  const all = [
    ...first.output.flatMap(argument),
    ...optionsFrom(names.output, parameters),
    ...last.output.flatMap(argument),
  ];
  const bad = all.find((text) => text.includes('\0'));
  return bad === undefined ? ok(all) : fail('invalid_input', 'an argument holds a NUL character');
}

function programOf(config: JsonObject, parameters: JsonObject): Outcome<ProcessConfig['program']> {
  const runtime = getOwn(config, 'runtime');
  if (runtime !== undefined) return moduleOf(config, runtime);
  const args = allArguments(config, parameters);
  if (!args.ok) return args;
  const shell = getOwn(config, 'shell');
  if (shell !== undefined) {
    const script = getOwn(config, 'script');
    if (typeof shell !== 'string' || !SHELLS.includes(shell)) {
      return invalid('shell', `must be one of ${SHELLS.join(', ')}`);
    }
    if (typeof script !== 'string' || script.includes('\0')) {
      return invalid('script', 'must be the text that the shell runs');
    }
    return ok({ kind: 'shell', shell, script, args: args.output });
  }
  const command = getOwn(config, 'command');
  if (typeof command !== 'string' || command === '' || /[\u0000-\u001f]/.test(command)) {
    return invalid(
      'command',
      'must name the program to start; its arguments go into `config.args`',
    );
  }
  return ok({ kind: 'command', command, args: args.output });
}

function moduleOf(config: JsonObject, runtime: Json): Outcome<ProcessConfig['program']> {
  const known = RUNTIMES.find((name) => name === runtime);
  if (!known) return invalid('runtime', `must be one of ${RUNTIMES.join(', ')}`);
  const module = getOwn(config, 'module');
  if (typeof module !== 'string' || module === '') {
    return invalid('module', "must name the file to run, relative to the tool's YAML file");
  }
  const name = getOwn(config, 'function') ?? '';
  if (typeof name !== 'string' || !/^[\w$]*$/.test(name)) {
    return invalid('function', 'must be the name of an exported function');
  }
  return ok({ kind: 'module', runtime: known, module, function: name });
}

function envOf(config: JsonObject): Outcome<Record<string, string>> {
  const env = getOwn(config, 'env') ?? {};
  if (!isObject(env)) return invalid('env', 'must map names to values');
  const read: Record<string, string> = {};
  for (const [name, value] of Object.entries(env)) {
    if (!/^[A-Za-z_]\w*$/.test(name)) return invalid('env', `has the bad name \`${name}\``);
    if (value === null) continue;
    const text = typeof value === 'string' ? value : JSON.stringify(value);
    if (text.includes('\0')) return invalid('env', `has a NUL character in \`${name}\``);
    read[name] = text;
  }
  return ok(read);
}

function integer(
  config: JsonObject,
  field: string,
  fallback: number,
  max: number,
): Outcome<number> {
  const value = getOwn(config, field) ?? fallback;
  return typeof value === 'number' && Number.isInteger(value) && value >= 0 && value <= max
    ? ok(value)
    : invalid(field, `must be a whole number from 0 to ${max}`);
}

const textOf = (value: Json | undefined): string | undefined =>
  value === undefined || value === null
    ? undefined
    : typeof value === 'string'
      ? value
      : JSON.stringify(value);

export function readProcessConfig(
  config: JsonObject,
  parameters: JsonObject,
): Outcome<ProcessConfig> {
  const program = programOf(config, parameters);
  if (!program.ok) return program;
  const env = envOf(config);
  if (!env.ok) return env;
  const codes = listOf(config, 'ok_exit_codes');
  if (!codes.ok) return codes;
  const maxOutput = integer(config, 'max_output', DEFAULT_OUTPUT, MAX_OUTPUT);
  if (!maxOutput.ok) return maxOutput;
  const graceMs = integer(config, 'grace_ms', DEFAULT_GRACE_MS, 60_000);
  if (!graceMs.ok) return graceMs;
  const homeFiles = namesOf(config, 'home_files');
  if (!homeFiles.ok) return homeFiles;
  const dependencies = namesOf(config, 'dependencies');
  if (!dependencies.ok) return dependencies;
  const cwd = getOwn(config, 'cwd') ?? '.';
  if (typeof cwd !== 'string') return invalid('cwd', 'must be a folder inside the project');
  const output = getOwn(config, 'output') ?? 'text';
  if (output !== 'text' && output !== 'json') return invalid('output', 'must be `text` or `json`');
  return ok({
    program: program.output,
    stdin: textOf(getOwn(config, 'stdin')),
    cwd,
    env: env.output,
    okExitCodes: new Set([0, ...codes.output.filter((code) => typeof code === 'number')]),
    maxOutput: maxOutput.output,
    output,
    graceMs: graceMs.output,
    homeFiles: homeFiles.output,
    dependencies: dependencies.output,
  });
}
