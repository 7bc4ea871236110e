// Checks what is exposed to MCP clients among the other items: duplicate names, addresses with variables
// that no parameter takes, and directives that cannot be a thread.
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
    const message = `the MCP ${key} is also \`${other.id}\`: neither is served`;
    return aboutFile(item.file, 'expose_collision', message, { hint: 'give one of them a `name`' });
  });
}

/** A directive that is exposed as a tool becomes a thread. */
export function checkExposedDirective(
  directive: Directive | undefined,
  file: string,
): Diagnostic[] {
  if (directive?.expose?.mcp !== 'tool') return [];
  const { missing } = canSpawn(directive);
  if (missing.length === 0) return [];
  const message = `as an MCP tool it starts a thread, and it has no ${missing.join(', no ')}`;
  return [aboutFile(file, 'expose_invalid', message)];
}

/** Returns names and types of a tool's parameters. */
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
    const message = 'a resource is only read, and this tool says `effect: write` or nothing of it';
    place.report({ code, message, hint: 'write `effect: read` if that is so' });
  }
  const taken = takenBy(links);
  const variables = uriVariables(uri);
  for (const name of variables.filter((one) => !taken.has(one))) {
    const message = `\`{${name}}\` is not a parameter of this tool`;
    place.child('uri').report({ code, message, hint: 'declare it under `parameters`' });
  }
  for (const [name, { required }] of taken) {
    if (!required || variables.includes(name)) continue;
    const message = `the parameter \`${name}\` is required, and the address does not hold it`;
    place.child('uri').report({ code, message, hint: `write \`{${name}}\` into it` });
  }
}

function checkPrompt(links: readonly Tool[], place: RulePlace): void {
  for (const [name, { type, required }] of takenBy(links)) {
    if (!required || type === undefined || type === 'any' || type === 'string') continue;
    const message = `arguments of a prompt are texts, and \`${name}\` is required to be another type`;
    place.report({ code: 'expose_invalid', message });
  }
}

/** `links`: the chain of the tool, starting with itself. */
export function checkExposedTool(tool: Tool, links: readonly Tool[], place: RulePlace): void {
  const { expose } = tool;
  if (!expose) return;
  for (const name of INPUT_PARAMETERS) {
    if (takenBy(links).get(name)?.required !== true) continue;
    const message = `\`${name}\` is there only once a client has answered: it cannot be required`;
    place.report({ code: 'expose_invalid', message });
  }
  if (tool.actions.length > 0 && expose.mcp !== 'tool') {
    const message = `a tool with actions cannot be an MCP ${expose.mcp}`;
    place.report({ code: 'expose_invalid', message });
  }
  if (expose.mcp === 'resource') checkResource(tool, expose.uri ?? '', links, place);
  if (expose.mcp === 'prompt') checkPrompt(links, place);
}
