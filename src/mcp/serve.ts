// The MCP server over stdio: the official SDK speaks the protocol (both revisions), this file only
// hangs the four verbs into it. It ends with its input, so a client that dies takes it along.
import { type CallToolResult, fromJsonSchema, McpServer } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import { CfWorkerJsonSchemaValidator } from '@modelcontextprotocol/server/validators/cf-worker';
import type { Json, JsonObject, Outcome } from '../base/index.ts';
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
  return server;
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
