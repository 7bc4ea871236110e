// From a tool's id to one plan: configs merged from the primitive up (the leaf wins, lists are
// replaced), parameters inherited, requirements of every link collected. Resolving runs nothing.
import {
  fail,
  getOwn,
  type JsonObject,
  mergeDeep,
  nearest,
  type Outcome,
  ok,
  plainText,
} from '../base/index.ts';
import type { Effect, Item, Library, Retry, Tool, ToolParameter } from '../items/index.ts';
import { normalizeCapability } from '../trust/index.ts';
import { inheritParameters, schemaOf } from './parameters.ts';

export type ToolItem = Extract<Item, { kind: 'tool' }>;

export interface Plan {
  leaf: ToolItem;
  tool: Tool;
  /** Leaf first, down to the tool above the primitive. */
  links: readonly ToolItem[];
  primitive: string;
  /** Full ids, leaf first, the primitive last: what results and errors show as `chain`. */
  chain: readonly string[];
  config: JsonObject;
  parameters: readonly ToolParameter[];
  schema: JsonObject;
  requires: readonly string[];
  effect: Effect;
  env: ReadonlySet<string>;
  retries: readonly { toolId: string; retry: Retry }[];
  timeoutMs: number;
  action?: string;
}

const DEFAULT_TIMEOUT_MS = 120_000;

interface ChosenAction {
  name: string;
  parameters: readonly ToolParameter[];
  requires: readonly string[] | undefined;
  effect: Effect | undefined;
}

/** The action that the parameter `action` names; a tool without actions has none. */
function chooseAction(
  leaf: ToolItem,
  tool: Tool,
  parameters: JsonObject,
): Outcome<ChosenAction | undefined> {
  if (tool.actions.length === 0) return ok(undefined);
  const names = tool.actions.map((action) => action.name);
  const asked = getOwn(parameters, 'action');
  const action = tool.actions.find(({ name }) => name === asked);
  if (!action) {
    const near = typeof asked === 'string' ? nearest(asked, names) : undefined;
    const said = asked === undefined ? 'no `action`' : `unknown action \`${plainText(asked)}\``;
    const hint = near ? `did you mean \`${near}\`` : `there are: ${names.join(', ')}`;
    return fail('invalid_input', `tool \`${leaf.id}\` was given ${said}; ${hint}`, {
      actions: names,
    });
  }
  return ok({ requires: undefined, effect: undefined, ...action });
}

const actionParameter = (names: readonly string[]): ToolParameter => ({
  name: 'action',
  type: 'string',
  required: true,
  description: 'what to do',
  enum: [...names],
});

/** Every link must be readable and its signature in order; the reason names the link. */
function brokenLink(links: readonly ToolItem[]): Outcome<null> {
  for (const link of links) {
    if (!link.tool) {
      const first = link.diagnostics.find(({ severity }) => severity === 'error');
      const place = first ? `${first.file}:${first.line}:${first.column}: ${first.message}` : '';
      return fail('config_invalid', `tool \`${link.id}\` is unavailable: ${place}`, {
        failed_at: { tool_id: link.id },
      });
    }
  }
  return ok(null);
}

/** Resolves a tool and, when it has actions, the one its parameters choose. */
export function resolvePlan(
  library: Library,
  item: ToolItem,
  parameters: JsonObject,
): Outcome<Plan> {
  const resolved = library.chain(item.id);
  if (!resolved.ok) return resolved;
  const links = resolved.output.links as readonly ToolItem[];
  const broken = brokenLink(links);
  if (!broken.ok) return broken;
  const tools = links.map((link) => link.tool as Tool);
  const tool = tools[0] as Tool;
  const chosen = chooseAction(item, tool, parameters);
  if (!chosen.ok) return chosen;
  const action = chosen.output;

  const inherited = inheritParameters([
    ...(action
      ? [[actionParameter(tool.actions.map(({ name }) => name)), ...action.parameters]]
      : []),
    ...tools.map((link) => link.parameters),
  ]);
  const own = action?.requires ?? tool.requires;
  const below = tools.slice(1).flatMap((link) => link.requires);
  const timeout = tools.find((link) => link.timeout !== undefined)?.timeout;
  return ok({
    leaf: item,
    tool,
    links,
    primitive: resolved.output.primitive,
    chain: [...links.map((link) => link.id), resolved.output.primitive],
    config: tools.reduceRight<JsonObject>((merged, link) => mergeDeep(merged, link.config), {}),
    parameters: inherited,
    schema: tool.input_schema ?? schemaOf(inherited),
    requires: [...new Set([...own, ...below].map(normalizeCapability))],
    effect: action?.effect ?? tool.effect,
    env: new Set(tools.flatMap((link) => link.env)),
    retries: links.flatMap((link) =>
      link.tool?.retry ? [{ toolId: link.id, retry: link.tool.retry }] : [],
    ),
    timeoutMs: timeout === undefined ? DEFAULT_TIMEOUT_MS : timeout * 1000,
    ...(action ? { action: action.name } : {}),
  });
}
