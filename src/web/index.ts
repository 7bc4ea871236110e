import type { createFleetWatch as watchFleet } from './server/live/fleet-watch.ts';
import type { createRows as rows } from './server/rows.ts';

export type { FleetState, ListedRun } from './model/api.ts';
export {
  clockWords,
  fleetSums,
  isUnserved,
  NO_WORKER,
  projectWords,
  servesWords,
  shortItems,
  unservedQueues,
  waitWords,
  workerMood,
  workerName,
} from './model/fleet.ts';

import type { serveHttp as serve, startServer as start } from './server/start-server.ts';
import type { startWeb as startPage } from './server/start-web.ts';

export { linkTo, openSessions } from './server/access/sessions.ts';
export { openTokens } from './server/access/tokens.ts';
export { openRunningServers } from './server/running-servers.ts';
export type { RunningServer, ServerSettings } from './server/start-server.ts';

// Tokens and sessions are small; the server's code is loaded when one is started.
export const serveHttp = async (...given: Parameters<typeof serve>): ReturnType<typeof serve> =>
  await (await import('./server/start-server.ts')).serveHttp(...given);

export const startServer = async (...given: Parameters<typeof start>): ReturnType<typeof start> =>
  await (await import('./server/start-server.ts')).startServer(...given);

/** The page of a project, with its API. */
export const startWeb = async (
  ...given: Parameters<typeof startPage>
): ReturnType<typeof startPage> => await (await import('./server/start-web.ts')).startWeb(...given);

/** Rows as the page lists them, for whoever lists threads elsewhere. */
export const openRows = async (
  ...given: Parameters<typeof rows>
): Promise<ReturnType<typeof rows>> => (await import('./server/rows.ts')).createRows(...given);

/** Workers, queues and who holds what, for whoever shows them elsewhere. */
export const openFleet = async (
  ...given: Parameters<typeof watchFleet>
): Promise<ReturnType<typeof watchFleet>> =>
  (await import('./server/live/fleet-watch.ts')).createFleetWatch(...given);
