// Decides by their paths which files under a root are items, and which ids they have.
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
 * Returns the item for a path relative to its root. Undefined if the file is not an item. The id of
 * `knowledge/a/SKILL.md` is `a`, of `skills/a/SKILL.md` `skills/a`, and of `AGENTS.md` `AGENTS`.
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
    // A README explains a folder to people and is not a directive.
    if (kind === 'directive' && /(^|\/)README\.md$/i.test(inside)) return undefined;
    const id = withoutExtension(inside);
    return id === '' ? undefined : { kind, id };
  }
  return undefined;
}

/** Matches a valid part of an id between slashes: letters of any script, digits and some marks. */
const SEGMENT = /^[\p{L}\p{N}_@][\p{L}\p{N}_@.+ -]{0,127}$/u;

/** Returns the problem of an id that a person or a model wrote. Undefined for a valid one. */
export function idProblem(id: string): string | undefined {
  if (id === '') return 'is empty';
  if (id.length > 512) return 'is longer than 512 characters';
  const odd = id.split('/').find((part) => !SEGMENT.test(part) || /[. ]$/.test(part));
  if (odd === undefined) return undefined;
  return `has the invalid part \`${odd}\`; use letters, digits, \`_\`, \`-\` and \`.\`, and no dot at the start`;
}

/** Returns the path of a new item with this id, relative to its root. */
export function pathFor(kind: ItemKind, id: string): string {
  const { folder, extensions } = PLACES[kind];
  return `${folder}/${id}${extensions[0]}`;
}
