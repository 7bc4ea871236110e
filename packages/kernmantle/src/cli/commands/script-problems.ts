// Finds mistakes in the scripts inside items and reports them at their location in the file of the
// item. The check of items cannot do this, because core does not depend on the script language.
import { resolve, sep } from 'node:path';
import { type Diagnostic, parseYaml, readRegularFile } from '@kernmantle/core/base';
import { type Item, type Library, parseDirective, type ToolItem } from '@kernmantle/core/items';

/** Maximum size of a script. No person writes a larger one. */
const MAX_SCRIPT_BYTES = 8 * 1024 * 1024;

export const readScript = (file: string): ReturnType<typeof readRegularFile> =>
  readRegularFile(file, { max: MAX_SCRIPT_BYTES, followsLinks: true });

export const textIfReadable = (file: string): string | undefined => {
  const read = readScript(file);
  return 'bytes' in read ? read.bytes.toString('utf8') : undefined;
};

interface Origin {
  file: string;
  /** Line of the first character of the script. */
  line: number;
  column: number;
  /** True if the file contains the text unchanged, line by line. */
  isVerbatim: boolean;
}

/** Translates the location of a problem from the script to its file. */
function moved(problem: Diagnostic, { file, line, column, isVerbatim }: Origin): Diagnostic {
  if (!isVerbatim) return { ...problem, file, line, column };
  const text = problem.text === undefined ? {} : { text: ' '.repeat(column - 1) + problem.text };
  const at = { line: problem.line + line - 1, column: problem.column + column - 1 };
  return { ...problem, file, ...at, ...text };
}

/** Location of the text of `config.script`. A literal block contains it line by line. */
function originInYaml(file: string, text: string): Origin {
  const at = parseYaml(text).locate(['config', 'script'], 'value');
  const lines = text.split('\n');
  const isLiteral = /\|[-+\d]*\s*(#.*)?$/.test((lines[at.line - 1] ?? '').slice(at.column - 1));
  if (!isLiteral) return { file, ...at, isVerbatim: false };
  const first = lines.slice(at.line).find((line) => line.trim() !== '') ?? '';
  const column = first.length - first.trimStart().length + 1;
  return { file, line: at.line + 1, column, isVerbatim: true };
}

/** A script and its location in a file. */
interface EmbeddedScript {
  text: string;
  mode: 'strict' | 'markdown';
  origin: Origin;
  /** The item whose inputs are variables of the script. */
  item: DirectiveForm | ToolItem;
}

export type DirectiveForm = NonNullable<ReturnType<typeof parseDirective>['directive']>;

function inDirective(directive: DirectiveForm | undefined, file: string): EmbeddedScript[] {
  const script = directive?.process.script;
  if (!script || script.text === '') return [];
  const { text, line, column } = script;
  const origin = { file, line, column, isVerbatim: true };
  return [{ text, mode: 'strict', origin, item: directive }];
}

function inTool(item: ToolItem, library: Library): EmbeddedScript[] {
  const { tool, file } = item;
  const chain = tool && library.chainOf(item);
  if (!tool || !chain?.ok || chain.output.primitive !== 'script') return [];
  const { script, module } = tool.config;
  if (typeof script === 'string') {
    const origin = originInYaml(file, textIfReadable(file) ?? '');
    return [{ text: script, mode: 'strict', origin, item }];
  }
  const beside = typeof module === 'string' ? resolve(file, '..', module) : '';
  const text = beside === '' ? undefined : textIfReadable(beside);
  if (text === undefined) return [];
  const mode = beside.endsWith('.md') ? 'markdown' : 'strict';
  return [{ text, mode, origin: { file: beside, line: 1, column: 1, isVerbatim: true }, item }];
}

export const isBelow = (file: string, path: string): boolean =>
  file === path || file.startsWith(`${path}${sep}`);

/** Matches items at or below these paths, or all of the project and the user without paths. */
export const isSelected =
  (paths: readonly string[]) =>
  ({ file, source }: Item): boolean =>
    paths.length === 0
      ? source === 'project' || source === 'user'
      : paths.some((path) => isBelow(resolve(file), path));

/** Returns problems in scripts of the selected items, and of directive files outside of item folders. */
export async function scriptProblems(
  library: Library,
  paths: readonly string[],
): Promise<Diagnostic[]> {
  const items = library.all().filter(isSelected(paths));
  const loose = paths.filter(
    (path) => path.endsWith('.md') && !items.some(({ file }) => resolve(file) === path),
  );
  const scripts = [
    ...items.flatMap((item) => {
      if (item.kind === 'directive') return inDirective(item.directive, item.file);
      return item.kind === 'tool' ? inTool(item, library) : [];
    }),
    ...loose.flatMap((file) =>
      inDirective(parseDirective(textIfReadable(file) ?? '', file).directive, file),
    ),
  ];
  if (scripts.length === 0) return [];
  const { diagnose } = await import('@kernmantle/script');
  const { inputNames } = await import('@kernmantle/script');
  return scripts.flatMap(({ text, mode, origin, item }) =>
    diagnose(text, origin.file, mode, { inputs: inputNames(item, library) }).map((found) =>
      moved(found, origin),
    ),
  );
}
