// A server of the newer revision over pipes, made with the official SDK.
import { McpServer } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';

const server = () => {
  const made = new McpServer({ name: 'modern', version: '1' }, { capabilities: { tools: { listChanged: true } } });
  made.registerTool('echo', { description: 'says it again' }, () => ({
    content: [{ type: 'text', text: 'again' }],
  }));
  made.registerTool('grow', { description: 'brings another tool' }, () => {
    made.registerTool('new', {}, () => ({ content: [] }));
    return { content: [{ type: 'text', text: 'grown' }] };
  });
  return made;
};
serveStdio(server);
