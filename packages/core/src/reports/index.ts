// Creates reports about a project, as data. Commands print them, and the page shows them.

/** Each function loads the code of one report. */
export const reports = {
  async cost() {
    const { costReport } = await import('./cost-report.ts');
    return { costReport };
  },
  async explain() {
    const { explainItem } = await import('./item-report.ts');
    return { explainItem };
  },
  async health() {
    const { healthReport } = await import('./health-report.ts');
    return { healthReport };
  },
  async policy() {
    const { policyReport } = await import('./policy-report.ts');
    return { policyReport };
  },
  async provenance() {
    const { explainRefusal, isRefused } = await import('./provenance-report.ts');
    return { explainRefusal, isRefused };
  },
  async whatRan() {
    const { explainThread } = await import('./run-report.ts');
    return { explainThread };
  },
};
export type { Explained } from './call-report.ts';
export type { CostFigures, CostSum } from './cost-report.ts';
export type { HealthReport } from './health-report.ts';
export type { PolicyReport } from './policy-report.ts';
export { ofScriptFault } from './provenance-report.ts';
