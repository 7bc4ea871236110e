// The reports by name. Most of them need rooms that are slow to load, so nobody loads one that is not
// asked for.

/** What commands print and pages show, as data; the code of each is loaded when it is asked for. */
export const reports = {
  cost: () => import('./cost.ts'),
  explain: () => import('./explain.ts'),
  health: () => import('./health.ts'),
  policy: () => import('./policy.ts'),
  provenance: () => import('./provenance.ts'),
  scriptRun: () => import('./script-run.ts'),
  whatRan: () => import('./what-ran.ts'),
};
