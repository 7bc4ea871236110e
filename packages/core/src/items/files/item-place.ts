// Which files under a root are items, and what they are called. Pure: paths in, names out.
import { type ItemKind, PLACES } from '../item-kinds.ts';

export interface ItemPlace {
  kind: ItemKind;
  id: string;
}

/** The folders under a root in which items are looked for. */
export const ITEM_FOLDERS = ['directives', 'tools', 'knowledge', 'skills'] as const;

/** Data files in places where tools live; they are read as data and never taken for tools. */
const DATA_IN_TOOLS = /^tools\/(llm\/pricing|capabilities\/[^/]+|mcp\/([^/]+\/)*mapping)\.ya?ml$/;

const withoutExtension = (path: string): string => path.replace(/\.[^./]+$/, '');

function skillId(path: string): string | undefined {
  if (!/(^|\/)SKILL\.md$/.test(path)) return undefined;
  const folder = path.replace(/\/?SKILL\.md$/, '');
  const id = folder.replace(/^knowledge\/?/, '');
  return id === '' || id === 'skills' ? undefined : id;
}

/**
 * The item that a path relative to its root names; undefined when it is none. `knowledge/a/SKILL.md`
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
    // People explain a folder to each other in a README; it is no directive.
    if (kind === 'directive' && /(^|\/)README\.md$/i.test(inside)) return undefined;
    const id = withoutExtension(inside);
    return id === '' ? undefined : { kind, id };
  }
  return undefined;
}

/** Letters of any script, digits and a few marks: what may stand between the slashes of an id. */
const SEGMENT = /^[\p{L}\p{N}_@][\p{L}\p{N}_@.+ -]{0,127}$/u;

/** What is wrong with an id that a person or a model wrote; undefined when it is fine. */
export function idProblem(id: string): string | undefined {
  if (id === '') return 'is empty';
  if (id.length > 512) return 'is longer than 512 characters';
  const odd = id.split('/').find((part) => !SEGMENT.test(part) || /[. ]$/.test(part));
  if (odd === undefined) return undefined;
  return `has the part \`${odd}\`; parts hold letters, digits, \`_\`, \`-\`, \`.\` and do not begin with a dot`;
}

/** Where a new item of this id is written, relative to its root. */
export function pathFor(kind: ItemKind, id: string): string {
  const { folder, extensions } = PLACES[kind];
  return `${folder}/${id}${extensions[0]}`;
}
