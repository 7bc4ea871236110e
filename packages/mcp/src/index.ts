import type { openLoopbackLogin as openLogin } from './client/loopback.ts';
import type { createMcpHttp as createHttp } from './server/http.ts';
import type { serveMcp as serveStdio } from './server/stdio.ts';

/** Opens a page on loopback for a login. Functions of this door load their code when called. */
export const openLoopbackLogin = async (
  ...options: Parameters<typeof openLogin>
): ReturnType<typeof openLogin> =>
  await (await import('./client/loopback.ts')).openLoopbackLogin(...options);

/** Answers the requests of MCP clients over HTTP. */
export const createMcpHttp = async (
  ...options: Parameters<typeof createHttp>
): Promise<ReturnType<typeof createHttp>> =>
  (await import('./server/http.ts')).createMcpHttp(...options);

/** Serves one client over the standard streams of this process, until its input ends. */
export const serveMcp = async (
  ...options: Parameters<typeof serveStdio>
): ReturnType<typeof serveStdio> => await (await import('./server/stdio.ts')).serveMcp(...options);
export { mappingProblems } from './connector/mapping.ts';
export { serverProblem } from './connector/names.ts';
export { createMcpHost } from './runtime/mcp-host.ts';
export type { McpClient, McpHost } from './server/host.ts';
export type { HttpOptions } from './server/http.ts';
