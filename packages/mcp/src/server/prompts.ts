// Serves directives with `expose: {mcp: prompt}` as prompts, and completes arguments of prompts and
// variables of addresses.
import { getOwn, isObject, type JsonObject } from '@kernmantle/core/base';
import type { Directive } from '@kernmantle/core/items';
import {
  type CompleteResult,
  type McpServer,
  ProtocolError,
  ProtocolErrorCode,
} from '@modelcontextprotocol/server';
import type { ServerParts } from './host.ts';
import { protocolError } from './native-results.ts';

/** Possible values of each argument, by its name. */
type Arguments = ReadonlyMap<string, readonly string[]>;

/** Completions of each prompt and each template. */
export interface Choices {
  readonly prompts: Map<string, Arguments>;
  readonly templates: Map<string, Arguments>;
  /** Addresses of resources without any variables. */
  readonly resources: Set<string>;
}

export const noChoices = (): Choices => ({
  prompts: new Map(),
  templates: new Map(),
  resources: new Set(),
});

export function choicesIn({ properties }: JsonObject): Arguments {
  const fields = Object.entries(isObject(properties) ? properties : {});
  return new Map(
    fields.map(([name, schema]) => {
      const members = getOwn(schema, 'enum');
      return [name, Array.isArray(members) ? members.map(String) : []];
    }),
  );
}

const MAX_VALUES = 100;

export function addCompletion(server: McpServer, { prompts, templates }: Choices): void {
  server.server.registerCapabilities({ completions: {} });
  server.server.setRequestHandler('completion/complete', ({ params }): CompleteResult => {
    const { ref, argument } = params;
    const choices = ref.type === 'ref/prompt' ? prompts.get(ref.name) : templates.get(ref.uri);
    if (!choices) {
      const what = ref.type === 'ref/prompt' ? `prompt \`${ref.name}\`` : `template \`${ref.uri}\``;
      throw new ProtocolError(ProtocolErrorCode.InvalidParams, `${what} not found`);
    }
    const typed = argument.value.toLowerCase();
    const values = (choices.get(argument.name) ?? []).filter((value) =>
      value.toLowerCase().startsWith(typed),
    );
    const { length: total } = values;
    const completion = { values: values.slice(0, MAX_VALUES), total, hasMore: total > MAX_VALUES };
    return { completion };
  });
}

export function addPrompts(server: McpServer, parts: ServerParts, { prompts }: Choices): void {
  for (const { id, directive } of parts.host.library.all('directive')) {
    if (directive?.expose?.mcp !== 'prompt') continue;
    // If two directives have the same name, which `check` reports, the first one gets it.
    const name = [directive.expose.name ?? id, id].find((one) => !prompts.has(one));
    if (name === undefined) continue;
    addPrompt(server, { name, id }, directive, parts);
    prompts.set(name, new Map());
  }
}

/** Serves the result of `execute` as a message of the user, with the same permissions. */
export function addPrompt(
  server: McpServer,
  { name, id }: { readonly name: string; readonly id: string },
  { description, inputs }: Directive,
  { host, client, schema }: ServerParts,
): void {
  const properties = Object.fromEntries(
    inputs.map((input) => [input.name, { type: 'string', description: input.description }]),
  );
  const required = inputs.filter((input) => input.required).map((input) => input.name);
  const argsSchema = schema({ type: 'object', properties, required });
  server.registerPrompt(name, { description, argsSchema }, async (parameters, context) => {
    const request = { item_type: 'directive', item_id: id, parameters };
    const { signal } = context.mcpReq;
    const ready = await host.call('execute', request, { client: client(), signal });
    if (!ready.ok) throw protocolError(ready);
    const text = `Follow this directive.\n\n${JSON.stringify(ready.output, null, 2)}`;
    return { description, messages: [{ role: 'user', content: { type: 'text', text } }] };
  });
}
