// Adds tools of the user's own program. They are looked up, checked and gated like any other tool. Only their
// last link is different: the `function` primitive calls the program's code.
import {
  asJson,
  fail,
  isObject,
  type Json,
  type JsonObject,
  messageOf,
  type Outcome,
  ok,
  setOwn,
} from '../../base/index.ts';
import type { ResultFacts, ToolEffect } from '../../flow/index.ts';
import { type Item, type Library, parseTool, type Risk, type ToolItem } from '../../items/index.ts';
import type { BuiltinFunction } from '../file-tools/content.ts';
import {
  type ArgumentsOf,
  type Declarations,
  inputSchema,
  readArguments,
  type StandardSchema,
  standardOf,
} from './program-arguments.ts';

interface ProgramContext {
  signal: AbortSignal;
  projectRoot: string;
  /** Key of this call, the same for every repetition, for example after a crash. */
  idempotencyKey?: string;
}

export interface ProgramTool {
  /** Id in the form of a tool file's id, for example `math/add`. */
  id: string;
  description: string;
  version?: string;
  /** A type word or a declaration for each parameter as in a tool file, or any Standard Schema. */
  parameters?: Declarations | StandardSchema;
  requires?: readonly string[];
  effect?: ToolEffect;
  risk?: readonly Risk[];
  labels?: readonly string[];
  /** Declares the authors of results and the meaning of single fields, as in a tool file. */
  result?: Omit<ResultFacts, 'directory' | 'untrusted'> & { readonly untrusted?: boolean };
  /** True if the results are the user's own directory, such as an address book. */
  directory?: boolean;
  /** A returned value is the output. A thrown error becomes `tool_failed`. */
  run(parameters: JsonObject, context: ProgramContext): ProgramOutput | Promise<ProgramOutput>;
}

/** A result, or an image or a PDF for the model. The bytes decide about the type, and `mime` is for people. */
type ProgramOutput = Json | { file: Uint8Array; mime?: string; name?: string };

/** The same tool with `run` typed by its parameters. */
export interface TypedTool<P> extends Omit<ProgramTool, 'parameters' | 'run'> {
  parameters?: P;
  run(parameters: ArgumentsOf<P>, context: ProgramContext): ProgramOutput | Promise<ProgramOutput>;
}

/** Prefix of the file of items that come from a program. */
export const PROGRAM = 'program:';

/** Returns the YAML fields that a file would have, so that one parser checks both. */
function asFile(tool: ProgramTool): JsonObject {
  const name = tool.id.slice(tool.id.lastIndexOf('/') + 1);
  const standard = standardOf(tool.parameters);
  const declared = standard ? [] : Object.entries(tool.parameters ?? {});
  const parameters = declared.map(([key, one]) =>
    typeof one === 'string'
      ? { name: key, type: one, required: true }
      : { name: key, ...(asJson(one) as JsonObject) },
  );
  const file: JsonObject = {
    tool_id: name,
    tool_type: 'program',
    version: tool.version ?? '1.0.0',
    description: tool.description,
    executor_id: 'function',
    effect: tool.effect ?? 'write',
    parameters,
    ...(standard && { input_schema: inputSchema(standard) }),
    ...(tool.result && { result: asJson(tool.result) }),
    ...(tool.directory && { directory: true }),
  };
  for (const field of ['requires', 'risk', 'labels'] as const) {
    if (tool[field]) setOwn(file, field, [...tool[field]]);
  }
  return file;
}

function itemOf(program: ProgramTool): Outcome<ToolItem> {
  if (!/^[a-z0-9_-]+(\/[a-z0-9_-]+)*$/.test(program.id)) {
    return fail('config_invalid', `tool id \`${program.id}\` must be like \`group/name\``);
  }
  const parsed = parseTool(JSON.stringify(asFile(program)), `${PROGRAM}${program.id}`);
  const problem = parsed.diagnostics.find(({ severity }) => severity === 'error');
  if (!parsed.tool || problem) {
    return fail(
      'config_invalid',
      `tool \`${program.id}\`: ${problem?.message ?? 'cannot be read'}`,
    );
  }
  return ok({
    kind: 'tool',
    id: program.id,
    title: program.id,
    description: program.description,
    category: program.id.split('/')[0] ?? '',
    tags: [],
    version: parsed.tool.version,
    source: 'bundle',
    file: `${PROGRAM}${program.id}`,
    // The program vouches for its own code.
    signature: { state: 'bundle' },
    diagnostics: [],
    shadows: [],
    body: '',
    tool: parsed.tool,
  });
}

/** Writes the bytes of a file as base64, like file tools do. A thread stores them. */
function inlineFile(output: ProgramOutput): Json {
  if (!(isObject(output) && output.file instanceof Uint8Array)) return output as Json;
  const { file, ...rest } = output;
  const content = Buffer.from(file).toString('base64');
  return { ...rest, content, encoding: 'base64' };
}

/** Wraps program code as a function of the primitive. An exception becomes a fault. */
function functionOf(program: ProgramTool): BuiltinFunction {
  const standard = standardOf(program.parameters);
  return async ({ parameters, signal, projectRoot, tool, idempotencyKey: key }) => {
    try {
      const read = standard ? await readArguments(standard, parameters, tool.id) : ok(parameters);
      if (!read.ok) return read;
      const output = await program.run(read.output, {
        signal,
        projectRoot,
        ...(key === undefined ? {} : { idempotencyKey: key }),
      });
      return ok({ output: output === undefined ? null : inlineFile(output) });
    } catch (error) {
      return fail('tool_failed', `tool \`${tool.id}\` failed: ${messageOf(error)}`);
    }
  };
}

export interface ProgramTools {
  items: readonly ToolItem[];
  functions: ReadonlyMap<string, BuiltinFunction>;
}

/**
 * Returns the tools of a program as items, and their functions. Fails with the problem of the first
 * invalid tool.
 */
export function readProgramTools(programs: readonly ProgramTool[]): Outcome<ProgramTools> {
  const items = new Map<string, ToolItem>();
  for (const program of programs) {
    const item = itemOf(program);
    if (!item.ok) return item;
    if (items.has(program.id)) {
      return fail('config_invalid', `tool \`${program.id}\` is defined twice`);
    }
    items.set(program.id, item.output);
  }
  const functions = new Map(programs.map((program) => [program.id, functionOf(program)]));
  return ok({ items: [...items.values()], functions });
}

/** Returns a library in which the program's tools come first. The library must search them itself (`extra`). */
export function withProgramTools(library: Library, list: readonly ToolItem[]): Library {
  if (list.length === 0) return library;
  const items = new Map(list.map((item) => [item.id, item]));
  const bare = (name: string): ToolItem | undefined => {
    const matches = list.filter(({ id }) => id.endsWith(`/${name}`));
    return matches.length === 1 ? matches[0] : undefined;
  };
  return {
    ...library,
    find(kind, id, source) {
      const own = kind === 'tool' && source === undefined ? (items.get(id) ?? bare(id)) : undefined;
      return own ? (ok(own) as ReturnType<Library['find']>) : library.find(kind, id, source);
    },
    all(kind) {
      return kind === undefined || kind === 'tool'
        ? [...list, ...library.all(kind).filter((item) => isFile(item, items))]
        : library.all(kind);
    },
    chain(id) {
      const own = items.get(id);
      return own ? ok({ links: [own], primitive: 'function' }) : library.chain(id);
    },
  } as Library;
}

/** True unless a program's tool with the same id hides the item. */
const isFile = ({ kind, id }: Item, own: ReadonlyMap<string, ToolItem>): boolean =>
  kind !== 'tool' || !own.has(id);
