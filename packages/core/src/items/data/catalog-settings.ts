// Reads and writes `.ai/config/catalogs.yaml`, the list of catalogs. A project may list catalogs, but no
// catalog is fetched until a person requests it.
import {
  asJson,
  compact,
  type Diagnostic,
  formatYaml,
  isObject,
  jsonEqual,
  listOf,
  type Outcome,
  oneOf,
  openYaml,
  parseYaml,
  type Rule,
  record,
  text,
  textLike,
  uniqueBy,
} from '../../base/index.ts';
import { aboutFile, putFile, readInside, realOf } from '../files/item-file.ts';

type CatalogType = 'folder' | 'git' | 'npm';
const CATALOG_TYPES: readonly CatalogType[] = ['folder', 'git', 'npm'];

export interface CatalogEntry {
  name: string;
  type: CatalogType;
  /** A path, an address or a package name. Empty for npm: every package with the keyword. */
  location: string;
  /** Branch or tag of a git repository. Absent: its default branch. */
  ref?: string;
}

const NAME = /^[a-z0-9][a-z0-9_-]{0,63}$/;
/** Forms of valid locations. Options (`-x`) and helpers that run commands (`ext::sh`) are refused. */
const LOCATIONS: Readonly<Record<CatalogType, readonly [form: RegExp, what: string]>> = {
  folder: [/^[^-\0][^\0]{0,1000}$/, 'the path of a folder'],
  git: [
    /^(?:https:\/\/|ssh:\/\/|file:\/\/\/|git@[A-Za-z0-9.-]+:|\/|\.{1,2}\/)[^\0\s]{1,1000}$/,
    'an https, ssh or file address, or a path',
  ],
  npm: [
    /^(?:(?:@[a-z0-9~-][a-z0-9._~-]*\/)?[a-z0-9~][a-z0-9._~-]*(?:@[A-Za-z0-9][A-Za-z0-9.^~-]*)?)?$/,
    'the name of a package',
  ],
};

const fields = record(
  {
    name: textLike(NAME, 'a name of small letters, digits, `_` and `-`'),
    type: oneOf(CATALOG_TYPES),
    location: text,
    ref: textLike(/^[A-Za-z0-9][A-Za-z0-9._/-]{0,200}$/, 'a branch or tag'),
  },
  { required: ['name', 'type'] },
);

const entry: Rule<CatalogEntry> = (value, place) => {
  const read = fields(value, place);
  if (read?.name === undefined || read.type === undefined) return undefined;
  const { name, type, location = '', ref } = read;
  const [form, what] = LOCATIONS[type];
  if (!form.test(location)) {
    const message = `the \`location\` of a ${type} catalog must be ${what}`;
    return place.child('location').report({ code: 'invalid_field', message });
  }
  return compact<CatalogEntry>({ name, type, location, ref });
};

const file = record({ catalogs: uniqueBy(listOf(entry, 100), ({ name }) => name, 'catalog') });

const PATH = 'config/catalogs.yaml';

interface CatalogSettings {
  entries: CatalogEntry[];
  diagnostics: Diagnostic[];
  file: string;
}

/** Returns the entries of a root (`.ai` or the user's folder). Never throws. */
export function readCatalogSettings(root: string): CatalogSettings {
  const displayPath = `${root}/${PATH}`;
  const read = readInside(realOf(root), PATH);
  if (read === undefined) return { entries: [], diagnostics: [], file: displayPath };
  if ('text' in read) return parseCatalogSettings(read.text, displayPath);
  const { code, message } = read.problem;
  return { entries: [], diagnostics: [aboutFile(displayPath, code, message)], file: displayPath };
}

function parseCatalogSettings(content: string, displayPath: string): CatalogSettings {
  const { value, place, diagnostics } = openYaml(content, displayPath);
  const isReadable = value !== null && diagnostics.length === 0;
  const entries = isReadable ? (file(value, place)?.catalogs ?? []) : [];
  return { entries, diagnostics, file: displayPath };
}

/** Returns the problem of an entry that a person typed. Undefined for a valid one. */
export function entryProblem(entry: CatalogEntry): string | undefined {
  const content = formatYaml({ catalogs: [asJson(entry)] });
  return parseCatalogSettings(content, '').diagnostics[0]?.message;
}

const block = (entry: CatalogEntry): string => formatYaml([{ ...entry }]).replace(/^(?=.)/gm, '  ');

/** Writes other entries to the settings. Comments stay if an entry is only added at the end. */
export function writeCatalogSettings(
  root: string,
  entries: readonly CatalogEntry[],
): Outcome<null> {
  const read = readInside(realOf(root), PATH);
  const before = read && 'text' in read ? read.text : '';
  const settings = { catalogs: entries.map((one) => asJson(one)) };
  const last = entries.at(-1);
  const appended = last ? `${before.trimEnd()}\n${block(last)}` : '';
  const parsed = parseYaml(appended);
  const isFit =
    parsed.problems.length === 0 && isObject(parsed.value) && jsonEqual(parsed.value, settings);
  return putFile(`${root}/${PATH}`, isFit ? appended : formatYaml(settings), false);
}
