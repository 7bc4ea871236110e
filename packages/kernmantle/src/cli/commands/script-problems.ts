// Finds mistakes in the scripts inside items, and reports them at their location in the file of the item. Items
// cannot check them, because the language is above items.
import { resolve, sep } from 'node:path';
import { type Diagnostic, parseYaml, readRegularFile } from '@kernmantle/core/base';
import { type Item, type Library, parseDirective, type ToolItem } from '@kernmantle/core/items';

/** Longer than any script that somebody wrote. */
const MAX_SCRIPT_BYTES = 8 * 1024 * 1024;

export const readScript = (file: string): ReturnType<typeof readRegularFile> =>
  readRegularFile(file, { max: MAX_SCRIPT_BYTES, followsLinks: true });

export const textIfReadable = (file: string): string | undefined => {
  const read = readScript(file);
  return 'bytes' in read ? read.bytes.toString('utf8') : undefined;
};

interface Origin {
  file: string;
  /** Of the first character of the script. */
  line: number;
  column: number;
  /** Is the text in the file as it is, line by line? */
  isVerbatim: boolean;
}

/** The same problem, seen from the file around the script. */
function moved(found: Diagnostic, { file, line, column, isVerbatim }: Origin): Diagnostic {
  if (!isVerbatim) return { ...found, file, line, column };
  const text = found.text === undefined ? {} : { text: ' '.repeat(column - 1) + found.text };
  const at = { line: found.line + line - 1, column: found.column + column - 1 };
  return { ...found, file, ...at, ...text };
}

/** Where the text of `config.script` begins: a literal block has it line by line. */
function originInYaml(file: string, text: string): Origin {
  const at = parseYaml(text).locate(['config', 'script'], 'value');
  const lines = text.split('\n');
  const isLiteral = /\|[-+\d]*\s*(#.*)?$/.test((lines[at.line - 1] ?? '').slice(at.column - 1));
  if (!isLiteral) return { file, ...at, isVerbatim: false };
  const first = lines.slice(at.line).find((line) => line.trim() !== '') ?? '';
  const column = first.length - first.trimStart().length + 1;
  return { file, line: at.line + 1, column, isVerbatim: true };
}

/** A script and where it stands. */
interface HeldScript {
  text: string;
  mode: 'strict' | 'markdown';
  origin: Origin;
  /** Who gives it variables. */
  item: DirectiveForm | ToolItem;
}

export type DirectiveForm = NonNullable<ReturnType<typeof parseDirective>['directive']>;

function inDirective(directive: DirectiveForm | undefined, file: string): HeldScript[] {
  const script = directive?.process.script;
  if (!script || script.text === '') return [];
  const { text, line, column } = script;
  const origin = { file, line, column, isVerbatim: true };
  return [{ text, mode: 'strict', origin, item: directive }];
}

function inTool(item: ToolItem, library: Library): HeldScript[] {
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

/** Items of the project and the user, or those at these paths. */
export const isAskedOf =
  (paths: readonly string[]) =>
  ({ file, source }: Item): boolean =>
    paths.length === 0
      ? source === 'project' || source === 'user'
      : paths.some((path) => isBelow(resolve(file), path));

/** Those; and a directive that lies elsewhere. */
export async function scriptProblems(
  library: Library,
  paths: readonly string[],
): Promise<Diagnostic[]> {
  const items = library.all().filter(isAskedOf(paths));
  const loose = paths.filter(
    (path) => path.endsWith('.md') && !items.some(({ file }) => resolve(file) === path),
  );
  const held = [
    ...items.flatMap((item) => {
      if (item.kind === 'directive') return inDirective(item.directive, item.file);
      return item.kind === 'tool' ? inTool(item, library) : [];
    }),
    ...loose.flatMap((file) =>
      inDirective(parseDirective(textIfReadable(file) ?? '', file).directive, file),
    ),
  ];
  if (held.length === 0) return [];
  const { diagnose } = await import('@kernmantle/script');
  const { inputNames } = await import('@kernmantle/script');
  return held.flatMap(({ text, mode, origin, item }) =>
    diagnose(text, origin.file, mode, { inputs: inputNames(item, library) }).map((found) =>
      moved(found, origin),
    ),
  );
}
