// Finds the file and the arguments that a config describes. Starts nothing.
import { realpathSync } from 'node:fs';
import { isAbsolute, join, relative, sep } from 'node:path';
import { fail, isInside, type Outcome, ok } from '../../base/index.ts';
import type { PrimitiveCall } from '../primitive.ts';
import { resolveProjectPath } from '../rights/project-path.ts';
import { isExecutable } from '../sandbox/visible.ts';
import type { ProcessConfig } from './config.ts';
import { environmentFolder } from './dependencies.ts';
import { moduleCommand } from './module.ts';

export interface FoundProgram {
  file: string;
  args: readonly string[];
  /** Path relative to the project's root, if the program is a file of the project. */
  inProject: string | undefined;
  /** Paths that the child can always read: the program or module itself and its installed packages. */
  shown: readonly string[];
}

/** Looks up a bare name on the path and a relative path in the project. Does not search elsewhere. */
function findFile(command: string, path: readonly string[], projectRoot: string): Outcome<string> {
  const missing = (where: string) =>
    fail('dependency_missing', `program \`${command}\` not found ${where}`, { command });
  if (!command.includes('/')) {
    const found = path.map((folder) => join(folder, command)).find(isExecutable);
    return found === undefined
      ? missing('on the PATH; install it, or name its full path')
      : ok(found);
  }
  if (isAbsolute(command) && !isInside(command, projectRoot)) {
    return isExecutable(command) ? ok(command) : missing('at this path, or not executable');
  }
  const inside = resolveProjectPath(projectRoot, command);
  if (!inside.ok) return inside;
  return isExecutable(inside.output.absolute)
    ? ok(inside.output.absolute)
    : missing('in the project, or not executable');
}

const SHELL_FLAGS: Readonly<Record<string, readonly string[]>> = {
  bash: ['--noprofile', '--norc'],
  zsh: ['-f'],
};

/** Returns the program of a config. `path`: folders for bare names, in the order of the search. */
export function findProgram(
  { tool, projectRoot }: Pick<PrimitiveCall, 'tool' | 'projectRoot'>,
  { program, dependencies }: ProcessConfig,
  path: readonly string[],
  isSink: boolean,
): Outcome<FoundProgram> {
  if (program.kind === 'module') {
    const environment = environmentFolder(projectRoot, program.runtime, dependencies);
    const command = moduleCommand(tool, program, projectRoot, { environment, isSink });
    if (!command.ok) return command;
    const { interpreter, args, shown: readable } = command.output;
    // The interpreter comes from the path or the project's own environment; no caller names it.
    const found = isAbsolute(interpreter)
      ? ok(interpreter)
      : findFile(interpreter, path, projectRoot);
    const all = environment === undefined ? readable : [...readable, environment];
    return found.ok ? ok({ file: found.output, args, inProject: undefined, shown: all }) : found;
  }
  const name = program.kind === 'shell' ? program.shell : program.command;
  const file = findFile(name, path, projectRoot);
  if (!file.ok) return file;
  // The real path counts: a link outside may lead into the project.
  const real = realpathSync.native(file.output);
  const inProject = isInside(real, projectRoot)
    ? relative(projectRoot, real).split(sep).join('/')
    : undefined;
  const args =
    program.kind === 'shell'
      ? [...(SHELL_FLAGS[program.shell] ?? []), '-c', program.script, program.shell]
      : [];
  const readable = inProject === undefined ? [] : [real];
  return ok({ file: file.output, args: [...args, ...program.args], inProject, shown: readable });
}
