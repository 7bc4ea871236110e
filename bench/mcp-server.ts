// A server for the bench, in a process of its own: one small tool over HTTP or pipes, made with the SDK.
// Over HTTP it prints its address.
import { createServer } from 'node:http';
import { getRequestListener } from '@hono/node-server';
import { createMcpHandler, fromJsonSchema, McpServer } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';

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

if (process.argv[2] === 'http') {
  const { fetch } = createMcpHandler(make);
  const server = createServer(getRequestListener((request) => fetch(request)));
  server.listen(0, '127.0.0.1', () => {
    const address = server.address();
    const port = typeof address === 'object' && address ? address.port : 0;
    process.stdout.write(`http://127.0.0.1:${port}/mcp\n`);
  });
} else {
  serveStdio(make);
}
