// Resolves the chain from a tool over each `executor_id` to a primitive, without running anything.
import {
  type Failure,
  fail,
  getOwn,
  type Json,
  type JsonObject,
  mergeDeep,
  nearest,
  type Outcome,
  ok,
  pathWithin,
  type ShapeProblem,
} from '../../base/index.ts';
import type { ToolItem } from '../item.ts';
import type { Tool } from '../tool/tool.ts';

/** Short names that always mean these tools, also if a project has a tool of that name. */
const ALIASES: Readonly<Record<string, string>> = {
  node: 'runtime/node',
  python: 'runtime/python',
  python_runtime: 'runtime/python',
  file: 'sinks/file_sink',
};

export const unalias = (id: string): string =>
  Object.hasOwn(ALIASES, id) ? (ALIASES[id] ?? '') : id;

export interface Chain {
  /** Links from the leaf to the tool above the primitive. */
  links: ToolItem[];
  primitive: string;
}

const MAX_LINKS = 16;

/**
 * Resolves the chain of one tool. Fails with `config_invalid` for a cycle or a missing link. The name of a
 * primitive always means the primitive, so a project's tool of that name cannot replace it.
 */
export function resolveChain(
  leaf: ToolItem,
  find: (id: string) => Outcome<ToolItem>,
  primitives: readonly string[],
  /** Messages name files of the project relative to this folder. */
  projectRoot = '',
): Outcome<Chain> {
  const links: ToolItem[] = [];
  for (let link = leaf; ; ) {
    if (links.includes(link)) {
      const chain = [...links.slice(links.indexOf(link)), link].map(({ id }) => id);
      const message = `the chain of \`${leaf.id}\` has a cycle: ${chain.join(' -> ')}`;
      return fail('config_invalid', message, { chain });
    }
    links.push(link);
    const chain = links.map(({ id }) => id);
    if (links.length > MAX_LINKS) {
      const message = `the chain of \`${leaf.id}\` has more than ${MAX_LINKS} links`;
      return fail('config_invalid', message, { chain });
    }
    if (!link.tool) return unavailable(link, chain, projectRoot);
    const next = link.tool.executor_id ?? link.tool.tool_id;
    if (primitives.includes(next)) return ok({ links, primitive: next });
    if (link.tool.executor_id === undefined) {
      const message = `tool \`${link.id}\` has no \`executor_id\` and is not a primitive`;
      const failed_at = { tool_id: link.id, config_path: 'executor_id' };
      return fail('config_invalid', message, { chain, failed_at });
    }
    const target = find(next);
    if (!target.ok) return missing(leaf, link, target, chain, primitives);
    link = target.output;
  }
}

function unavailable(link: ToolItem, chain: string[], projectRoot: string): Outcome<never> {
  const first = link.diagnostics.find(({ severity }) => severity === 'error');
  const file = first && (projectRoot === '' ? first.file : pathWithin(projectRoot, first.file));
  const why = first ? `: ${file}:${first.line}:${first.column}: ${first.message}` : '';
  const failed_at = { tool_id: link.id };
  return fail('config_invalid', `tool \`${link.id}\` cannot be used${why}`, { chain, failed_at });
}

function missing(
  leaf: ToolItem,
  link: ToolItem,
  failure: Failure,
  chain: string[],
  primitives: readonly string[],
): Outcome<never> {
  const name = link.tool?.executor_id ?? '';
  const near = failure.error.code === 'not_found' ? nearest(name, primitives) : undefined;
  const through = link === leaf ? '' : ` (in the chain of \`${leaf.id}\`)`;
  const why = near ? `; did you mean the primitive \`${near}\`` : '';
  const message = `tool \`${link.id}\` runs on \`${name}\`${through}: ${failure.error.detail.message}${why}`;
  const failed_at = { tool_id: link.id, config_path: 'executor_id' };
  return fail('config_invalid', message, { chain, failed_at, cause: failure.error.code });
}

/** Returns the capabilities that a call of the first tool needs, from every tool of its chain. */
export const requiredBy = (tools: readonly Tool[]): string[] => [
  ...new Set(tools.flatMap(({ requires, handsOn }, at) => (at > 0 && handsOn) || requires)),
];

/** Merges the configs of a chain. The leaf wins, and a list is replaced as a whole. */
export const mergedConfig = (links: readonly ToolItem[]): JsonObject =>
  links.reduceRight<JsonObject>((merged, { tool }) => mergeDeep(merged, tool?.config ?? {}), {});

const hasPath = (config: JsonObject | undefined, path: ShapeProblem['path']): boolean => {
  let at: Json | undefined = config;
  for (const step of path) {
    at = Array.isArray(at) ? at[Number(step)] : getOwn(at, String(step));
    if (at === undefined) return false;
  }
  return true;
};

/** Returns the link that wrote the value at a path of `config`, or the nearest value around it. */
export function writerOf(links: readonly ToolItem[], path: ShapeProblem['path']): ToolItem {
  for (let length = path.length; length > 1; length--) {
    const part = path.slice(1, length);
    const writer = links.find(({ tool }) => hasPath(tool?.config, part));
    if (writer) return writer;
  }
  return links[0] as ToolItem;
}

/** A config problem, with the link that wrote the value. */
export interface ConfigFault extends ShapeProblem {
  link: ToolItem;
}

/** Checks the merged config of a chain without filling in placeholders. */
export type CheckConfig = (config: JsonObject, chain: Chain) => readonly ShapeProblem[];

const NO_FAULTS: readonly ConfigFault[] = [];

/** Returns a function that checks each chain once. A changed link gives another chain. */
export function createConfigFaults(check: CheckConfig | undefined) {
  const cache = new WeakMap<Chain, readonly ConfigFault[]>();
  return (chain: Chain): readonly ConfigFault[] => {
    const before = cache.get(chain);
    if (before || !check) return before ?? NO_FAULTS;
    const { links } = chain;
    const faults = check(mergedConfig(links), chain).map((problem) => ({
      ...problem,
      link: writerOf(links, problem.path),
    }));
    cache.set(chain, faults);
    return faults;
  };
}
