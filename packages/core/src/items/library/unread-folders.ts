// Reports folders of older layouts, which the runtime does not read. A file without effect may look as if it
// were in force, so each folder causes a warning with the current form.
import { readdirSync } from 'node:fs';
import type { Diagnostic } from '../../base/index.ts';
import { aboutFile, isFolder } from '../files/item-file.ts';
import type { Root } from '../files/root.ts';

interface UnreadFolder {
  /** Path of the folder, relative to the root. */
  readonly path: string;
  /** Files that are not read. Absent: every file. */
  readonly files?: RegExp;
  readonly hint: string;
}

const CODE = /\.(?:py|[cm]?[jt]s)$/;
const CAPABILITIES =
  'declare capabilities as data, in `config/capabilities.yaml` or `tools/capabilities/NAME.yaml`: `capabilities: [shop.read, shop.buy]`';
const PARSERS =
  'remove the folder: directives are read by the runtime, from markdown with a `<directive>` block';
const EXTRACTORS = 'remove the folder: each item declares its metadata in its own fields';

const UNREAD: readonly UnreadFolder[] = [
  { path: 'tools/capabilities', files: CODE, hint: CAPABILITIES },
  { path: 'capabilities', hint: CAPABILITIES },
  { path: 'parsers', hint: PARSERS },
  { path: 'tools/parsers', files: CODE, hint: PARSERS },
  { path: 'extractors', hint: EXTRACTORS },
  { path: 'tools/extractors', files: CODE, hint: EXTRACTORS },
  {
    path: 'primitives',
    hint: 'write a tool in `tools/` whose `executor_id` is `subprocess`, `http_client`, `node` or `python`',
  },
];

/** Returns the names of files that are not read. Code beside a YAML tool may be its module. */
function unreadIn(folder: string, { path, files }: UnreadFolder): string[] {
  if (!isFolder(folder)) return [];
  try {
    const names = readdirSync(folder).sort();
    const mayBeModules =
      path !== 'tools/capabilities' && names.some((name) => /\.ya?ml$/.test(name));
    if (files && mayBeModules) return [];
    return names.filter((name) => files?.test(name) ?? !name.startsWith('.'));
  } catch {
    return [];
  }
}

/** Returns one warning for each folder of the table with content. */
export const unreadFolders = ({ dir }: Pick<Root, 'dir'>): Diagnostic[] =>
  UNREAD.flatMap((unread) => {
    const names = unreadIn(`${dir}/${unread.path}`, unread);
    const [first] = names;
    if (first === undefined) return [];
    const rest = names.length > 1 ? ` and ${names.length - 1} more` : '';
    const message = `\`${unread.path}/${first}\`${rest} is not read and has no effect`;
    const { hint } = unread;
    return [
      aboutFile(`${dir}/${unread.path}/${first}`, 'not_read', message, {
        severity: 'warning',
        hint,
      }),
    ];
  });
