// Where a name is bound: in this file, or in the one it is imported from.
import type { Modules } from './modules.ts';
import { resolve } from './resolve.ts';
import { spotAt } from './spot.ts';
import { isProse, type ScriptView, type View } from './view.ts';

export interface Target {
  readonly file: string;
  /** The text that the offsets are in. */
  readonly text: string;
  readonly at: number;
  readonly end: number;
}

export function definitionAt(view: View, offset: number, modules: Modules): Target | undefined {
  const { script } = view;
  if (!script || offset < script.from || offset > script.to) return undefined;
  const path = pathAt({ ...view, script }, offset, modules);
  if (path) return path;
  const here = script.names.find(({ place }) => place.at <= offset && offset <= place.end);
  const spot = here ? undefined : spotAt(script.text, offset);
  if (!here && (spot?.kind !== 'name' || isProse(script, offset))) return undefined;
  const asked = spot?.kind === 'name' ? spot : { name: here?.name ?? '', fields: [] };
  const meaning = resolve(asked, offset, { ...view, script }, modules);
  switch (meaning.kind) {
    case 'bound': {
      const { file, bound } = meaning.home;
      return { file, text: meaning.home.script.text, ...bound.place };
    }
    case 'module':
      return { file: meaning.module.file, text: meaning.module.script?.text ?? '', at: 0, end: 0 };
    case 'input':
      return inputIn(view, meaning.input.name);
    case 'ambient':
      return undefined;
  }
}

/** The file whose path is written here, behind `import`. */
function pathAt(
  { script, file }: View & { script: ScriptView },
  offset: number,
  modules: Modules,
): Target | undefined {
  const bound = script.names.find(
    ({ source }) => source && source.path.at < offset && offset < source.path.end,
  );
  const module = bound && modules.of(bound, file);
  return module && { file: module.file, text: module.script?.text ?? '', at: 0, end: 0 };
}

/** `<input name="x"`, `<x type=…` below `<inputs>`, or a key of that name. */
function inputIn({ text, file }: View, name: string): Target | undefined {
  const start = Math.max(0, text.search(/<inputs[\s>]|^inputs\s*:/m));
  const word = name.replace(/[^\w-]/g, '\\$&');
  const pattern = new RegExp(`(?:name\\s*[=:]\\s*["']?|<|^[ \\t]*)(?=${word}(?![\\w-]))`, 'm');
  const found = pattern.exec(text.slice(start));
  if (!found) return undefined;
  const at = start + found.index + found[0].length;
  return { file, text, at, end: at + name.length };
}
