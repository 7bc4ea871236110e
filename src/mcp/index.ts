export type { HostCall, McpClient, McpHost } from './server/host.ts';
export { createMcpHttp, type HttpOptions } from './server/http.ts';
export { serveMcp } from './server/stdio.ts';
