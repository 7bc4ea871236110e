// The markup of directives around a place: which element is open there, which tags and attributes it
// may have. Reads tags only; the table of what is allowed is the one that the reader of items uses.
import { childShape, DIRECTIVE, type Shape } from '../../items/index.ts';

const TAG = /<!--[\s\S]*?(?:-->|$)|<(\/?)([A-Za-z_][\w.:-]*)([^<>]*?)(\/?)>/g;
const RAW = new Set(['when', 'script', 'template', 'example', 'raw']);

interface Open {
  readonly name: string;
  readonly shape: Shape | undefined;
}

/** The elements that are open at a place, outermost first. */
function openAt(text: string, offset: number): Open[] {
  const start = text.search(/<directive[\s>/]/);
  if (start === -1 || start > offset) return [];
  const open: Open[] = [];
  const before = text.slice(start, offset);
  for (const [, slash, name = '', , closed] of before.matchAll(TAG)) {
    const inside = open.at(-1);
    if (name === '' || (inside && RAW.has(inside.name) && name !== inside.name)) continue;
    if (slash === '/') {
      const at = open.findLastIndex((one) => one.name === name);
      if (at !== -1) open.length = at;
    } else if (closed !== '/') {
      const shape = open.length === 0 ? DIRECTIVE : childShape(inside?.shape, name);
      open.push({ name, shape });
    }
  }
  return open;
}

export interface TagOffer {
  readonly kind: 'tag' | 'closing' | 'attribute';
  readonly names: readonly string[];
  /** Where what is being typed begins. */
  readonly at: number;
}

/** What could be typed here in the markup of a directive. */
export function offerTags(text: string, offset: number): TagOffer | undefined {
  const line = text.slice(text.lastIndexOf('\n', offset - 1) + 1, offset);
  const [, closing] = /<\/([\w.:-]*)$/.exec(line) ?? [];
  if (closing !== undefined) {
    const last = openAt(text, offset - closing.length - 2).at(-1);
    return last && { kind: 'closing', names: [last.name], at: offset - closing.length };
  }
  const [, opening] = /<([\w.:-]*)$/.exec(line) ?? [];
  if (opening !== undefined) {
    const open = openAt(text, offset - opening.length - 1);
    const parent = open.at(-1);
    if (parent && RAW.has(parent.name)) return undefined;
    const names = parent ? Object.keys(parent.shape?.children ?? {}) : ['directive'];
    return { kind: 'tag', names, at: offset - opening.length };
  }
  return offerAttributes(text, offset);
}

function offerAttributes(text: string, offset: number): TagOffer | undefined {
  const start = text.lastIndexOf('<', offset - 1);
  if (start === -1) return undefined;
  const [, name = '', given = '', typed = ''] =
    /^<([A-Za-z_][\w.:-]*)((?:\s+[\w.:-]+\s*=\s*(?:"[^"]*"|'[^']*'))*)\s+([\w.:-]*)$/.exec(
      text.slice(start, offset),
    ) ?? [];
  if (name === '') return undefined;
  const parent = openAt(text, start).at(-1);
  const shape = parent ? childShape(parent.shape, name) : DIRECTIVE;
  const used = new Set([...given.matchAll(/([\w.:-]+)\s*=/g)].map(([, key]) => key));
  const names = (shape?.attributes ?? []).filter((key) => !used.has(key));
  return { kind: 'attribute', names, at: offset - typed.length };
}

/** The name of the tag at a place. */
export function tagAt(
  text: string,
  offset: number,
): { name: string; at: number; end: number } | undefined {
  const start = text.lastIndexOf('<', offset);
  const [, slash = '', name = ''] =
    /^<(\/?)([A-Za-z_][\w.:-]*)/.exec(text.slice(start, start + 80)) ?? [];
  const at = start + 1 + slash.length;
  return start !== -1 && name !== '' && offset <= at + name.length
    ? { name, at, end: at + name.length }
    : undefined;
}
