// The MCP server over stdio: the official SDK speaks the protocol (both revisions), this file only
// hangs the four verbs into it. It ends with its input, so a client that dies takes it along.
import { type CallToolResult, fromJsonSchema, McpServer } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import { CfWorkerJsonSchemaValidator } from '@modelcontextprotocol/server/validators/cf-worker';
import type { Json, JsonObject, Outcome } from '../base/index.ts';
import type { Directive, DirectiveItem } from '../items/index.ts';
import { ANSWER, FOUR_TOOLS, type VerbDefinition } from '../kernel/index.ts';

/** What the server needs from whoever runs it: one function for the four verbs. */
type CallVerb = (
  verb: VerbDefinition['name'],
  request: JsonObject,
  signal: AbortSignal,
  /** As the client calls itself. */
  client: string,
) => Promise<Outcome<Json>>;

interface ServeOptions {
  version: string;
  instructions: string;
  call: CallVerb;
  /** Those that say so are offered as prompts. */
  directives: readonly DirectiveItem[];
  onError(error: Error): void;
}

/** Structured content plus its complete text twin, for clients that read only text. */
function answer(outcome: Outcome<Json>): CallToolResult {
  return {
    structuredContent: { ...outcome },
    content: [{ type: 'text', text: JSON.stringify(outcome) }],
    ...(outcome.ok ? {} : { isError: true }),
  };
}

const clientOf = ({ server }: McpServer): string =>
  server.getClientVersion()?.name.slice(0, 100) ?? '';

function createMcpServer(options: ServeOptions): McpServer {
  // The validator interprets schemas; the SDK's default would compile them to code.
  const validator = new CfWorkerJsonSchemaValidator();
  const schema = (json: JsonObject) => fromJsonSchema<JsonObject>(json, validator);
  const server = new McpServer(
    { name: 'kernmantle', version: options.version },
    { capabilities: { tools: {} }, instructions: options.instructions },
  );
  for (const tool of FOUR_TOOLS) {
    server.registerTool(
      tool.name,
      {
        title: tool.title,
        description: tool.description,
        inputSchema: schema(tool.input),
        outputSchema: schema(ANSWER),
        annotations: {
          readOnlyHint: tool.readOnly,
          destructiveHint: !tool.readOnly,
          openWorldHint: !tool.readOnly,
        },
      },
      async (request, context) =>
        answer(await options.call(tool.name, request, context.mcpReq.signal, clientOf(server))),
    );
  }
  for (const { id, directive } of options.directives) {
    if (directive?.expose?.mcp === 'prompt') addPrompt(server, id, directive, options.call, schema);
  }
  return server;
}

/** What `execute` hands out of a directive, as something that a person says: with the same rights. */
function addPrompt(
  server: McpServer,
  name: string,
  { description, inputs }: Directive,
  call: CallVerb,
  schema: (json: JsonObject) => ReturnType<typeof fromJsonSchema<JsonObject>>,
): void {
  const properties = Object.fromEntries(
    inputs.map((input) => [input.name, { type: 'string', description: input.description }]),
  );
  const required = inputs.filter((input) => input.required).map((input) => input.name);
  const argsSchema = schema({ type: 'object', properties, required });
  server.registerPrompt(name, { description, argsSchema }, async (parameters, context) => {
    const request = { item_type: 'directive', item_id: name, parameters };
    const ready = await call('execute', request, context.mcpReq.signal, clientOf(server));
    if (!ready.ok) throw new Error(`${ready.error.code}: ${ready.error.detail.message}`);
    const text = `Follow this directive.\n\n${JSON.stringify(ready.output, null, 2)}`;
    return { messages: [{ role: 'user', content: { type: 'text', text } }] };
  });
}

/** Serves until the client closes its end; resolves then. */
export async function serveMcp(options: ServeOptions): Promise<void> {
  const ended = new Promise<void>((resolve) => {
    process.stdin.once('end', resolve);
    process.stdin.once('close', resolve);
  });
  const handle = serveStdio(() => createMcpServer(options), { onerror: options.onError });
  await ended;
  await handle.close();
}
