import type { createFleetWatch as watchFleet } from './server/live/fleet-watch.ts';
import type { startWeb as startPage } from './server/start-web.ts';
import type { createRows as rows } from './server/thread/summary-rows.ts';

/** Starts the page of a project, with its API. The first call loads the code of the server. */
export const startWeb = async (
  ...args: Parameters<typeof startPage>
): ReturnType<typeof startPage> => await (await import('./server/start-web.ts')).startWeb(...args);

/** Opens the row builder of the page for other lists of threads. */
export const openRows = async (
  ...args: Parameters<typeof rows>
): Promise<ReturnType<typeof rows>> =>
  (await import('./server/thread/summary-rows.ts')).createRows(...args);

/** Opens the fleet view (workers, queues, leases) for other programs. */
export const openFleet = async (
  ...args: Parameters<typeof watchFleet>
): Promise<ReturnType<typeof watchFleet>> =>
  (await import('./server/live/fleet-watch.ts')).createFleetWatch(...args);
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
export { createGuard, inUrl, isLoopback, type Rejection } from './server/access/request-guard.ts';
export { linkTo, openSessions } from './server/access/sessions.ts';
export { openTokens, type TokenStore, withProcessToken } from './server/access/tokens.ts';
export { addHeaders } from './server/headers.ts';
export { openListener } from './server/listen.ts';
export { openRunningServers } from './server/running-servers.ts';
