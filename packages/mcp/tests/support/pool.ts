// A project with servers, and a pool with real ports, for tests.
import { cpSync, existsSync, mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { systemClock } from '@kernmantle/core/base';
import { createLabelRecords, EMPTY } from '@kernmantle/core/flow';
import type { SandboxReport } from '@kernmantle/core/kernel';
import {
  holdsEverything,
  makeProject,
  portsOf,
  type TestProject,
} from '@kernmantle/test-support/processes';
import { working } from '@kernmantle/test-support/sandboxes';
import type { Verifier } from '../../../core/src/kernel/primitive.ts';
import { createMcpPool } from '../../src/client/create-pool.ts';
import type { PoolCall, StdioEndpoint } from '../../src/client/pool.ts';
import type { McpPoolPorts } from '../../src/client/ports.ts';

export const sandbox: SandboxReport = working[0]?.[1] ?? { kind: 'none' };

/** Copies packages with all their dependencies, like an installation. */
export function install(project: TestProject, ...names: string[]): void {
  const seen = new Set<string>();
  for (let name = names.pop(); name !== undefined; name = names.pop()) {
    const from = join('node_modules', name);
    if (seen.has(name) || !existsSync(join(from, 'package.json'))) continue;
    seen.add(name);
    const to = join(project.root, from);
    mkdirSync(to, { recursive: true });
    cpSync(from, to, { recursive: true });
    const { dependencies = {}, peerDependencies = {} } = JSON.parse(
      readFileSync(join(from, 'package.json'), 'utf8'),
    ) as Record<string, Record<string, string>>;
    names.push(...Object.keys(dependencies), ...Object.keys(peerDependencies));
  }
}

export function poolOf(project: TestProject, more: Partial<McpPoolPorts> = {}) {
  const labels = createLabelRecords(join(project.home, 'labels.jsonl'), project.root);
  const verify: Verifier = Object.assign((need: Parameters<Verifier>[0]) => holdsEverything(need), {
    globs: () => [],
  });
  const ports: McpPoolPorts = {
    clock: systemClock,
    client: { name: 'kernmantle', version: '0.0.0' },
    projectRoot: project.root,
    home: join(project.home, '.ai'),
    process: async () => portsOf(project, sandbox),
    verify: () => verify,
    isHostAllowed: () => true,
    labels,
    namedFolders: () => [],
    ...more,
  };
  return { pool: createMcpPool(ports), labels, ports };
}

export const callWith = (more: Partial<PoolCall> = {}): PoolCall => ({
  signal: new AbortController().signal,
  timeoutMs: 20_000,
  given: EMPTY,
  secrets: [],
  ...more,
});

export const nodeServer = (
  script: string,
  args: readonly string[] = [],
  more: Partial<StdioEndpoint> = {},
): StdioEndpoint => ({
  kind: 'stdio',
  command: process.execPath,
  args: [script, ...args],
  env: {},
  grants: { read: ['**'], write: [], network: false },
  ...more,
});

export { makeProject, type TestProject };
