export { type CallVerb, createMcpServer, type ServeOptions, serveMcp } from './serve.ts';
