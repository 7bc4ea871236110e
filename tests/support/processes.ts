// Creates a project in a temporary folder and calls into it.
import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fail, type JsonObject, matchGlob, ok, systemClock } from '@kernmantle/core/base';
import type { PrimitiveCall, Verifier } from '../../packages/core/src/kernel/primitive.ts';
import type { ProcessPorts } from '../../packages/core/src/kernel/process/environment.ts';
import type { SandboxReport } from '../../packages/core/src/kernel/sandbox/plan.ts';
import { timeoutMs } from './soak.ts';

export interface TestProject {
  /** Real path of a folder that contains `project` and `home`. */
  base: string;
  root: string;
  home: string;
  write(path: string, text: string): string;
  remove(): void;
}

export function makeProject(files: Readonly<Record<string, string>> = {}): TestProject {
  const base = realpathSync.native(mkdtempSync(join(tmpdir(), 'km-process-')));
  const [root, home] = [join(base, 'project'), join(base, 'home')];
  mkdirSync(join(root, '.ai', 'tools'), { recursive: true });
  mkdirSync(home);
  const write = (path: string, text: string): string => {
    const file = join(root, path);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, text);
    return file;
  };
  for (const [path, text] of Object.entries(files)) write(path, text);
  return { base, root, home, write, remove: () => rmSync(base, { recursive: true, force: true }) };
}

/** Returns a verifier for grants, written as `name` or `name path-or-host-glob`. */
export function verifierOf(...grants: readonly string[]): Verifier {
  return ({ capability, scope }) => {
    const held = grants.some((grant) => {
      const [name, glob] = grant.split(' ');
      const value = scope?.path ?? scope?.host;
      // A grant to write also grants to read.
      const isNamed = name === capability || (name === 'fs.write' && capability === 'fs.read');
      return isNamed && (value === undefined || glob === undefined || matchGlob(glob, value));
    });
    return held
      ? ok(null)
      : fail('permission_denied', `\`${capability}\` is not held`, { missing: capability });
  };
}

export const holdsEverything: Verifier = () => ok(null);

export function portsOf(
  project: TestProject,
  sandbox: SandboxReport,
  more: Partial<ProcessPorts> = {},
): ProcessPorts {
  return {
    clock: systemClock,
    env: { PATH: process.env.PATH, HOME: project.home, LANG: 'C.UTF-8', CANARY: 'tweet-tweet' },
    sandbox,
    policySandbox: sandbox.kind === 'none' ? 'none' : 'required',
    outputDir: () => join(project.base, 'output'),
    aside: join(project.base, 'aside'),
    hidden: [more.env?.KERNMANTLE_HOME ?? join(project.home, '.ai')],
    install: 'deny',
    ...more,
  };
}

type CallParts = Partial<Omit<PrimitiveCall, 'tool'>> & { tool?: Partial<PrimitiveCall['tool']> };

export function callOf(
  project: TestProject,
  config: JsonObject,
  more: CallParts = {},
): PrimitiveCall {
  const { tool, ...rest } = more;
  return {
    tool: {
      id: 'demo/tool',
      dir: join(project.root, '.ai', 'tools'),
      source: 'project',
      requires: ['process.spawn'],
      effect: 'write',
      sandbox: 'workspace',
      env: [],
      ...tool,
    },
    config,
    parameters: {},
    sinks: [],
    verify: holdsEverything,
    signal: new AbortController().signal,
    projectRoot: project.root,
    timeoutMs: 20_000,
    secrets: [],
    ...rest,
  };
}

export const shell = (script: string): JsonObject => ({ shell: 'bash', script });

/** True if no process with this id is alive. A zombie is not alive. */
export async function isGone(pid: number): Promise<boolean> {
  const { readFileSync } = await import('node:fs');
  const state = () => {
    try {
      return /^State:\s+(\w)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1];
    } catch {
      return undefined;
    }
  };
  for (const end = performance.now() + timeoutMs(5000); performance.now() < end; ) {
    const found = state();
    if (found === undefined || found === 'Z') return true;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  return false;
}
