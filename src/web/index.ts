import type { serveHttp as serve, startServer as start } from './server/start-server.ts';

export type { RunningServer, ServerSettings } from './server/start-server.ts';
export { openTokens } from './server/tokens.ts';

// Tokens are small; the server's code is loaded when one is started.
export const serveHttp = async (...given: Parameters<typeof serve>): ReturnType<typeof serve> =>
  await (await import('./server/start-server.ts')).serveHttp(...given);

export const startServer = async (...given: Parameters<typeof start>): ReturnType<typeof start> =>
  await (await import('./server/start-server.ts')).startServer(...given);
