// Decides which files under a root are items, and their ids. Pure functions of paths.
import { type ItemKind, PLACES } from '../item-kinds.ts';

export interface ItemPlace {
  kind: ItemKind;
  id: string;
}

/** The folders under a root that contain items. */
export const ITEM_FOLDERS = ['directives', 'tools', 'knowledge', 'skills'] as const;

/** Data files in the folder of tools. They are read as data and never count as tools. */
const DATA_IN_TOOLS = /^tools\/(llm\/pricing|capabilities\/[^/]+|mcp\/([^/]+\/)*mapping)\.ya?ml$/;

const withoutExtension = (path: string): string => path.replace(/\.[^./]+$/, '');

function skillId(path: string): string | undefined {
  if (!/(^|\/)SKILL\.md$/.test(path)) return undefined;
  const folder = path.replace(/\/?SKILL\.md$/, '');
  const id = folder.replace(/^knowledge\/?/, '');
  return id === '' || id === 'skills' ? undefined : id;
}

/**
 * Returns the item for a path relative to its root. Undefined if it is not one. `knowledge/a/SKILL.md`
 * is `a`, `skills/a/SKILL.md` is `skills/a`, `AGENTS.md` is `AGENTS`.
 */
export function itemPlace(path: string): ItemPlace | undefined {
  if (path === 'AGENTS.md') return { kind: 'knowledge', id: 'AGENTS' };
  const skill = skillId(path);
  if (skill !== undefined) {
    return /^(knowledge|skills)\//.test(path) ? { kind: 'knowledge', id: skill } : undefined;
  }
  if (DATA_IN_TOOLS.test(path)) return undefined;
  for (const kind of ['directive', 'tool', 'knowledge'] as const) {
    const { folder, extensions } = PLACES[kind];
    const inside = path.startsWith(`${folder}/`) ? path.slice(folder.length + 1) : undefined;
    if (inside === undefined || !extensions.some((extension) => inside.endsWith(extension))) {
      continue;
    }
    // A README explains a folder to people; it is not a directive.
    if (kind === 'directive' && /(^|\/)README\.md$/i.test(inside)) return undefined;
    const id = withoutExtension(inside);
    return id === '' ? undefined : { kind, id };
  }
  return undefined;
}

/** Letters of any script, digits and some marks: valid between the slashes of an id. */
const SEGMENT = /^[\p{L}\p{N}_@][\p{L}\p{N}_@.+ -]{0,127}$/u;

/** Returns the problem of an id that a person or a model wrote. Undefined for a valid one. */
export function idProblem(id: string): string | undefined {
  if (id === '') return 'is empty';
  if (id.length > 512) return 'is longer than 512 characters';
  const odd = id.split('/').find((part) => !SEGMENT.test(part) || /[. ]$/.test(part));
  if (odd === undefined) return undefined;
  return `has the part \`${odd}\`; parts hold letters, digits, \`_\`, \`-\`, \`.\` and do not begin with a dot`;
}

/** Returns the path of a new item with this id, relative to its root. */
export function pathFor(kind: ItemKind, id: string): string {
  const { folder, extensions } = PLACES[kind];
  return `${folder}/${id}${extensions[0]}`;
}
