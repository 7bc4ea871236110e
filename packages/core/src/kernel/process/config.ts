// Parses the process that a tool's config describes. `{param}` is already filled in, so every element is
// one argument, whatever it contains.
import {
  type Failure,
  fail,
  getOwn,
  type Json,
  type JsonObject,
  listAt,
  type Outcome,
  ok,
  plainText,
  problemsIn,
  textAt,
  textsAt,
} from '../../base/index.ts';
import type { ProcessBounds } from './bounds.ts';
import { filledProcess, RUNTIMES } from './config-shape.ts';

export interface ProcessConfig {
  /** A program with arguments, a shell script, or a module in one of the runtimes. */
  program:
    | { kind: 'command'; command: string; args: readonly string[] }
    | { kind: 'shell'; shell: string; script: string; args: readonly string[] }
    | { kind: 'module'; runtime: ScriptRuntime; module: string; function: string };
  stdin: string | undefined;
  /** Working folder, relative to the project's root. */
  cwd: string;
  env: Readonly<Record<string, string>>;
  okExitCodes: ReadonlySet<number>;
  maxOutput: number;
  output: 'text' | 'json';
  graceMs: number;
  /** Files of the real home folder that the process can read. Only bundle tools may list files. */
  homeFiles: readonly string[];
  dependencies: readonly string[];
  /** Paths that git is restricted to, in addition to the caller's right to read. `none`: it shows no files. */
  pathspecs: readonly string[] | 'none' | undefined;
  bounds: ProcessBounds;
}

export type ScriptRuntime = (typeof RUNTIMES)[number];

const DEFAULT_OUTPUT = 1024 * 1024;
const DEFAULT_GRACE_MS = 2000;
const DEFAULT_MEMORY_MB = 4096;
const DEFAULT_PROCESSES = 1024;
const DEFAULT_OPEN_FILES = 4096;

const invalid = (field: string, message: string): Failure =>
  fail('config_invalid', `\`config.${field}\` ${message}`, { config_path: `config.${field}` });

/** Returns one argument, several if a list parameter is alone in its place, and none for null. */
function argument(value: Json): string[] {
  if (value === null) return [];
  if (Array.isArray(value)) return value.flatMap(argument);
  return [typeof value === 'string' ? value : JSON.stringify(value)];
}

/** Returns `--key value` options: a flag for true, none for false or null, repeated for a list. */
function optionsFrom(names: readonly string[], parameters: JsonObject): string[] {
  return names.flatMap((name) => {
    const option = `--${name.replaceAll('_', '-')}`;
    const value = getOwn(parameters, name);
    if (value === undefined || value === null || value === false) return [];
    if (value === true) return [option];
    // A value that begins with `-` would be parsed as an option. Joined with `=` it is a value.
    return (Array.isArray(value) ? value : [value]).flatMap((item) =>
      argument(item).flatMap((text) =>
        text.startsWith('-') ? [`${option}=${text}`] : [option, text],
      ),
    );
  });
}

function allArguments(config: JsonObject, parameters: JsonObject): Outcome<string[]> {
  const all = [
    ...listAt(config, 'args').flatMap(argument),
    ...optionsFrom(textsAt(config, 'args_from'), parameters),
    ...listAt(config, 'args_last').flatMap(argument),
  ];
  const bad = [...all, ...listAt(config, 'pathspecs').flatMap(argument)].find((text) =>
    text.includes('\0'),
  );
  return bad === undefined ? ok(all) : fail('invalid_input', 'an argument has a NUL character');
}

function programOf(config: JsonObject, parameters: JsonObject): Outcome<ProcessConfig['program']> {
  const runtime = RUNTIMES.find((name) => name === getOwn(config, 'runtime'));
  if (runtime) return moduleOf(config, runtime);
  const args = allArguments(config, parameters);
  if (!args.ok) return args;
  const shell = textAt(config, 'shell');
  if (shell !== '') {
    const script = getOwn(config, 'script');
    if (typeof script !== 'string' || script.includes('\0')) {
      return invalid('script', 'must be the text that the shell runs');
    }
    return ok({ kind: 'shell', shell, script, args: args.output });
  }
  const command = textAt(config, 'command');
  return command === '' || /[\u0000-\u001f]/.test(command)
    ? invalid('command', 'must name the program to start; its arguments go into `config.args`')
    : ok({ kind: 'command', command, args: args.output });
}

function moduleOf(config: JsonObject, runtime: ScriptRuntime): Outcome<ProcessConfig['program']> {
  const module = textAt(config, 'module');
  if (module === '') {
    return invalid('module', "must name the file to run, relative to the tool's YAML file");
  }
  const name = getOwn(config, 'function') ?? '';
  if (typeof name !== 'string' || !/^[\w$]*$/.test(name)) {
    return invalid('function', 'must be the name of an exported function');
  }
  return ok({ kind: 'module', runtime, module, function: name });
}

function envOf(config: JsonObject): Outcome<Record<string, string>> {
  const read: Record<string, string> = {};
  for (const [name, value] of Object.entries(getOwn(config, 'env') ?? {})) {
    if (!/^[A-Za-z_]\w*$/.test(name)) return invalid('env', `has the invalid name \`${name}\``);
    if (value === null) continue;
    read[name] = plainText(value);
    if (read[name].includes('\0')) return invalid('env', `has a NUL character in \`${name}\``);
  }
  return ok(read);
}

function pathspecsIn(config: JsonObject): ProcessConfig['pathspecs'] {
  const setting = getOwn(config, 'pathspecs') ?? null;
  if (setting === null) return undefined;
  return setting === 'none' ? 'none' : listAt(config, 'pathspecs').flatMap(argument);
}

export function readProcessConfig(
  config: JsonObject,
  parameters: JsonObject,
): Outcome<ProcessConfig> {
  const [wrong] = problemsIn(config, 'config', filledProcess);
  if (wrong) return fail('config_invalid', wrong.message, { config_path: wrong.path.join('.') });
  const program = programOf(config, parameters);
  if (!program.ok) return program;
  const env = envOf(config);
  if (!env.ok) return env;
  const stdin = getOwn(config, 'stdin') ?? null;
  const codes = listAt(config, 'ok_exit_codes').filter((code) => typeof code === 'number');
  return ok({
    program: program.output,
    stdin: stdin === null ? undefined : plainText(stdin),
    cwd: plainText(getOwn(config, 'cwd') ?? '.'),
    env: env.output,
    okExitCodes: new Set([0, ...codes]),
    maxOutput: Number(getOwn(config, 'max_output') ?? DEFAULT_OUTPUT),
    output: getOwn(config, 'output') === 'json' ? 'json' : 'text',
    graceMs: Number(getOwn(config, 'grace_ms') ?? DEFAULT_GRACE_MS),
    homeFiles: textsAt(config, 'home_files'),
    dependencies: textsAt(config, 'dependencies'),
    pathspecs: pathspecsIn(config),
    bounds: {
      memoryMb: Number(getOwn(config, 'max_memory_mb') ?? DEFAULT_MEMORY_MB),
      processes: Number(getOwn(config, 'max_processes') ?? DEFAULT_PROCESSES),
      openFiles: Number(getOwn(config, 'max_open_files') ?? DEFAULT_OPEN_FILES),
    },
  });
}
