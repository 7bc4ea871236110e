// Reports about a project, as data: commands print them, and the page shows them.
export type { Explained } from './call-story.ts';
export type { CostFigures, CostSum } from './cost.ts';
export type { HealthReport } from './health.ts';
export type { PolicyReport } from './policy.ts';

/** Each function loads the code of one report. */
export const reports = {
  async cost() {
    const { costReport } = await import('./cost.ts');
    return { costReport };
  },
  async explain() {
    const { explainItem } = await import('./explain.ts');
    return { explainItem };
  },
  async health() {
    const { healthReport } = await import('./health.ts');
    return { healthReport };
  },
  async policy() {
    const { policyReport } = await import('./policy.ts');
    return { policyReport };
  },
  async provenance() {
    const { explainRefusal, isRefused } = await import('./provenance.ts');
    return { explainRefusal, isRefused };
  },
  async whatRan() {
    const { explainThread } = await import('./what-ran.ts');
    return { explainThread };
  },
};
