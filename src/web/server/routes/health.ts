// `GET health`: what `doctor` finds, and how the server itself is.
import { ok } from '../../../base/index.ts';
import { type HealthReport, reports } from '../../../runtime/index.ts';
import type { HealthView } from '../../model/api.ts';
import { answer } from '../answer.ts';
import type { AddRoutes, WebParts } from '../parts.ts';
import { needs } from '../roles.ts';

/** Findings look through all items: whoever asks again at once is told the same. */
const KEPT_MS = 3000;
const MB = 1024 * 1024;

/** One look at a time, however many ask and however long it takes. */
function createFindings({ runtime, clock, env }: WebParts): () => Promise<HealthReport> {
  let found: Promise<HealthReport> | undefined;
  let until = 0;
  const look = async (): Promise<HealthReport> => {
    const { healthReport } = await reports.health();
    try {
      return await healthReport(runtime, env);
    } finally {
      until = clock.now() + KEPT_MS;
    }
  };
  return async () => {
    if (found && clock.now() <= until) return await found;
    until = Number.POSITIVE_INFINITY;
    found = look();
    return await found;
  };
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
};
