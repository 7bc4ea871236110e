import { existsSync, statSync } from 'node:fs';
import { relative, resolve } from 'node:path';
import {
  type Diagnostic,
  EXIT,
  fail,
  hasErrors,
  matchGlob,
  systemClock,
} from '@kernmantle/core/base';
import {
  checkPath,
  filesBelow,
  type Item,
  itemKindOf,
  type Library,
  projectOf,
  requiredBy,
  type ToolItem,
} from '@kernmantle/core/items';
import type { Runtime } from '@kernmantle/core/runtime';
import { normalizeCapability } from '@kernmantle/core/trust';
import { asList, asText, type CommandCall, type CommandRun } from '../command.ts';
import { withRuntime } from '../project.ts';
import {
  type DirectiveForm,
  isBelow,
  isSelected,
  readScript,
  scriptProblems,
  textIfReadable,
} from './script-problems.ts';

const isFolder = (path: string): boolean =>
  statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;

/** Quick test for a line that could be a statement. Only the parser decides whether it is one. */
const hasStatement = (text: string): boolean => /^[ \t]*\/[a-z@=]/m.test(text);

/**
 * Divides the paths of `check` into scripts and others. Scripts are `.mld` files, also below a
 * folder, and `.md` files with statements that are not items. The others, folders included, are
 * checked as items.
 */
function divide(paths: readonly string[], isItem: (file: string) => boolean) {
  const scripts = new Set<string>();
  const others: string[] = [];
  for (const path of paths) {
    if (isFolder(path)) {
      for (const file of filesBelow(path, /\.mld$/)) scripts.add(file);
      others.push(path);
    } else if (path.endsWith('.mld')) scripts.add(path);
    else if (path.endsWith('.md') && !isItem(path) && isMarkdownScript(path)) scripts.add(path);
    else others.push(path);
  }
  return { scripts: [...scripts], others };
}

function isMarkdownScript(path: string): boolean {
  const text = textIfReadable(path);
  return text !== undefined && itemKindOf(path, text) === undefined && hasStatement(text);
}

/** Checks the syntax and the names of these scripts. It runs nothing. */
async function checkScriptFiles(
  files: readonly string[],
  library: Library,
  userFolder: string,
): Promise<Diagnostic[]> {
  if (files.length === 0) return [];
  const { diagnose } = await import('@kernmantle/script');
  const { createModules, inputsOfModule } = await import('@kernmantle/script');
  const modules = createModules(userFolder, () => undefined);
  return files.flatMap((file) => {
    const read = readScript(file);
    if ('bytes' in read) {
      const mode = file.endsWith('.mld') ? 'strict' : 'markdown';
      const around = modules.around(file, inputsOfModule(file, library));
      return diagnose(read.bytes.toString('utf8'), file, mode, around);
    }
    const { message } = read.problem;
    return [{ file, line: 1, column: 1, code: 'file_unreadable', severity: 'error', message }];
  });
}

/** Makes paths relative to the current folder. */
const shorten = (diagnostic: Diagnostic, cwd: string): Diagnostic => {
  const short = relative(cwd, diagnostic.file);
  return { ...diagnostic, file: short === '' || short.startsWith('..') ? diagnostic.file : short };
};

const order = (a: Diagnostic, b: Diagnostic): number =>
  a.file < b.file ? -1 : a.file > b.file ? 1 : a.line - b.line || a.column - b.column;

/** Removes duplicates: a script can be checked as a file and as a part of its tool. */
function once(list: readonly Diagnostic[]): Diagnostic[] {
  const keyOf = ({ file, line, column, code, message }: Diagnostic): string =>
    JSON.stringify([file, line, column, code, message]);
  return [...new Map(list.map((one) => [keyOf(one), one])).values()];
}

const isNamed = (file: string, paths: readonly string[]): boolean =>
  paths.length === 0 || paths.some((path) => isBelow(file, path));

/** Warnings for prices of the project that have no effect. */
async function priceProblems(runtime: Runtime, paths: readonly string[]): Promise<Diagnostic[]> {
  const { layers } = runtime.library.config('pricing');
  if (!layers.some(({ source }) => source === 'project')) return [];
  const { uncountedPrices } = await import('@kernmantle/core/llm');
  const allowsLower = runtime.policies().policy.allowsLowerPrices;
  return uncountedPrices(layers, { allowsLower }).filter(({ file }) => isNamed(file, paths));
}

const MAPPING = /[\\/]\.ai[\\/]tools[\\/]mcp[\\/](?:[^\\/]+[\\/])*mapping\.ya?ml$/;

/** Returns problems in the mapping files, in which a person describes the tools of MCP servers. */
async function mappingProblemsIn(
  { library, project }: Runtime,
  paths: readonly string[],
): Promise<Diagnostic[]> {
  const folder = resolve(project, '.ai/tools/mcp');
  const files = filesBelow(folder, /^mapping\.ya?ml$/).filter((file) => isNamed(file, paths));
  if (files.length === 0) return [];
  const { mappingProblems } = await import('@kernmantle/mcp');
  return files.flatMap((file) => mappingProblems(file, library));
}

const warning = (file: string, code: string, message: string, hint?: string): Diagnostic => {
  const at = { file, line: 1, column: 1, code, severity: 'warning', message } as const;
  return hint === undefined ? at : { ...at, hint };
};

/** Warnings for unsigned tools whose calls will be refused. */
function unsignedTools({ library, policies }: Runtime, items: readonly Item[]): Diagnostic[] {
  if (policies().policy.allowsUnsigned) return [];
  const { catalog } = library.capabilities();
  return items.flatMap((item) => {
    if (item.kind !== 'tool' || item.signature.state !== 'unsigned') return [];
    const chain = library.chainOf(item);
    const links = chain.ok ? chain.output.links.flatMap(({ tool }) => tool ?? []) : [];
    const beyond = requiredBy(links).filter(
      (name) => catalog.get(normalizeCapability(name))?.tier !== 'read',
    );
    const secrets = links.flatMap(({ env }) => env).map((name) => `variable ${name}`);
    const names = [...new Set([...beyond, ...secrets])].join(', ');
    const message = `tool \`${item.id}\` is not signed, so its calls that use ${names} will be refused`;
    return names === '' ? [] : [warning(item.file, 'unsigned', message, signHint(item))];
  });
}

/** The tools that a directive may call, by id or glob. */
function grantedTools({ permissions }: DirectiveForm, library: Library): ToolItem[] {
  const tools = library.all().flatMap((item) => (item.kind === 'tool' ? [item] : []));
  const lastOf = (id: string) => id.slice(id.lastIndexOf('/') + 1);
  return (permissions?.entries ?? []).flatMap(({ verb, resource, id }) => {
    if (verb !== 'execute' || resource !== 'tool' || id === undefined) return [];
    return tools.filter((tool) => matchGlob(id, id.includes('/') ? tool.id : lastOf(tool.id)));
  });
}

const OUTSIDE = /^(?:net|mcp)\./;

/** Risks in descending order of severity. */
const RISKS = ['destructive', 'privileged', 'exfil'] as const;

/** Returns the granted tools, and those whose untrusted results the model of the directive is shown. */
export function shownTools({ library, policies }: Runtime, item: Item) {
  const { policy } = policies();
  const form = item.kind === 'directive' ? item.directive : undefined;
  const isShown = [form?.permissions?.untrusted, policy.untrusted].every(
    (mode) => mode !== 'reference',
  );
  const tools = form && isShown ? grantedTools(form, library) : [];
  const outside = tools.filter((tool) => {
    const chain = library.chainOf(tool);
    const links = chain.ok ? chain.output.links.flatMap((link) => link.tool ?? []) : [];
    const needs = requiredBy(links).map(normalizeCapability);
    const isTrusted = policy.trusts(tool.id) && tool.signature.state !== 'unsigned';
    return needs.some((name) => OUTSIDE.test(name)) && !isTrusted;
  });
  return { tools, outside };
}

/** Warnings for directives whose model reads untrusted text and that may call a risky tool. */
function steeredDirectives(runtime: Runtime, items: readonly Item[]): Diagnostic[] {
  return items.flatMap((item) => {
    const { tools, outside } = shownTools(runtime, item);
    const others = tools.filter((tool) => tool !== outside[0]);
    const [harm] = RISKS.flatMap((risk) => {
      const tool = others.find(({ tool }) => tool?.risk.includes(risk));
      return tool ? [{ risk, to: tool.id }] : [];
    });
    const from = outside[0]?.id;
    if (from === undefined || harm === undefined) return [];
    const { risk, to } = harm;
    const message = `the results of \`${from}\` are untrusted, and \`${to}\` is ${risk}; its calls need approval if untrusted text steers them`;
    const hint = `for unattended work use \`<permissions untrusted="reference">\`, which hides untrusted text from the model; new files in a granted folder need no approval; if the results can be trusted, add \`trusted: { tools: [${from}] }\` to a policy`;
    return [warning(item.file, 'untrusted_meets_risk', message, hint)];
  });
}

const signHint = ({ file }: Item): string => `review it, then \`km sign ${file}\``;

/** Returns warnings for valid items that `run` or `exec` would refuse. */
async function refusedItems(
  runtime: Runtime,
  { terminal }: CommandCall,
  paths: readonly string[],
): Promise<Diagnostic[]> {
  const { library, policies, project } = runtime;
  const items = library.all().filter(isSelected(paths));
  const directives = items.flatMap((item) => (item.kind === 'directive' ? [item] : []));
  const tools = [...unsignedTools(runtime, items), ...steeredDirectives(runtime, items)];
  if (directives.length === 0) return tools;
  const [{ refusalsOf, unaffordableHooks }, { createPrices }] = await Promise.all([
    import('@kernmantle/core/harness'),
    import('@kernmantle/core/llm'),
  ]);
  const allowsLower = policies().policy.allowsLowerPrices;
  const ports = {
    project,
    library,
    policies,
    prices: () =>
      createPrices(library.config('pricing').layers, { clock: systemClock, allowsLower }),
    models: () => library.config('models').value,
    env: terminal.env,
  };
  const refused = directives.flatMap((item) =>
    refusalsOf(ports, item).flatMap(({ code, detail }) => {
      // The check of the directive reports this with its location.
      if (detail.tier !== undefined) return [];
      const isUnsigned = detail.unsigned !== undefined;
      const hint = isUnsigned ? signHint(item) : detail.hint;
      const refusal = `\`km run\` would refuse this: ${detail.message}`;
      const help = typeof hint === 'string' ? hint : undefined;
      return warning(item.file, isUnsigned ? 'unsigned' : code, refusal, help);
    }),
  );
  const around = {
    ...ports,
    instructions: () => ({ agents: '', universal: runtime.instructions() }),
  };
  const hooks = directives.flatMap(({ directive, file }) =>
    (directive ? unaffordableHooks(around, directive) : []).map(({ index, message }) => {
      const { line = 1, column = 1 } = directive?.hooks[index] ?? {};
      const hint = 'raise the limit, or make the hook a script, which asks no model';
      return { ...warning(file, 'hook_unaffordable', message, hint), line, column };
    }),
  );
  return [...refused, ...hooks, ...tools];
}

export const run: CommandRun = async (call) => {
  const { terminal } = call;
  const paths = asList(call.args[0]).map((path) => resolve(terminal.cwd, path));
  const missing = paths.find((path) => !existsSync(path));
  if (missing !== undefined) {
    return fail('not_found', `file or folder \`${missing}\` not found`);
  }
  // A file is checked together with the other items of its project, not of the current folder.
  const [first = terminal.cwd] = paths;
  const project = asText(call.options.project) ?? projectOf(first);
  const work = async (runtime: Runtime): Promise<number> => {
    const { library } = runtime;
    const userFolder = terminal.env['KERNMANTLE_HOME'] ?? '';
    const isItem = (path: string): boolean =>
      library.all().some(({ file }) => resolve(file) === path);
    const { scripts, others } = divide(paths, isItem);
    const itemProblems =
      paths.length === 0
        ? library.check({ sources: ['project', 'user'] })
        : others.filter((path) => !MAPPING.test(path)).flatMap((path) => checkPath(path, library));
    const inScripts = [
      ...(paths.length === 0 || others.length > 0 ? await scriptProblems(library, others) : []),
      ...(await checkScriptFiles(scripts, library, userFolder)),
    ];
    const refused = await refusedItems(runtime, call, paths);
    const prices = await priceProblems(runtime, paths);
    const mappings = await mappingProblemsIn(runtime, paths);
    const list = once([...itemProblems, ...refused, ...inScripts, ...prices, ...mappings])
      .map((diagnostic) => shorten(diagnostic, terminal.cwd))
      .sort(order);
    if (terminal.json) terminal.out(JSON.stringify(list));
    else {
      terminal.diagnostics(list);
      const counted = (wanted: string) => list.filter(({ severity }) => severity === wanted).length;
      const [errors, warnings] = [counted('error'), counted('warning')];
      const isClean = errors + warnings === 0;
      terminal.note(isClean ? 'no problems' : `${errors} errors, ${warnings} warnings`);
    }
    return hasErrors(list) ? EXIT.invalid : EXIT.done;
  };
  return await withRuntime({ ...call, options: { ...call.options, project } }, work);
};
