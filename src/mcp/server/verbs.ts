// The four verbs as tools of the SDK's server.
import { type CallToolResult, type McpServer } from '@modelcontextprotocol/server';
import type { Json, Outcome } from '../../base/index.ts';
import { ANSWER, FOUR_TOOLS } from '../../kernel/index.ts';
import type { ServerParts } from './host.ts';

/** Structured content plus its complete text twin, for clients that read only text. */
function answer(outcome: Outcome<Json>): CallToolResult {
  return {
    structuredContent: { ...outcome },
    content: [{ type: 'text', text: JSON.stringify(outcome) }],
    ...(outcome.ok ? {} : { isError: true }),
  };
}

export function addVerbs(server: McpServer, { host, client, schema }: ServerParts): void {
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
      async (request, { mcpReq: { signal } }) =>
        answer(await host.call(tool.name, request, { client: client(), signal })),
    );
  }
}
