export { createMcpPool } from './client/create-pool.ts';
export type { McpPool } from './client/pool.ts';
export { serverName } from './connector/endpoint.ts';
export { serverProblem } from './connector/names.ts';
export { createMcpPrimitive } from './connector/primitive.ts';
export { isGenerated, type SyncPorts } from './connector/sync.ts';
export type { HostCall, McpClient, McpHost } from './server/host.ts';
export { createMcpHttp, type HttpOptions } from './server/http.ts';
export { serveMcp } from './server/stdio.ts';
