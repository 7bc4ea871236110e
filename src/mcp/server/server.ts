// One server of the SDK for one client: the official packages speak the protocol (both revisions), the
// files beside this one each hang one thing into it.
import { fromJsonSchema, McpServer } from '@modelcontextprotocol/server';
import { CfWorkerJsonSchemaValidator } from '@modelcontextprotocol/server/validators/cf-worker';
import type { JsonObject } from '../../base/index.ts';
import type { McpClient, McpHost, ServerParts } from './host.ts';
import { addPrompts } from './prompts.ts';
import { addVerbs } from './verbs.ts';

export interface ServerOptions {
  /** What the client's model is told about this server, instead of the item `system/mcp_client`. */
  readonly instructions?: string;
}

/** The bundle's words: what a project says of itself is found by searching, where it is labelled. */
function toldTo({ library }: McpHost): string {
  const found = library.find('knowledge', 'system/mcp_client', 'bundle');
  return found.ok ? found.output.text.trim() : '';
}

/** `client`: who speaks, as the transport found out; its name is added from what it says of itself. */
export function createMcpServer(
  host: McpHost,
  client: Omit<McpClient, 'name'>,
  { instructions = toldTo(host) }: ServerOptions = {},
): McpServer {
  // The validator interprets schemas; the SDK's default would compile them to code.
  const validator = new CfWorkerJsonSchemaValidator();
  const server = new McpServer(
    { name: 'kernmantle', version: host.version },
    {
      // What is offered does not change while a client is there.
      capabilities: { tools: { listChanged: false } },
      instructions,
      jsonSchemaValidator: validator,
    },
  );
  const parts: ServerParts = {
    host,
    client: () => ({ ...client, name: server.server.getClientVersion()?.name.slice(0, 100) ?? '' }),
    schema: (json) => fromJsonSchema<JsonObject>(json, validator),
  };
  addVerbs(server, parts);
  addPrompts(server, parts);
  return server;
}
