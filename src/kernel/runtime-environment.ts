// Packages that code tools declare. Each set of them has one folder, named after what is in it, so
// that two tools with the same list share it and a changed list never meets old files. Nothing is
// installed at load; at execute only when policy allows it or a person approved.
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { fail, type Outcome, ok } from '../base/index.ts';
import type { Runtime } from './process-config.ts';

/** Names and versions from a registry; no paths, no addresses, nothing that reads as an option. */
const SHAPES: Readonly<Record<Runtime, RegExp>> = {
  node: /^(@[a-z0-9][\w.-]*\/)?[a-z0-9][\w.-]*(@[\w.^~<>=*+-]+)?$/i,
  python:
    /^[a-z0-9][\w.-]*(\[[\w, .-]+\])?((==|>=|<=|~=|!=|<|>)[\w.*+!]+(,\s*(==|>=|<=|~=|!=|<|>)[\w.*+!]+)*)?$/i,
};

export const COMPLETE = '.complete';

/** Where a set of packages lives; undefined for none. The order of the list does not matter. */
export function environmentFolder(
  projectRoot: string,
  runtime: Runtime,
  dependencies: readonly string[],
): string | undefined {
  if (dependencies.length === 0) return undefined;
  const list = [...new Set(dependencies)].sort();
  const hash = createHash('sha256')
    .update(JSON.stringify([runtime, list]))
    .digest('hex');
  return join(projectRoot, '.ai', '.env', runtime, hash.slice(0, 16));
}

/** The commands that fill `folder`, as argument lists. */
export function installCommands(
  runtime: Runtime,
  dependencies: readonly string[],
  folder: string,
): string[][] {
  // Install scripts and source builds run code of strangers: packages that need them are refused.
  if (runtime === 'node') {
    const flags = ['--no-audit', '--no-fund', '--ignore-scripts', '--no-save', '--loglevel=error'];
    return [['npm', 'install', '--prefix', folder, ...flags, '--', ...dependencies]];
  }
  const python = join(folder, 'bin', 'python');
  const flags = ['--no-input', '--disable-pip-version-check', '--only-binary', ':all:', '--quiet'];
  return [
    ['python3', '-m', 'venv', folder],
    [python, '-m', 'pip', 'install', ...flags, '--', ...dependencies],
  ];
}

const quoted = (text: string): string =>
  /^[\w@%+=:,./~^-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;

/** What a person can paste to install by hand what `folder` needs. */
export function installLine(
  runtime: Runtime,
  dependencies: readonly string[],
  folder: string,
): string {
  const steps = installCommands(runtime, dependencies, folder).map((argv) =>
    argv.map(quoted).join(' '),
  );
  return [...steps, `touch ${quoted(join(folder, COMPLETE))}`].join(' && ');
}

export interface DependentTool {
  id: string;
  runtime: Runtime;
  dependencies: readonly string[];
}

export function badDependency(tool: DependentTool): Outcome<null> {
  const bad = tool.dependencies.find((name) => !SHAPES[tool.runtime].test(name));
  return bad === undefined
    ? ok(null)
    : fail(
        'config_invalid',
        `dependency \`${bad}\` of tool \`${tool.id}\` must be a package name with an optional version`,
        {
          config_path: 'dependencies',
        },
      );
}

/** `dependency_missing` with the exact command, unless everything the tool declares is installed. */
export function dependencyProblem(tool: DependentTool, projectRoot: string): Outcome<null> {
  const shape = badDependency(tool);
  if (!shape.ok) return shape;
  const folder = environmentFolder(projectRoot, tool.runtime, tool.dependencies);
  if (folder === undefined || existsSync(join(folder, COMPLETE))) return ok(null);
  const install = installLine(tool.runtime, tool.dependencies, folder);
  return fail(
    'dependency_missing',
    `tool \`${tool.id}\` needs ${tool.dependencies.map((name) => `\`${name}\``).join(', ')}; set \`install: allow\` in the policy, or run: ${install}`,
    { tool: tool.id, dependencies: [...tool.dependencies], install },
  );
}
