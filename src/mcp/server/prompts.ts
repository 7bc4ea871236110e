// Directives that say so (`expose: {mcp: prompt}`) are prompts.
import type { McpServer } from '@modelcontextprotocol/server';
import type { Directive } from '../../items/index.ts';
import type { ServerParts } from './host.ts';

export function addPrompts(server: McpServer, parts: ServerParts): void {
  for (const { id, directive } of parts.host.library.all('directive')) {
    if (directive?.expose?.mcp === 'prompt') addPrompt(server, id, directive, parts);
  }
}

/** What `execute` hands out of a directive, as something that a person says: with the same rights. */
function addPrompt(
  server: McpServer,
  name: string,
  { description, inputs }: Directive,
  { host, client, schema }: ServerParts,
): void {
  const properties = Object.fromEntries(
    inputs.map((input) => [input.name, { type: 'string', description: input.description }]),
  );
  const required = inputs.filter((input) => input.required).map((input) => input.name);
  const argsSchema = schema({ type: 'object', properties, required });
  server.registerPrompt(name, { description, argsSchema }, async (parameters, context) => {
    const request = { item_type: 'directive', item_id: name, parameters };
    const { signal } = context.mcpReq;
    const ready = await host.call('execute', request, { client: client(), signal });
    if (!ready.ok) throw new Error(`${ready.error.code}: ${ready.error.detail.message}`);
    const text = `Follow this directive.\n\n${JSON.stringify(ready.output, null, 2)}`;
    return { messages: [{ role: 'user', content: { type: 'text', text } }] };
  });
}
