import { basename, dirname, join } from 'node:path';
import {
  type Diagnostic,
  type JsonObject,
  lastSegment,
  type Outcome,
  openYaml,
  plainText,
  type RulePlace,
} from '../../base/index.ts';
import { normalizeCapability } from '../../trust/index.ts';
import type { CatalogData } from '../data/capability-data.ts';
import { statsOf } from '../files/item-file.ts';
import type { ToolItem } from '../item.ts';
import { moduleFile } from '../signature.ts';
import { filledConfig, parseTool, texts } from '../tool/parse.ts';
import type { Tool, ToolParameter } from '../tool/tool.ts';
import { checkExposedTool } from './check-expose.ts';
import { placeOfFile } from './sign.ts';
import { type Chain, type ConfigFault, unalias } from './tool-chain.ts';

/** Returns a tool outside of any library in the form of an item. */
export function looseTool(text: string, file: string): ToolItem {
  const { tool, diagnostics } = parseTool(text, file);
  const id = placeOfFile(file)?.id ?? basename(file).replace(/\.[^.]+$/, '');
  const facts = { title: lastSegment(id), description: '', category: '', tags: [] };
  const rest = { version: '', source: 'project', signature: { state: 'unsigned' } } as const;
  return { kind: 'tool', id, file, tool, diagnostics, shadows: [], body: text, ...facts, ...rest };
}

export interface ToolWorld {
  chainOf(item: ToolItem): Outcome<Chain>;
  configFaults(chain: Chain): readonly ConfigFault[];
  all(kind: 'tool'): readonly ToolItem[];
  capabilities(): CatalogData;
}

/** The primitive that supports `background`, because a handle needs a caller that continues to run. */
const WITH_HANDLE = 'thread';
/** Placeholders that the runtime fills instead of a parameter. */
const FILLED: readonly string[] = ['thread_id', 'project_path', '__idempotency_key'];

/** Checks the capabilities of a tool or of one of its actions. */
function checkRequires(
  { requires = [] }: Pick<Partial<Tool>, 'requires'>,
  world: ToolWorld,
  place: RulePlace,
): void {
  const { catalog } = world.capabilities();
  for (const [index, name] of requires.entries()) {
    const full = normalizeCapability(name);
    if (full.includes('*') || catalog.get(full)) continue;
    const near = catalog.suggest(full);
    const message = `capability \`${name}\` not found`;
    const hint = near
      ? `did you mean \`${near}\``
      : 'declare it in `.ai/config/capabilities.yaml` if it is your own';
    place.child('requires').child(index).report({ code: 'unknown_capability', message, hint });
  }
}

function checkModule(tool: Tool, file: string, place: RulePlace): void {
  const path = moduleFile(tool.config.module, file);
  if (path === undefined) return;
  const stats = statsOf(path);
  if (stats?.isFile() || stats?.isSymbolicLink()) return;
  const message = `module \`${basename(path)}\` not found at the path that the tool names`;
  const hint = moduleHint(plainText(tool.config.module), file);
  place
    .child('config')
    .child('module')
    .report({ code: 'module_missing', message, ...hint });
}

/** Returns a hint for a name as Python imports it (`sinks.my_sink`), which is not a path. */
function moduleHint(module: string, file: string): { hint?: string } {
  const [, name] = /^(?:\w+\.)*(\w+)$/.exec(module) ?? [];
  if (name === undefined) return {};
  const isThere = statsOf(join(dirname(file), `${name}.py`))?.isFile();
  const path = `module: ./${name}.py`;
  const hint = `a module is a path relative to the YAML file; ${isThere ? 'write' : 'put it beside that file and write'} \`${path}\``;
  return { hint };
}

/** Tools of the bundle by the names of project files that older documents describe. */
const SHIPPED: Readonly<Record<string, string>> = {
  anthropic_messages: 'llm/anthropic_messages',
  openai_chat: 'llm/openai_chat',
  openai_responses: 'llm/openai_responses',
  mcp_http: 'mcp/mcp_http',
  mcp_stdio: 'mcp/mcp_stdio',
  file_sink: 'sinks/file_sink',
  null_sink: 'sinks/null_sink',
  websocket_sink: 'sinks/websocket_sink',
  write_file: 'fs/write_file',
  spawn_thread: 'threads/spawn_thread',
  safety_harness: 'threads/safety_harness',
  thread_directive: 'threads/thread_directive',
  thread_registry: 'threads/thread_registry',
  'thread.read_transcript': 'threads/read_transcript',
  'thread.inject_message': 'threads/inject_message',
  'thread.pause': 'threads/pause_thread',
  'thread.resume': 'threads/resume_thread',
};

/**
 * Returns the findings of a tool file. If the bundle has the tool, the hint of each error names it, because a
 * repaired file would not be that tool. A file that names its module by a path is another tool.
 */
export function nameShipped(item: ToolItem, findings: readonly Diagnostic[]): Diagnostic[] {
  const { body, tool, source } = item;
  const written = [...body.matchAll(/^tool_id\s*:\s*["']?([\w.-]+)/gm)].map(
    ([, name = '']) => name,
  );
  const names = written.length > 0 ? written : [lastSegment(item.id)];
  const isShipped = names.every((name) => Object.hasOwn(SHIPPED, name));
  const isOwn = source === 'bundle' || plainText(tool?.config.module).startsWith('.');
  if (!isShipped || isOwn) return [...findings];
  const list = [...new Set(names)].map((name) => `\`${SHIPPED[name]}\``).join(', ');
  const hint =
    names.length > 1
      ? `these are the tools ${list} of the bundle: remove the file and call those`
      : `this is the tool ${list} of the bundle: remove the file and call that`;
  return findings.map((one) => (one.severity === 'error' ? { ...one, hint } : one));
}

/** Returns the parameters of a tool and of each of its actions. */
export const allParameters = (tool: Tool): readonly ToolParameter[] =>
  [tool, ...tool.actions].flatMap(({ parameters }) => parameters);

const PLACEHOLDER = /(?<!\$)\{\s{0,20}([A-Za-z_]\w{0,127})\s{0,20}\}/g;

/** Reports undeclared placeholders. They are never filled, so their key is dropped from every call. */
function checkPlaceholders(tool: Tool, chain: Chain, place: RulePlace): void {
  const tools = chain.links.map((link) => link.tool as Tool);
  const declared = new Set([
    ...FILLED,
    ...tools.flatMap(allParameters).map(({ name }) => name),
    ...tools.flatMap((one) => Object.keys((one.input_schema?.properties as JsonObject) ?? {})),
  ]);
  for (const [content, at] of texts(filledConfig(tool.config, chain.primitive), place)) {
    for (const [, name = ''] of content.matchAll(PLACEHOLDER)) {
      if (declared.has(name)) continue;
      const message = `\`{${name}}\` is not a parameter of this tool, so its key is left out of every call`;
      const hint = 'declare it under `parameters`';
      at.report({ code: 'undeclared_placeholder', severity: 'warning', message, hint });
    }
  }
}

/**
 * Checks a tool that hides a tool of the bundle and receives its calls. The harness, for example, sends a
 * system prompt in parts, which a parameter of type `string` would refuse in every turn.
 */
function checkNarrowed({ shadows }: ToolItem, tool: Tool, chain: Chain, place: RulePlace): void {
  if (!shadows.some(({ source }) => source === 'bundle')) return;
  for (const [index, { name, type: typed = 'any' }] of tool.parameters.entries()) {
    const below = chain.links
      .slice(1)
      .find((link) => link.tool?.parameters.some((one) => one.name === name));
    const taken = below?.tool?.parameters.find((one) => one.name === name)?.type;
    if (taken !== 'any' || typed === 'any') continue;
    const message = `\`${name}\` takes only a \`${typed}\`, but calls of this tool send the type of \`${below?.id}\``;
    const at = place.child('parameters').child(index).child('type');
    at.report({ code: 'parameter_narrowed', message, hint: 'write `type: any`' });
  }
}

/** True if other tools run on this tool and complete its config. A tool with a short name always counts. */
const isExecutor = ({ id }: ToolItem, world: ToolWorld): boolean =>
  (lastSegment(id) !== id && unalias(lastSegment(id)) === id) ||
  world.all('tool').some((other) => {
    const chain = other.id === id ? undefined : world.chainOf(other);
    return chain?.ok && chain.output.links.some((link) => link.id === id);
  });

const MODULES = ['.py', '.ts', '.mjs', '.js'];

/** Returns a hint with the file beside the tool that could be its missing module. Undefined without such a file. */
function besideHint({ file, tool }: ToolItem, missing: string | undefined): string | undefined {
  if (missing !== 'module') return undefined;
  const stem = file.replace(/\.ya?ml$/, '');
  const extension = MODULES.find((ending) => statsOf(`${stem}${ending}`)?.isFile());
  if (extension === undefined) return undefined;
  const line = `module: ./${basename(stem)}${extension}`;
  const isEmpty = Object.keys(tool?.config ?? {}).length === 0;
  return `add \`${isEmpty ? `config: { ${line} }` : line}\``;
}

/** Reports a mistake only at the link that contains it, not at every tool above it. */
function checkMergedConfig(item: ToolItem, chain: Chain, world: ToolWorld, place: RulePlace): void {
  for (const fault of world.configFaults(chain)) {
    const { code, message, hint, path, link, field } = fault;
    if (code === 'missing_field' && isExecutor(item, world)) continue;
    // The parser has reported this field.
    if (path[1] === 'background') continue;
    const own = path.reduce((at, step) => at.child(step), place);
    if (link.id === item.id) {
      const at = code === 'unknown_field' ? ({ at: 'key' } as const) : {};
      own.report({
        code: 'config_invalid',
        message,
        hint: besideHint(item, field) ?? hint,
        ...at,
      });
      continue;
    }
    const below = world.chainOf(link);
    const reported = below.ok ? world.configFaults(below.output) : [];
    if (code !== 'missing_field' && reported.some((one) => one.message === message)) continue;
    const where = `${message}; \`${path.join('.')}\` is in \`${link.id}\``;
    place.child('executor_id').report({ code: 'config_invalid', message: where, hint });
  }
}

function checkChain(item: ToolItem, tool: Tool, world: ToolWorld, place: RulePlace): void {
  const resolved = world.chainOf(item);
  if (!resolved.ok) {
    const { message } = resolved.error.detail;
    place.child('executor_id').report({ code: 'chain_broken', message });
    return;
  }
  const chain = resolved.output;
  if (tool.background && chain.primitive !== WITH_HANDLE) {
    const message = `\`background\` works only on tools that end in \`${WITH_HANDLE}\`, not on \`${chain.primitive}\``;
    place.child('background').report({ code: 'background_unsupported', message });
  }
  if (tool.sees && chain.primitive !== 'subprocess') {
    const message = `\`sees\` limits the files of a process, but \`${chain.primitive}\` starts no process`;
    place.child('sees').report({ code: 'sees_unsupported', message });
  }
  const links = chain.links.flatMap((link) => link.tool ?? []);
  checkExposedTool(tool, links, place.child('expose'));
  checkPlaceholders(tool, chain, place.child('config'));
  checkMergedConfig(item, chain, world, place);
  checkNarrowed(item, tool, chain, place);
}

/**
 * Checks a tool together with the other items: its chain, capabilities, module and placeholders. Returns
 * nothing for a tool with errors of its own. Findings are in file order.
 */
export function checkTool(item: ToolItem, text: string, world: ToolWorld): Diagnostic[] {
  const { tool, file } = item;
  if (!tool) return [];
  // The text is parsed a second time, only for locations, because a check may be slow and a load may not.
  const { place, diagnostics } = openYaml(text, file);
  checkRequires(tool, world, place);
  for (const [index, action] of tool.actions.entries()) {
    checkRequires(action, world, place.child('actions').child(index));
  }
  checkModule(tool, file, place);
  checkChain(item, tool, world, place);
  return diagnostics.sort((a, b) => a.line - b.line || a.column - b.column);
}
