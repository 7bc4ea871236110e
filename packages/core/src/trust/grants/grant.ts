// The one place that decides whether a grant covers what a call needs. Tokens, ceilings and deny
// lists all end here; everything that is not understood is not allowed.
import { getOwn, lastSegment, matchGlob } from '../../base/index.ts';
import {
  type CapabilityCatalog,
  type CapabilityInfo,
  isNameOrPattern,
  isNamePattern,
  SCOPE_FIELDS,
  type ScopeField,
} from './capability-catalog.ts';
import {
  fieldMatches,
  isAbsolutePath,
  isProtectedPath,
  patternProblem,
  type Stance,
  valueProblem,
} from './scope-match.ts';

/**
 * Globs that narrow a grant. A field left out does not narrow it, where it may be left out.
 * `subtree` is `own` (the thread and those below it) or `any`.
 */
export type Scope = { [Field in ScopeField]?: string };

export interface Grant {
  capability: string;
  scope?: Scope;
}

/** The globs over paths in these, whichever right they belong to. */
export const grantGlobs = (grants: readonly Grant[]): string[] =>
  grants.flatMap(({ scope }) => scope?.path ?? []);

/** What an actual call needs, with values as resolved. */
export interface Need {
  capability: string;
  scope?: Scope;
  /** For `tool.execute`: is the tool signed? Absent counts as no. */
  signed?: boolean;
}

/** Needs that one judge allowed and remembers: the same few are asked call after call. */
export const MAX_REMEMBERED = 500;

/** INVARIANT: the same for two needs only if every grant answers both alike. */
export function needText({ capability, scope, signed }: Need): string {
  // With its length before it, no text can look like another field.
  let text = `${capability.length} ${capability}${signed === true ? ' signed' : ''}`;
  for (const field in scope) {
    const value: unknown = scope[field as ScopeField];
    const shown = typeof value === 'string' ? `${value.length} ${value}` : JSON.stringify([value]);
    text += ` ${field.length} ${field} ${shown}`;
  }
  return text;
}

/** A grant of these capabilities says where; leaving it out is a mistake, not "everywhere". */
const REQUIRED: ReadonlySet<string> = new Set(['path', 'id', 'subtree']);
/** The only paths that lie outside the project by nature. */
const OUTSIDE = 'project.use';

/** Why nobody may do this, whatever they hold; undefined when grants decide. */
export function needProblem(need: Need, catalog: CapabilityCatalog): string | undefined {
  if (!catalog.get(need.capability)) return `\`${need.capability}\` is no capability`;
  for (const [field, value] of Object.entries(need.scope ?? {})) {
    const problem = valueProblem(field, value);
    if (problem !== undefined) return problem;
  }
  const path = need.scope?.path;
  if (need.capability === 'fs.write' && path !== undefined && isProtectedPath(path)) {
    return '`.ai` is out of reach for `fs.write`: items change through `execute` with `create`, `update` or `delete`';
  }
  return undefined;
}

/** Why the scope of a grant narrows nothing; undefined when it does. `fields`: those that it may name. */
function scopeProblem(
  { capability, scope = {} }: Grant,
  fields: readonly string[],
): string | undefined {
  for (const [field, pattern] of Object.entries(scope)) {
    if (!fields.includes(field)) return `\`${capability}\` has no \`${field}\` to narrow it by`;
    const problem = patternProblem(field as ScopeField, pattern);
    if (problem !== undefined) return problem;
  }
  return undefined;
}

/** Why a grant in a token cannot be used; undefined when it can. */
export function grantProblem(grant: Grant, catalog: CapabilityCatalog): string | undefined {
  const { capability, scope } = grant;
  if (!isNameOrPattern(capability)) return `\`${capability}\` is no name of a capability`;
  const info = isNamePattern(capability) ? undefined : catalog.get(capability);
  if (!info && !isNamePattern(capability)) {
    const near = catalog.suggest(capability);
    return `\`${capability}\` is no capability${near ? `; did you mean \`${near}\`?` : ''}`;
  }
  const problem = scopeProblem(grant, info ? info.scope : SCOPE_FIELDS);
  if (problem !== undefined) return problem;
  const absent = info?.scope.find((field) => REQUIRED.has(field) && !scope?.[field as ScopeField]);
  if (absent !== undefined) return `\`${capability}\` needs a \`${absent}\``;
  if (capability === OUTSIDE && !isAbsolutePath(scope?.path ?? '')) {
    return `\`${OUTSIDE}\` needs the absolute path of the other project`;
  }
  return undefined;
}

/** The names that a pattern stands for. A placeholder takes the name that the pattern has there. */
function namesFor(pattern: string, catalog: CapabilityCatalog): string[] {
  const server = (pattern.split('.')[1] ?? '').replaceAll('*', '') || 'x';
  const names = catalog.names().map((name) => name.replace(/<[a-z]+>/, server));
  return names.filter((name) => matchGlob(pattern, name));
}

/** Why an entry of a ceiling would never match a call; undefined when it can. */
export function ceilingProblem(grant: Grant, catalog: CapabilityCatalog): string | undefined {
  const { capability } = grant;
  const isPattern = isNamePattern(capability);
  const names = isPattern ? namesFor(capability, catalog) : [capability];
  const infos = names.flatMap((name) => catalog.get(name) ?? []);
  if (!isNameOrPattern(capability) || infos.length === 0) {
    const near = catalog.suggest(capability);
    return `\`${capability}\` is not a capability${near ? `; did you mean \`${near}\`?` : ''}`;
  }
  const fields = infos.flatMap((info) => info.scope);
  return scopeProblem(grant, fields);
}

/** A path outside the project takes the right to leave it as well. */
export function companionsOf(need: Need): Need[] {
  const path = need.scope?.path;
  const leaves = path !== undefined && need.capability !== OUTSIDE && isAbsolutePath(path);
  return leaves ? [need, { capability: 'fs.absolute' }] : [need];
}

/** Is a right of this kind beyond what a project's item may declare? */
export function isSystemGrant(grant: Grant, catalog: CapabilityCatalog): boolean {
  const { capability, scope } = grant;
  const outside = scope?.path !== undefined && isAbsolutePath(scope.path);
  return (
    catalog.isSystem(capability) || (outside && capability !== OUTSIDE) || scope?.subtree === 'any'
  );
}

function patternCovers(held: string, wanted: CapabilityInfo, stance: Stance): boolean {
  if (!isNamePattern(held) || !isNameOrPattern(held)) return false;
  // INVARIANT: no wildcard ever gives a system-only capability; it does take one away.
  return (stance === 'deny' || wanted.tier !== 'system') && matchGlob(held, wanted.name);
}

/** What a field that a grant leaves out stands for: everything, where it may be left out. */
function isOpen(grant: Grant, field: ScopeField, value: unknown, stance: Stance): boolean {
  // All threads: only a grant that says so.
  if (field === 'subtree' && value === 'any') return false;
  return stance === 'ceiling' || !REQUIRED.has(field) || isNamePattern(grant.capability);
}

/** The decision: this grant, this need (which has no problem), nothing implied. */
function covers(grant: Grant, need: Need, catalog: CapabilityCatalog, stance: Stance): boolean {
  const inDoubt = stance === 'deny';
  const info = catalog.get(need.capability);
  if (!info) return inDoubt;
  const { capability } = grant;
  if (capability !== info.name) {
    if (!capability.includes('*') || !patternCovers(capability, info, stance)) return false;
  }
  for (const field in grant.scope) if (!info.scope.includes(field)) return inDoubt;
  for (const name of info.scope) {
    const field = name as ScopeField;
    const [pattern, value] = [getOwn(grant.scope, field), getOwn(need.scope, field)];
    if (pattern === undefined) {
      if (inDoubt || isOpen(grant, field, value, stance)) continue;
      return false;
    }
    if (typeof pattern !== 'string' || typeof value !== 'string') {
      if (inDoubt) continue;
      return false;
    }
    // What a glob does not understand is literal and allows at most less; to deny, it must be known.
    if (inDoubt && patternProblem(field, pattern) !== undefined) continue;
    if (!fieldMatches(field, pattern, value, need.signed === true, stance)) return false;
  }
  return true;
}

/**
 * Does one of these grants cover a need that has no problem? Holding a capability that implies the
 * needed one on the same scope is enough: whoever may write there may read there.
 */
export function grantsCover(
  grants: readonly Grant[],
  need: Need,
  catalog: CapabilityCatalog,
  stance: 'grant' | 'ceiling' = 'grant',
): boolean {
  for (const grant of grants) if (covers(grant, need, catalog, stance)) return true;
  return catalog.impliedBy(need.capability).some((capability) => {
    const wider = { ...need, capability };
    return (
      needProblem(wider, catalog) === undefined &&
      grants.some((grant) => covers(grant, wider, catalog, stance))
    );
  });
}

/** Do these grants allow what is needed, whatever that is? */
export const grantsAllow = (
  grants: readonly Grant[],
  need: Need,
  catalog: CapabilityCatalog,
): boolean => needProblem(need, catalog) === undefined && grantsCover(grants, need, catalog);

/** Does this entry of a deny list take the needed right away? In doubt it does. */
export const grantDenies = (entry: Grant, need: Need, catalog: CapabilityCatalog): boolean =>
  needProblem(need, catalog) !== undefined || covers(entry, need, catalog, 'deny');

/** Is a grant of this name held at all, whatever its scope? */
export function grantHolds(
  grant: Grant,
  capability: string,
  catalog: CapabilityCatalog,
  stance: Stance = 'grant',
): boolean {
  const names = stance === 'deny' ? [capability] : [capability, ...catalog.impliedBy(capability)];
  return names.some((name) => {
    const info = catalog.get(name);
    const { capability: held } = grant;
    return info !== undefined && (held === info.name || patternCovers(held, info, stance));
  });
}

const shownTool = (id: string): string => (/[*?]/.test(id) ? id : lastSegment(id));

/** As conditions see it: `tool.bash` for the right to call `shell/bash`, else the capability. */
export function grantName(grant: Grant): string {
  const id = grant.scope?.id;
  return grant.capability === 'tool.execute' && id !== undefined
    ? `tool.${shownTool(id)}`
    : grant.capability;
}
