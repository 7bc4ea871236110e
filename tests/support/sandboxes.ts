// Tries every sandbox that this system can have.
import type { SandboxReport } from '../../packages/core/src/kernel/sandbox/plan.ts';
import { probeSandbox } from '../../packages/core/src/kernel/sandbox/probe.ts';

interface Candidate {
  /** Name of the sandbox, with the reason if its cases are skipped. */
  name: string;
  report: SandboxReport;
}

const candidate = (kind: string, report: SandboxReport): Candidate => ({
  name: report.kind === 'none' ? `in ${kind} (skipped: ${report.reason})` : `in ${kind}`,
  report,
});

const found = async (): Promise<Candidate[]> => {
  if (process.platform !== 'linux') return [candidate('the sandbox', await probeSandbox())];
  const kinds = ['bwrap', 'util-linux'] as const;
  return await Promise.all(
    kinds.map(async (kind) => candidate(kind, await probeSandbox({ kinds: [kind] }))),
  );
};

export const sandboxes: readonly Candidate[] = await found();

/** Sandboxes that work here, for `describe.each`. */
export const working: readonly [string, SandboxReport][] = sandboxes
  .filter(({ report }) => report.kind !== 'none')
  .map(({ name, report }) => [name, report]);
