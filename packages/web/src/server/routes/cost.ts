// `GET cost`, `audit` and `policy`: output of the commands with these names, for the page and for programs.
import { compact, fail, type Outcome, ok } from '@kernmantle/core/base';
import type { AuditFilter } from '@kernmantle/core/kernel';
import { type CostFigures, reports } from '@kernmantle/core/reports';
import type { Context } from 'hono';
import type { CostGroup, CostReport } from '../../model/api.ts';
import { answer } from '../answer.ts';
import type { AddRoutes, ApiEnv, WebParts } from '../context.ts';
import { needs } from '../roles.ts';

const UNITS: Readonly<Record<string, number>> = { m: 60_000, h: 3_600_000, d: 86_400_000 };
const DECISIONS: readonly string[] = ['allowed', 'denied', 'failed'];
const MAX_ROWS = 500;
const MAX_WORD = 200;

/** Reads `30d`, `12h`, or milliseconds since 1970. Returns the time in milliseconds since 1970. */
function sinceOf(text: string, now: number): Outcome<number> {
  const [, amount = '', unit] = /^(\d{1,15})([mhd])?$/.exec(text) ?? [];
  if (amount === '' || (unit !== undefined && amount.length > 6)) {
    return fail(
      'invalid_input',
      '`since` must be an age such as 30d or 12h, or milliseconds since 1970',
    );
  }
  return ok(unit === undefined ? Number(amount) : now - Number(amount) * (UNITS[unit] ?? 0));
}

const groupOf = (name: string, sum: CostFigures['total']): CostGroup => {
  const { threads, tokens, spend, denied, at_limit, requests, input, cached, output } = sum;
  const figures = { threads, tokens, spend, denied, at_limit, requests, input, cached, output };
  const { summaries, estimated } = sum;
  return { name, ...figures, ...(summaries && { summaries }), ...(estimated && { estimated }) };
};

/** Converts the figures to a report: every group has a `name`. */
const asReport = (figures: CostFigures): CostReport => ({
  currency: figures.currency,
  since: figures.since,
  total: groupOf('total', figures.total),
  by_directive: figures.by_directive.map((group) => ({
    ...groupOf(group.directive, group),
    ...(group.kind && { kind: group.kind }),
  })),
  by_model: figures.by_model.map((group) => ({
    ...groupOf(group.model, group),
    ...(group.price_row !== undefined && { price_row: group.price_row }),
  })),
  by_day: figures.by_day.map((group) => ({ ...groupOf(group.day, group), models: group.models })),
});

async function readCost(
  { runtime, store, clock }: WebParts,
  text: string,
): Promise<Outcome<CostReport>> {
  const since = sinceOf(text, clock.now());
  if (!since.ok) return since;
  const { costReport } = await reports.cost();
  const opened = await store();
  // Without a store the report is empty, not an error.
  if (!opened.ok && opened.error.code !== 'not_found') return opened;
  const figures = await costReport(runtime, opened.ok ? opened.output : undefined, since.output);
  return figures.ok ? ok(asReport(figures.output)) : figures;
}

function auditFilter({ req }: Context<ApiEnv>, now: number): Outcome<AuditFilter> {
  const { limit = '100', decision, since, surface, thread, tool } = req.query();
  if (!/^\d{1,3}$/.test(limit) || Number(limit) < 1 || Number(limit) > MAX_ROWS) {
    return fail('invalid_input', `\`limit\` must be a number from 1 to ${MAX_ROWS}`);
  }
  if (decision !== undefined && !DECISIONS.includes(decision)) {
    return fail('invalid_input', `\`decision\` must be one of ${DECISIONS.join(', ')}`);
  }
  if ([surface, thread, tool].some((word) => (word ?? '').length > MAX_WORD)) {
    return fail(
      'invalid_input',
      `\`surface\`, \`thread\` and \`tool\` can have at most ${MAX_WORD} characters`,
    );
  }
  const time = since === undefined ? ok(undefined) : sinceOf(since, now);
  if (!time.ok) return time;
  return ok(
    compact<AuditFilter>({
      limit: Number(limit),
      decision: decision as AuditFilter['decision'] | undefined,
      surface,
      thread,
      tool,
      since: time.output === undefined ? undefined : new Date(time.output).toISOString(),
    }),
  );
}

export const addCostRoutes: AddRoutes = (api, parts) => {
  const { runtime, clock } = parts;
  api.get('/cost', needs('view'), async (context) =>
    answer(context, await readCost(parts, context.req.query('since') ?? '30d')),
  );
  api.get('/audit', needs('view'), async (context) => {
    const filter = auditFilter(context, clock.now());
    return answer(context, filter.ok ? await runtime.audit.read(filter.output) : filter);
  });
  api.get('/policy', needs('view'), async (context) => {
    const { policyReport } = await reports.policy();
    return answer(context, policyReport(runtime, context.req.query('directive')));
  });
};
