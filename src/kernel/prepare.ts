// Declared dependencies of code tools: installed at first execute, never at load, and only when the
// policy says so. Otherwise the answer is the command that would do it.
import { getOwn, type Outcome, ok } from '../base/index.ts';
import type { Plan } from './chain.ts';
import type { InstallPorts } from './runtime-install.ts';

export async function prepareDependencies(
  plan: Plan,
  projectRoot: string,
  install: 'allow' | 'ask' | 'deny',
  ports: InstallPorts,
): Promise<Outcome<null>> {
  const dependencies = plan.links.flatMap((link) => link.tool?.dependencies ?? []);
  const runtime = getOwn(plan.config, 'runtime');
  if (dependencies.length === 0 || (runtime !== 'node' && runtime !== 'python')) return ok(null);
  const tool = { id: plan.leaf.id, runtime, dependencies } as const;
  const { dependencyProblem } = await import('./runtime-environment.ts');
  const missing = dependencyProblem(tool, projectRoot);
  if (missing.ok || install !== 'allow') return missing;
  const { installDependencies } = await import('./runtime-install.ts');
  return await installDependencies(tool, projectRoot, ports);
}
