// The one place that decides whether a grant covers what a call needs. Tokens, ceilings and deny
// lists all end here; everything that is not understood is not allowed.
import { getOwn, matchGlob } from '../../base/index.ts';
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

/** Globs that narrow a grant. A field left out does not narrow it, where it may be left out. */
export interface Scope {
  path?: string;
  id?: string;
  host?: string;
  method?: string;
  /** `own` (the thread and those below it) or `any`. */
  subtree?: string;
}

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

/** A grant of these capabilities says where; leaving it out is a mistake, not "everywhere". */
const REQUIRED: ReadonlySet<string> = new Set(['path', 'id', 'subtree']);
/** The only paths that lie outside the project by nature. */
const OUTSIDE = 'project.use';

const isScopeField = (name: string): name is ScopeField =>
  (SCOPE_FIELDS as readonly string[]).includes(name);

const fieldsOf = (scope: Scope | undefined): string[] => (scope ? Object.keys(scope) : []);

const fieldOf = (scope: Scope | undefined, field: string): unknown => getOwn(scope, field);

/** Why nobody may do this, whatever they hold; undefined when grants decide. */
export function needProblem(need: Need, catalog: CapabilityCatalog): string | undefined {
  if (!catalog.get(need.capability)) return `\`${need.capability}\` is no capability`;
  for (const field of fieldsOf(need.scope)) {
    if (!isScopeField(field)) return `\`${field}\` is no field of a scope`;
    const problem = valueProblem(field, fieldOf(need.scope, field));
    if (problem !== undefined) return problem;
  }
  const path = need.scope?.path;
  if (need.capability === 'fs.write' && path !== undefined && isProtectedPath(path)) {
    return '`.ai` is out of reach for `fs.write`: items change through `execute` with `create`, `update` or `delete`';
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
  for (const field of fieldsOf(scope)) {
    if (!isScopeField(field) || (info && !info.scope.includes(field))) {
      return `\`${capability}\` has no \`${field}\` to narrow it by`;
    }
    const problem = patternProblem(field, fieldOf(scope, field));
    if (problem !== undefined) return problem;
  }
  const absent = info?.scope.find((field) => REQUIRED.has(field) && !scope?.[field as ScopeField]);
  if (absent !== undefined) return `\`${capability}\` needs a \`${absent}\``;
  if (capability === OUTSIDE && !isAbsolutePath(scope?.path ?? '')) {
    return `\`${OUTSIDE}\` needs the absolute path of the other project`;
  }
  return undefined;
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

function nameCovers(held: string, wanted: CapabilityInfo, stance: Stance): boolean {
  if (held === wanted.name) return true;
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

function scopeCovers(grant: Grant, need: Need, info: CapabilityInfo, stance: Stance): boolean {
  const inDoubt = stance === 'deny';
  if (fieldsOf(grant.scope).some((field) => !info.scope.includes(field))) return inDoubt;
  return info.scope.every((name) => {
    const field = name as ScopeField;
    const [pattern, value] = [fieldOf(grant.scope, field), fieldOf(need.scope, field)];
    if (pattern === undefined) return inDoubt || isOpen(grant, field, value, stance);
    if (typeof pattern !== 'string' || value === undefined) return inDoubt;
    // What a glob does not understand is literal and allows at most less; to deny, it must be known.
    if (inDoubt && patternProblem(field, pattern) !== undefined) return true;
    return fieldMatches(field, pattern, value as string, need.signed === true, stance);
  });
}

/** The decision: this grant, this need (which has no problem), nothing implied. */
function covers(grant: Grant, need: Need, catalog: CapabilityCatalog, stance: Stance): boolean {
  const info = catalog.get(need.capability);
  if (!info) return stance === 'deny';
  return nameCovers(grant.capability, info, stance) && scopeCovers(grant, need, info, stance);
}

/**
 * Does one of these grants allow what is needed? Holding a capability that implies the needed one
 * on the same scope is enough: whoever may write there may read there.
 */
export function grantsAllow(
  grants: readonly Grant[],
  need: Need,
  catalog: CapabilityCatalog,
  stance: 'grant' | 'ceiling' = 'grant',
): boolean {
  const allows = (asked: Need) =>
    needProblem(asked, catalog) === undefined &&
    grants.some((grant) => covers(grant, asked, catalog, stance));
  if (allows(need)) return true;
  const impliers = catalog.impliedBy(need.capability);
  return (
    impliers.length > 0 &&
    needProblem(need, catalog) === undefined &&
    impliers.some((capability) => allows({ ...need, capability }))
  );
}

/** One grant of a directive or a token against one need. */
export const grantAllows = (grant: Grant, need: Need, catalog: CapabilityCatalog): boolean =>
  grantsAllow([grant], need, catalog);

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
    return info !== undefined && nameCovers(grant.capability, info, stance);
  });
}

const shownTool = (id: string): string =>
  /[*?]/.test(id) ? id : id.slice(id.lastIndexOf('/') + 1);

/** As conditions see it: `tool.bash` for the right to call `shell/bash`, else the capability. */
export function grantName(grant: Grant): string {
  const id = grant.scope?.id;
  return grant.capability === 'tool.execute' && id !== undefined
    ? `tool.${shownTool(id)}`
    : grant.capability;
}
