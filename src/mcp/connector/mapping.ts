// `mapping.yaml` beside the tools of a server: what a person knows about them that the server cannot be
// asked. It adds requirements and labels; what it says about effect and risk is shown with the rest before
// anything is signed.
import {
  asJson,
  fail,
  hasErrors,
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
  textLike,
} from '../../base/index.ts';
import { TOOL_EFFECTS } from '../../flow/index.ts';

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
});
const file = record({ tools: tableOf(entry) });

export type MappedTool = NonNullable<ReturnType<typeof entry>>;
/** What is said about a tool of this name, all entries together: an exact name has the last word. */
export type Mapping = (name: string) => MappedTool;

function mergedEntries(entries: readonly MappedTool[]): MappedTool {
  const merged: MappedTool = {};
  for (const one of entries) {
    const requires = [...new Set([...(merged.requires ?? []), ...(one.requires ?? [])])];
    const labels = [...new Set([...(merged.labels ?? []), ...(one.labels ?? [])])];
    Object.assign(merged, one, { requires, labels, roles: { ...merged.roles, ...one.roles } });
  }
  return merged;
}

/** No file says nothing. `shown` is how it is named in messages. */
export function readMapping(path: string, shown: string): Outcome<Mapping> {
  const read = readRegularFile(path, { max: MAX_BYTES });
  if (!('bytes' in read)) {
    if (read.problem.errno === 'ENOENT') return ok(() => ({}));
    return fail('config_invalid', `\`${shown}\`: ${read.problem.message}`);
  }
  const { value, place, diagnostics } = openYaml(read.bytes.toString('utf8'), shown);
  const mapping = value === null ? {} : file(value, place);
  const [first] = diagnostics;
  if (hasErrors(diagnostics) && first) {
    const message = `\`${shown}\`:${first.line}:${first.column}: ${first.message}`;
    return fail('config_invalid', message, { diagnostics: asJson(diagnostics) });
  }
  const tools = Object.entries(mapping?.tools ?? {});
  return ok((name) => {
    const fitting = tools.filter(([glob]) => glob === name || matchGlob(glob, name));
    const exact = fitting.filter(([glob]) => glob === name);
    return mergedEntries([...fitting, ...exact].map(([, one]) => one));
  });
}
