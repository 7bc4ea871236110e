// What a tool's config says about the process to start. Read once, here: afterwards the types are
// the proof. `{param}` is already filled in, so every element is one argument, whatever it holds.
import {
  type Failure,
  fail,
  getOwn,
  isObject,
  type Json,
  type JsonObject,
  listAt,
  type Outcome,
  ok,
  plainText,
  textAt,
  textsAt,
} from '../../base/index.ts';
import type { ProcessBounds } from './bounds.ts';

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
  /** Paths for git, which is held to them and to what may be read; `none`: it shows no files. */
  pathspecs: readonly string[] | 'none' | undefined;
  bounds: ProcessBounds;
}

const RUNTIMES = ['node', 'python'] as const;
export type ScriptRuntime = (typeof RUNTIMES)[number];

const SHELLS = ['bash', 'sh', 'zsh'];
const DEFAULT_OUTPUT = 1024 * 1024;
const MAX_OUTPUT = 64 * 1024 * 1024;
const DEFAULT_GRACE_MS = 2000;
const DEFAULT_MEMORY_MB = 4096;
const DEFAULT_PROCESSES = 1024;
const DEFAULT_OPEN_FILES = 4096;
const MAX_MEMORY_MB = 1024 * 1024;
const MAX_COUNT = 1024 * 1024;
const MAX_GRACE_MS = 60_000;

const oneOf = (members: readonly string[]) => (value: Json) => members.some((one) => one === value);
const isNames = (value: Json) =>
  Array.isArray(value) && value.every((item) => typeof item === 'string');
const isText = (value: Json) => typeof value === 'string';
const isUpTo =
  (max: number, min = 0) =>
  (value: Json) =>
    typeof value === 'number' && Number.isInteger(value) && value >= min && value <= max;
/** Less than this no interpreter starts with. */
const MIN_MEMORY_MB = 16;
const MIN_COUNT = 16;
const counted = `must be a whole number from ${MIN_COUNT} to ${MAX_COUNT}`;

/** What a field must be where it stands; an empty one is not there. */
const FIELDS: readonly [name: string, isRight: (value: Json) => boolean, message: string][] = [
  ['runtime', oneOf(RUNTIMES), `must be one of ${RUNTIMES.join(', ')}`],
  ['args', Array.isArray, 'must be a list'],
  ['args_from', isNames, 'must be a list of names'],
  ['args_last', Array.isArray, 'must be a list'],
  ['shell', oneOf(SHELLS), `must be one of ${SHELLS.join(', ')}`],
  ['env', isObject, 'must map names to values'],
  ['ok_exit_codes', Array.isArray, 'must be a list'],
  ['max_output', isUpTo(MAX_OUTPUT), `must be a whole number from 0 to ${MAX_OUTPUT}`],
  ['grace_ms', isUpTo(MAX_GRACE_MS), `must be a whole number from 0 to ${MAX_GRACE_MS}`],
  ['home_files', isNames, 'must be a list of names'],
  ['dependencies', isNames, 'must be a list of names'],
  [
    'max_memory_mb',
    isUpTo(MAX_MEMORY_MB, MIN_MEMORY_MB),
    `must be a whole number from ${MIN_MEMORY_MB} to ${MAX_MEMORY_MB}`,
  ],
  ['max_processes', isUpTo(MAX_COUNT, MIN_COUNT), counted],
  ['max_open_files', isUpTo(MAX_COUNT, MIN_COUNT), counted],
  [
    'pathspecs',
    (value) => value === 'none' || Array.isArray(value),
    'must be a list of paths, or `none`',
  ],
  ['cwd', isText, 'must be a folder inside the project'],
  ['output', oneOf(['text', 'json']), 'must be `text` or `json`'],
];

const invalid = (field: string, message: string): Failure =>
  fail('config_invalid', `\`config.${field}\` ${message}`, { config_path: `config.${field}` });

/** One argument, or several when a list parameter stood alone in its place; nothing for null. */
function argument(value: Json): string[] {
  if (value === null) return [];
  if (Array.isArray(value)) return value.flatMap(argument);
  return [typeof value === 'string' ? value : JSON.stringify(value)];
}

/** `--key value`; a flag for true, nothing for false or null, repeated for a list. */
function optionsFrom(names: readonly string[], parameters: JsonObject): string[] {
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

function allArguments(config: JsonObject, parameters: JsonObject): Outcome<string[]> {
  const all = [
    ...listAt(config, 'args').flatMap(argument),
    ...optionsFrom(textsAt(config, 'args_from'), parameters),
    ...listAt(config, 'args_last').flatMap(argument),
  ];
  const bad = [...all, ...listAt(config, 'pathspecs').flatMap(argument)].find((text) =>
    text.includes('\0'),
  );
  return bad === undefined ? ok(all) : fail('invalid_input', 'an argument holds a NUL character');
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
    if (!/^[A-Za-z_]\w*$/.test(name)) return invalid('env', `has the bad name \`${name}\``);
    if (value === null) continue;
    read[name] = plainText(value);
    if (read[name].includes('\0')) return invalid('env', `has a NUL character in \`${name}\``);
  }
  return ok(read);
}

function pathspecsIn(config: JsonObject): ProcessConfig['pathspecs'] {
  const given = getOwn(config, 'pathspecs') ?? null;
  if (given === null) return undefined;
  return given === 'none' ? 'none' : listAt(config, 'pathspecs').flatMap(argument);
}

export function readProcessConfig(
  config: JsonObject,
  parameters: JsonObject,
): Outcome<ProcessConfig> {
  for (const [name, isRight, message] of FIELDS) {
    const value = getOwn(config, name) ?? null;
    if (value !== null && !isRight(value)) return invalid(name, message);
  }
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
