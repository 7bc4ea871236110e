export type { HostCall, McpClient, McpHost } from './server/host.ts';
export { serveMcp } from './server/stdio.ts';
