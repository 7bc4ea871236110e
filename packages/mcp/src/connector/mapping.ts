// Reads `mapping.yaml` beside the tools of a server: facts that a person adds. It adds requirements
// and labels. The approval request shows its effect and risk before anything is signed.
import { basename, dirname } from 'node:path';
import {
  asJson,
  type Diagnostic,
  fail,
  flag,
  listOf,
  matchGlob,
  type Outcome,
  ok,
  oneOf,
  openYaml,
  readRegularFile,
  record,
  tableOf,
  text,
  textAt,
  textLike,
} from '@kernmantle/core/base';
import { TOOL_EFFECTS } from '@kernmantle/core/flow';
import { kindName, type Library, resultFields } from '@kernmantle/core/items';
import { normalizeCapability } from '@kernmantle/core/trust';

const RISKS = ['exfil', 'destructive', 'privileged'] as const;
const ROLES = ['destination', 'command', 'path', 'content'] as const;
const MAX_BYTES = 256 * 1024;

const entry = record({
  requires: listOf(textLike(/^[a-z][a-z0-9_-]*(\.[A-Za-z0-9_-]+)+$/, 'the name of a capability')),
  effect: oneOf(TOOL_EFFECTS),
  risk: listOf(oneOf(RISKS)),
  labels: listOf(text),
  rename: text,
  roles: tableOf(oneOf(ROLES)),
  kinds: tableOf(kindName),
  /** Results stay untrusted. Only a policy can trust a tool. */
  result: record(resultFields),
  directory: flag,
});
const file = record({ tools: tableOf(entry) });

export type MappedTool = NonNullable<ReturnType<typeof entry>>;
/** Returns all facts about a tool of this name, with exact names applied last. */
export type Mapping = (name: string) => MappedTool;

function mergedEntries(entries: readonly MappedTool[]): MappedTool {
  const merged: MappedTool = {};
  for (const one of entries) {
    const requires = [...new Set([...(merged.requires ?? []), ...(one.requires ?? [])])];
    const labels = [...new Set([...(merged.labels ?? []), ...(one.labels ?? [])])];
    const roles = { ...merged.roles, ...one.roles };
    const kinds = { ...merged.kinds, ...one.kinds };
    Object.assign(merged, one, { requires, labels, roles, kinds });
  }
  return merged;
}

type OpenedMapping = ReturnType<typeof openYaml> & { tools: [string, MappedTool][] };

/** Opens a mapping. Returns undefined if the file does not exist. */
function openMapping(path: string, label: string): Outcome<OpenedMapping | undefined> {
  const read = readRegularFile(path, { max: MAX_BYTES });
  if (!('bytes' in read)) {
    if (read.problem.errno === 'ENOENT') return ok(undefined);
    return fail('config_invalid', `\`${label}\`: ${read.problem.message}`);
  }
  const opened = openYaml(read.bytes.toString('utf8'), label);
  const mapping = opened.value === null ? {} : file(opened.value, opened.place);
  return ok({ ...opened, tools: Object.entries(mapping?.tools ?? {}) });
}

const isMeant = (glob: string, name: string): boolean => glob === name || matchGlob(glob, name);

/** Reads a mapping. A missing file is an empty mapping. `label` is the name of the file in messages. */
export function readMapping(path: string, label: string): Outcome<Mapping> {
  const opened = openMapping(path, label);
  if (!opened.ok) return opened;
  const { diagnostics = [], tools = [] } = opened.output ?? {};
  const first = diagnostics.find(({ severity }) => severity === 'error');
  if (first) {
    const message = `\`${label}\`:${first.line}:${first.column}: ${first.message}`;
    return fail('config_invalid', message, { diagnostics: asJson(diagnostics) });
  }
  return ok((name) => {
    const fitting = tools.filter(([glob]) => isMeant(glob, name));
    const exact = fitting.filter(([glob]) => glob === name);
    return mergedEntries([...fitting, ...exact].map(([, one]) => one));
  });
}

/** Returns a hint for an undeclared capability. Undefined if the capability is declared. */
export function unknownCapability(name: string, { catalog }: Capabilities): string | undefined {
  if (catalog.get(name)) return undefined;
  const near = catalog.suggest(name);
  return near ? `did you mean \`${near}\`` : 'declare it in `.ai/config/capabilities.yaml`';
}

type Capabilities = ReturnType<Library['capabilities']>;

/** Returns errors of a mapping and entries without effect, for `km check`. */
export function mappingProblems(
  path: string,
  library: Pick<Library, 'all' | 'capabilities'>,
): Diagnostic[] {
  const about = (code: string, message: string): Diagnostic[] => [
    { file: path, line: 1, column: 1, code, severity: 'error', message },
  ];
  if (basename(path) !== 'mapping.yaml') {
    return about('not_read', 'this file is never read; rename it to `mapping.yaml`');
  }
  const opened = openMapping(path, path);
  if (!opened.ok) return about('file_unreadable', opened.error.detail.message);
  if (!opened.output) return [];
  const { tools, place, diagnostics } = opened.output;
  const beside = library.all('tool').flatMap(({ file: own, tool }) => {
    const name = textAt(tool?.config, 'mcp_tool');
    return name !== '' && dirname(own) === dirname(path) ? name : [];
  });
  const capabilities = library.capabilities();
  for (const [glob, { requires = [] }] of tools) {
    const at = place.child('tools').child(glob);
    for (const [index, name] of requires.entries()) {
      const hint = unknownCapability(normalizeCapability(name), capabilities);
      if (hint === undefined) continue;
      const message = `capability \`${name}\` not found`;
      at.child('requires').child(index).report({ code: 'capability_unknown', message, hint });
    }
    if (beside.some((name) => isMeant(glob, name))) continue;
    const message = `\`${glob}\` matches no tool in this folder`;
    at.report({ code: 'matches_nothing', severity: 'warning', message, at: 'key' });
  }
  return diagnostics;
}
