// From a name as written to what it stands for: through scopes, namespaces and imports, as far as
// literals say.
import type { DirectiveInput } from '../../items/index.ts';
import { type Bound, literalAt, namesReadBy, typeOf } from '../../script/index.ts';
import { type Home, type Module, type Modules, ownName } from './modules.ts';
import type { NameSpot } from './spot.ts';
import { findBound, type ScriptView, type View } from './view.ts';

export type Meaning =
  /** `fields` are what is left after namespaces were followed. */
  | { readonly kind: 'bound'; readonly home: Home; readonly fields: readonly string[] }
  | { readonly kind: 'module'; readonly module: Module; readonly bound: Bound }
  | { readonly kind: 'input'; readonly input: DirectiveInput; readonly fields: readonly string[] }
  /** Something the language provides, or nothing anybody knows. */
  | { readonly kind: 'ambient'; readonly name: string; readonly fields: readonly string[] };

type Asked = Pick<NameSpot, 'name' | 'fields'>;

export function resolve(
  { name, fields }: Asked,
  offset: number,
  view: View & { script: ScriptView },
  modules: Modules,
): Meaning {
  const { script, file } = view;
  const bound = findBound(script.names, name, offset);
  if (bound) return ofBound({ file, script, bound }, fields, modules);
  const path = name === 'input' ? fields : [name, ...fields];
  const input = script.inputs.find((one) => one.name === path[0]);
  if (input) return { kind: 'input', input, fields: path.slice(1) };
  return { kind: 'ambient', name, fields };
}

function ofBound(start: Home, fields: readonly string[], modules: Modules): Meaning {
  const home = modules.home(start);
  const module = home.bound.kind === 'namespace' ? modules.of(home.bound, home.file) : undefined;
  if (!module) return { kind: 'bound', home, fields };
  const [first, ...rest] = fields;
  const inner = module.script && ownName(module.script, first);
  if (!inner || !module.script) {
    return first === undefined
      ? { kind: 'module', module, bound: home.bound }
      : { kind: 'bound', home, fields };
  }
  return ofBound({ file: module.file, script: module.script, bound: inner }, rest, modules);
}

/** The type of a name or field, where a literal or a declaration says it. */
export function typeOfMeaning(meaning: Meaning): string | undefined {
  if (meaning.kind === 'module') return 'object';
  if (meaning.kind === 'ambient') return undefined;
  if (meaning.kind === 'input') return meaning.fields.length === 0 ? meaning.input.type : undefined;
  const { bound } = meaning.home;
  if (meaning.fields.length > 0) return typeOf(literalAt(bound.value, meaning.fields));
  return bound.kind === 'function' ? 'executable' : (bound.type ?? typeOf(bound.value));
}

const MOST_NAMES = 500;

/**
 * Labels a value may have from what it is made of: a guess without running, never too few for names
 * that are written, and too many where only an unlabelled part is used.
 */
export function carriedLabels(home: Home, modules: Modules): string[] {
  const labels = new Set<string>();
  const seen = new Set<Bound>();
  const open: Home[] = [home];
  for (let next = open.pop(); next && seen.size < MOST_NAMES; next = open.pop()) {
    const { file, script, bound } = next;
    if (seen.has(bound)) continue;
    seen.add(bound);
    for (const label of bound.labels) labels.add(label);
    for (const { name, at } of namesReadBy(bound)) {
      const inner = findBound(script.names, name, at);
      if (inner) open.push(modules.home({ file, script, bound: inner }));
    }
  }
  return [...labels];
}
