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
import {
  type Chain,
  type Item,
  type ItemKind,
  type Library,
  parseTool,
  type Risk,
  type ToolItem,
} from '../../items/index.ts';
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
  /** Id of the calling thread. Absent: no thread calls. */
  thread?: string;
}

export interface ProgramTool {
  /** Id in the form of a tool file's id, for example `math/add`. */
  id: string;
  description: string;
  version?: string;
  /** A type word or a declaration for each parameter as in a tool file, or any Standard Schema. */
  parameters?: Declarations | StandardSchema;
  /** JSON Schema of the parameters. Absent: it follows from \`parameters\`. */
  input_schema?: JsonObject;
  /** JSON Schema of the output. Absent: the output is not checked. */
  output_schema?: JsonObject;
  /** Roles of parameters whose schema has none. */
  roles?: Readonly<Record<string, string>>;
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
  const parameters = declared.map(
    ([key, one]): JsonObject =>
      typeof one === 'string'
        ? { name: key, type: one, required: true }
        : { name: key, ...(asJson(one) as JsonObject) },
  );
  for (const [parameter, role] of Object.entries(tool.roles ?? {})) {
    parameters.push({ name: parameter, type: 'any', role });
  }
  const input_schema = tool.input_schema ?? (standard && inputSchema(standard));
  const file: JsonObject = {
    tool_id: name,
    tool_type: 'program',
    version: tool.version ?? '1.0.0',
    description: tool.description,
    executor_id: 'function',
    effect: tool.effect ?? 'write',
    parameters,
    ...(input_schema && { input_schema }),
    ...(tool.output_schema && { output_schema: tool.output_schema }),
    ...(tool.result && { result: asJson(tool.result) }),
    ...(tool.directory && { directory: true }),
  };
  for (const field of ['requires', 'risk', 'labels'] as const) {
    if (tool[field]) setOwn(file, field, [...tool[field]]);
  }
  return file;
}

/** A tool that a program defined. Its chain ends in `run`. */
type ProgramItem = ToolItem & { readonly run: BuiltinFunction };

/** Returns the code of a tool that a program defined. Undefined for a tool of a file. */
export const programCode = (item: ToolItem | ProgramItem): BuiltinFunction | undefined =>
  'run' in item ? item.run : undefined;

function itemOf(program: ProgramTool): Outcome<ProgramItem> {
  if (!/^[A-Za-z0-9_-]+(\/[A-Za-z0-9_-]+)*$/.test(program.id)) {
    return fail('config_invalid', `tool id \`${program.id}\` must be like \`group/name\``);
  }
  const parsed = parseTool(JSON.stringify(asFile(program)), `${PROGRAM}/${program.id}`);
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
    run: functionOf(program),
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
  return async ({ parameters, signal, projectRoot, tool, idempotencyKey: key, from }) => {
    try {
      const read = standard ? await readArguments(standard, parameters, tool.id) : ok(parameters);
      if (!read.ok) return read;
      const output = await program.run(read.output, {
        signal,
        projectRoot,
        ...(key === undefined ? {} : { idempotencyKey: key }),
        ...(from?.__thread_id === undefined ? {} : { thread: from.__thread_id }),
      });
      return ok({ output: output === undefined ? null : inlineFile(output) });
    } catch (error) {
      return fail('tool_failed', `tool \`${tool.id}\` failed: ${messageOf(error)}`);
    }
  };
}

/** Returns the tools of a program as items. Fails with the problem of the first invalid tool. */
export function readProgramTools(
  programs: readonly ProgramTool[],
): Outcome<readonly ProgramItem[]> {
  const items = new Map<string, ProgramItem>();
  for (const program of programs) {
    const item = itemOf(program);
    if (!item.ok) return item;
    // Providers and file systems may not distinguish the case of letters.
    const name = program.id.toLowerCase();
    const other = items.get(name);
    if (other) {
      const also = other.id === program.id ? '' : `, also as \`${other.id}\``;
      return fail('config_invalid', `tool \`${program.id}\` is defined twice${also}`);
    }
    items.set(name, item.output);
  }
  return ok([...items.values()]);
}

/** Returns a library in which the program's items come first. The library must search them itself (`extra`). */
export function withProgramItems(library: Library, list: readonly Item[]): Library {
  if (list.length === 0) return library;
  const items = new Map<string, Item>(list.map((item) => [`${item.kind}:${item.id}`, item]));
  const tools = list.filter((item) => item.kind === 'tool');
  const chains = new Map(
    tools.map((item): [string, Chain] => [item.id, { links: [item], primitive: 'function' }]),
  );
  const bare = (name: string): ToolItem | undefined => {
    const matches = tools.filter(({ id }) => id.endsWith(`/${name}`));
    return matches.length === 1 ? matches[0] : undefined;
  };
  return {
    ...library,
    find(kind, id, source) {
      const own = items.get(`${kind}:${id}`) ?? (kind === 'tool' ? bare(id) : undefined);
      return own && source === undefined
        ? (ok(own) as ReturnType<Library['find']>)
        : library.find(kind, id, source);
    },
    all(kind?: ItemKind) {
      const own = list.filter((item) => kind === undefined || item.kind === kind);
      const files = kind === undefined ? library.all() : library.all(kind);
      return [...own, ...files.filter((item) => !items.has(`${item.kind}:${item.id}`))];
    },
    chain(id) {
      const own = chains.get(id);
      return own ? ok(own) : library.chain(id);
    },
  } as Library;
}
