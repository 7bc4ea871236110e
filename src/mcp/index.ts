export { FOUR_TOOLS } from './four-tools.ts';
export { type CallVerb, createMcpServer, type ServeOptions, serveMcp } from './serve.ts';
