// Runs an MCP server for the benchmark in its own process: one small tool over HTTP, written with the SDK. It prints
// its address.
import { createServer } from 'node:http';
import { getRequestListener } from '@hono/node-server';
import { createMcpHandler, fromJsonSchema, McpServer } from '@modelcontextprotocol/server';

function make(): McpServer {
  const server = new McpServer({ name: 'bench', version: '1.0.0' });
  const inputSchema = fromJsonSchema<{ text: string }>({
    type: 'object',
    properties: { text: { type: 'string' } },
    required: ['text'],
  });
  server.registerTool('echo', { description: 'Says it again', inputSchema }, ({ text }) => ({
    content: [{ type: 'text', text }],
  }));
  return server;
}

const { fetch } = createMcpHandler(make);
const listener = getRequestListener((request) => fetch(request));
const server = createServer((request, response) => void listener(request, response));
server.listen(0, '127.0.0.1', () => {
  const address = server.address();
  const port = typeof address === 'object' && address ? address.port : 0;
  process.stdout.write(`http://127.0.0.1:${port}/mcp\n`);
});
