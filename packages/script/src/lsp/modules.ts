// Reads the names of files that scripts import. Open documents come first, so that unsaved changes count.
import { existsSync, readdirSync, statSync } from 'node:fs';
import { dirname, extname, isAbsolute, join, resolve } from 'node:path';
import { isObject, type Json, parseJson, readRegularFile } from '@kernmantle/core/base';
import {
  type Directive,
  type Library,
  resolveExtends,
  type ToolItem,
} from '@kernmantle/core/items';
import type { AroundScript } from '../execute-script.ts';
import { findScriptProject } from '../runtime/script-setup.ts';
import { type Bound, staticText } from '../syntax/outline.ts';
import type { KnownTools } from '../syntax/unbound.ts';
import { readScript, type ScriptView } from './view.ts';

const MAX_FILE = 1024 * 1024;
const MAX_CACHED = 200;
const MAX_HOPS = 8;

export interface Module {
  readonly file: string;
  readonly script: ScriptView | undefined;
  /** Data of a JSON file; absent for a script. */
  readonly data: Json | undefined;
}

export interface Home {
  readonly file: string;
  readonly script: ScriptView;
  readonly bound: Bound;
}

export type Modules = ReturnType<typeof createModules>;

function stampOf(file: string): string | undefined {
  try {
    const stat = statSync(file);
    return stat.isFile() && stat.size <= MAX_FILE ? `${stat.mtimeMs}:${stat.size}` : undefined;
  } catch {
    return undefined;
  }
}

/** Creates the reader of modules. `opened` returns the text of an open file. */
export function createModules(userFolder: string, opened: (file: string) => string | undefined) {
  const cache = new Map<string, { stamp: string; module: Module }>();

  function read(file: string): Module | undefined {
    const open = opened(file);
    if (open !== undefined) return moduleOf(file, open);
    const stamp = stampOf(file);
    if (stamp === undefined) return undefined;
    const cached = cache.get(file);
    if (cached?.stamp === stamp) return cached.module;
    const content = readRegularFile(file, { max: MAX_FILE, followsLinks: true });
    if ('problem' in content) return undefined;
    const module = moduleOf(file, content.bytes.toString('utf8'));
    if (cache.size >= MAX_CACHED) cache.clear();
    cache.set(file, { stamp, module });
    return module;
  }

  function locate(written: string, from: string): string {
    const folder = dirname(from);
    if (written.startsWith('@root')) {
      return join(findScriptProject(folder, userFolder), written.slice('@root'.length));
    }
    return isAbsolute(written) ? resolve(written) : join(folder, written);
  }

  const modules = {
    /** Returns the file of a path that is written in another file. */
    at(written: string, from: string): Module | undefined {
      const path = locate(written, from);
      return read(path) ?? (extname(path) === '' ? read(`${path}.mld`) : undefined);
    },
    of({ source }: Bound, from: string): Module | undefined {
      const written = source && staticText(source.path);
      return written === undefined ? undefined : modules.at(written, from);
    },
    /** Returns the surroundings for the check of names. A file that does not parse is unknown. */
    around: (from: string, inputs: readonly string[] = []): AroundScript => ({
      inputs,
      module: (written) => modules.at(written, from)?.script?.parsed.script,
      exists: (written) => modules.exists(written, from),
      tools: (connector) => modules.tools(connector, from),
    }),
    /** Returns whether the path of an import exists; `undefined` for a URL. */
    exists(written: string, from: string): boolean | undefined {
      if (/^[a-z][a-z0-9+.-]*:\/\//i.test(written) || /^@(?!root|base)/.test(written))
        return undefined;
      const path = locate(written, from);
      return opened(path) !== undefined || existsSync(path) || existsSync(`${path}.mld`);
    },
    /** Returns the tools of a connector from their files; `undefined` if the folder cannot be read. */
    tools(connector: string, from: string): KnownTools | undefined {
      if (/[\s/\\:@]/.test(connector)) {
        const message = `\`${connector}\` is not a connector`;
        return { message, hint: 'connect it once with `km mcp add NAME …`' };
      }
      const project = findScriptProject(dirname(from), userFolder);
      try {
        const files = readdirSync(join(project, '.ai/tools/mcp', connector));
        const names = files.flatMap((file) => /^(.+)\.ya?ml$/.exec(file)?.[1] ?? []);
        return { names: names.filter((name) => !/^(?:connector|mapping)$/.test(name)).sort() };
      } catch {
        return undefined; // the files may be in another folder
      }
    },
    /** Follows an imported name to the file that binds it. */
    home(start: Home): Home {
      let here = start;
      for (let hop = 0; hop < MAX_HOPS && here.bound.kind === 'import'; hop += 1) {
        const module = modules.of(here.bound, here.file);
        const name = here.bound.source?.name;
        const bound = module?.script && ownName(module.script, name);
        if (!bound || !module.script) return here;
        here = { file: module.file, script: module.script, bound };
      }
      return here;
    },
    /** Returns the names that other files can import. */
    exports({ script, data }: Module): readonly string[] {
      if (!script) return isObject(data) ? Object.keys(data) : [];
      const limits = script.parsed.partial.body.flatMap((node) =>
        node.kind === 'export' && node.names ? node.names : [],
      );
      const own = script.names.filter(
        ({ kind, seen, place }) =>
          !/^(?:import|guard|hook)$/.test(kind) && seen.at === 0 && place.end > 0,
      );
      return limits.length > 0 ? limits : [...new Set(own.map(({ name }) => name))];
    },
  };
  return modules;
}

/** Returns the name with this spelling that is visible in the whole file. */
export const ownName = (script: ScriptView, name: string | undefined): Bound | undefined =>
  script.names.find(
    (bound) => bound.name === name && bound.seen.at === 0 && bound.seen.end === script.text.length,
  );

function moduleOf(file: string, text: string): Module {
  if (/\.jsonl?$/.test(file)) {
    const parsed = parseJson(text);
    return { file, script: undefined, data: parsed.ok ? parsed.output : undefined };
  }
  const mode = file.endsWith('.mld') ? 'strict' : 'markdown';
  return { file, script: readScript(text, mode, file), data: undefined };
}

const toolsOf = (library: Library): ToolItem[] =>
  library.all().flatMap((item) => (item.kind === 'tool' ? [item] : []));

const directivesOf = (library: Library): Directive[] =>
  library.all().flatMap((item) => (item.kind === 'directive' ? (item.directive ?? []) : []));

/** Returns the parameters of a script tool: its own, and those of tools that run it. */
function parametersOf({ id }: ToolItem, library: Library): string[] {
  const callers = toolsOf(library).filter((item) => {
    const chain = item.id === id ? undefined : library.chainOf(item);
    return !chain || (chain.ok && chain.output.links.some((link) => link.id === id));
  });
  return callers.flatMap(({ tool }) => {
    if (!tool) return [];
    const { properties } = tool.input_schema ?? {};
    const own = [...tool.parameters, ...tool.actions.flatMap(({ parameters }) => parameters)];
    return ['action', ...own.map(({ name }) => name), ...Object.keys(properties ?? {})];
  });
}

/** Returns the names of the variables that the script of an item receives. */
export function inputNames(item: Directive | ToolItem, library: Library): string[] {
  if ('kind' in item) return parametersOf(item, library);
  const all = directivesOf(library);
  const whole = resolveExtends(item, (name) => all.find((one) => one.name === name));
  // A directive that extends this one runs the script with its own inputs.
  const heirs = all.filter(({ relationships }) => relationships.extends.includes(item.name));
  return [whole, ...heirs].flatMap(({ inputs }) => inputs.map(({ name }) => name));
}

/** Returns the variables of a script file that tools use as their module. */
export const inputsOfModule = (file: string, library: Library): string[] =>
  toolsOf(library)
    .filter(({ tool, file: own }) => {
      const { module } = tool?.config ?? {};
      return typeof module === 'string' && resolve(own, '..', module) === file;
    })
    .flatMap((item) => parametersOf(item, library));
