// Checks items that are exposed to MCP clients. It reports duplicate names, addresses with variables that no
// parameter takes, and directives that cannot be a thread.
import { type Diagnostic, getOwn, listAt, objectAt, type RulePlace } from '../../base/index.ts';
import { canSpawn, type Directive } from '../directive/directive.ts';
import { uriVariables } from '../expose.ts';
import { aboutFile } from '../files/item-file.ts';
import type { Item } from '../item.ts';
import type { Tool } from '../tool/tool.ts';
import { exposedOf, INPUT_PARAMETERS, keyOf } from './exposed.ts';

export function checkCollisions(item: Item, groups: () => ReadonlyMap<string, readonly Item[]>) {
  const exposed = exposedOf(item);
  if (!exposed) return [];
  const key = keyOf(item, exposed);
  const others = groups()
    .get(key)
    ?.filter(({ kind, id }) => kind !== item.kind || id !== item.id);
  return (others ?? []).slice(0, 1).map((other): Diagnostic => {
    const message = `the MCP ${key} is also \`${other.id}\`, so neither is served`;
    return aboutFile(item.file, 'expose_collision', message, { hint: 'change the `name` of one' });
  });
}

/** Reports a directive that is exposed as a tool, which starts a thread, and that cannot be a thread. */
export function checkExposedDirective(
  directive: Directive | undefined,
  file: string,
): Diagnostic[] {
  if (directive?.expose?.mcp !== 'tool') return [];
  const { missing } = canSpawn(directive);
  if (missing.length === 0) return [];
  const message = `an MCP tool starts a thread, but this directive has no ${missing.join(', no ')}`;
  return [aboutFile(file, 'expose_invalid', message)];
}

/** Returns the names and types of the parameters that the chain of a tool takes. */
function takenBy(links: readonly Tool[]): Map<string, { type?: unknown; required: boolean }> {
  const taken = new Map<string, { type?: unknown; required: boolean }>();
  const [leaf] = links;
  if (leaf?.input_schema) {
    const needed = listAt(leaf.input_schema, 'required');
    for (const [name, schema] of Object.entries(objectAt(leaf.input_schema, 'properties'))) {
      taken.set(name, {
        type: getOwn(schema, 'type'),
        required: needed.includes(name),
      });
    }
    return taken;
  }
  for (const { parameters } of links.toReversed()) {
    for (const { name, type, required, default: preset } of parameters) {
      taken.set(name, { type, required: required && preset === undefined });
    }
  }
  return taken;
}

function checkResource(tool: Tool, uri: string, links: readonly Tool[], place: RulePlace): void {
  const code = 'expose_invalid';
  if (tool.effect !== 'read') {
    const message = 'a tool that is a resource must have `effect: read`';
    place.report({ code, message, hint: 'write `effect: read` if the tool only reads' });
  }
  const taken = takenBy(links);
  const variables = uriVariables(uri);
  for (const name of variables.filter((one) => !taken.has(one))) {
    const message = `\`{${name}}\` is not a parameter of this tool`;
    place.child('uri').report({ code, message, hint: 'declare it under `parameters`' });
  }
  for (const [name, { required }] of taken) {
    if (!required || variables.includes(name)) continue;
    const message = `the parameter \`${name}\` is required, but the address does not contain it`;
    place.child('uri').report({ code, message, hint: `add \`{${name}}\` to the address` });
  }
}

function checkPrompt(links: readonly Tool[], place: RulePlace): void {
  for (const [name, { type, required }] of takenBy(links)) {
    if (!required || type === undefined || type === 'any' || type === 'string') continue;
    const message = `the required argument \`${name}\` of a prompt must be a text`;
    place.report({ code: 'expose_invalid', message });
  }
}

/** Checks an exposed tool. `links` is its chain, which begins with the tool itself. */
export function checkExposedTool(tool: Tool, links: readonly Tool[], place: RulePlace): void {
  const { expose } = tool;
  if (!expose) return;
  for (const name of INPUT_PARAMETERS) {
    if (takenBy(links).get(name)?.required !== true) continue;
    const message = `\`${name}\` cannot be required, because only an answer of the client sets it`;
    place.report({ code: 'expose_invalid', message });
  }
  if (tool.actions.length > 0 && expose.mcp !== 'tool') {
    const message = `a tool with actions cannot be an MCP ${expose.mcp}`;
    place.report({ code: 'expose_invalid', message });
  }
  if (expose.mcp === 'resource') checkResource(tool, expose.uri ?? '', links, place);
  if (expose.mcp === 'prompt') checkPrompt(links, place);
}
