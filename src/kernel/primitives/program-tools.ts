// Tools written in the user's own program. They are looked up, checked and gated like any other;
// only their end is different: the `function` primitive calls the program's code.
import { fail, type Json, type JsonObject, type Outcome, ok, setOwn } from '../../base/index.ts';
import {
  type Library,
  parseTool,
  type Risk,
  type ToolEffect,
  type ToolItem,
} from '../../items/index.ts';
import type { BuiltinFunction } from '../file-tools/content.ts';

interface ProgramContext {
  signal: AbortSignal;
  projectRoot: string;
  /** The same when this very call is made again, after a crash for example. */
  idempotencyKey?: string;
}

export interface ProgramTool {
  /** Like a file's id: `math/add`. */
  id: string;
  description: string;
  version?: string;
  /** By name: a type word, or a whole parameter declaration as in a tool file. */
  parameters?: Readonly<Record<string, string | JsonObject>>;
  requires?: readonly string[];
  effect?: ToolEffect;
  risk?: readonly Risk[];
  labels?: readonly string[];
  /** A returned value is the output; a thrown error becomes `tool_failed`. */
  run(parameters: JsonObject, context: ProgramContext): Json | Promise<Json>;
}

/** Marks items that no file stands for. */
export const PROGRAM = 'program:';

/** The same YAML fields a file would have, so that one parser checks them. */
function asFile(tool: ProgramTool): JsonObject {
  const name = tool.id.slice(tool.id.lastIndexOf('/') + 1);
  const parameters = Object.entries(tool.parameters ?? {}).map(([key, declared]) =>
    typeof declared === 'string'
      ? { name: key, type: declared, required: true }
      : { name: key, ...declared },
  );
  const file: JsonObject = {
    tool_id: name,
    tool_type: 'program',
    version: tool.version ?? '1.0.0',
    description: tool.description,
    executor_id: 'function',
    effect: tool.effect ?? 'write',
    parameters,
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

/** Program code as a function of the primitive; what it throws stays inside. */
function functionOf(program: ProgramTool): BuiltinFunction {
  return async ({ parameters, signal, projectRoot, tool, idempotencyKey: key }) => {
    try {
      const output = await program.run(parameters, {
        signal,
        projectRoot,
        ...(key === undefined ? {} : { idempotencyKey: key }),
      });
      return ok({ output: output === undefined ? null : output });
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error);
      return fail('tool_failed', `tool \`${tool.id}\` failed: ${message}`);
    }
  };
}

export interface ProgramTools {
  library: Library;
  functions: ReadonlyMap<string, BuiltinFunction>;
}

/** A library in which the program's tools come first. */
export function withProgramTools(
  library: Library,
  programs: readonly ProgramTool[],
): Outcome<ProgramTools> {
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
  return ok({ library: items.size === 0 ? library : layered(library, items), functions });
}

function layered(library: Library, items: ReadonlyMap<string, ToolItem>): Library {
  const list = [...items.values()];
  const bare = (name: string): ToolItem | undefined => {
    const found = list.filter(({ id }) => id.endsWith(`/${name}`));
    return found.length === 1 ? found[0] : undefined;
  };
  const matches = (item: ToolItem, text: string): boolean => {
    const words = text
      .toLowerCase()
      .split(/[^a-z0-9]+/)
      .filter(Boolean);
    const hay = `${item.id} ${item.description}`.toLowerCase();
    return words.some((word) => hay.includes(word));
  };
  return {
    ...library,
    find(kind, id, source) {
      const own = kind === 'tool' && source === undefined ? (items.get(id) ?? bare(id)) : undefined;
      return own ? (ok(own) as ReturnType<Library['find']>) : library.find(kind, id, source);
    },
    all(kind) {
      return kind === undefined || kind === 'tool'
        ? [...list, ...library.all(kind)]
        : library.all(kind);
    },
    search(query) {
      const found = library.search(query);
      const wanted = query.kind === undefined || query.kind === 'tool';
      const own =
        wanted && !query.source && !query.cursor
          ? list.filter(
              (item) =>
                matches(item, query.text) &&
                (query.categories?.('tool', item.category, item.id) ?? true),
            )
          : [];
      return {
        ...found,
        hits: [...own.map((item) => ({ item, score: 1 })), ...found.hits],
        total: found.total + own.length,
      };
    },
    chain(id) {
      const own = items.get(id);
      return own ? ok({ links: [own], primitive: 'function' }) : library.chain(id);
    },
  } as Library;
}
