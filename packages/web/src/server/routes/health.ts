// `GET health`: findings of `doctor`, and figures of the server. `GET fleet`: workers, queues and
// leases.
import { type Outcome, ok } from '@kernmantle/core/base';
import { reports } from '@kernmantle/core/reports';
import type { FleetState, FleetView, HealthView } from '../../model/api.ts';
import { answer } from '../answer.ts';
import type { AddRoutes, WebParts } from '../context.ts';
import { needs } from '../roles.ts';
import { readQuery } from './request-bodies.ts';

/** Findings read all items, so the answer is cached for a short time. */
const KEPT_MS = 3000;
const MB = 1024 * 1024;

/** Runs one check at a time for any number of clients. */
function createFindings({ runtime, clock, env }: WebParts) {
  let report: ReturnType<typeof look> | undefined;
  let until = 0;
  const look = async () => {
    const { healthReport } = await reports.health();
    try {
      return await healthReport(runtime, env);
    } finally {
      until = clock.now() + KEPT_MS;
    }
  };
  return async () => {
    if (report && clock.now() <= until) return await report;
    until = Number.POSITIVE_INFINITY;
    report = look();
    return await report;
  };
}

/** Returns null if there is no store, because no thread ever ran, or if the store has no fleet. */
async function fleetOf({ hub, store }: WebParts): Promise<Outcome<FleetState | null>> {
  const opened = await store();
  if (!opened.ok) return opened.error.code === 'not_found' ? ok(null) : opened;
  return opened.output.fleet ? await hub.fleet() : ok(null);
}

async function viewFleet(parts: WebParts): Promise<Outcome<FleetView>> {
  const position = parts.hub.position();
  const fleet = await fleetOf(parts);
  return fleet.ok ? ok({ fleet: fleet.output, position }) : fleet;
}

export const addHealthRoutes: AddRoutes = (api, parts) => {
  const { hub, runs, version, started } = parts;
  const findings = createFindings(parts);
  api.get('/health', needs('view'), async (context) => {
    const { healthy, findings: list } = await findings();
    const { clients, lag_ms, sockets } = hub.figures();
    const view: HealthView = {
      healthy,
      findings: list,
      server: {
        version,
        started,
        streams: clients - sockets,
        sockets,
        running: runs.count(),
        lag_ms,
        memory_mb: Math.round(process.memoryUsage.rss() / MB),
      },
    };
    return answer(context, ok(view));
  });
  api.get('/fleet', needs('view'), async (context) => {
    const query = readQuery(context, []);
    return answer(context, query.ok ? await viewFleet(parts) : query);
  });
};
