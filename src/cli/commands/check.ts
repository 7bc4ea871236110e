import { existsSync } from 'node:fs';
import { relative, resolve } from 'node:path';
import { type Diagnostic, fail, hasErrors } from '../../base/index.ts';
import { checkPath, projectOf } from '../../items/index.ts';
import type { Runtime } from '../../runtime.ts';
import { scriptProblems } from '../check-scripts.ts';
import { asList, asText, type CommandRun, EXIT } from '../command.ts';
import { withRuntime } from '../project.ts';
import { checkScriptFiles, divide } from '../script-files.ts';

/** Paths as a person would type them, seen from where they stand. */
const shorten = (diagnostic: Diagnostic, cwd: string): Diagnostic => {
  const short = relative(cwd, diagnostic.file);
  return { ...diagnostic, file: short === '' || short.startsWith('..') ? diagnostic.file : short };
};

const order = (a: Diagnostic, b: Diagnostic): number =>
  a.file < b.file ? -1 : a.file > b.file ? 1 : a.line - b.line || a.column - b.column;

/** A script may be checked as a file and as part of the tool that names it. */
function once(list: readonly Diagnostic[]): Diagnostic[] {
  const keyOf = ({ file, line, column, code, message }: Diagnostic): string =>
    JSON.stringify([file, line, column, code, message]);
  return [...new Map(list.map((one) => [keyOf(one), one])).values()];
}

/** Which prices of the project do not count. */
async function priceProblems(runtime: Runtime, paths: readonly string[]): Promise<Diagnostic[]> {
  const { layers } = runtime.library.config('pricing');
  if (!layers.some(({ source }) => source === 'project')) return [];
  const { uncountedPrices } = await import('../../llm/index.ts');
  const allowsLower = runtime.policies().policy.allowsLowerPrices;
  const isAsked = ({ file }: Diagnostic): boolean =>
    paths.length === 0 || paths.some((path) => file === path || file.startsWith(`${path}/`));
  return uncountedPrices(layers, { allowsLower }).filter(isAsked);
}

export const run: CommandRun = (call) => {
  const { terminal } = call;
  const paths = asList(call.args[0]).map((path) => resolve(terminal.cwd, path));
  const missing = paths.find((path) => !existsSync(path));
  if (missing !== undefined) {
    return Promise.resolve(
      terminal.finish(fail('not_found', `there is no file or folder \`${missing}\``), () => {}),
    );
  }
  // A file is checked among the items of the project it lies in, wherever one stands.
  const [first = terminal.cwd] = paths;
  const project = asText(call.options.project) ?? projectOf(first);
  const more = project === undefined ? {} : { project };
  const work = async (runtime: Runtime): Promise<number> => {
    const { library } = runtime;
    const isItem = (path: string): boolean =>
      library.all().some(({ file }) => resolve(file) === path);
    const { scripts, others } = divide(paths, isItem);
    const found =
      paths.length === 0
        ? library.check({ sources: ['project', 'user'] })
        : others.flatMap((path) => checkPath(path, library));
    const inScripts = [
      ...(paths.length === 0 || others.length > 0 ? await scriptProblems(library, others) : []),
      ...(await checkScriptFiles(scripts)),
    ];
    const list = once([...found, ...inScripts, ...(await priceProblems(runtime, paths))])
      .map((diagnostic) => shorten(diagnostic, terminal.cwd))
      .sort(order);
    if (terminal.json) terminal.out(JSON.stringify(list));
    else {
      terminal.diagnostics(list);
      const errors = list.filter(({ severity }) => severity === 'error').length;
      const warnings = list.filter(({ severity }) => severity === 'warning').length;
      terminal.note(
        errors + warnings === 0 ? 'no problems' : `${errors} errors, ${warnings} warnings`,
      );
    }
    return hasErrors(list) ? EXIT.invalid : EXIT.done;
  };
  return withRuntime(call, work, more);
};
